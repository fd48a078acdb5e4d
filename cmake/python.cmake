# The Python package, tested as it is installed: a wheel of this build's program, in a virtual
# environment that ./setup fetches. Sanitized builds skip it: Python is not sanitized.
if(NOT LOOPWRIGHT_SANITIZE)
  add_test(NAME python_test
    COMMAND ${CMAKE_SOURCE_DIR}/tests/python/run ${CMAKE_BINARY_DIR} ${LOOPWRIGHT_DEPS}/venv)
  set_tests_properties(python_test PROPERTIES LABELS consumer COST 100
    SKIP_REGULAR_EXPRESSION "SKIPPED: ")
endif()
