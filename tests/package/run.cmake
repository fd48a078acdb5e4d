# Installs the build into a folder of its own, then configures, builds and runs the consumers there,
# each with the component that it needs.
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
    "${work}/npu/npu_winner;${work}/exported/winner.npu"
    "${CMAKE_COMMAND};-G;Ninja;-S;${SOURCE_DIR}/tests/package/kernels;-B;${work}/kernels;-DCMAKE_PREFIX_PATH=${prefix}"
    "${CMAKE_COMMAND};--build;${work}/kernels"
    "${work}/kernels/product"
    "${CMAKE_COMMAND};-G;Ninja;-S;${SOURCE_DIR}/tests/package/runtime;-B;${work}/runtime;-DCMAKE_PREFIX_PATH=${prefix}"
    "${CMAKE_COMMAND};--build;${work}/runtime"
    "${work}/runtime/consumer"
    "${SOURCE_DIR}/tests/package/ask_server;${prefix};${work}/runtime/asks_server"
    "${SOURCE_DIR}/tests/package/pkg_config;${prefix};${SOURCE_DIR}/tests/package/consumer.c;${work}/by_pkg_config")
  execute_process(COMMAND ${command} WORKING_DIRECTORY ${BINARY_DIR}/package_test RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    message(FATAL_ERROR "${command}\n${out}")
  endif()
endforeach()

# Those who need little were given little: no compiler of C++, and no package but ours.
foreach(component kernels runtime)
  file(STRINGS ${work}/${component}/CMakeCache.txt found
       REGEX "^(CMAKE_CXX_COMPILER:|[A-Za-z0-9_-]+_DIR:PATH)")
  list(FILTER found EXCLUDE REGEX "^Loopwright_DIR:")
  if(found)
    message(FATAL_ERROR "the component ${component} asked for more: ${found}")
  endif()
endforeach()

# A component that there is not is named.
file(MAKE_DIRECTORY ${work}/wrong)
file(WRITE ${work}/wrong/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(Wrong LANGUAGES C)\n"
     "find_package(Loopwright REQUIRED COMPONENTS Runtime Kernel)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${work}/wrong -B ${work}/wrong/build
                -DCMAKE_PREFIX_PATH=${prefix}
                RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE out)
string(REGEX REPLACE "[ \n]+" " " out "${out}")
if(NOT failed OR NOT out MATCHES "no component 'Kernel'; it has Kernels, Runtime, Cxx")
  message(FATAL_ERROR "a wrong component is not refused by its name:\n${out}")
endif()

# ./run_demo builds the program and nothing of ours beside it, and README installs after it: what is
# installed must have been built by then.
execute_process(COMMAND ninja -C ${BINARY_DIR} -t inputs loopwright
                RESULT_VARIABLE failed OUTPUT_VARIABLE inputs)
if(failed)
  message(FATAL_ERROR "ninja does not say what the program is built from")
endif()
string(REPLACE "\n" ";" inputs "${inputs}")
file(GLOB archives ${prefix}/lib/*.a ${prefix}/lib/loopwright/*.a)
file(GLOB shared ${prefix}/lib/*.so.*.*.*)
if(NOT archives OR NOT shared)
  message(FATAL_ERROR "no library is installed")
endif()
foreach(library ${archives} ${shared})
  get_filename_component(name ${library} NAME)
  if(NOT name IN_LIST inputs)
    message(FATAL_ERROR "${name} is installed, but building the program does not build it")
  endif()
endforeach()
