// What is over is forgotten in time: audit lines, orphans, what only an ended study's jobs and
// watchers needed, ended studies, names of devices and agents that nobody has seen for long.
// Measurements are not: what they are worth says `db prune`.
//
// In small pieces, of a few hundred rows each, which are transactions of their own: whoever stops
// in between leaves a sound database, and two that forget at once do no harm.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tuner_db/sql/database.h"

namespace lw {

// For how many days; 0: for ever. A day is 24 hours of the service's clock.
struct Retention {
  double audit_days = 400;                 // a year and what a yearly review takes
  double orphan_days = 30;
  double payload_days = 30;                // of jobs, from their study's end on
  double event_days = 400;                 // of ended studies; the last one stays
  double study_days = 0;                   // ended ones, as a whole
  double device_days = 90;                 // from when they were seen last; agents go with theirs

  bool operator==(const Retention&) const = default;
};

// By name, as `serve --config` and `db prune` have them.
struct RetentionSetting {
  std::string_view name;                   // "audit_days"
  double Retention::*days;
  std::string_view help;
};
std::span<const RetentionSetting> retention_settings();

// Rows by what they were: audit, orphans, payloads, events, studies, devices, agents.
using Forgotten = std::map<std::string, int64_t>;

// The kind of what is to be forgotten next, for forget_piece(); -1: there is nothing. Rows of
// studies that somebody deleted come first.
absl::StatusOr<int> what_to_forget(Transaction& tx, const Retention& retention, int64_t now_ms);
// Forgets at most some `most` rows of that kind, and counts them. Re-runnable; `gone` is only
// added to.
absl::Status forget_piece(WriteTransaction& tx, const Retention& retention, int kind,
                          int64_t now_ms, int most, Forgotten* gone);
// How many would go now.
absl::StatusOr<Forgotten> count_forgettable(Transaction& tx, const Retention& retention,
                                            int64_t now_ms);

}  // namespace lw
