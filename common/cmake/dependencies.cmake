# Libraries: the system's where there are any (./learn offers to install them), else a pinned
# release from its home, checked by its hash.
include(FetchContent)

set(FA_DOWNLOADS ${PROJECT_SOURCE_DIR}/build/downloads CACHE PATH
    "Archives of libraries that the system doesn't have; filled by hand, it serves a classroom offline")
set(FA_SYSTEM_LIBRARIES "")
set(FA_FETCHED_LIBRARIES "")
set(FA_MISSING_LIBRARIES "")
set(FA_MISSING_PACKAGES "")
set(FA_OFFLINE OFF)

# fa_library(<package> TARGET <imported target> [AT_LEAST <version>] [OPTIONAL]
#            VERSION <pinned> URL <archive> SHA256 <hash> DEBIAN <package> [HEADERS <folder>])
# HEADERS: there is nothing to compile, the folder of the archive is all that we take.
macro(fa_library name)
  cmake_parse_arguments(LIB "OPTIONAL" "TARGET;AT_LEAST;VERSION;URL;SHA256;DEBIAN;HEADERS" "" ${ARGN})
  if(NOT TARGET ${LIB_TARGET})
    find_package(${name} ${LIB_AT_LEAST} QUIET CONFIG)
  endif()
  if(TARGET ${LIB_TARGET})
    list(APPEND FA_SYSTEM_LIBRARIES "${name} ${${name}_VERSION}")
  else()
    fa_download(${name})
    if(LIB_ARCHIVE)
      fa_unpack(${name})
      list(APPEND FA_FETCHED_LIBRARIES "${name} ${LIB_VERSION}")
    elseif(NOT LIB_OPTIONAL)
      list(APPEND FA_MISSING_LIBRARIES ${name})
      list(APPEND FA_MISSING_PACKAGES ${LIB_DEBIAN})
    endif()
  endif()
endmacro()

# Sets LIB_ARCHIVE, to nothing when the archive can't be had. (FetchContent could download too, but
# its failure is forty lines that don't say what to install.)
function(fa_download name)
  string(TOUPPER ${name} upper)
  if(FETCHCONTENT_SOURCE_DIR_${upper})
    set(LIB_ARCHIVE ${LIB_URL} PARENT_SCOPE)
    return()
  endif()
  get_filename_component(file ${LIB_URL} NAME)
  set(archive ${FA_DOWNLOADS}/${name}-${file})
  set(LIB_ARCHIVE "" PARENT_SCOPE)
  if(NOT EXISTS ${archive})
    if(FA_OFFLINE)
      return()
    endif()
    message(STATUS "${name}: not installed, downloading ${LIB_URL}")
    file(DOWNLOAD ${LIB_URL} ${archive}.part STATUS status INACTIVITY_TIMEOUT 20)
    list(POP_FRONT status code)
    if(NOT code EQUAL 0)
      message(STATUS "${name}: ${status}")
      file(REMOVE ${archive}.part)
      set(FA_OFFLINE ON PARENT_SCOPE)
      return()
    endif()
    file(RENAME ${archive}.part ${archive})
  endif()
  file(SHA256 ${archive} hash)
  if(NOT hash STREQUAL LIB_SHA256)
    message(STATUS "${name}: ${archive} isn't the release that was pinned (SHA256 ${hash})")
    file(REMOVE ${archive})
    return()
  endif()
  set(LIB_ARCHIVE ${archive} PARENT_SCOPE)
endfunction()

# FetchContent only unpacks (the folder that it is to build doesn't exist): added by hand, a library
# can be both a system library, whose warnings are its own, and left out of `all` and `install`.
macro(fa_unpack name)
  FetchContent_Declare(${name} URL ${LIB_ARCHIVE} URL_HASH SHA256=${LIB_SHA256}
                       DOWNLOAD_EXTRACT_TIMESTAMP FALSE SOURCE_SUBDIR nothing_to_build)
  FetchContent_MakeAvailable(${name})
  string(TOLOWER ${name} lower)
  if(LIB_HEADERS)
    add_library(${LIB_TARGET} INTERFACE IMPORTED)
    target_include_directories(${LIB_TARGET} INTERFACE ${${lower}_SOURCE_DIR}/${LIB_HEADERS})
  else()
    add_subdirectory(${${lower}_SOURCE_DIR} ${${lower}_BINARY_DIR} EXCLUDE_FROM_ALL SYSTEM)
  endif()
endmacro()

# What the fetched ones shall not bring along.
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # their option() respects these
foreach(option TESTING GTEST_TESTS INSTALL WERROR)
  set(BENCHMARK_ENABLE_${option} OFF)
endforeach()
set(BENCHMARK_INSTALL_DOCS OFF)

fa_library(Eigen3 TARGET Eigen3::Eigen AT_LEAST 3.4 VERSION 3.4.0 HEADERS . DEBIAN libeigen3-dev
  URL https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.bz2
  SHA256 b4c198460eba6f28d34894e3a5710998818515104d6e74e5cc331ce31e46e626)
fa_library(fmt TARGET fmt::fmt AT_LEAST 8 VERSION 10.2.1 DEBIAN libfmt-dev
  URL https://github.com/fmtlib/fmt/releases/download/10.2.1/fmt-10.2.1.zip
  SHA256 312151a2d13c8327f5c9c586ac6cf7cddc1658e8f53edae0ec56509c8fa516c9)
fa_library(CLI11 TARGET CLI11::CLI11 AT_LEAST 2.1 VERSION 2.4.2 HEADERS include DEBIAN libcli11-dev
  URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz
  SHA256 f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)
fa_library(nlohmann_json TARGET nlohmann_json::nlohmann_json AT_LEAST 3.9 VERSION 3.11.3
  HEADERS include DEBIAN nlohmann-json3-dev
  URL https://github.com/nlohmann/json/releases/download/v3.11.3/json.tar.xz
  SHA256 d6c65aca6b1ed68e7a182f4757257b107ae403032760ed6ef121c9d55e81757d)
# Benchmarks are left out where it can't be had (TARGET benchmark::benchmark says so).
fa_library(benchmark TARGET benchmark::benchmark OPTIONAL VERSION 1.9.1 DEBIAN libbenchmark-dev
  URL https://github.com/google/benchmark/archive/refs/tags/v1.9.1.tar.gz
  SHA256 32131c08ee31eeff2c8968d7e874f3cb648034377dfc32a4c377fa8796d84981)
if(BUILD_TESTING)
  # Version 2 (Debian 12) or 3: each takes a request for the other's number as a refusal.
  find_package(Catch2 3 QUIET CONFIG)
  if(NOT Catch2_FOUND)
    find_package(Catch2 2.13.10 QUIET CONFIG)
  endif()
  if(TARGET Catch2::Catch2 AND NOT TARGET Catch2::Catch2WithMain)  # a version 2 of headers only
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/catch_main.cpp
         CONTENT "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
    add_library(catch_main STATIC ${PROJECT_BINARY_DIR}/catch_main.cpp)
    target_link_libraries(catch_main PUBLIC Catch2::Catch2)
    add_library(Catch2::Catch2WithMain ALIAS catch_main)
  endif()
  fa_library(Catch2 TARGET Catch2::Catch2WithMain VERSION 3.7.1 DEBIAN catch2
    URL https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
    SHA256 c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c)
  if(catch2_SOURCE_DIR)
    list(APPEND CMAKE_MODULE_PATH ${catch2_SOURCE_DIR}/extras)
  endif()
endif()

if(FA_MISSING_LIBRARIES)
  list(JOIN FA_MISSING_LIBRARIES ", " names)
  list(JOIN FA_MISSING_PACKAGES " " packages)
  message(FATAL_ERROR " Neither installed nor downloadable: ${names}. Debian, Ubuntu: "
                      "apt-get install ${packages}")  # the space first keeps it one line
endif()
if(BUILD_TESTING)
  include(Catch)  # catch_discover_tests, for tests/
endif()

# Threads for the harness: OpenMP where the compiler has it, else one thread.
add_library(fa_threads INTERFACE)
if(APPLE)
  list(APPEND CMAKE_PREFIX_PATH /opt/homebrew/opt/libomp /usr/local/opt/libomp)
endif()
find_package(OpenMP QUIET COMPONENTS CXX)
if(TARGET OpenMP::OpenMP_CXX)
  target_link_libraries(fa_threads INTERFACE OpenMP::OpenMP_CXX)
else()
  target_compile_options(fa_threads INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)
endif()
