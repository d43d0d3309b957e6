# Tests and their labels. A test's folder gives its labels: tests/unit/core has `unit` and `core`, tests/ops has `ops`.
# The label `slow` puts a test into the second tier (scripts/test --all).

set(LLMINFER_TEST_ENVIRONMENT "LLMINFER_SHARED=${LLMINFER_SHARED_DIR};LLMINFER_MODELS=${LLMINFER_MODELS_DIR}")

# Targets tests_unit and tests_<room>, so that a build of a sanitizer makes only the programs it will run.
add_custom_target(tests_unit)
add_custom_target(tests_engine)
function(llminfer_room_tests room)
  if(NOT TARGET tests_${room})
    add_custom_target(tests_${room})
    add_dependencies(tests_unit tests_${room})
  endif()
endfunction()
foreach(room core quant format text graph models runtime profile device api)
  llminfer_room_tests(${room})
endforeach()

# The labels of the calling folder.
function(llminfer_folder_labels out)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" ";" labels "${folder}")
  set(${out} ${labels} PARENT_SCOPE)
endfunction()

# llminfer_unit_test(NAME ROOMS core quant ... SOURCES a.cpp ... [LINK lib ...] [LABELS slow ...])
# A Catch2 program of the named rooms' objects; run by ctest under its name.
function(llminfer_unit_test name)
  cmake_parse_arguments(T "" "" "ROOMS;SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  list(TRANSFORM T_ROOMS PREPEND llminfer_)
  target_link_libraries(${name} PRIVATE llminfer_flags ${T_ROOMS} llminfer_catch_main ${T_LINK})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(LLMINFER_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM llminfer_test_headers)
  endif()
  llminfer_folder_labels(labels)
  if(labels MATCHES "^unit;([a-z]+)")
    llminfer_room_tests(${CMAKE_MATCH_1})
    add_dependencies(tests_${CMAKE_MATCH_1} ${name})
  endif()
  if(labels MATCHES "^engine")
    add_dependencies(tests_engine ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${labels};${T_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT 900
    ENVIRONMENT "${LLMINFER_TEST_ENVIRONMENT}")
endfunction()

# llminfer_script_test(NAME COMMAND program argument ... [LABELS slow ...])
# A test that is a command: scripts, consumers, checks of the sources.
function(llminfer_script_test name)
  cmake_parse_arguments(T "" "" "COMMAND;LABELS" ${ARGN})
  llminfer_folder_labels(labels)
  add_test(NAME ${name} COMMAND ${T_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${labels};${T_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT 900
    ENVIRONMENT "${LLMINFER_TEST_ENVIRONMENT}")
endfunction()
