// What a look-up answers: a schedule for a task from whatever records there are, and how good that
// is. client.h asks.
//
//   exact           the task itself is tuned
//   loose           all but the code generator's version is the same; the same major version
//   nearest-shape   another shape of the operator, same machine and threads
//   nearest-target  a machine whose features this one has, or other threads
//   default         nothing: a schedule that was derived without a measurement
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lw {

struct Choice;
struct Kernel;
struct Nest;
struct ScheduleRecord;

enum class Rung : uint8_t { kExact, kLoose, kNearestShape, kNearestTarget, kDefault };
std::string_view rung_name(Rung rung);  // "exact", "loose", "nearest-shape", ...
bool parse_rung(std::string_view name, Rung* rung);

struct LadderOptions {
  int count = 4;                       // records of a lower rung, for re-ranking
  Rung highest = Rung::kExact;         // rungs above are not tried
  Rung lowest = Rung::kNearestTarget;  // nor those below
  double max_distance = 5;             // of the nearest rungs: a factor of 150 in all
  int64_t now_ms = 0;                  // for staleness; 0: no record is too old
  int64_t stale_after_ms = int64_t{180} * 86'400'000;
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
  // Null when there is no trace.
  std::shared_ptr<const Nest> nest;
  std::shared_ptr<const Kernel> kernel;

  // Of the record: its time (0: there is no record), where that comes from ("measured", "emulated",
  // "simulated", "estimated", ""), and the words of its workload.
  double time_us() const;
  std::string_view time_kind() const;
  std::string source_words() const;
};

// For what runs and exports.
Choice as_choice(const LookupAnswer& answer);

// JSON text: outcome, record (null for default), trace, and the rest by their names.
std::string to_json(const LookupAnswer& answer);

}  // namespace lw
