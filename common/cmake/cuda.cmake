# The CUDA language, where there is a toolkit. Sets FA_HAVE_CUDA, and FA_CUDA_SUMMARY in words.
set(FA_CUDA AUTO CACHE STRING "Build stages 4 and 5 for the GPU: AUTO (where nvcc works), ON, OFF")
set_property(CACHE FA_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FA_HAVE_CUDA OFF)

if(NOT FA_CUDA)
  set(FA_CUDA_SUMMARY "off (FA_CUDA=OFF)")
  return()
endif()

# nvcc is often installed without being in PATH. Without one nothing more is tried: check_language
# costs a configure run of its own.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(FA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
               PATH_SUFFIXES bin DOC "The CUDA compiler")
  if(FA_NVCC)
    set(ENV{CUDACXX} ${FA_NVCC})
  elseif(FA_CUDA STREQUAL "AUTO")
    set(FA_CUDA_SUMMARY "no nvcc in PATH or /usr/local/cuda")
    return()
  else()
    message(FATAL_ERROR " FA_CUDA=${FA_CUDA}, but there is no nvcc in PATH or /usr/local/cuda: install "
                        "the CUDA Toolkit, or set CUDACXX to its nvcc.")
  endif()
endif()

# Before the language is enabled: CMake's default is 75, where cp.async and bf16 mma don't assemble.
# Device code for 8.0 and 9.0, and PTX that a newer GPU's driver can compile.
set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING
    "GPU architectures to compile for; native is this machine's own")
if(CMAKE_CUDA_ARCHITECTURES STREQUAL "native")
  execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT gpus MATCHES "GPU 0")
    message(FATAL_ERROR " CMAKE_CUDA_ARCHITECTURES=native, but nvidia-smi sees no GPU here: name an "
                        "architecture, for example -DCMAKE_CUDA_ARCHITECTURES=90.")
  endif()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  unset(CMAKE_CUDA_COMPILER CACHE)  # look again next time
  set(FA_CUDA_SUMMARY "$ENV{CUDACXX} can't compile a test program")
  if(NOT FA_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR " FA_CUDA=${FA_CUDA}, but ${FA_CUDA_SUMMARY}: does it accept this machine's "
                        "host compiler (CUDAHOSTCXX)?")
  endif()
  return()
endif()

# C++17: CMake 3.25 knows no CUDA C++20 for nvcc and drops the flag without a word.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
enable_language(CUDA)
set(FA_HAVE_CUDA ON)
list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
set(FA_CUDA_SUMMARY "nvcc ${CMAKE_CUDA_COMPILER_VERSION}, for ${architectures}")
