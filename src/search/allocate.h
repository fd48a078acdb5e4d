// Which workload of a study gets the next batch: the one with the largest expected gain per second.
//
// Many workloads share one budget of trials, seconds or both; wanted is the least sum of
// weight x best time. Values and pure functions: a WorkloadState follows from the workload's stored
// measurements alone, in order of arrival, so that a restarted study decides as the first would
// have.
//
// For a workload with weight w, best time b after n trials and t seconds of machine time, per
// second:
//
//   backward = (b(n - W) - b(n)) / (b(n) · seconds of those W trials)
//                                         the relative gain of the last window W (0 before it is
//                                         full): MetaSchedule's g1 (Shao et al. 2022; α = 0.2,
//                                         window of 3 rounds), over seconds, not rounds
//   forward  = max(h · min(1, s + c √(ln N / n)), p) / t
//                                         MetaSchedule's g2 = b/n and Ansor's b/n say that time
//                                         falls as 1/n; here it falls as n^-s with the exponent s
//                                         seen over its last doubling, plus optimism where few
//                                         trials back it (UCB1; N: all trials, n: its own), and
//                                         never below the roofline: h = 1 - bound/b
//   p = 1 - β e / E                       what similar workloads attain: efficiency e = bound/b of
//                                         its own, E the best of its group; Ansor's
//                                         β · flops / best flops of group (Zheng et al. 2020; β =
//                                         2)
//   gain     = w b (α backward + (1 - α) forward) · r / (r + switch)
//                                         r: seconds of a round; switch: what it costs to turn to a
//                                         workload that is not the current one
//   What is in flight counts in n and t as if it were back without a gain.
//
// First each workload gets one round. A workload leaves when nothing was valid in its first rounds
// (dead), when three windows in a row gained less than 1 % each (stopped; of simulated times ten,
// and 0.1 %), or when the caller closes it; one that was asked for again does not stop before a
// window of new trials. Ansor and MetaSchedule count rounds, may exceed the budget by a batch, and
// have no early stop.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "src/search/progress.h"

namespace lw {

struct AllocateOptions {
  int batch = 16;                          // trials of a round
  int window = 3;                          // rounds
  double alpha = 0.2, beta = 2, optimism = 0.5;
  double least_gain = 0.01;                // of a window, or it counts as flat
  int flat_windows = 3;                    // in a row, then stopped; 0: never
  // The same of simulated times, which have no noise and cost milliseconds. (On ResNet-50's and
  // BERT's layers three windows end behind the best of 100 draws now and then, ten never.)
  double exact_least_gain = 0.001;
  int exact_flat_windows = 10;
  int warm_up = 3;                         // rounds without anything valid, then dead
};

struct WorkloadState : SearchProgress {
  // Given.
  double weight = 1;                       // calls; 0: of its own first time, so that relative
                                           // gains count (no call counts known: a suite)
  std::string group;                       // similar ones share what is attainable; empty: alone
  double bound_us = 0;                     // roofline on the target; 0: not known
  bool closed = false;                     // nothing is left to try, or cancelled
  int in_flight = 0;                       // trials issued and not yet recorded
  double switch_s = 0;                     // what it costs to turn to it from another
  int resumed = 0;                         // trials before this was asked for (again): however flat
                                           // these were, a window more is tried

  // Follows from the measurements.
  double seconds = 0;                      // of building and measuring, of what is stored
  double first_us = 0;                     // verified; 0: none
  struct Point {
    int trials;
    double seconds, best_us;
  };
  std::vector<Point> history;              // when best_us changed, ascending
  std::vector<double> spent;               // seconds after each trial
};

// Seconds of building and measuring behind it, as its row tells.
double machine_seconds(const Measurement& measurement);
// Takes the next stored measurement of the workload; nothing happens if its kind is another, or it
// is not pooled.
void record(WorkloadState& state, const Measurement& measurement);

bool is_dead(const WorkloadState& state, const AllocateOptions& options);
bool has_stopped(const WorkloadState& state, const AllocateOptions& options);
inline bool is_open(const WorkloadState& state, const AllocateOptions& options) {
  return !state.closed && !is_dead(state, options) && !has_stopped(state, options);
}

// A study's budget; stored trials count.
struct SharedBudget {
  int64_t trials = std::numeric_limits<int64_t>::max();
  double seconds = std::numeric_limits<double>::infinity();
};
// What may still be issued, exactly; 0: nothing.
int64_t trials_left(const std::vector<WorkloadState>& states, const SharedBudget& budget);

// The expected gain of workload `i`, in units of the objective per second. `current`: the workload
// that needs no switch, or -1.
double expected_gain(const std::vector<WorkloadState>& states, int i, int current,
                     const AllocateOptions& options);
// The workload that gets the next batch; -1: the budget is spent or none is open. Ties: the current
// one, then the first.
int choose(const std::vector<WorkloadState>& states, const SharedBudget& budget, double elapsed_s,
           int current, const AllocateOptions& options);

}  // namespace lw
