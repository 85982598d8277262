# Compiler options for everything that is ours: the interface target fa_options.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the benchmark against PyTorch loads the stages
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(FA_NATIVE "Compile for this machine's own instruction set" ON)
option(FA_WERROR "Treat warnings as errors" OFF)
option(FA_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

# Masks are −inf and a NaN in the input must reach the output: fast-math may assume neither exists.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
foreach(variable CMAKE_CXX_FLAGS CMAKE_CUDA_FLAGS CMAKE_CXX_FLAGS_${type} CMAKE_CUDA_FLAGS_${type})
  set(flags "${${variable}}")
  if(variable STREQUAL "CMAKE_CUDA_FLAGS")
    string(APPEND flags " $ENV{CUDAFLAGS}")  # not in the cache before the language is enabled
  endif()
  if(flags MATCHES "-Ofast|-f(fast-math|finite-math-only|unsafe-math-optimizations)|use_fast_math")
    message(FATAL_ERROR " ${variable} has ${CMAKE_MATCH_0}: the stages need infinities and NaN, so "
                        "fast-math is refused. Take it out.")
  endif()
endforeach()

add_library(fa_options INTERFACE)
target_include_directories(fa_options INTERFACE ${PROJECT_SOURCE_DIR})
# GCC would fuse s·scale − m into one rounding by itself; then s − m is not 0 where s is the
# maximum, and with scores near 1e11 exp of it is 0 or infinite. Eigen asks for its FMAs by name.
set(options -ffp-contract=off)
list(APPEND options -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns about its own AVX-512 intrinsics (GCC bug 105593), less optimised ones twice.
  list(APPEND options -Wno-maybe-uninitialized $<$<NOT:$<CONFIG:Release>>:-Wno-uninitialized>)
endif()
if(FA_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native FA_HAVE_MARCH_NATIVE)
  if(FA_HAVE_MARCH_NATIVE)
    list(APPEND options -march=native)
  else()
    list(APPEND options -mcpu=native)  # some Clang releases on ARM
  endif()
endif()
if(FA_WERROR)
  list(APPEND options -Werror)
endif()
if(FA_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  list(APPEND options ${sanitize})
  target_link_options(fa_options INTERFACE ${sanitize})
endif()
target_compile_options(fa_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
