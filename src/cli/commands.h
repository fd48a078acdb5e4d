// The commands, one file each.
#pragma once

#include "src/cli/common.h"

namespace lw {

Action tune_command(CLI::App& app);
Action best_command(CLI::App& app);
Action bench_command(CLI::App& app);
Action run_command(CLI::App& app);
Action show_command(CLI::App& app);
Action space_command(CLI::App& app);
Action export_command(CLI::App& app);
Action lock_command(CLI::App& app);
Action fetch_command(CLI::App& app);
Action db_command(CLI::App& app);
Action model_command(CLI::App& app);
Action report_command(CLI::App& app);
Action ops_command(CLI::App& app);
Action targets_command(CLI::App& app);
Action doctor_command(CLI::App& app);
Action serve_command(CLI::App& app);
Action submit_command(CLI::App& app);
Action watch_command(CLI::App& app);
Action studies_command(CLI::App& app);
Action cancel_command(CLI::App& app);
Action delete_command(CLI::App& app);
Action agent_command(CLI::App& app);
Action device_host_command(CLI::App& app);
Action top_command(CLI::App& app);
Action devices_command(CLI::App& app);
Action agents_command(CLI::App& app);
Action jobs_command(CLI::App& app);
Action audit_command(CLI::App& app);
Action backup_command(CLI::App& app);
Action lookup_command(CLI::App& app);
Action history_command(CLI::App& app);
Action schedules_command(CLI::App& app);
Action records_command(CLI::App& app);

}  // namespace lw
