# For programs that only look schedules up, build and run kernels: libloopwright.so, the C API of
# include/loopwright/loopwright.h and nothing of gRPC, PostgreSQL, XGBoost, the sandbox or the
# service. What asks a server is libloopwright_remote.so, loaded when one is named.

# What such a program has instead of drivers, PostgreSQL and gRPC (src/embedded/).
library(lw_embedded FOLDERS src/embedded USES lw_records ${CMAKE_DL_LIBS})
target_compile_definitions(lw_embedded PRIVATE LOOPWRIGHT_VERSION="${PROJECT_VERSION}")

# Not under sanitizers, whose own symbols only programs have, nor for fuzzing.
if(LOOPWRIGHT_SANITIZE OR LOOPWRIGHT_FUZZ)
  return()
endif()

# shared(TARGET NAME): libNAME.so of its sources. It shows loopwright_* alone and binds all else that
# it holds within: a process may hold another LLVM, say, and neither takes the other's functions.
# Once loaded it stays: threads of the kernels' pool are in it until the process ends.
function(shared target name)
  set(script ${CMAKE_SOURCE_DIR}/cmake/loopwright.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,-Bsymbolic
    -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,--gc-sections -Wl,-z,defs -Wl,-z,nodelete)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION 0
    VERSION ${PROJECT_VERSION} LINKER_LANGUAGE CXX LINK_DEPENDS ${script})
endfunction()

# The client's objects all: nothing in them asks for the C API.
add_library(loopwright_runtime SHARED $<TARGET_OBJECTS:lw_client>)
target_link_libraries(loopwright_runtime PRIVATE lw_lookup lw_embedded)
shared(loopwright_runtime loopwright)

add_library(loopwright_remote SHARED src/embedded/remote/remote_library.cc)
target_compile_definitions(loopwright_remote PRIVATE LOOPWRIGHT_VERSION="${PROJECT_VERSION}")
target_link_libraries(loopwright_remote PRIVATE lw_grpc_source)
shared(loopwright_remote loopwright_remote)
