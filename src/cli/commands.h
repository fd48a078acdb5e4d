// The commands, one file each.
#pragma once

#include "src/cli/common.h"

namespace lw {

Action tune_command(CliArguments app);
Action best_command(CliArguments app);
Action bench_command(CliArguments app);
Action run_command(CliArguments app);
Action show_command(CliArguments app);
Action space_command(CliArguments app);
Action export_command(CliArguments app);
Action lock_command(CliArguments app);
Action fetch_command(CliArguments app);
Action db_command(CliArguments app);
Action model_command(CliArguments app);
Action report_command(CliArguments app);
Action ops_command(CliArguments app);
Action targets_command(CliArguments app);
Action doctor_command(CliArguments app);
Action serve_command(CliArguments app);
Action submit_command(CliArguments app);
Action watch_command(CliArguments app);
Action studies_command(CliArguments app);
Action cancel_command(CliArguments app);
Action delete_command(CliArguments app);
Action agent_command(CliArguments app);
Action device_host_command(CliArguments app);
Action top_command(CliArguments app);
Action devices_command(CliArguments app);
Action agents_command(CliArguments app);
Action jobs_command(CliArguments app);
Action audit_command(CliArguments app);
Action backup_command(CliArguments app);
Action lookup_command(CliArguments app);
Action history_command(CliArguments app);
Action schedules_command(CliArguments app);
Action records_command(CliArguments app);

}  // namespace lw
