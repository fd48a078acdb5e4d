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

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "loopwright/lookup.h"
#include "src/base/stop.h"
#include "tuner_db/ladder/ladder.h"

namespace lw {

class Task;
struct Proposal;

struct LookupOptions {
  LadderOptions ladder;
  // What the default rung answers, and a lower rung is compared with: the zero-trial schedule, up
  // to 0.1 s. Without, the default rung has no trace.
  bool zero_trial = true;
  // Looked at while traces are adapted and schedules are searched for; asked, the look-up ends with
  // kCancelled or kDeadlineExceeded.
  Stop stop;
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

// The schedule that is derived without a measurement; kCancelled or kDeadlineExceeded: as `stop` says.
absl::StatusOr<Proposal> zero_trial(const Task& task, const Stop& stop = {});

std::string to_json(const ScheduleRecord& record);

}  // namespace lw
