# What the parts of the search are worth; the tests use the library.
add_executable(lw_ablation bench/ablation_main.cc)
build_quickly(lw_ablation)
target_link_libraries(lw_ablation PRIVATE lw_ablation_runs lw_peers CLI11::CLI11)

# bench/: the table of our figures beside the peers'.
# Not under a sanitizer, whose figures mean nothing.
if(LOOPWRIGHT_SANITIZE)
  return()
endif()
add_executable(lw_bench bench/main.cc bench/arguments.cc bench/cases.cc bench/compare.cc
               bench/fused/array_library.cc bench/plain_loops.cc bench/report.cc bench/tuner.cc)
target_link_libraries(lw_bench PRIVATE lw_peers lw_measure CLI11::CLI11 nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})

# OpenCL kernels beside CLBlast, copies and our CPU family.
file(GLOB lw_opencl_bench_sources CONFIGURE_DEPENDS bench/opencl/*.cc)
add_executable(lw_opencl_bench ${lw_opencl_bench_sources} bench/arguments.cc bench/cases.cc bench/tuner.cc)
target_link_libraries(lw_opencl_bench PRIVATE lw_peers lw_measure CLI11::CLI11 nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})

# Candidates a second, replayed and scored.
add_executable(lw_throughput bench/throughput.cc)
target_link_libraries(lw_throughput PRIVATE lw_trees)

# What of the spaces of NVIDIA's targets can be made, without a GPU; where the draft sees what others
# have published.
foreach(what gate published)
  add_executable(lw_gpu_${what} bench/gpu/${what}.cc)
  target_link_libraries(lw_gpu_${what} PRIVATE lw_measure CLI11::CLI11 nlohmann_json::nlohmann_json)
endforeach()

# The simulated NPU: instructions and requests a second, values, whole networks; a tuner's way to
# cycles, and what it finds.
foreach(what speed function_speed networks)
  add_executable(lw_npu_${what} bench/npu/${what}.cc)
  target_link_libraries(lw_npu_${what} PRIVATE lw_npu)
endforeach()

foreach(what stages tuned swept tilings)
  add_executable(lw_npu_${what} bench/npu/${what}.cc)
  target_link_libraries(lw_npu_${what} PRIVATE lw_api)
endforeach()

# The service's numbers: daemons and agents in processes of their own, and this to load them.
file(GLOB lw_service_bench_sources CONFIGURE_DEPENDS bench/service/*.cc)
add_executable(lw_service_bench ${lw_service_bench_sources})
target_link_libraries(lw_service_bench PRIVATE lw_serve lw_client lw_grpc_source CLI11::CLI11 nlohmann_json::nlohmann_json)
add_dependencies(lw_service_bench loopwright)
