# Tests that are Python scripts. A script exits with 77 and a printed reason when a module that it needs is missing.
set(LLMINFER_TEST_PYTHON python3 CACHE STRING "Python for the tests that are scripts (they say what modules they need)")

# llminfer_python_test(NAME script.py [argument ...])
function(llminfer_python_test name script)
  get_filename_component(script ${script} ABSOLUTE)
  llminfer_script_test(${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/python_test.sh ${LLMINFER_TEST_PYTHON} ${script} ${ARGN})
endfunction()
