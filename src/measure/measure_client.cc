// Measuring and judging one candidate, seen from the parent. The measurer's process runs the kernel
// and takes the samples; everything that decides stands here, where no kernel can write: the wall
// time around each request, the statistics, the oracles' values and the verdict. The outputs are
// read where the kernel wrote them, in shared memory.
//
// After the timed calls the outputs hold the result for the uniform inputs, so the first oracle
// costs a look at about 4,096 elements (60 us) and every candidate gets it. Only one that is to be
// believed runs once more, on small integers in other places, and is compared as a whole, and once
// on the edges of numbers.
#include "src/measure/measure_client.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loopwright/program.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/expr/work/work.h"
#include "src/kernel/kernel.h"
#include "src/measure/judge/plausible.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/workers/judgement.h"
#include "src/search/retry.h"

namespace lw {
namespace {

constexpr double kSetupTimeout = 120;  // filling inputs: far more than any size takes
constexpr int kCallsOutside = 5;
constexpr uint64_t kRunOneOf = 100;     // of those that need not be run
constexpr size_t kMostSamples = 1000;   // more have not been asked for
constexpr double kInterpretedOperations =
    2e7;  // above this the interpreter is too slow for all points

std::string slot_request(int slot) { return Writer().put<int32_t>(slot).bytes(); }

}  // namespace

MeasureClient::MeasureClient(Zygote* zygote, const Workbench* bench)
    : zygote_(zygote),
      bench_(bench),
      measurer_(zygote, bench, kMeasurer),
      least_us_(impossible_below_us(*bench->program, *bench->target, bench->options.threads)),
      hygiene_(bench->options.hygiene, bench->measuring, zygote->isolation().missing()),
      isolation_(zygote->isolation().json()) {}

// Runs `work` in one preparer process per processor, side by side.
void MeasureClient::in_preparers(const std::function<void(WorkerLink&, int, int)>& work) {
  std::vector<int> cpus = bench_->building;
  if (bench_->parted()) cpus.insert(cpus.end(), bench_->measuring.begin(), bench_->measuring.end());
  const int count = std::min<int>(static_cast<int>(cpus.size()), 8);
  std::vector<std::thread> threads;
  for (int p = 0; p < count; ++p) {
    threads.emplace_back([&, p] {
      WorkerLink link(zygote_, bench_, kPreparer);
      work(link, p, count);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void MeasureClient::prepare(const std::function<std::string()>& reference) {
  in_preparers([](WorkerLink& link, int p, int count) {
    for (int set = p; set < kInputSets; set += count) {
      link.ask(kFill, slot_request(set), kSetupTimeout, "filling the inputs");
    }
  });
  // The points and the reference kernel, side by side.
  const double budget = bench_->options.oracle_budget_s;
  std::thread points([&] {
    in_preparers([&](WorkerLink& link, int p, int count) {
      for (int set = 0; set < kInputSets; ++set) {
        const int64_t n = static_cast<int64_t>(bench_->points[set].size());
        Writer request;
        request.put<int32_t>(set)
            .put<int64_t>(n * p / count)
            .put<int64_t>(n * (p + 1) / count)
            .put(budget);
        link.ask(kEvaluate, request.bytes(), budget + 5, "evaluating the points");
      }
    });
  });
  const std::string artifact = reference();
  for (int tries = 0; !artifact.empty() && tries < kMeasurerTries; ++tries) {
    if (!is_retried(run_reference(artifact))) break;
  }
  points.join();
  if (expected_.empty() && count_flops(*bench_->program).counted <= kInterpretedOperations) {
    interpret_whole();
  }
  points_known_ = count_known(*bench_, kUniform) > 0 && count_known(*bench_, kIntegers) > 0;
  oracle_problem_ = what_oracle_lacks(*bench_);
  scales_ =
      whole_scales(*bench_->program, bench_->points[kIntegers], bench_->value_table(kIntegers));
  if (expected_.empty()) return;
  std::vector<const std::byte*> data;
  for (const std::vector<std::byte>& e : expected_) data.push_back(e.data());
  const Check agreement = check_points(*bench_->program, data, bench_->points[kIntegers],
                                       bench_->value_table(kIntegers));
  if (agreement.ok) return;
  // One of the two is wrong, which is our bug: trust the simpler one and say so with every result.
  oracle_problem_ =
      absl::StrCat("the reference kernel disagrees with the interpreter: ", agreement.detail);
  expected_.clear();
}

void MeasureClient::interpret_whole() {
  in_preparers([&](WorkerLink& link, int p, int) {
    if (p != 0) return;
    const Answer answer = link.ask(kInterpret, slot_request(kIntegers),
                                   bench_->options.oracle_budget_s, "interpreting");
    if (!answer.ok) return;
    Reader reader(answer.payload);
    for (int t : outputs(*bench_->program)) {
      const std::string bytes_of = reader.get_string();
      if (static_cast<int64_t>(bytes_of.size()) != bytes(bench_->program->tensors[t])) {
        expected_.clear();
        return;
      }
      const std::byte* begin = reinterpret_cast<const std::byte*>(bytes_of.data());
      expected_.emplace_back(begin, begin + bytes_of.size());
    }
  });
}

Verdict MeasureClient::run_reference(const std::string& artifact) {
  Outcome outcome;
  Built built;
  built.artifact = artifact;
  if (load(built, 0, &outcome)) {
    poison_outputs(*bench_);
    const Answer answer =
        measurer_.ask(kRunOnce, Writer().put<int32_t>(0).put<int32_t>(kIntegers).bytes(),
                      std::max(bench_->options.oracle_budget_s,
                               clock() == Clock::kNone || bench_->driver.elsewhere
                                   ? bench_->options.run_timeout_s
                                   : 0),
                      "running the reference kernel");
    if (answer.ok) {
      const std::vector<const std::byte*> data = output_data(*bench_, kIntegers);
      const std::vector<int> out = outputs(*bench_->program);
      for (size_t o = 0; o < out.size(); ++o) {
        expected_.emplace_back(data[o], data[o] + bytes(bench_->program->tensors[out[o]]));
      }
      return Verdict::kOk;
    }
    fail(answer, &outcome);
  }
  oracle_problem_ = absl::StrCat("no reference kernel: ", outcome.detail);
  return outcome.verdict;
}

double MeasureClient::call_limit_s(double incumbent_us) const {
  const double limit = bench_->options.run_timeout_s;
  // (The way there and back may be longer than any call.)
  return incumbent_us <= 0 || bench_->driver.elsewhere ? limit : std::min(limit, 0.5 + 20e-6 * incumbent_us);
}

bool MeasureClient::load(const Built& built, int slot, Outcome* outcome) {
  const Kernel* kernel = built.candidate.kernel.get();  // null: the reference
  growth_[slot] = kernel == nullptr ? 1 : kernel->error_growth;
  const Answer answer =
      measurer_.ask(kLoad, Writer().put<int32_t>(slot).put_string(built.artifact).bytes(),
                    bench_->driver.compiler == nullptr
                        ? kLoadTimeout
                        : std::max(kLoadTimeout, bench_->options.build_timeout_s),
                    "loading");
  return answer.ok || fail(answer, outcome);
}

// What a driver compiles when a kernel is first run is building, and has its time limit.
bool MeasureClient::compile(int slot, Outcome* outcome) {
  if (bench_->driver.compiler == nullptr) return true;
  const Answer answer =
      measurer_.ask(kCompile, slot_request(slot), bench_->options.build_timeout_s, "compiling");
  return answer.ok || fail(answer, outcome);
}

// Where the device has no clock the time is the cost model's.
bool MeasureClient::estimate(const Built& built, Outcome* outcome) const {
  const double us = built.candidate.draft_us;
  if (!(us > 0)) {
    outcome->verdict = Verdict::kBuildError;
    outcome->detail = "no estimate came with the candidate, and an emulator takes no times";
    return false;
  }
  outcome->samples_us = {us};
  summarize(outcome);
  return true;
}

bool MeasureClient::time(const Built& built, int slot, Outcome* outcome) {
  TimingPlan plan;
  plan.incumbent_us = built.candidate.race ? built.candidate.incumbent_us : 0;
  plan.cold = bench_->options.cache == Cache::kCold;
  if (built.candidate.effort > 1) {
    plan.max_samples = 30;
    plan.budget_s = 0.1;
  }
  poison_outputs(*bench_);
  const double limit = call_limit_s(plan.incumbent_us);
  const double begin = now();
  const Answer answer =
      measurer_.ask(kTime, Writer().put<int32_t>(slot).put(plan).bytes(),
                    limit + 12 * plan.budget_s + (plan.cold ? 5 : 0.5), "running");
  if (!answer.ok) return fail(answer, outcome);
  return parse_times(answer.payload, now() - begin, outcome);
}

// The samples come from a process in which a wild kernel may have run: they must fit into the time
// that passed here.
bool MeasureClient::parse_times(const std::string& payload, double wall_s, Outcome* outcome) {
  Reader reader(payload);
  Samples samples = get_samples(&reader);
  double sum_s = 0;
  bool plausible = reader.ok() && samples.inner >= 1 && !samples.us.empty() &&
                   samples.us.size() <= kMostSamples;
  for (double us : samples.us) {
    plausible = plausible && us > 0 && std::isfinite(us);
    sum_s += us * 1e-6 * static_cast<double>(samples.inner);
  }
  // What is computed lasts as long as it says, however long it takes to compute it, and no kernel can
  // forge it.
  const bool sampled = clock() == Clock::kSampled;
  const bool fits = sum_s <= samples.inside_s && samples.inside_s <= wall_s;
  if (!plausible || (sampled && !fits)) {
    return forged(absl::StrFormat("samples of %.6f s in a request of %.6f s", sum_s, wall_s),
                  outcome);
  }
  usage_ = samples.usage;
  counters_ = std::move(samples.counters);
  outcome->inner = samples.inner;
  outcome->samples_us = std::move(samples.us);
  summarize(outcome);
  if (sampled && !(outcome->time_us >= least_us_)) {
    return forged(describe_impossible(outcome->time_us, least_us_), outcome);
  }
  if (samples.raced_out) outcome->detail = "raced out";
  return true;
}

bool MeasureClient::check(int slot, int set, Outcome* outcome) {
  std::string where;
  if (!outputs_intact(*bench_, set, &where)) return wrong("wrote beside " + where, outcome);
  const std::vector<const std::byte*> data = output_data(*bench_, set);
  const double growth = growth_.at(slot);
  const Check points =
      check_points(*bench_->program, data, bench_->points[set], bench_->value_table(set), growth);
  note_error(points, outcome);
  if (!points.ok) return wrong(on_inputs(set, points.detail), outcome);
  if (set != kIntegers) return true;
  const Check whole =
      expected_.empty()
          ? check_written(*bench_->program, data)
          : check_whole(*bench_->program, data, expected_, scales_, growth,
                        appeal_to_oracle(*bench_, set));
  note_error(whole, outcome);
  return whole.ok || wrong(on_inputs(set, whole.detail), outcome);
}

// What only winners are run on; a kernel that errs by whole tiles of inputs not on the edges:
// beside large numbers it promises nothing of small ones.
bool MeasureClient::run_on_others(int slot, Outcome* outcome) {
  return run_and_check(slot, kIntegers, outcome) &&
         (growth_.at(slot) != 1 || run_and_check(slot, kEdges, outcome));
}

bool MeasureClient::run_and_check(int slot, int set, Outcome* outcome) {
  poison_outputs(*bench_);
  const Answer answer =
      measurer_.ask(kRunOnce, Writer().put<int32_t>(slot).put<int32_t>(set).bytes(),
                    bench_->options.run_timeout_s + 1, "running");
  if (answer.ok) return check(slot, set, outcome);
  fail(answer, outcome);
  outcome->detail = on_inputs(set, outcome->detail);
  return false;
}

// Samples are taken by the process that runs the kernel. Before they are believed, single calls are
// weighed from here, each of which must compute the outputs anew: by the processor time that the
// system charges to that process, which neither the kernel nor other processes can change. One that
// reports less than it takes is found out where the difference is more than some 300 us; an honest
// one is believed after its first call.
bool MeasureClient::weighed_from_outside(int slot, Outcome* outcome) {
  // Whose processor time nobody here can see, or that says nothing.
  if (bench_->driver.elsewhere || !bench_->driver.weighed) return true;
  double least_us = 0;
  for (int i = 0; i < kCallsOutside; ++i) {
    poison_outputs(*bench_);
    const double before_us = processor_us(measurer_.pid());
    const Answer answer =
        measurer_.ask(kRunAgain, Writer().put<int32_t>(slot).put<int32_t>(kUniform).bytes(),
                      bench_->options.run_timeout_s + 1, "running");
    if (!answer.ok) return fail(answer, outcome);
    const double us = processor_us(measurer_.pid()) - before_us;
    if (!check(slot, kUniform, outcome)) return false;
    least_us = i == 0 ? us : std::min(us, least_us);
    if (fits_processor_time(outcome->time_us, least_us, bench_->options.threads)) return true;
  }
  return forged(absl::StrFormat("claims %.3g us a call, which costs %.3g us of processor time",
                                outcome->time_us, least_us),
                outcome);
}

// The last word on a candidate: its process has nothing more to say. A kernel that has answered in
// the harness's place is noticed when the harness answers too.
void MeasureClient::settle(Outcome* outcome) {
  if (is_candidates_fault(outcome->verdict) && outcome->verdict != Verdict::kWrongResult) return;
  const Answer answer = measurer_.ask(kUnloadAll, "", kLoadTimeout, "unloading");
  if (answer.ok) return;
  fail(answer, outcome);
  forget_times(outcome);
}

// By a clock that others disturb and a kernel may forge.
void MeasureClient::sample(const Built& built, bool verify, Outcome* outcome) {
  const bool here = !bench_->driver.elsewhere;
  if (here && !hygiene_.begin(measurer_.pid())) {
    outcome->verdict = Verdict::kThrottled;
    outcome->detail = absl::StrFormat("the reference kernel takes %.1f us instead of %.1f us",
                                      hygiene_.reference_us(), hygiene_.baseline_us());
  } else if (load(built, 0, outcome) && compile(0, outcome) && time(built, 0, outcome) &&
             check(0, kUniform, outcome)) {
    if ((verify || outcome->time_us < built.candidate.incumbent_us) &&
        weighed_from_outside(0, outcome) && run_on_others(0, outcome)) {
      outcome->verified = points_known_;
    }
  }
  if (outcome->verdict != Verdict::kThrottled) settle(outcome);
  if (outcome->verdict == Verdict::kDeviceUnhealthy) measurer_.stop();  // it may be the kernel's now
  if (here) hygiene_.end(measurer_.pid());
}

double MeasureClient::run_below_us(const Candidate& candidate) {
  const bool always = candidate.verify || candidate.incumbent_us <= 0 ||
                      hash(*candidate.kernel) % kRunOneOf == 1;
  return always ? std::numeric_limits<double>::infinity() : candidate.incumbent_us;
}

// What is behind its incumbent is not run; nor, where that was not known yet when it was built, what
// is behind the best.
bool MeasureClient::is_run(const Built& built, bool verify, const Outcome& outcome) const {
  if (clock() == Clock::kNone) return verify || outcome.time_us < built.candidate.incumbent_us;
  const double below_us = run_below_us(built.candidate);
  return !built.artifact.empty() && (verify || std::isinf(below_us) ||
                                     outcome.time_us < std::min(below_us, best_us_));
}

// A time that is computed is what it is whatever else runs: nothing is waited for, raced, taken in
// turns or weighed.
void MeasureClient::compute(const Built& built, bool verify, Outcome* outcome) {
  // The device itself says where builders cannot; it has the kernel then.
  const bool asked = clock() == Clock::kExact && bench_->driver.compute == nullptr;
  const bool timed = asked ? load(built, 0, outcome) && time(built, 0, outcome)
                     : clock() == Clock::kExact ? parse_times(built.times, 0, outcome)
                                                : estimate(built, outcome);
  if (timed && is_run(built, verify, *outcome) && (asked || load(built, 0, outcome)) &&
      run_and_check(0, kUniform, outcome) && run_on_others(0, outcome)) {
    outcome->verified = points_known_;
    if (outcome->verified) best_us_ = std::min(best_us_, outcome->time_us);
  }
  if (outcome->verdict != Verdict::kOk) forget_times(outcome);
}

Outcome MeasureClient::measure(const Built& built) {
  const Candidate& candidate = built.candidate;
  return measure(built, candidate.verify || candidate.incumbent_us <= 0, std::nullopt);
}

Outcome MeasureClient::measure(const Built& built, bool verify,
                               const std::optional<Limits>& limits) {
  measurer_.renew();
  Outcome outcome;
  const double begin = now();
  outcome.ticket = built.candidate.ticket;
  outcome.build_s = built.build_s;
  usage_ = TimedUsage();
  counters_.clear();
  if (clock() == Clock::kSampled) sample(built, verify, &outcome);
  else compute(built, verify, &outcome);
  outcome.measure_s = now() - begin;
  outcome.environment = to_json(environment(outcome, limits));
  return outcome;
}

Environment MeasureClient::environment(const Outcome& outcome,
                                       const std::optional<Limits>& limits) const {
  Environment facts;
  facts.threads = bench_->options.threads;
  if (clock() == Clock::kNone) facts.emulator = bench_->driver.stands_in;
  if (clock() == Clock::kExact) facts.simulator = bench_->driver.stands_in;
  if (clock() == Clock::kSampled) facts.board = bench_->driver.stands_in;
  facts.cache = bench_->options.cache;
  facts.cpus = bench_->measuring;
  facts.parted = bench_->parted();
  facts.timer_ns = timer_resolution() * 1e9;
  facts.hygiene = absl::StrCat(hygiene_.json(usage_, outcome.samples_us), ",",
                               hygiene_.constant_json());
  facts.isolation = isolation_;
  facts.counters = counters_;
  facts.oracle = oracle_problem_;
  facts.error = error_json(outcome);
  facts.limits = limits;
  return facts;
}

}  // namespace lw
