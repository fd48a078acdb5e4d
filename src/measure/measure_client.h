// The parent's view of measuring: one measurer process, the two oracles, and the verdict.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/measure/environment.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/run/timing.h"
#include "src/measure/workers/worker_link.h"
#include "src/search/measurer.h"

namespace lw {

// A built candidate.
struct Built {
  Candidate candidate;
  std::string artifact;  // artifact_bytes(); of an exact clock "" where it is not to be run
  // Of an exact clock: put_samples()'s, and the time.
  std::string times;
  double us = 0;
  double build_s = 0;
};

// Thread-compatible. `zygote` and `bench` outlive it.
class MeasureClient {
 public:
  MeasureClient(Zygote* zygote, const Workbench* bench);

  // Of an exact clock: what takes longer than this is not run, and its results are not looked at.
  // Infinity: it is run in any case, as is one in a hundred of those that need not be.
  static double run_below_us(const Candidate& candidate);

  // Before anything is measured: fills the inputs, evaluates the points, and runs the reference
  // that `reference` waits for (its artifact; "" if there is none). Deadlines are the options'
  // budgets.
  void prepare(const std::function<std::string()>& reference);

  Outcome measure(const Built& built);
  // Outcome i for built[i], each verified: all loaded at once, samples taken in turn; one after the
  // other where times do not depend on when they are taken (Clock).
  std::vector<Outcome> interleave(const std::vector<Built>& built, int rounds);

 private:
  static constexpr double kLoadTimeout = 10;

  void in_preparers(const std::function<void(WorkerLink&, int index, int count)>& work);
  void interpret_whole();
  Verdict run_reference(const std::string& artifact);
  bool load(const Built& built, int slot, Outcome* outcome);
  bool compile(int slot, Outcome* outcome);
  Clock clock() const { return bench_->driver.clock; }
  // `verify`: also where it is behind its incumbent.
  Outcome measure(const Built& built, bool verify, const std::optional<Limits>& limits);
  void sample(const Built& built, bool verify, Outcome* outcome);
  void compute(const Built& built, bool verify, Outcome* outcome);
  bool is_run(const Built& built, bool verify, const Outcome& outcome) const;
  bool estimate(const Built& built, Outcome* outcome) const;
  bool time(const Built& built, int slot, Outcome* outcome);
  bool parse_times(const std::string& payload, double wall_s, Outcome* outcome);
  bool run_and_check(int slot, int set, Outcome* outcome);
  bool run_on_others(int slot, Outcome* outcome);
  bool check(int slot, int set, Outcome* outcome);
  bool weighed_from_outside(int slot, Outcome* outcome);
  void settle(Outcome* outcome);
  bool compare(const std::vector<Built>& built, const std::vector<int>& slots, int rounds,
               std::vector<Outcome>* outcomes);
  void find_culprit(const std::vector<Built>& built, const std::vector<int>& slots, int rounds,
                    const Answer& end, std::vector<Outcome>* outcomes);
  Answer take_samples(const std::vector<int>& slots, int rounds, std::vector<Outcome>* outcomes);
  double call_limit_s(double incumbent_us) const;
  Environment environment(const Outcome& outcome, const std::optional<Limits>& limits) const;
  std::optional<Limits> limits_now() const;

  Zygote* zygote_;
  const Workbench* bench_;
  WorkerLink measurer_;
  double least_us_;  // nothing is faster
  Hygiene hygiene_;
  std::string isolation_;  // JSON
  // Of the last timed request.
  TimedUsage usage_;
  std::vector<std::pair<std::string, double>> counters_;
  std::vector<std::vector<std::byte>> expected_;  // whole outputs for kIntegers; empty: unknown
  std::vector<WholeScale> scales_;
  std::map<int, double> growth_;  // of the errors of each slot's kernel
  double best_us_ = std::numeric_limits<double>::infinity();  // verified, of an exact clock
  bool points_known_ = false;
  std::string oracle_problem_;  // why an oracle is missing; goes into the environment
};

}  // namespace lw
