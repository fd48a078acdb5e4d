# The library behind the commands, the service's parts, and the `loopwright` binary.

# Looks up, chooses, builds and exports; and, apart, tunes and measures, with all that this needs.
library(lw_lookup FOLDERS src/api SOURCES ${lw_cpu_features} ${lw_workspace} ${lw_tvm_ffi} USES lw_build lw_search WAITS)
library(lw_api FOLDERS src/api/run USES lw_lookup lw_measure lw_trees lw_postgres WAITS)
library(lw_figures FOLDERS src/figures USES lw_measure lw_tuner_db WAITS)
embed_texts(lw_withheld bench/workloads "ansor.json" withheld_suite_texts)
library(lw_learn FOLDERS src/learn src/learn/npu SOURCES ${lw_withheld} USES lw_api ${ZSTD_LIBRARY})
library(lw_ablation_runs SOURCES bench/ablation.cc USES lw_api WAITS)
# Addresses, certificates, TLS and channels: of the service and of all who call it.
library(lw_net FOLDERS src/net USES lw_tuner_db gRPC::grpc++ OpenSSL::SSL ALONE)
library(lw_agent FOLDERS src/agent USES lw_api lw_net lw_services SERVICE)
include(cmake/serve.cmake)
# For compilers: look-ups that need no daemon, in C++ and C.
library(lw_client FOLDERS src/client USES lw_lookup)
library(lw_grpc_source FOLDERS src/client/grpc USES lw_tuner_db lw_net lw_services SERVICE)

file(GLOB lw_cli_sources CONFIGURE_DEPENDS src/cli/*.cc src/cli/*/*.cc)
collect(lw_commands "src/cli/local;src/cli/remote" src/cli/commands.h lw::CommandGroup lw_command_table _commands)
add_executable(loopwright ${lw_cli_sources} ${lw_commands})
batch(loopwright)
sanitize_quickly(loopwright)
precompile(loopwright loopwright ${service_headers})
target_compile_definitions(loopwright PRIVATE LOOPWRIGHT_VERSION="${PROJECT_VERSION}")
target_link_libraries(loopwright PRIVATE lw_export lw_learn lw_agent lw_serve lw_client lw_grpc_source lw_peers CLI11::CLI11)
