# Libraries: the system's where there are any (./learn offers to install them), else a pinned
# release from its home, checked by its hash.
include(FetchContent)

set(FA_FETCHED "")

# fa_dependency(NAME <package> TARGET <imported target> URL <archive> SHA256 <hash> [ARGS …])
macro(fa_dependency)
  cmake_parse_arguments(DEP "" "NAME;TARGET;URL;SHA256" "" ${ARGN})
  find_package(${DEP_NAME} QUIET)
  if(NOT TARGET ${DEP_TARGET})
    message(STATUS "${DEP_NAME}: not installed, fetching ${DEP_URL}")
    FetchContent_Declare(${DEP_NAME} URL ${DEP_URL} URL_HASH SHA256=${DEP_SHA256}
                         DOWNLOAD_EXTRACT_TIMESTAMP FALSE SYSTEM)
    FetchContent_MakeAvailable(${DEP_NAME})
    list(APPEND FA_FETCHED ${DEP_NAME})
  endif()
endmacro()

find_package(Eigen3 3.4 QUIET NO_MODULE)
find_package(fmt QUIET)
find_package(CLI11 QUIET)
find_package(nlohmann_json QUIET)
find_package(Catch2 QUIET)
find_package(benchmark QUIET)

# Threads for the harness: OpenMP where the compiler has it, else one thread.
add_library(fa_threads INTERFACE)
find_package(OpenMP QUIET COMPONENTS CXX)
if(TARGET OpenMP::OpenMP_CXX)
  target_link_libraries(fa_threads INTERFACE OpenMP::OpenMP_CXX)
else()
  target_compile_options(fa_threads INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)
endif()
