# Installs the build into a folder of its own, then configures, builds and runs the consumer there.
set(prefix ${BINARY_DIR}/package_test/prefix)
set(work ${BINARY_DIR}/package_test/build)
file(REMOVE_RECURSE ${BINARY_DIR}/package_test)
foreach(command
    "${CMAKE_COMMAND};--install;${BINARY_DIR};--prefix;${prefix}"
    "${CMAKE_COMMAND};-G;Ninja;-S;${SOURCE_DIR}/tests/package;-B;${work};-DCMAKE_PREFIX_PATH=${prefix}"
    "${CMAKE_COMMAND};--build;${work}"
    "${work}/consumer"
    "${work}/consumer_in_c")
  execute_process(COMMAND ${command} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    message(FATAL_ERROR "${command}\n${out}")
  endif()
endforeach()
message(STATUS "${out}")
