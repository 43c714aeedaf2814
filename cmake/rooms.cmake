# A room is a folder of src/, or one inside such a folder: its .cc files make one static library, its *_test.cc files one
# test program. Room analyse/job is profgpu_analyse_job and test_analyse_job. Files are found, not listed: a new one needs
# no line here.

# profgpu_room(ROOM [USES room...] [LIBRARIES lib...] [EXCEPT file...] [ALONE file...] [UNIT_FILES n] [COLD])
# Several files of a room are compiled as one unit (PROFGPU_UNITY), so names in anonymous namespaces are a room's own;
# files named ALONE stay by themselves, so that who links the room need not link what they bring in. Code of a COLD room
# runs once a command: it is optimised less. UNIT_FILES: of a small unit, where ten of the room's long files would take
# more than 15 s (bench/build.py lists the slowest units).
function(profgpu_room room)
  cmake_parse_arguments(ARG "COLD" "UNIT_FILES" "USES;LIBRARIES;EXCEPT;ALONE" ${ARGN})
  if(NOT ARG_UNIT_FILES OR PROFGPU_UNITY_FILES GREATER 10)
    set(ARG_UNIT_FILES ${PROFGPU_UNITY_FILES})
  endif()
  set_property(GLOBAL APPEND PROPERTY PROFGPU_ROOMS ${room})
  string(REPLACE / _ name ${room})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  foreach(file IN LISTS ARG_EXCEPT)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${room}/${file})
  endforeach()
  if(sources)
    add_library(profgpu_${name} STATIC ${sources})
    set_target_properties(profgpu_${name} PROPERTIES UNITY_BUILD ${PROFGPU_UNITY} UNITY_BUILD_BATCH_SIZE ${ARG_UNIT_FILES})
    list(TRANSFORM ARG_ALONE PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${room}/)
    set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    if(ARG_COLD)
      target_compile_options(profgpu_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
    set(scope PUBLIC)
  else()
    add_library(profgpu_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(profgpu_${name} ${scope} ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
  list(TRANSFORM ARG_USES REPLACE / _)
  list(TRANSFORM ARG_USES PREPEND profgpu_)
  target_link_libraries(profgpu_${name} ${scope} ${ARG_USES} ${ARG_LIBRARIES})
endfunction()

# profgpu_test_program(NAME FILES file... LIBRARIES lib...): nothing if there is no file.
function(profgpu_test_program name)
  cmake_parse_arguments(ARG "" "" "FILES;LIBRARIES" ${ARGN})
  if(NOT ARG_FILES)
    return()
  endif()
  add_executable(${name} ${ARG_FILES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} profgpu_test_support GTest::gtest_main)
  # Half the time of compiling; what is tested keeps its own.
  target_compile_options(${name} PRIVATE -O0)
  # Paths in tests are relative to the project's root.
  # Each build has its own folder for what tests write: others may run on the machine.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests/tmp)
  gtest_discover_tests(${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS unit TIMEOUT 300 ENVIRONMENT TMPDIR=${CMAKE_BINARY_DIR}/tests/tmp)
endfunction()
