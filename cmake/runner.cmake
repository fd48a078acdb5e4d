# The runner of kernels on other architectures (src/runner), cross-compiled, static, beside the other
# programs as lw_runner_ARCHITECTURE. Without the cross compiler the target's kernels are still
# generated and exported; running them says what is missing.
find_program(AARCH64_CXX aarch64-linux-gnu-g++)
set(runner_sources ${CMAKE_SOURCE_DIR}/src/runner/runner.cc ${CMAKE_SOURCE_DIR}/src/runner/protocol.cc)
if(AARCH64_CXX)
  set(runner ${CMAKE_BINARY_DIR}/lw_runner_aarch64)
  add_custom_command(OUTPUT ${runner}
    COMMAND ${AARCH64_CXX} -std=c++20 -O2 -Wall -Wextra -static -fno-exceptions -fno-rtti
            -I ${CMAKE_SOURCE_DIR} ${runner_sources} -o ${runner}
    DEPENDS ${runner_sources} ${CMAKE_SOURCE_DIR}/src/runner/protocol.h
            ${CMAKE_SOURCE_DIR}/src/build/context.h
    COMMENT "Cross-compiling lw_runner_aarch64")
  add_custom_target(aarch64_runner ALL DEPENDS ${runner})
  add_dependencies(lw_measure aarch64_runner)
  install(PROGRAMS ${runner} DESTINATION bin)
else()
  message(STATUS "no aarch64-linux-gnu-g++: kernels for aarch64 are built but cannot be verified here")
endif()
