# bench/: the table of our figures beside the peers'.
add_executable(lw_bench bench/main.cc bench/cases.cc bench/compare.cc
               bench/report.cc bench/tuner.cc)
target_link_libraries(lw_bench PRIVATE lw_peers lw_measure CLI11::CLI11 nlohmann_json::nlohmann_json)

# Candidates a second, replayed and scored.
add_executable(lw_throughput bench/throughput.cc)
target_link_libraries(lw_throughput PRIVATE lw_cost_model)

# Lookups in a database of a million measurements.
add_executable(lw_lookup_bench bench/service_lookup.cc)
target_link_libraries(lw_lookup_bench PRIVATE lw_tuner_db CLI11::CLI11 nlohmann_json::nlohmann_json)
