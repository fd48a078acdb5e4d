// Times several contenders in one run, in turn: clocks and neighbours drift by more than what the
// bars allow, so nothing is compared with a figure from another round.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/measure/run/timing.h"

namespace lw {

struct Contender {
  std::string name;
  std::function<void()> run;
  std::function<void()> select;            // before each of its samples, untimed; may be empty
  std::function<void()> finish = {};       // after the calls of each, timed: waits for what they
                                           // have queued; may be empty
  // In place of `run` and `finish` when it is timed, of who has a clock of its own: the seconds that
  // so many calls took.
  std::function<double(int64_t calls)> seconds = {};
};

struct Series {
  std::vector<double> samples_us;          // each the mean of `inner` calls
  int64_t inner = 1;
  Estimate time_us;                        // median and its 95 % confidence interval
};

struct InterleaveOptions {
  int rounds = 15;                         // fewer where the budget says so, at least 3
  double budget_s = 3;                     // for all contenders together
  double min_sample_s = 1e-3;
  double warm_s = 1e-2;                    // untimed calls before each sample: the last contender's
                                           // data leave a large cache only after several passes
  double settle_s = 0;                     // pause before each sample: lets others' idle threads
                                           // stop spinning
  std::function<void()> beside;            // called before each round, for what the contenders
                                           // are judged by
};

// Series i for contender i. Before each sample a contender runs untimed for `warm_s`, or one call
// if that is longer: its caches are warm, its threads awake.
std::vector<Series> interleave(const std::vector<Contender>& contenders,
                               const InterleaveOptions& options);

// Of a / b within each round, the median and its 95 % confidence interval: where the host changes
// its speed between rounds, the medians of `a` and of `b` may stem from different speeds and their
// ratio means nothing. REQUIRES: as many samples in both, at least one.
Estimate paired_ratio(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace lw
