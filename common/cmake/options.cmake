# Compiler options for everything that is ours: the interface target fa_options.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

option(FA_NATIVE "Compile for this machine's own instruction set (-march=native)" ON)
option(FA_WERROR "Treat warnings as errors" OFF)
option(FA_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

add_library(fa_options INTERFACE)
target_include_directories(fa_options INTERFACE ${PROJECT_SOURCE_DIR})
# GCC would fuse s·scale − m into one rounding by itself; then s − m is not 0 where s is the
# maximum, and with scores near 1e11 exp of it is 0 or infinite. Eigen asks for its FMAs by name.
target_compile_options(fa_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
target_compile_options(fa_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns about its own AVX-512 intrinsics (GCC bug 105593).
  target_compile_options(fa_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
if(FA_NATIVE)
  target_compile_options(fa_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(FA_WERROR)
  target_compile_options(fa_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(FA_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(fa_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${sanitize}>)
  target_link_options(fa_options INTERFACE ${sanitize})
endif()
