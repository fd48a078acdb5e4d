// Finalists, compared with each other: round by round, one sample of each.
#include <algorithm>

#include "src/base/parallel_pool.h"
#include "src/measure/judgement.h"
#include "src/measure/limits.h"
#include "src/measure/measure_client.h"

namespace lw {

// Finalists carry what they are judged by, measured in the same minute.
void MeasureClient::note_limits(std::vector<Outcome>* outcomes) {
  const std::vector<int> mine = allowed_cpus();
  pin_to(bench_->measuring);
  const Work work = count_work(bench_->program);
  const absl::StatusOr<Limits> limits =
      bench_->emulator
          ? nominal_limits(bench_->program, work, bench_->target, bench_->options.threads)
          : measure_limits(bench_->program, work, bench_->target, bench_->options.threads);
  pin_to(mine);
  if (!limits.ok()) return;
  const std::string facts = "," + limits_members(*limits) + "}";
  for (Outcome& outcome : *outcomes) {
    outcome.environment.replace(outcome.environment.size() - 1, 1, facts);
  }
}

std::vector<Outcome> MeasureClient::interleave(const std::vector<Built>& built, int rounds) {
  std::vector<Outcome> outcomes(built.size());
  usage_ = TimedUsage();
  hygiene_.begin(measurer_.pid());  // finalists are compared with each other, however slow it is
  measurer_.ask(kUnloadAll, "", kLoadTimeout, "unloading");
  // A crash takes the process and all that is loaded: charge it to its author, begin again without.
  bool again = true;
  while (again) {
    again = false;
    std::vector<int> slots;
    for (size_t i = 0; i < built.size() && !again; ++i) {
      outcomes[i].ticket = built[i].candidate.ticket;
      outcomes[i].build_s = built[i].build_s;
      if (outcomes[i].verdict != Verdict::kOk) continue;
      const int slot = static_cast<int>(i);
      const bool timed = !bench_->emulator || estimate_only(built[i], &outcomes[i]);
      if (timed && load(built[i], slot, &outcomes[i]) &&
          run_and_check(slot, kUniform, &outcomes[i]) && run_on_others(slot, &outcomes[i])) {
        outcomes[i].verified = points_known_;
        slots.push_back(slot);
      } else {
        again = outcomes[i].verdict != Verdict::kWrongResult;
      }
    }
    if (bench_->emulator) continue;
    if (!again && !slots.empty()) again = !compare_samples(slots, rounds, &outcomes);
  }
  hygiene_.end(measurer_.pid());
  for (Outcome& outcome : outcomes) outcome.environment = environment(outcome);
  note_limits(&outcomes);
  measurer_.ask(kUnloadAll, "", kLoadTimeout, "unloading");
  return outcomes;
}

// False: somebody crashed and has been charged.
bool MeasureClient::compare_samples(const std::vector<int>& slots, int rounds,
                                    std::vector<Outcome>* outcomes) {
  TimingPlan plan;
  plan.cold = bench_->options.cache == "cold";
  plan.min_sample_s = 1e-3;
  Writer request;
  request.put<int32_t>(static_cast<int32_t>(slots.size()));
  for (int slot : slots) request.put<int32_t>(slot);
  request.put<int32_t>(rounds).put(plan);
  const double n = static_cast<double>(slots.size());
  const double begin = now();
  const Answer answer = measurer_.ask(kInterleave, request.bytes(),
                                      n * rounds * bench_->options.run_timeout_s, "comparing");
  const double wall_s = now() - begin;
  if (!answer.ok) {
    const int culprit = bench_->control_page(0)->slot;
    const bool known = std::count(slots.begin(), slots.end(), culprit) > 0;
    fail(answer, &(*outcomes)[static_cast<size_t>(known ? culprit : slots[0])]);
    return false;
  }
  Reader reader(answer.payload);
  double sum_s = 0;
  bool plausible = true;
  for (int slot : slots) {
    Outcome& outcome = (*outcomes)[static_cast<size_t>(slot)];
    outcome.inner = reader.get<int64_t>();
    outcome.samples_us.resize(static_cast<size_t>(rounds));
    for (double& us : outcome.samples_us) {
      us = reader.get<double>();
      plausible = plausible && us > 0 && us >= least_us_ && outcome.inner >= 1;
      sum_s += us * 1e-6 * static_cast<double>(outcome.inner);
    }
    summarize(&outcome);
    outcome.measure_s = wall_s / n;
  }
  usage_ = reader.get<TimedUsage>();
  plausible = plausible && reader.ok() && sum_s <= wall_s;
  for (int slot : slots) {
    Outcome& outcome = (*outcomes)[static_cast<size_t>(slot)];
    if (!plausible) forged("samples do not add up", &outcome);
    if (plausible) settle(&outcome);
  }
  if (!plausible) measurer_.stop();
  return true;
}

}  // namespace lw
