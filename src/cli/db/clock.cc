// `db clock`: the time that the service keeps in its database beside the present, and what holds
// moments to come; --reset brings it all back (src/serve/clock_reset.h).
#include "src/cli/db/clock.h"

#include "absl/strings/str_format.h"
#include "src/cli/service/service.h"
#include "src/net/times.h"
#include "src/serve/clock_reset.h"
#include "src/serve/daemon_lock.h"

namespace lw {
namespace {

std::string moment(int64_t ms) { return ms == 0 ? "never" : when(timestamp(ms)); }

void show(const ClockState& state, bool reset, const Output& output) {
  const int64_t ahead_ms = state.stored_ms == 0 ? 0 : state.stored_ms - state.present_ms;
  Json rows = Json::object();
  Table table{{"what", "value"}, {}, {}};
  table.rows.push_back({"the present", moment(state.present_ms)});
  table.rows.push_back({"the service's time", moment(state.stored_ms)});
  const double ahead_s = 1e-3 * static_cast<double>(ahead_ms);
  table.rows.push_back({"ahead by", absl::StrFormat("%.1f s", ahead_s)});
  for (const auto& [column, count] : state.ahead) {
    rows[column] = count;
    table.rows.push_back({concat("to come in ", column), concat(count, " rows")});
  }
  emit(output,
       {{"present_ms", state.present_ms}, {"stored_ms", state.stored_ms}, {"ahead_ms", ahead_ms},
        {"rows_ahead", rows}, {"reset", reset}},
       table);
  if (reset) output.note("set back to the present");
}

}  // namespace

absl::StatusOr<int> db_clock(const DatabaseFlags& flags, const ClockOptions& options,
                             const Output& output) {
  DatabaseOptions how;
  how.insecure = flags.insecure;
  how.read_only = !options.reset;
  if (options.force && !options.reset) {
    return absl::InvalidArgumentError("--force is for --reset");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> existing, flags.open_to_read());
  if (existing == nullptr) {
    return absl::NotFoundError(concat("there is no database ", flags.shown()));
  }
  DaemonLock lock;
  if (options.reset && !options.force) {
    ASSIGN_OR_RETURN(lock, DaemonLock::take(flags.path));
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<Database> database,
                   environment(open_database(flags.path, how)));
  if (!options.reset) {
    ASSIGN_OR_RETURN(const ClockState state, environment(read_clock(*database)));
    show(state, false, output);
    return kDone;
  }
  if (database->is_shared() && !options.force) {
    output.note("looking for 15 s whether a daemon is at work");
    ASSIGN_OR_RETURN(const bool kept, environment(is_clock_kept(*database)));
    if (kept) {
      return absl::FailedPreconditionError(
          concat(flags.shown(), ": a daemon is at work: stop all of its daemons first"));
    }
  }
  ASSIGN_OR_RETURN(const ClockState before, environment(reset_clock(*database)));
  show(before, true, output);
  return kDone;
}

}  // namespace lw
