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

  set(FA_NAME ${folder})
  set(FA_NAMESPACE stage${number})
  if(ARG_PREVIOUS)
    set(FA_DECLARE_PREVIOUS "Stage stage${ARG_PREVIOUS}_stage();")
    set(FA_PREVIOUS_STAGE "fa::stage${ARG_PREVIOUS}_stage()")
  else()
    set(FA_DECLARE_PREVIOUS "")
    set(FA_PREVIOUS_STAGE "std::nullopt")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/common/harness/stage_main.in.cpp ${folder}_main.cpp @ONLY)
  add_executable(${folder} ${CMAKE_CURRENT_BINARY_DIR}/${folder}_main.cpp)
  target_link_libraries(${folder} PRIVATE fa_stage${number} fa_harness)
  if(ARG_PREVIOUS)
    target_link_libraries(${folder} PRIVATE fa_stage${ARG_PREVIOUS})
  endif()

  set_property(GLOBAL APPEND PROPERTY FA_STAGES ${number})
  set_property(GLOBAL PROPERTY FA_STAGE${number}_SUMMARY "${folder}: CPU")
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
