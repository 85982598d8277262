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

# The executable <folder> of stage <number>, which checks itself against stage <previous>. Its stages
# are what fa::stage<number>_stage() gives, or the steps of fa::stage<number>_steps() (LADDER).
function(fa_stage_program number folder previous)
  cmake_parse_arguments(ARG "LADDER" "" "" ${ARGN})
  set(FA_NAME ${folder})
  if(ARG_LADDER)
    set(FA_DECLARE_STAGES "std::vector<Stage> stage${number}_steps();")
    set(FA_STAGES "fa::stage${number}_steps()")
  else()
    set(FA_DECLARE_STAGES "Stage stage${number}_stage();")
    set(FA_STAGES "{fa::stage${number}_stage()}")
  endif()
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

# Makes the libraries of a CUDA stage, without sources (fa_device_instance adds them):
#   fa_stage<N>_simt, fa_stage<N>_gpu   the kernels' two instances, for the emulator and the GPU
#   fa_stage<N>                         both, and the adaptor to the harness
macro(fa_device_libraries number)
  add_library(fa_stage${number}_simt STATIC)
  target_link_libraries(fa_stage${number}_simt PUBLIC fa_simt)
  add_library(fa_stage${number} STATIC)
  target_link_libraries(fa_stage${number} PUBLIC fa_stage${number}_simt fa_simt_run fa_cuda fa_threads)
  set(gpu ", no GPU (see CUDA)")
  if(FA_HAVE_CUDA)
    set(gpu ", and GPU")
    add_library(fa_stage${number}_gpu STATIC)
    target_include_directories(fa_stage${number}_gpu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(fa_stage${number}_gpu PUBLIC fa_cuda)
    target_compile_options(fa_stage${number}_gpu PRIVATE
                           $<$<COMPILE_LANGUAGE:CUDA>:--diag-suppress=554>)
    target_link_libraries(fa_stage${number} PUBLIC fa_stage${number}_gpu)
  endif()
  set_property(GLOBAL APPEND PROPERTY FA_STAGES ${number})
  set_property(GLOBAL PROPERTY FA_STAGE${number}_SUMMARY
               "${folder}: emulator on the CPU${gpu}")
endmacro()

# Adds the launcher in SOURCE, compiled by the C++ compiler for the emulator and by nvcc for the GPU,
# and the adaptor fa::<ID>_stage() to the harness. NAMESPACE and HEADER: the launcher's.
function(fa_device_instance number)
  cmake_parse_arguments(ARG "" "ID;NAMESPACE;HEADER;SOURCE;TITLE;STEP;ADDS;FILE;NEEDS_CC" "DTYPES" ${ARGN})
  get_filename_component(FA_NAME ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(FA_NUMBER ${number})
  foreach(variable ID NAMESPACE HEADER TITLE STEP ADDS FILE)
    set(FA_${variable} "${ARG_${variable}}")
  endforeach()
  list(JOIN ARG_DTYPES ", " FA_DTYPES)
  set(FA_NEEDS_CC 0)
  if(ARG_NEEDS_CC)
    set(FA_NEEDS_CC ${ARG_NEEDS_CC})
  endif()
  set(FA_GPU 0)
  set(FA_IN_STEPS 0)
  if(ARG_STEP)
    set(FA_IN_STEPS 1)
  endif()

  set_source_files_properties(${ARG_SOURCE} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  target_sources(fa_stage${number}_simt PRIVATE ${ARG_SOURCE})
  if(FA_HAVE_CUDA)
    set(FA_GPU 1)
    # A file has one language: the GPU's instance is compiled from a one-line file that includes it.
    set(made ${CMAKE_CURRENT_BINARY_DIR}/${ARG_ID})
    file(CONFIGURE OUTPUT ${made}_attention_gpu.cu CONTENT "#include \"${ARG_SOURCE}\"\n")
    configure_file(${PROJECT_SOURCE_DIR}/common/harness/device_stage_gpu.in.cu ${made}_gpu.cu @ONLY)
    target_sources(fa_stage${number}_gpu PRIVATE ${made}_attention_gpu.cu)
    set_property(GLOBAL APPEND_STRING PROPERTY FA_GPU_ADAPTORS_${number} "#include \"${made}_gpu.cu\"\n")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/common/harness/device_stage.in.cpp ${ARG_ID}.cpp @ONLY)
  target_sources(fa_stage${number} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/${ARG_ID}.cpp)
endfunction()

# Adds the GPU's adaptors of all instances, as one file: nearly all of the time that nvcc takes for one of
# them goes into headers.
function(fa_gpu_adaptors number)
  if(FA_HAVE_CUDA)
    get_property(adaptors GLOBAL PROPERTY FA_GPU_ADAPTORS_${number})
    file(CONFIGURE OUTPUT stage${number}_adaptors_gpu.cu CONTENT "${adaptors}")
    target_sources(fa_stage${number}_gpu PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/stage${number}_adaptors_gpu.cu)
  endif()
endfunction()

# fa_add_device_stage(NUMBER TITLE "…" PREVIOUS N DTYPES DType::… …)
#
# A CUDA stage with one kernel, launched by attention.cu: its libraries and its executable.
function(fa_add_device_stage number)
  cmake_parse_arguments(ARG "" "TITLE;PREVIOUS" "DTYPES" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  fa_device_libraries(${number})
  fa_device_instance(${number} ID stage${number} NAMESPACE stage${number}
                     HEADER ${folder}/attention.hpp TITLE "${ARG_TITLE}" DTYPES ${ARG_DTYPES}
                     SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/attention.cu)
  fa_gpu_adaptors(${number})
  fa_stage_program(${number} ${folder} "${ARG_PREVIOUS}")
endfunction()

# fa_begin_ladder(NUMBER TITLE "…" PREVIOUS N DTYPES …), one fa_step() a step, fa_end_ladder()
#
# A CUDA stage whose kernels are steps: the same libraries, with fa::stage<N>_steps(), all of them in
# order, and fa::stage<N>_stage(), the default one. Each step is launched by a copy of launch.in.cu and
# declared by a copy of attention.in.hpp.
macro(fa_begin_ladder number)
  cmake_parse_arguments(ladder "" "TITLE;PREVIOUS" "DTYPES" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(ladder_number ${number})
  set(FA_DECLARE_STEPS "")
  set(FA_STEPS "")
  fa_device_libraries(${number})
  foreach(target fa_stage${number}_simt fa_stage${number})
    target_include_directories(${target} PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
  endforeach()
  if(FA_HAVE_CUDA)
    target_include_directories(fa_stage${number}_gpu PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
  endif()
endmacro()

function(fa_step label file adds)
  cmake_parse_arguments(PARSE_ARGV 3 ARG "CONTIGUOUS;SHAPES;TMA" "MOST_D;PIECES" "")
  set(space step${label})
  # Tensor cores, then asynchronous copies and more than 64 KiB of shared memory, then TMA.
  set(needs_cc 75)
  if(ARG_TMA)
    set(needs_cc 90)
  elseif(ARG_PIECES)
    set(needs_cc 80)
  endif()
  set(header ${folder}/${space}.hpp)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${space}_launch.cu)
  set_property(GLOBAL APPEND PROPERTY FA_STEPS ${label})
  # The mutants of tests/wrong are made from the same words.
  set_property(GLOBAL PROPERTY FA_STEP_${label} "${file}" ${ARGN})
  fa_step_files(${label} ${space} ${header} "${folder}/${file}" ${source} ${ARGN})
  fa_device_instance(${ladder_number} ID stage${ladder_number}_${space}
                     NAMESPACE stage${ladder_number}::${space} HEADER ${header} SOURCE ${source}
                     TITLE "${ladder_TITLE}, step ${label}: ${adds}" STEP "${label}" ADDS "${adds}"
                     FILE "${folder}/${file}" DTYPES ${ladder_DTYPES} NEEDS_CC ${needs_cc})
  string(APPEND FA_DECLARE_STEPS "Stage stage${ladder_number}_${space}_stage();\n")
  string(APPEND FA_STEPS "      stage${ladder_number}_${space}_stage(),\n")
  set(FA_DECLARE_STEPS "${FA_DECLARE_STEPS}" PARENT_SCOPE)
  set(FA_STEPS "${FA_STEPS}" PARENT_SCOPE)
endfunction()

# Writes a step's header and launcher for the kernel in KERNEL (as an #include names it). ONE_INSTANCE,
# for mutants: float16 with d <= 64 alone.
function(fa_step_files label namespace header kernel source)
  cmake_parse_arguments(PARSE_ARGV 5 ARG "CONTIGUOUS;SHAPES;TMA;ONE_INSTANCE" "MOST_D;PIECES" "")
  set(FA_STEP ${label})
  set(FA_STEP_NAMESPACE ${namespace})
  set(FA_STEP_HEADER ${header})
  set(FA_STEP_KERNEL ${kernel})
  get_filename_component(FA_STEP_FILE ${kernel} NAME)
  set(FA_MOST_D 128)
  if(ARG_MOST_D)
    set(FA_MOST_D ${ARG_MOST_D})
  endif()
  set(FA_CONTIGUOUS 0)
  if(ARG_CONTIGUOUS)
    set(FA_CONTIGUOUS 1)
  endif()
  set(FA_LOADS_IN_PIECES false)
  set(FA_STORES_IN_PIECES false)
  if(ARG_PIECES)
    set(FA_LOADS_IN_PIECES true)
  endif()
  if(ARG_PIECES STREQUAL "all")
    set(FA_STORES_IN_PIECES true)
  endif()
  set(FA_INSTANTIATE "FA_INSTANTIATE_FOR_EVERY_TYPE(attention)
template bool takes(Tensor<const float>, Tensor<const float>, Tensor<const float>, Tensor<float>);
template bool takes(
    Tensor<const float16>, Tensor<const float16>, Tensor<const float16>, Tensor<float16>);
template bool takes(
    Tensor<const bfloat16>, Tensor<const bfloat16>, Tensor<const bfloat16>, Tensor<bfloat16>);")
  set(FA_TILE "{Br, Bc}")
  set(dimensions 64 128)
  set(FA_DIMENSIONS "up to ${FA_MOST_D}")
  set(FA_TAKES_D "d <= ${FA_MOST_D}")
  set(FA_TMA 0)
  if(ARG_SHAPES)
    set(FA_DIMENSIONS "up to 128, and multiples of 8 up to ${FA_MOST_D}")
    set(FA_TAKES_D "d <= 128 || (d <= ${FA_MOST_D} && d % 8 == 0)")
    set(FA_TILE "{Shape<D>::Br, Shape<D>::Bc}")
    set(dimensions 32 64 96 128 192 256)
  endif()
  if(ARG_TMA)
    set(FA_TMA 1)
    set(FA_DIMENSIONS "64 and 128")
    set(FA_TAKES_D "d == 64 || d == 128")
    set(dimensions 64 128)
  endif()
  set(FA_LAUNCH_BY_D "")
  set(FA_TILE_BY_D "")
  foreach(D ${dimensions})
    if(D LESS_EQUAL FA_MOST_D)
      string(APPEND FA_TILE_BY_D "if (d <= ${D}) return kTile<${D}>;\n  ")
      string(APPEND FA_LAUNCH_BY_D
             "if (Q.d <= ${D}) return launch_for<${D}, T>(Q, K, V, O, LSE, scale, mask);\n    ")
    endif()
  endforeach()
  if(ARG_ONE_INSTANCE)
    set(FA_INSTANTIATE "template decltype(attention<float16>) attention<float16>;")
    set(FA_LAUNCH_BY_D "launch_for<64, T>(Q, K, V, O, LSE, scale, mask);")
  endif()
  string(STRIP "${FA_LAUNCH_BY_D}" FA_LAUNCH_BY_D)
  string(APPEND FA_TILE_BY_D "return kTile<${FA_MOST_D}>;")
  set(templates ${PROJECT_SOURCE_DIR}/stage5_mma_pipeline)
  configure_file(${templates}/attention.in.hpp ${CMAKE_CURRENT_BINARY_DIR}/${header} @ONLY)
  configure_file(${templates}/launch.in.cu ${source} @ONLY)
endfunction()

macro(fa_end_ladder)
  set(FA_NUMBER ${ladder_number})
  fa_gpu_adaptors(${ladder_number})
  configure_file(${PROJECT_SOURCE_DIR}/common/harness/steps.in.cpp steps.cpp @ONLY)
  target_sources(fa_stage${ladder_number} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/steps.cpp)
  # Likewise the other adaptors, which differ in a few words.
  set_target_properties(fa_stage${ladder_number} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  fa_stage_program(${ladder_number} ${folder} "${ladder_PREVIOUS}" LADDER)
  if(TARGET fa_bench_gpu)
    fa_bench_steps(${ladder_number})
  endif()
endmacro()

# Adds C functions that run the steps to fa_bench_gpu, for common/bench's scripts.
function(fa_bench_steps FA_NUMBER)
  get_property(labels GLOBAL PROPERTY FA_STEPS)
  list(JOIN labels " " FA_STEP_LABELS)
  list(GET labels 0 FA_FIRST_STEP)
  foreach(label IN LISTS labels)
    string(APPEND FA_INCLUDE_STEPS "#include \"${folder}/step${label}.hpp\"\n")
    string(APPEND FA_LIST_STEPS "    FA_BENCH_STEP(${label})\n")
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/common/bench/stage5_c_api.in.cpp bench_steps.cpp @ONLY)
  target_sources(fa_bench_gpu PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/bench_steps.cpp)
  target_link_libraries(fa_bench_gpu PRIVATE fa_stage${FA_NUMBER}_gpu)
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
