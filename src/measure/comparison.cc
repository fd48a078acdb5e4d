// Finalists, compared with each other: round by round, one sample of each. Who is believed of a
// comparison is judged as of a single measurement: verified before it is timed, and after it verified
// and weighed again, by this process.
#include <algorithm>

#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/measure/measure_client.h"
#include "src/measure/workers/judgement.h"

namespace lw {

// What finalists are judged by, of the same minute where it is measured. A device that computes its
// times has counted its own bounds.
std::optional<Limits> MeasureClient::limits_now() const {
  if (clock() == Clock::kExact) return std::nullopt;
  // Of what this processor's own instructions do not run, no rate can be measured here.
  const bool nominal =
      clock() == Clock::kNone || bench_->driver.elsewhere || !bench_->driver.weighed;
  const std::vector<int> mine = allowed_cpus();
  pin_to(bench_->measuring);
  const Work work = count_work(*bench_->program);
  const int units = bench_->driver.units > 0 ? bench_->driver.units : bench_->options.threads;
  const absl::StatusOr<Limits> limits =
      nominal
          ? nominal_limits(*bench_->program, work, *bench_->target, units)
          : measure_limits(*bench_->program, work, *bench_->target, bench_->options.threads);
  pin_to(mine);
  return limits.ok() ? std::optional(*limits) : std::nullopt;
}

std::vector<Outcome> MeasureClient::interleave(const std::vector<Built>& built, int rounds) {
  std::vector<Outcome> outcomes;
  if (clock() != Clock::kSampled) {        // nobody's time depends on when it is taken
    const std::optional<Limits> limits = limits_now();
    for (const Built& one : built) outcomes.push_back(measure(one, /*verify=*/true, limits));
    return outcomes;
  }
  for (const Built& one : built) {
    Outcome& outcome = outcomes.emplace_back();
    outcome.ticket = one.candidate.ticket;
    outcome.build_s = one.build_s;
  }
  usage_ = TimedUsage();
  const bool here = !bench_->driver.elsewhere;
  if (here) hygiene_.begin(measurer_.pid());  // finalists are compared with each other, however slow it is
  measurer_.ask(kUnloadAll, "", kLoadTimeout, "unloading");
  for (bool over = false; !over;) {
    std::vector<int> slots;
    for (size_t i = 0; i < built.size(); ++i) {
      if (outcomes[i].verdict == Verdict::kOk) slots.push_back(static_cast<int>(i));
    }
    over = slots.empty() || compare(built, slots, rounds, &outcomes);
  }
  if (here) hygiene_.end(measurer_.pid());
  const std::optional<Limits> limits = limits_now();
  for (Outcome& outcome : outcomes) outcome.environment = to_json(environment(outcome, limits));
  measurer_.ask(kUnloadAll, "", kLoadTimeout, "unloading");
  return outcomes;
}

// False: one of them failed, and whoever is left is to be compared anew, in another process: what it
// left behind in this one is nobody else's fault.
bool MeasureClient::compare(const std::vector<Built>& built, const std::vector<int>& slots,
                            int rounds, std::vector<Outcome>* outcomes) {
  const auto failed = [&](int slot) {
    Outcome& outcome = (*outcomes)[static_cast<size_t>(slot)];
    if (outcome.verdict == Verdict::kOk) return false;
    forget_times(&outcome);
    measurer_.stop();
    return true;
  };
  for (int slot : slots) {
    Outcome& outcome = (*outcomes)[static_cast<size_t>(slot)];
    const Built& one = built[static_cast<size_t>(slot)];
    if (load(one, slot, &outcome) && compile(slot, &outcome)) run_and_check(slot, kUniform, &outcome);
    if (failed(slot)) return false;
  }
  const Answer answer = take_samples(slots, rounds, outcomes);
  if (!answer.ok) {
    find_culprit(built, slots, rounds, answer, outcomes);
    return false;
  }
  // As after any timing: each must still compute, at what it claims to cost.
  for (int slot : slots) {
    Outcome& outcome = (*outcomes)[static_cast<size_t>(slot)];
    if (weighed_from_outside(slot, &outcome) && run_on_others(slot, &outcome)) {
      outcome.verified = points_known_;
    }
    if (failed(slot)) return false;
  }
  for (int slot : slots) settle(&(*outcomes)[static_cast<size_t>(slot)]);
  return true;
}

// The process that ran them has ended, or answered what cannot be. What it wrote down of that any of
// them may have written, so each is tried alone, in a process of its own; where none fails so, none is
// charged.
void MeasureClient::find_culprit(const std::vector<Built>& built, const std::vector<int>& slots,
                                 int rounds, const Answer& end, std::vector<Outcome>* outcomes) {
  const auto charge = [&](int slot, const Answer& answer) {
    Outcome& outcome = (*outcomes)[static_cast<size_t>(slot)];
    fail(answer, &outcome);
    forget_times(&outcome);
  };
  measurer_.stop();
  if (slots.size() == 1) return charge(slots[0], end);
  bool found = false;
  for (int slot : slots) {
    found |= !compare(built, {slot}, rounds, outcomes);
    measurer_.stop();
  }
  if (found) return;
  const std::string detail = end.detail + " several kernels, none of which does so alone";
  for (int slot : slots) charge(slot, {false, Verdict::kWorkerLost, detail, ""});
}

// In turns. Not OK: they ended their process, or took too long.
Answer MeasureClient::take_samples(const std::vector<int>& slots, int rounds,
                                   std::vector<Outcome>* outcomes) {
  TimingPlan plan;
  plan.cold = bench_->options.cache == Cache::kCold;
  plan.min_sample_s = 1e-3;
  Writer request;
  request.put<int32_t>(static_cast<int32_t>(slots.size()));
  for (int slot : slots) request.put<int32_t>(slot);
  request.put<int32_t>(rounds).put(plan);
  const double n = static_cast<double>(slots.size());
  const double begin = now();
  Answer answer = measurer_.ask(kInterleave, request.bytes(),
                                n * rounds * bench_->options.run_timeout_s, "comparing");
  const double wall_s = now() - begin;
  if (!answer.ok) return answer;
  Reader reader(answer.payload);
  double sum_s = 0;
  bool plausible = true;
  for (int slot : slots) {
    Samples samples = get_samples(&reader);
    plausible = plausible && samples.us.size() == static_cast<size_t>(rounds);
    samples.us.resize(static_cast<size_t>(rounds));
    for (double us : samples.us) {
      plausible = plausible && us > 0 && us >= least_us_ && samples.inner >= 1;
      sum_s += us * 1e-6 * static_cast<double>(samples.inner);
    }
    Outcome& outcome = (*outcomes)[static_cast<size_t>(slot)];
    outcome.inner = samples.inner;
    outcome.samples_us = std::move(samples.us);
    summarize(&outcome);
    outcome.measure_s = wall_s / n;
    usage_ = samples.usage;
  }
  plausible = plausible && reader.ok() && sum_s <= wall_s;
  if (plausible) return answer;
  return {false, Verdict::kDeviceUnhealthy, "samples do not add up", ""};
}

}  // namespace lw
