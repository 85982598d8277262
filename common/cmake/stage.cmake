# fa_add_cpu_stage(NUMBER TITLE "…" [PREVIOUS N] [TILED])
#
# Called in a stage's folder. Makes
#   fa_stage<N>        the library: attention.cpp, and its adaptor to the harness (fa::stage<N>_stage)
#   <folder's name>    the executable, which links the stage before too and checks against it
function(fa_add_cpu_stage number)
  cmake_parse_arguments(ARG "TILED" "TITLE;PREVIOUS" "" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)

  fa_cpu_stage_library(fa_stage${number} NUMBER ${number} NAMESPACE stage${number} FOLDER ${folder}
                       NAME ${folder} TITLE "${ARG_TITLE}" TILED ${ARG_TILED}
                       SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/attention.cpp)

  fa_stage_program(${number} ${folder} "${ARG_PREVIOUS}")
  set_property(GLOBAL APPEND PROPERTY FA_STAGES ${number})
  set_property(GLOBAL APPEND PROPERTY FA_CPU_STAGES ${number})
  set_property(GLOBAL PROPERTY FA_STAGE${number}_SUMMARY "${folder}: CPU")
endfunction()

# The executable <folder> of stage <number>, which checks itself against stage <previous>.
function(fa_stage_program number folder previous)
  set(FA_NAME ${folder})
  set(FA_NAMESPACE stage${number})
  if(previous)
    set(FA_DECLARE_PREVIOUS "Stage stage${previous}_stage();")
    set(FA_PREVIOUS_STAGE "fa::stage${previous}_stage()")
  else()
    set(FA_DECLARE_PREVIOUS "")
    set(FA_PREVIOUS_STAGE "std::nullopt")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/common/harness/stage_main.in.cpp ${folder}_main.cpp @ONLY)
  add_executable(${folder} ${CMAKE_CURRENT_BINARY_DIR}/${folder}_main.cpp)
  target_link_libraries(${folder} PRIVATE fa_stage${number} fa_harness)
  if(previous)
    target_link_libraries(${folder} PRIVATE fa_stage${previous})
  endif()

endfunction()

# fa_add_device_stage(NUMBER TITLE "…" PREVIOUS N DTYPES DType::… …)
#
# The same for a CUDA stage: attention.cu compiled for the emulator by the C++ compiler and, where
# there is nvcc, for the GPU.
#   fa_stage<N>_simt, fa_stage<N>_gpu   attention.cu's two instances
#   fa_stage<N>                         both, and the adaptor to the harness
function(fa_add_device_stage number)
  cmake_parse_arguments(ARG "" "TITLE;PREVIOUS" "DTYPES" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(FA_NUMBER ${number})
  set(FA_NAME ${folder})
  set(FA_FOLDER ${folder})
  set(FA_NAMESPACE stage${number})
  set(FA_TITLE "${ARG_TITLE}")
  list(JOIN ARG_DTYPES ", " FA_DTYPES)
  set(FA_GPU 0)
  set(gpu ", no GPU (see CUDA)")

  set_source_files_properties(attention.cu PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  add_library(fa_stage${number}_simt STATIC attention.cu)
  target_link_libraries(fa_stage${number}_simt PUBLIC fa_simt)

  if(FA_HAVE_CUDA)
    set(FA_GPU 1)
    set(gpu ", and GPU")
    # A file has one language: the GPU's instance is compiled from a one-line file that includes it.
    file(CONFIGURE OUTPUT attention_gpu.cu CONTENT "#include \"${folder}/attention.cu\"\n")
    configure_file(${PROJECT_SOURCE_DIR}/common/harness/device_stage_gpu.in.cu stage_gpu.cu @ONLY)
    add_library(fa_stage${number}_gpu STATIC ${CMAKE_CURRENT_BINARY_DIR}/attention_gpu.cu
                                             ${CMAKE_CURRENT_BINARY_DIR}/stage_gpu.cu)
    target_include_directories(fa_stage${number}_gpu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(fa_stage${number}_gpu PUBLIC fa_cuda)
    target_compile_options(fa_stage${number}_gpu PRIVATE
                           $<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=554>)
  endif()

  configure_file(${PROJECT_SOURCE_DIR}/common/harness/device_stage.in.cpp stage.cpp @ONLY)
  add_library(fa_stage${number} STATIC ${CMAKE_CURRENT_BINARY_DIR}/stage.cpp)
  target_link_libraries(fa_stage${number} PUBLIC fa_stage${number}_simt fa_simt_run fa_cuda fa_threads)
  if(FA_HAVE_CUDA)
    target_link_libraries(fa_stage${number} PUBLIC fa_stage${number}_gpu)
  endif()

  fa_stage_program(${number} ${folder} "${ARG_PREVIOUS}")
  set_property(GLOBAL APPEND PROPERTY FA_STAGES ${number})
  set_property(GLOBAL PROPERTY FA_STAGE${number}_SUMMARY
               "${folder}: emulator on the CPU${gpu}")
endfunction()

# The library of one CPU stage: SOURCE (attention.cpp, or a mutant of it) and the adaptor
# fa::<NAMESPACE>_stage() to the harness. FOLDER/attention.hpp is included from the source tree, or
# from INCLUDE_ROOT.
function(fa_cpu_stage_library target)
  cmake_parse_arguments(ARG "" "NUMBER;NAMESPACE;FOLDER;NAME;TITLE;TILED;SOURCE;INCLUDE_ROOT" "" ${ARGN})
  foreach(variable NUMBER NAMESPACE FOLDER NAME TITLE)
    set(FA_${variable} "${ARG_${variable}}")
  endforeach()
  set(FA_TILED 0)
  if(ARG_TILED)
    set(FA_TILED 1)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/common/harness/cpu_stage.in.cpp ${target}.cpp @ONLY)
  add_library(${target} STATIC ${ARG_SOURCE} ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  if(ARG_INCLUDE_ROOT)
    target_include_directories(${target} BEFORE PRIVATE ${ARG_INCLUDE_ROOT})
  endif()
  target_link_libraries(${target} PUBLIC fa_attention fa_threads)
endfunction()
