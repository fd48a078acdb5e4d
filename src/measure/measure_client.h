// The parent's view of measuring: one measurer process, the two oracles, and the verdict.
#pragma once

#include <functional>
#include <map>
#include <string>
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
  std::string artifact;  // artifact_bytes()
  double build_s = 0;
};

// Thread-compatible. `zygote` and `bench` outlive it.
class MeasureClient {
 public:
  MeasureClient(Zygote* zygote, const Workbench* bench);

  // Before anything is measured: fills the inputs, evaluates the points, and runs the reference
  // that `reference` waits for (its artifact; "" if there is none). Deadlines are the options'
  // budgets.
  void prepare(const std::function<std::string()>& reference);

  Outcome measure(const Built& built);
  // Outcome i for built[i]: all loaded at once, samples taken in turn.
  std::vector<Outcome> interleave(const std::vector<Built>& built, int rounds);

 private:
  static constexpr double kLoadTimeout = 10;

  void in_preparers(const std::function<void(WorkerLink&, int index, int count)>& work);
  void interpret_whole();
  void run_reference(const std::string& artifact);
  bool load(const Built& built, int slot, Outcome* outcome);
  bool estimate_only(const Built& built, Outcome* outcome) const;
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
  Environment environment(const Outcome& outcome) const;
  std::optional<Limits> limits_now() const;

  Zygote* zygote_;
  const Workbench* bench_;
  WorkerLink measurer_;
  double least_us_;  // nothing is faster
  Hygiene hygiene_;
  std::string isolation_;  // JSON
  TimedUsage usage_;       // of the last timed request
  std::vector<std::vector<std::byte>> expected_;  // whole outputs for kIntegers; empty: unknown
  std::vector<WholeScale> scales_;
  std::map<int, double> growth_;  // of the errors of each slot's kernel
  bool points_known_ = false;
  std::string oracle_problem_;  // why an oracle is missing; goes into the environment
};

}  // namespace lw
