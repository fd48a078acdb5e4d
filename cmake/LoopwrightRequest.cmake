# Writes what is not tuned yet, as a request that `loopwright tune --suite` takes: TOOL, RECORDS, CASES
# and OUTPUT as LoopwrightKernels.cmake gives them.
execute_process(COMMAND ${TOOL} lock --frozen -q ${CASES} ${RECORDS} -o ${OUTPUT}.lock
                RESULT_VARIABLE code OUTPUT_VARIABLE request ERROR_VARIABLE error)
file(REMOVE ${OUTPUT}.lock)
if(code EQUAL 0)
  file(WRITE ${OUTPUT} "{\"workloads\": []}\n")
  message(STATUS "every kernel is tuned")
elseif(code EQUAL 2)
  file(WRITE ${OUTPUT} "${request}")
  message(STATUS "${OUTPUT}: loopwright tune --suite takes it\n${error}")
else()
  message(FATAL_ERROR "${error}")
endif()
