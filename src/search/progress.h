// What a workload's measurements come to, taken one by one in order of arrival: how many trials
// they are, what the answer without measuring took, and the incumbent. The one fold behind a
// search, the allocation of a budget, a study's counters and the report, which so cannot disagree.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "tuner_db/origin.h"
#include "tuner_db/store.h"

namespace lw {

// Of its source; nothing: no search proposed it.
std::optional<Origin> origin_of(const Measurement& measurement);

// Whether it counts against the trials: neither the zero-trial answer nor a finalist, which was
// measured before, nor what is to be measured again.
bool is_trial(const Measurement& measurement);

struct SearchProgress {
  TimeKind time_kind = TimeKind::kMeasured;  // of the times that count; given
  int trials = 0, failed = 0;
  bool has_zero = false;                   // the zero-trial answer came back
  double zero_us = 0;                      // 0: not measured, or it failed
  bool zero_verified = false;
  double best_us = 0;                      // the incumbent's; 0: nothing verified

  // Takes the next. Nothing happens if it is not pooled; of another kind it is a trial that was
  // spent, and no more. Returns whether it leads now.
  bool take(const Measurement& measurement);
  // Its two halves, for who has more to ask of the one that would lead.
  void count(const Measurement& measurement);
  bool lead(const Measurement& measurement);

 private:
  // The best of each trace, by its hash; 0: it crashed or was wrong, for good. So that when the
  // leader falls, also after it led, the best of the others is the incumbent again.
  std::map<uint64_t, double> verified_us_;
};

}  // namespace lw
