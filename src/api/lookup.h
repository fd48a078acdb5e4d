// A schedule for a task from whatever records there are: the ladder (tuner_db/ladder/ladder.h), and
// for every rung below `exact` the record's trace made into one of this task.
//
// Adaptation: the trace is replayed as it stands, and its decisions are moved into the domains of
// the space's sketches (those of the trace's own structure, where there are such). What replays and
// lowers is legal. Of the adapted traces of all candidates the draft model chooses the fastest; a
// nearer record wins ties. Of a record that is the task's own (exact, loose) but does not apply the
// next best traces of its key are tried. Where nothing of a rung applies, the next rung answers, and
// `notes` say why.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/api/api.h"
#include "tuner_db/ladder/ladder.h"

namespace lw {

struct Kernel;

struct LookupOptions {
  LadderOptions ladder;
  // What the default rung answers, and a lower rung is compared with: the zero-trial schedule, up
  // to 0.1 s. Without, the default rung has no trace.
  bool zero_trial = true;
  // Looked at while traces are adapted and schedules are searched for; asked, the look-up ends with
  // kCancelled or kDeadlineExceeded.
  Stop stop;
};

struct LookupAnswer {
  Rung outcome = Rung::kDefault;
  std::shared_ptr<const ScheduleRecord> record;  // null for default
  std::string trace;                             // for the task; text
  bool adapted = false;                          // `trace` is not the record's
  double distance = 0;
  bool stale = false;
  std::optional<int64_t> age_ms;  // of the measurement, where the time is known
  // How much longer than a tuned kernel this one is expected to take: 0.1 for 10 %, never less than
  // 0. predicted_us, beside the best time that was measured for this task's workload and threads
  // on the record's target, of the records looked at; where none was, beside the best that theirs
  // come to per operation. Without a measured time it is what the draft model knows and no more.
  // Empty for default.
  std::optional<double> predicted_loss;
  // A guess at the time: the record's time per operation (per byte where there are none) on this
  // task, as much longer as the draft model finds the trace than the best of all traces looked at
  // (the zero-trial one included). What was measured for this workload is no guess. Empty for
  // default, and where nothing is known of the work.
  std::optional<double> predicted_us;
  std::vector<std::string> notes;  // records passed over, and why
  Nest nest;
  std::shared_ptr<const Kernel> kernel;  // null when there is no trace
};

LookupRequest request_of(const Task& task);

// Never kNotFound: a miss is the default. Errors are the source's, and options.stop's.
absl::StatusOr<LookupAnswer> look_up(const Task& task, const RecordSource& source,
                                     const LookupOptions& options = {});

// The second half alone: candidates of one rung (a server's, a cache's). kNotFound: none of them
// applies; the notes are in the message.
absl::StatusOr<LookupAnswer> settle(const Task& task, const std::vector<Match>& candidates,
                                    const LookupOptions& options);
absl::StatusOr<LookupAnswer> default_answer(const Task& task, const LookupOptions& options);

// For what runs and exports.
Choice as_choice(const LookupAnswer& answer);

// JSON text of an answer: outcome, record (null for default), trace, and the rest by their names.
std::string to_json(const LookupAnswer& answer);
std::string to_json(const ScheduleRecord& record);

}  // namespace lw
