# llminfer_unit_test(NAME ROOMS core quant ... SOURCES a.cpp ... [LINK lib ...])
# A Catch2 program of the named rooms' objects; run by ctest under its name.
function(llminfer_unit_test name)
  cmake_parse_arguments(T "" "" "ROOMS;SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  list(TRANSFORM T_ROOMS PREPEND llminfer_)
  target_link_libraries(${name} PRIVATE llminfer_flags ${T_ROOMS} llminfer_catch_main ${T_LINK})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" SKIP_RETURN_CODE 77
    ENVIRONMENT "LLMINFER_SHARED=${LLMINFER_SHARED_DIR};LLMINFER_MODELS=${LLMINFER_MODELS_DIR}")
endfunction()
