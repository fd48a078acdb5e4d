// The commands, one file each.
#pragma once

#include "src/cli/common.h"

namespace lw {

Action tune_command(Arguments app);
Action best_command(Arguments app);
Action bench_command(Arguments app);
Action run_command(Arguments app);
Action show_command(Arguments app);
Action space_command(Arguments app);
Action export_command(Arguments app);
Action lock_command(Arguments app);
Action fetch_command(Arguments app);
Action db_command(Arguments app);
Action model_command(Arguments app);
Action report_command(Arguments app);
Action ops_command(Arguments app);
Action targets_command(Arguments app);
Action doctor_command(Arguments app);
Action serve_command(Arguments app);
Action submit_command(Arguments app);
Action watch_command(Arguments app);
Action studies_command(Arguments app);
Action cancel_command(Arguments app);
Action delete_command(Arguments app);
Action agent_command(Arguments app);
Action device_host_command(Arguments app);
Action top_command(Arguments app);
Action devices_command(Arguments app);
Action agents_command(Arguments app);
Action jobs_command(Arguments app);
Action audit_command(Arguments app);
Action backup_command(Arguments app);
Action lookup_command(Arguments app);
Action history_command(Arguments app);
Action schedules_command(Arguments app);
Action records_command(Arguments app);

}  // namespace lw
