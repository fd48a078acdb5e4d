# Exports a kernel for OpenCL by LOOPWRIGHT, builds examples/opencl in WORK and runs it. "SKIPPED:
# why" where this machine cannot run it.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
find_path(header CL/cl.h PATHS /usr/include /usr/local/include)
if(NOT header)
  message(STATUS "SKIPPED: no <CL/cl.h> (opencl-c-headers, ocl-icd-opencl-dev)")
  return()
endif()
foreach(command
    "${CMAKE_COMMAND};-G;Ninja;-S;${SOURCE_DIR}/examples/opencl;-B;${WORK};-DLOOPWRIGHT=${LOOPWRIGHT}"
    "${CMAKE_COMMAND};--build;${WORK}"
    "${WORK}/softmax")
  # (PoCL's compiler counts its warnings on stderr, on processors it has many of.)
  execute_process(COMMAND ${command} WORKING_DIRECTORY ${WORK} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(failed EQUAL 77)
    message(STATUS "SKIPPED: ${out}${err}")
    return()
  endif()
  if(failed)
    message(FATAL_ERROR "${command}\n${out}${err}")
  endif()
endforeach()
if(NOT out MATCHES "^ok: ")
  message(FATAL_ERROR "${out}${err}")
endif()
message(STATUS "${out}")
