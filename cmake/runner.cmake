# The runner of kernels on other machines (src/runner), static, beside the other programs as
# lw_runner_ARCHITECTURE: for machines like this one, and, cross-compiled, for AArch64. Without the
# cross compiler that target's kernels are still generated and exported; running them here says what
# is missing.
set(runner_sources ${CMAKE_SOURCE_DIR}/src/measure/run/timing.cc ${CMAKE_SOURCE_DIR}/src/base/clock.cc
    ${CMAKE_SOURCE_DIR}/src/base/parallel_pool.cc)
file(GLOB own_runner_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/runner/*.cc)
file(GLOB runner_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/runner/*.h
     ${CMAKE_SOURCE_DIR}/src/measure/run/*.h)
list(APPEND runner_sources ${own_runner_sources})
add_custom_target(runners ALL)
add_dependencies(lw_measure runners)
function(runner architecture compiler)
  set(runner ${CMAKE_BINARY_DIR}/lw_runner_${architecture})
  add_custom_command(OUTPUT ${runner}
    COMMAND ${compiler} -std=c++20 -O2 -Wall -Wextra -static -fno-exceptions -fno-rtti
            -I ${CMAKE_SOURCE_DIR} -I ${CMAKE_SOURCE_DIR}/include ${runner_sources} -o ${runner}
    DEPENDS ${runner_sources} ${runner_headers} ${CMAKE_SOURCE_DIR}/include/loopwright/context.h
            ${CMAKE_SOURCE_DIR}/src/base/clock.h ${CMAKE_SOURCE_DIR}/src/base/parallel_pool.h
    COMMENT "Compiling lw_runner_${architecture}")
  add_custom_target(runner_${architecture} DEPENDS ${runner})
  add_dependencies(runners runner_${architecture})
  install(PROGRAMS ${runner} DESTINATION bin)
endfunction()
runner(${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_CXX_COMPILER})
find_program(AARCH64_CXX aarch64-linux-gnu-g++)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  # Made above.
elseif(AARCH64_CXX)
  runner(aarch64 ${AARCH64_CXX})
else()
  message(STATUS "no aarch64-linux-gnu-g++: kernels for aarch64 are built but cannot be verified here")
endif()
