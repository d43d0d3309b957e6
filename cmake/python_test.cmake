# Tests that are Python scripts. A script exits with 77 and a printed reason when a module that it needs is missing.
set(LLMINFER_TEST_PYTHON python3 CACHE STRING "Python for the tests that are scripts (they say what modules they need)")

# llminfer_python_test(NAME script.py [argument ...])
function(llminfer_python_test name script)
  get_filename_component(script ${script} ABSOLUTE)
  add_test(NAME ${name} COMMAND sh -c
    "command -v \"$0\" >/dev/null || { echo \"skipped: no $0\"; exit 77; }; exec \"$0\" \"$@\""
    ${LLMINFER_TEST_PYTHON} ${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
