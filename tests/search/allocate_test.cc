// One budget for many workloads: exact, deterministic, and better spent than in equal parts.
#include "src/search/allocate.h"

#include <cmath>

#include "cost_model/trees/learned.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/search/null_measurer.h"
#include "src/search/suite.h"

namespace lw {
namespace {

Measurement row(double us, double seconds, Verdict verdict = Verdict::kOk) {
  Measurement m;
  m.verdict = verdict;
  m.source = "draft";
  m.build_s = seconds;
  if (verdict == Verdict::kOk) m.time_us = us, m.samples_us = {us}, m.verified = true;
  return m;
}

// A workload whose best falls as scale · (floor + n^-slope), each trial taking `seconds`.
struct Simulated {
  double scale, floor, slope, seconds;
  double time_us(int n) const { return scale * (floor + std::pow(n, -slope)); }
};

void advance(const Simulated& simulated, WorkloadState& state, int trials) {
  for (int i = 0; i < trials; ++i)
    record(state, row(simulated.time_us(state.trials + 1), simulated.seconds));
}

double objective(const std::vector<WorkloadState>& states) {
  double sum = 0;
  for (const WorkloadState& state : states) sum += state.weight * state.best_us;
  return sum;
}

// Spends the budget by choose(), at most a batch at a time. Returns the choices.
std::vector<int> spend(const std::vector<Simulated>& workloads, const SharedBudget& budget,
                       const AllocateOptions& options, std::vector<WorkloadState>& states) {
  std::vector<int> choices;
  const auto elapsed = [&] {
    double sum = 0;
    for (const WorkloadState& state : states) sum += state.seconds;
    return sum;
  };
  int current = -1;
  while ((current = choose(states, budget, elapsed(), current, options)) >= 0) {
    choices.push_back(current);
    const int64_t trials = std::min<int64_t>(options.batch, trials_left(states, budget));
    advance(workloads[current], states[current], static_cast<int>(trials));
    if (choices.size() > 10000) break;
  }
  return choices;
}

const std::vector<Simulated>& unequal() {
  static const std::vector<Simulated> workloads = {
      {10000, 0.2, 0.7, 0.08}, {50, 0.3, 0.5, 0.02},  {3000, 0.9, 1.5, 0.05},
      {200, 0.1, 0.9, 0.02},   {6000, 0.05, 0.3, 0.1}};
  return workloads;
}

TEST(Record, TimesOfOtherKindsDoNotCount) {
  WorkloadState state;
  record(state, row(100, 1));
  const WorkloadState before = state;
  Measurement estimate = row(1, 1);
  estimate.time_kind = TimeKind::kEstimated;
  record(state, estimate);
  EXPECT_EQ(state.best_us, 100);
  EXPECT_EQ(state.trials, before.trials);
  EXPECT_EQ(state.seconds, before.seconds);
  state.time_kind = TimeKind::kEstimated;
  state.best_us = 0;
  record(state, estimate);
  EXPECT_EQ(state.best_us, 1);
}

TEST(Allocate, SpendsTheTrialsExactlyAndTheSameWayEachTime) {
  AllocateOptions options;
  options.flat_windows = 0;
  for (int64_t trials : {1, 15, 100, 483}) {
    SharedBudget budget;
    budget.trials = trials;
    std::vector<WorkloadState> states(5), again(5);
    const std::vector<int> choices = spend(unequal(), budget, options, states);
    EXPECT_EQ(choices, spend(unequal(), budget, options, again));
    int64_t spent = 0;
    for (const WorkloadState& state : states) spent += state.trials;
    EXPECT_EQ(spent, trials);
  }
}

TEST(Allocate, CountsWhatIsInFlight) {
  SharedBudget budget;
  budget.trials = 20;
  std::vector<WorkloadState> states(2);
  states[0].in_flight = 16;
  states[0].best_us = states[0].first_us = 1, states[0].seconds = 1;
  EXPECT_EQ(trials_left(states, budget), 4);
  EXPECT_EQ(choose(states, budget, 0, -1, {}), 1) << "a round for everybody first";
  states[1].in_flight = 4;
  EXPECT_EQ(choose(states, budget, 0, 0, {}), -1);
}

TEST(Allocate, SecondsEndIt) {
  SharedBudget budget;
  budget.seconds = 10;
  std::vector<WorkloadState> states(2);
  EXPECT_GE(choose(states, budget, 9.9, -1, {}), 0);
  EXPECT_EQ(choose(states, budget, 10, -1, {}), -1);
}

TEST(Allocate, BeatsEqualPartsOfTheSeconds) {
  const std::vector<Simulated>& workloads = unequal();
  SharedBudget budget;
  budget.seconds = 60;
  std::vector<WorkloadState> chosen(workloads.size()), equal(workloads.size());
  spend(workloads, budget, {}, chosen);
  for (size_t i = 0; i < workloads.size(); ++i) {
    while (equal[i].seconds < budget.seconds / static_cast<double>(workloads.size()))
      advance(workloads[i], equal[i], 1);
  }
  EXPECT_LT(objective(chosen), 0.95 * objective(equal));
}

TEST(Allocate, ADeadWorkloadIsGivenUp) {
  AllocateOptions options;
  std::vector<WorkloadState> states(2);
  advance(unequal()[0], states[0], options.batch);
  for (int i = 0; i < options.warm_up * options.batch; ++i) {
    EXPECT_EQ(choose(states, {}, 0, 1, options), 1);
    record(states[1], row(0, 0.01, Verdict::kCrash));
  }
  EXPECT_TRUE(is_dead(states[1], options));
  EXPECT_EQ(states[1].failed, options.warm_up * options.batch);
  EXPECT_EQ(choose(states, {}, 0, 1, options), 0);
}

TEST(Allocate, ThreeFlatWindowsStopAWorkload) {
  AllocateOptions options;
  const int window = options.window * options.batch;
  WorkloadState state;
  advance({100, 0, 0.5, 0.01}, state, window);
  const double best = state.best_us;
  for (int i = 0; i < 3 * window; ++i) {
    EXPECT_FALSE(has_stopped(state, options)) << i;
    record(state, row(best, 0.01));
  }
  EXPECT_TRUE(has_stopped(state, options));
  EXPECT_EQ(choose({state}, {}, 0, -1, options), -1);
  record(state, row(0.9 * best, 0.01));
  EXPECT_FALSE(has_stopped(state, options));
}

// They have no noise: small gains count, and there is time for more trials.
TEST(Allocate, SimulatedTimesStopLater) {
  AllocateOptions options;
  const int window = options.window * options.batch;
  WorkloadState state;
  state.time_kind = TimeKind::kSimulated;
  const auto simulated = [](double us) {
    Measurement m = row(us, 0.01);
    m.time_kind = TimeKind::kSimulated;
    return m;
  };
  for (int i = 0; i < window; ++i) record(state, simulated(100));
  for (int i = 0; i < 10 * window; ++i) {
    EXPECT_FALSE(has_stopped(state, options)) << i;
    record(state, simulated(i < window ? 99.8 : 99.79));
  }
  EXPECT_FALSE(has_stopped(state, options)) << "the first of ten windows gained 0.2 %";
  for (int i = 0; i < window; ++i) record(state, simulated(99.79));
  EXPECT_TRUE(has_stopped(state, options));
}

TEST(Allocate, WhatIsAskedForAgainGetsAWindowHoweverFlatItWas) {
  AllocateOptions options;
  const int window = options.window * options.batch;
  WorkloadState state;
  advance({100, 0, 0.5, 0.01}, state, window);
  const double best = state.best_us;
  for (int i = 0; i < 4 * window; ++i) record(state, row(best, 0.01));
  ASSERT_TRUE(has_stopped(state, options));
  state.resumed = state.trials;
  for (int i = 0; i < window; ++i) {
    EXPECT_FALSE(has_stopped(state, options)) << i;
    EXPECT_EQ(choose({state}, {}, 0, -1, options), 0);
    record(state, row(best, 0.01));
  }
  EXPECT_TRUE(has_stopped(state, options));
}

TEST(Allocate, FollowsFromTheRowsAlone) {
  std::vector<WorkloadState> states(5);
  SharedBudget budget;
  budget.trials = 300;
  spend(unequal(), budget, {}, states);
  for (size_t i = 0; i < states.size(); ++i) {
    WorkloadState rebuilt;
    advance(unequal()[i], rebuilt, states[i].trials);
    EXPECT_EQ(rebuilt.seconds, states[i].seconds);
    states[i] = rebuilt;
  }
  budget.trials = 400;
  std::vector<WorkloadState> whole(5);
  const std::vector<int> all = spend(unequal(), budget, {}, whole);
  const std::vector<int> rest = spend(unequal(), budget, {}, states);
  EXPECT_LT(rest.size(), all.size());
  EXPECT_NEAR(objective(states), objective(whole), 0.03 * objective(whole));
}

TEST(Allocate, WeightSimilarityRooflineAndSwitchesCount) {
  const Simulated plain{1000, 0.2, 0.5, 0.05};
  std::vector<WorkloadState> states(3);
  for (WorkloadState& state : states) advance(plain, state, 64);
  const auto gain = [&](int i, int current = 0) { return expected_gain(states, i, current, {}); };
  EXPECT_EQ(gain(0), gain(1));
  states[1].weight = 3;
  EXPECT_NEAR(gain(1), 3 * gain(0), 1e-9 * gain(1));
  states[1].weight = 1;
  states[1].bound_us = 0.95 * states[1].best_us;
  EXPECT_LT(gain(1), 0.5 * gain(0)) << "near the roofline";
  const double alone = gain(2);
  states[2].bound_us = 0.05 * states[2].best_us;
  states[1].group = states[2].group = "matmul";
  EXPECT_GT(gain(2), 1.5 * alone) << "a similar one attains far more";
  states[0].switch_s = 1;
  EXPECT_LT(gain(0, 1), gain(0, 0));
}

// ---- a study with the null measurer -------------------------------------------------------------

SuiteItem item_of(Program loaded, Store& store, int* made) {
  auto program = std::make_shared<const Program>(std::move(loaded));
  auto target = std::make_shared<const Target>(*find_target("x86_avx512"));
  SuiteItem item;
  item.start = make_nest(program, target, 1);
  WorkloadRow workload;
  workload.id = workload_id(*program);
  workload.name = program->name;
  workload.canonical_text = canonical_text(*program);
  workload.structure = sha256(program->name);
  item.key.workload = workload.id;
  item.key.target = sha256(to_text(*target));
  item.key.backend = "null";
  CHECK(store.put_workload(workload).ok() && store.put_target(item.key.target, *target).ok());
  item.model = make_xgboost_model();
  item.bytes = 1;
  item.make_measurer = [made]() -> absl::StatusOr<std::unique_ptr<Measurer>> {
    ++*made;
    return make_null_measurer({});
  };
  return item;
}

std::vector<SuiteItem> study(Store& store, int* made) {
  std::vector<SuiteItem> items;
  for (const char* size : {"32", "48", "96", "256"}) {
    items.push_back(
        item_of(*load_workload({"matmul", concat("M=", size), "N=64", "K=64"}), store, made));
  }
  return items;
}

SuiteOptions suite_options(int trials, double* clock) {
  SuiteOptions options;
  options.search.trials = trials;
  options.search.seconds = 1000;
  options.search.batch = 8;
  options.search.drafts = 150;
  options.now = [clock] { return *clock += 1e-4; };
  return options;
}

struct Study {
  std::unique_ptr<Store> store = make_memory_store();
  std::vector<TuneResult> results;
  std::vector<Key> keys;
  double clock = 0;
  int made = 0;

  // `stop_after`: acknowledged batches.
  absl::Status run(int trials, int stop_after = -1, int64_t memory_bytes = 100) {
    std::vector<SuiteItem> items = study(*store, &made);
    SuiteOptions options = suite_options(trials, &clock);
    options.search.stop = Stop::on_request();
    keys.clear();
    for (SuiteItem& item : items) {
      keys.push_back(item.key);
      item.progress = [&stop_after, stop = options.search.stop](const TuneProgress&) {
        if (--stop_after == 0) stop.request();
      };
    }
    if (stop_after == 0) options.search.stop.request();
    options.memory_bytes = memory_bytes;
    ASSIGN_OR_RETURN(results, tune_suite(std::move(items), *store, options));
    return absl::OkStatus();
  }
  int trials() const {
    int sum = 0;
    for (const TuneResult& result : results) sum += result.trials;
    return sum;
  }
  double sum_us() const {
    double sum = 0;
    for (const TuneResult& result : results) sum += result.best.measurement.time_us;
    return sum;
  }
  std::vector<std::string> traces() const {
    std::vector<std::string> all;
    for (const Key& key : keys) {
      const std::vector<Measurement> rows = *store->measurements(key);
      for (const Measurement& m : rows) all.push_back(m.source + m.trace);
    }
    return all;
  }
};

TEST(Suite, SharesTheTrialsExactlyAndMeasuresEachOnesFinalists) {
  Study a, b;
  ASSERT_TRUE(a.run(30).ok());
  ASSERT_TRUE(b.run(30).ok());
  EXPECT_EQ(a.trials(), 120);
  EXPECT_EQ(a.traces(), b.traces());
  EXPECT_EQ(a.made, 4) << "measurers are kept while memory allows";
  for (const TuneResult& result : a.results) {
    EXPECT_GE(result.trials, 8);
    EXPECT_GT(result.zero_us, 0);
    EXPECT_TRUE(result.best.measurement.verified);
    EXPECT_FALSE(result.interrupted);
  }
  for (const Key& key : a.keys) {
    const std::vector<Measurement> rows = *a.store->measurements(key);
    EXPECT_EQ(rows.back().source, "finalist");
  }
  EXPECT_GT(a.results[3].trials, a.results[0].trials) << "the large one gives more";

  Study c;
  ASSERT_TRUE(c.run(30, -1, 1).ok());
  EXPECT_GT(c.made, 4);
  EXPECT_EQ(c.trials(), 120);
}

TEST(Suite, GoesOnAfterInterruptions) {
  Study study;
  for (int life = 0; life < 4; ++life) {
    ASSERT_TRUE(study.run(20, life).ok());
    EXPECT_LE(study.trials(), 80);
    EXPECT_EQ(study.results[0].interrupted, true);
  }
  ASSERT_TRUE(study.run(20).ok());
  EXPECT_EQ(study.trials(), 80);
  const size_t rows = study.traces().size();
  const int made = study.made;
  ASSERT_TRUE(study.run(20).ok());
  EXPECT_EQ(study.traces().size(), rows) << "a finished suite returns at once";
  EXPECT_EQ(study.made, made);
  ASSERT_TRUE(study.run(0).ok());
  EXPECT_EQ(study.traces().size(), rows);
}

// Each alone with an equal part: what going round would give them.
double sum_of_equal_parts(int trials) {
  double sum = 0, clock = 0;
  for (size_t i = 0; i < 4; ++i) {
    Study equal;
    SuiteItem item = std::move(study(*equal.store, &equal.made)[i]);
    auto measurer = make_null_measurer({});
    TuneHooks hooks;
    hooks.now = [] { return 0.0; };
    const SearchOptions options = suite_options(trials, &clock).search;
    const absl::StatusOr<TuneResult> result =
        tune(item.start, item.key, *equal.store, *measurer, options, std::move(item.model), hooks);
    CHECK(result.ok() && result->trials == trials);
    sum += result->best.measurement.time_us;
  }
  return sum;
}

TEST(Suite, BeatsEqualPartsOfTheTrials) {
  double shared_us = 0, equal_us = 0;      // over several budgets: one may be a matter of luck
  for (int trials : {12, 20, 32}) {
    Study shared;
    ASSERT_TRUE(shared.run(trials).ok());
    EXPECT_EQ(shared.trials(), 4 * trials);
    shared_us += shared.sum_us();
    equal_us += sum_of_equal_parts(trials);
  }
  EXPECT_LT(shared_us, equal_us);
}

// Two stages read all of P, which is larger than any workspace: no schedule can be lowered.
constexpr char kTooLarge[] =
    "op large() {\n  in A: f32[40000, 2]\n  in B: f32[2, 40000]\n"
    "  P[i: 40000, j: 40000] = sum[k: 2](A[i, k] * B[k, j])\n"
    "  a[i: 40000] = sum[j: 40000](P[i, j])\n"
    "  out C[i: 40000] = sum[j: 40000](P[j, i] * a[j])\n}\n";

TEST(Suite, GoesOnPastWhatEndsOneWorkload) {
  auto store = make_memory_store();
  double clock = 0;
  int made = 0;
  std::vector<SuiteItem> items = study(*store, &made);
  items[0].make_measurer = []() -> absl::StatusOr<std::unique_ptr<Measurer>> {
    return absl::UnavailableError("no worker starts");
  };
  items[2] = item_of(*parse_program(kTooLarge, "large.te"), *store, &made);
  const auto results = tune_suite(std::move(items), *store, suite_options(30, &clock));
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 4u);
  EXPECT_EQ((*results)[0].failure, absl::UnavailableError("no worker starts"));
  EXPECT_TRUE(absl::IsNotFound((*results)[2].failure)) << (*results)[2].failure;
  for (const int i : {1, 3}) {
    EXPECT_TRUE((*results)[i].failure.ok());
    EXPECT_TRUE((*results)[i].best.measurement.verified);
  }
  EXPECT_EQ((*results)[1].trials + (*results)[3].trials, 120) << "they have the others' trials";
}

TEST(Suite, StopsWhenTheSecondsAreOver) {
  auto store = make_memory_store();
  double clock = 0;
  int made = 0;
  SuiteOptions options = suite_options(100000, &clock);
  options.search.seconds = 0.5;
  options.now = [&] { return clock += 0.01; };
  const auto results = tune_suite(study(*store, &made), *store, options);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_LT(clock, 4);
  EXPECT_FALSE((*results)[0].interrupted);
}

}  // namespace
}  // namespace lw
