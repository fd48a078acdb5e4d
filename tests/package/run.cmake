# Installs the build into a folder of its own, then configures, builds and runs the consumers there.
cmake_minimum_required(VERSION 3.25)       # a script of its own: policies are as of this version

set(prefix ${BINARY_DIR}/package_test/prefix)
set(work ${BINARY_DIR}/package_test/build)
set(winner ${SOURCE_DIR}/tests/package/npu/winner.te)
file(REMOVE_RECURSE ${BINARY_DIR}/package_test)
file(MAKE_DIRECTORY ${BINARY_DIR}/package_test)
foreach(command
    "${CMAKE_COMMAND};--install;${BINARY_DIR};--prefix;${prefix}"
    "${CMAKE_COMMAND};-G;Ninja;-S;${SOURCE_DIR}/tests/package;-B;${work};-DCMAKE_PREFIX_PATH=${prefix}"
    "${CMAKE_COMMAND};--build;${work}"
    "${work}/consumer"
    "${work}/consumer_in_c"
    "${prefix}/bin/loopwright;tune;-q;${winner};--target;npu_mid32;--trials;4"
    "${prefix}/bin/loopwright;export;--frozen;${winner};--target;npu_mid32;-o;${work}/exported"
    "${CMAKE_COMMAND};-G;Ninja;-S;${SOURCE_DIR}/tests/package/npu;-B;${work}/npu;-DCMAKE_PREFIX_PATH=${prefix};-DEXPORTED=${work}/exported"
    "${CMAKE_COMMAND};--build;${work}/npu"
    "${work}/npu/npu_consumer"
    "${work}/npu/npu_winner;${work}/exported/winner.npu")
  execute_process(COMMAND ${command} WORKING_DIRECTORY ${BINARY_DIR}/package_test RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    message(FATAL_ERROR "${command}\n${out}")
  endif()
endforeach()
message(STATUS "${out}")

# ./run_demo builds the program and nothing of ours beside it, and README installs after it: what is
# installed must have been built by then.
execute_process(COMMAND ninja -C ${BINARY_DIR} -t inputs loopwright
                RESULT_VARIABLE failed OUTPUT_VARIABLE inputs)
if(failed)
  message(FATAL_ERROR "ninja does not say what the program is built from")
endif()
string(REPLACE "\n" ";" inputs "${inputs}")
file(GLOB_RECURSE installed RELATIVE ${prefix} ${prefix}/*.a)
if(NOT installed)
  message(FATAL_ERROR "no library is installed")
endif()
foreach(library ${installed})
  get_filename_component(name ${library} NAME)
  if(NOT name IN_LIST inputs)
    message(FATAL_ERROR "${name} is installed, but building the program does not build it")
  endif()
endforeach()
