# examples/kernels as a user's project: untuned from nothing, then tuned, locked and frozen.
cmake_minimum_required(VERSION 3.25)       # a script of its own: policies are as of this version

set(folder ${BINARY_DIR}/cmake_kernels_test)
set(prefix ${folder}/prefix)
set(tool ${prefix}/bin/loopwright)
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})
set(threads "")
# Where the system lets us: no network for what must not need one.
execute_process(COMMAND unshare -n true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
set(offline "")
if(NOT refused)
  set(offline unshare -n)
endif()

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()
function(expect pattern)
  if(NOT out MATCHES "${pattern}")
    message(FATAL_ERROR "no '${pattern}' in:\n${out}")
  endif()
endfunction()
function(must_fail pattern)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "it should have failed: ${command}\n${out}")
  endif()
  string(REGEX REPLACE "[ \n]+" " " out "${out}")
  expect("${pattern}")
endfunction()

run(${CMAKE_COMMAND} --install ${BINARY_DIR} --component Kernels --prefix ${prefix})
file(COPY ${SOURCE_DIR}/examples/kernels DESTINATION ${folder})
set(source ${folder}/kernels)
set(configure ${offline} ${CMAKE_COMMAND} -G Ninja -DCMAKE_PREFIX_PATH=${prefix})

# Cold: nothing is tuned, and the build says so. Then nothing is to do.
run(${configure} -S ${source} -B cold)
run(${offline} ${CMAKE_COMMAND} --build cold)
expect("not tuned, and never run")
expect("dense__m512_x86_avx2 +x86_avx2 +default")
run(${offline} ${CMAKE_COMMAND} --build cold)
expect("no work to do")
run(cold/layer)
expect("M=512 ")
run(${CMAKE_CTEST_COMMAND} --test-dir cold --no-tests=error)

# Tuned, as it asks to be; the kernels are made anew, and are the tuned ones.
run(${CMAKE_COMMAND} --build cold --target loopwright-request)
run(${tool} tune -q --suite cold/loopwright-request.json --trials 8 --seconds 60 --db ${source}/loopwright.db)
run(${CMAKE_COMMAND} --build cold --target loopwright-request)
expect("every kernel is tuned")
run(${CMAKE_COMMAND} --build cold --target loopwright-lock)
run(${CMAKE_COMMAND} --build cold)
run(cold/layer)
expect(", exact: off by")

# The lock file alone, in another folder, read-only, without a database.
file(REMOVE ${source}/loopwright.db ${source}/loopwright.db-wal ${source}/loopwright.db-shm)
file(RENAME ${source} ${folder}/moved)
run(chmod -R a-w ${folder}/moved)
run(${configure} -S moved -B frozen -DLOOPWRIGHT_FROZEN=ON)
run(${offline} ${CMAKE_COMMAND} --build frozen)
run(frozen/layer)
expect(", exact: off by")
file(GLOB objects RELATIVE ${folder}/frozen/dense_kernels ${folder}/frozen/dense_kernels/*.o)
list(LENGTH objects count)
if(NOT count EQUAL 12)
  message(FATAL_ERROR "12 objects should be there: ${objects}")
endif()
foreach(object ${objects})
  run(${CMAKE_COMMAND} -E compare_files frozen/dense_kernels/${object} cold/dense_kernels/${object})
endforeach()
# Nothing says where it was made.
execute_process(COMMAND grep -rl ${folder} frozen/dense_kernels --include=*.o --include=*.h --include=*.c
                --include=*.json WORKING_DIRECTORY ${folder} OUTPUT_VARIABLE found)
if(found)
  message(FATAL_ERROR "a path of this machine stands in ${found}")
endif()

# A lock that was edited, a shape that it lacks, words that are none.
run(chmod -R u+w ${folder}/moved)
file(READ ${folder}/moved/loopwright.lock lock)
string(REGEX REPLACE "\"dense__m8_x86_avx2.o\": \"[0-9a-f]" "\"dense__m8_x86_avx2.o\": \"x" bad "${lock}")
file(WRITE ${folder}/bad.lock "${bad}")
run(${configure} -S moved -B bad -DLOOPWRIGHT_FROZEN=ON -DLAYER_LOCK=${folder}/bad.lock)
must_fail("is no file with a sha256" ${CMAKE_COMMAND} --build bad)
file(READ ${folder}/moved/CMakeLists.txt text)
string(REPLACE "\"M=64\"" "\"M=63\"" other "${text}")
file(WRITE ${folder}/moved/CMakeLists.txt "${other}")
run(${configure} -S moved -B lacking -DLOOPWRIGHT_FROZEN=ON)
must_fail("is not tuned for x86_" ${CMAKE_COMMAND} --build lacking)
string(REPLACE "ON_MISS DEFAULT" "ON_MISS MAYBE" other "${text}")
file(WRITE ${folder}/moved/CMakeLists.txt "${other}")
must_fail("ON_MISS MAYBE: ERROR, NEAREST or DEFAULT" ${configure} -S moved -B none)
string(REPLACE "LOCK \${LAYER_LOCK}" "" other "${text}")
file(WRITE ${folder}/moved/CMakeLists.txt "${other}")
must_fail("names none: LOCK FILE" ${configure} -S moved -B none -DLOOPWRIGHT_FROZEN=ON)

# Kernels of a subdirectory, from two databases, of two lock files.
file(MAKE_DIRECTORY ${folder}/nested/one ${folder}/nested/two)
file(WRITE ${folder}/nested/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\n"
     "project(Nested LANGUAGES C)\nadd_subdirectory(one)\nadd_subdirectory(two)\n")
foreach(part one two)
  file(WRITE ${folder}/nested/${part}/CMakeLists.txt
       "find_package(Loopwright REQUIRED COMPONENTS Kernels)\n"
       "loopwright_add_kernel(relu_${part} relu SHAPES N=64 N=128 DATABASE ${part}.db LOCK ${part}.lock "
       "TARGETS x86_sse2 ON_MISS DEFAULT)\n")
endforeach()
run(${configure} -S nested -B nested/build)
run(${CMAKE_COMMAND} --build nested/build)
run(${tool} tune -q relu N=64 --target x86_sse2 --threads 1 --trials 4 --seconds 20 --db nested/two/two.db)
run(${tool} tune -q relu N=128 --target x86_sse2 --threads 1 --trials 4 --seconds 20 --db nested/two/two.db)
run(${CMAKE_COMMAND} --build nested/build)   # a database that came to be is read
file(READ ${folder}/nested/build/two/relu_two_kernels/relu_two__n64_x86_sse2.json out)
expect("\"outcome\": \"exact\"")
must_fail("not tuned; on stdout" ${CMAKE_COMMAND} --build nested/build --target loopwright-lock)
run(${tool} tune -q relu N=64 --target x86_sse2 --threads 1 --trials 4 --seconds 20 --db nested/one/one.db)
run(${tool} tune -q relu N=128 --target x86_sse2 --threads 1 --trials 4 --seconds 20 --db nested/one/one.db)
run(${CMAKE_COMMAND} --build nested/build --target loopwright-lock)
file(READ ${folder}/nested/two/two.lock out)
expect("relu_two__n64")
run(${CMAKE_COMMAND} --build nested/build)

# For another kind of machine, run under an emulator where there is one.
file(WRITE ${folder}/moved/CMakeLists.txt "${text}")
find_program(cross aarch64-linux-gnu-gcc)
find_program(emulator qemu-aarch64)
if(cross AND emulator)
  run(${configure} -S moved -B cross -DCMAKE_C_COMPILER=${cross} -DCMAKE_SYSTEM_NAME=Linux
      -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DLAYER_TARGETS=aarch64_neon -DLAYER_LOCK=${folder}/none.lock)
  run(${CMAKE_COMMAND} --build cross)
  run(${emulator} -L /usr/aarch64-linux-gnu cross/layer)
  expect("M=512 ")
  must_fail("TARGETS host is this machine" ${configure} -S moved -B of_host -DCMAKE_C_COMPILER=${cross}
            -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DLAYER_TARGETS=host)
endif()
