// The search with the null measurer: reproducible, resumable, exact, and better than chance.
#include "src/search/search.h"

#include <cmath>
#include <set>

#include "cost_model/trees/learned.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "src/search/null_measurer.h"
#include "src/search/pool.h"
#include "tests/support/parsed_program.h"
#include "tuner_db/store.h"

namespace lw {
namespace {

struct Task {
  Nest start;
  Key key;
  WorkloadRow row;

  explicit Task(const std::vector<std::string>& words,
                const std::string& target_name = "x86_avx512") {
    absl::StatusOr<Program> loaded = load_workload(words);
    CHECK(loaded.ok());
    auto program = std::make_shared<const Program>(*std::move(loaded));
    auto target = std::make_shared<const Target>(*find_target(target_name));
    start = make_nest(program, target, 1);
    row.id = workload_id(*program);
    row.name = program->name;
    row.canonical_text = canonical_text(*program);
    row.structure = sha256(program->name);
    for (const Tensor& tensor : program->tensors) {
      for (int64_t extent : tensor.shape) row.shape.push_back(extent);
    }
    key.workload = row.id;
    key.target = sha256(to_text(*target));
    key.backend = "null";
  }

  void put(Store& store) const {
    ASSERT_TRUE(store.put_workload(row).ok());
    ASSERT_TRUE(store.put_target(key.target, *start.target).ok());
  }
};

Task small_matmul() { return Task({"matmul", "M=64", "N=96", "K=48"}); }

SearchOptions options_for(int trials, uint64_t seed = 1) {
  SearchOptions options;
  options.trials = trials;
  options.seed = seed;
  options.seconds = 1000;
  options.drafts = 400;  // tests run on slow machines too
  return options;
}

TuneHooks hooks_of() {
  TuneHooks hooks;
  hooks.now = now;
  return hooks;
}

absl::StatusOr<TuneResult> tune_null(const Task& task, Store& store, const SearchOptions& options,
                                     const NullOptions& null = {}, TuneHooks hooks = hooks_of()) {
  auto measurer = make_null_measurer(null);
  return tune(task.start, task.key, store, *measurer, options, make_xgboost_model(), hooks);
}

std::vector<Measurement> rows_of(const Task& task, const Store& store) {
  return *store.measurements(task.key);
}

std::vector<std::string> traces_of(const Task& task, const Store& store) {
  std::vector<std::string> traces;
  for (const Measurement& m : rows_of(task, store)) traces.push_back(m.source + "\n" + m.trace);
  return traces;
}

TEST(Tune, SameSeedGivesTheSameTracesInTheSameOrder) {
  const Task task = small_matmul();
  auto a = make_memory_store(), b = make_memory_store(), c = make_memory_store();
  for (auto* store : {&a, &b, &c}) task.put(**store);
  ASSERT_TRUE(tune_null(task, *a, options_for(40, 3)).ok());
  ASSERT_TRUE(tune_null(task, *b, options_for(40, 3)).ok());
  ASSERT_TRUE(tune_null(task, *c, options_for(40, 4)).ok());
  EXPECT_EQ(traces_of(task, *a), traces_of(task, *b));
  EXPECT_NE(traces_of(task, *a), traces_of(task, *c));
}

// Says that it wants quiet, and sees whether it got it: nothing is submitted while candidates are
// in flight (which is when the next are proposed and results learned from).
class QuietMeasurer : public Measurer {
 public:
  void submit(std::vector<Candidate> batch) override {
    EXPECT_EQ(flying_, 0);
    flying_ += static_cast<int>(batch.size());
    inner_->submit(std::move(batch));
  }
  std::vector<Outcome> poll(double timeout_s) override {
    if (ready_.empty()) ready_ = inner_->poll(timeout_s);
    if (ready_.empty()) return {};
    const std::vector<Outcome> one = {ready_.front()};
    ready_.erase(ready_.begin());
    --flying_;
    return one;
  }
  void cancel() override { inner_->cancel(); }
  std::vector<Outcome> interleave(std::vector<Candidate> batch, int rounds) override {
    return inner_->interleave(std::move(batch), rounds);
  }
  bool wants_quiet() const override { return true; }

 private:
  std::unique_ptr<Measurer> inner_ = make_null_measurer({});
  std::vector<Outcome> ready_;
  int flying_ = 0;
};

TEST(Tune, LeavesAMeasurerThatWantsQuietAlone) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  QuietMeasurer measurer;
  const absl::StatusOr<TuneResult> result = tune(task.start, task.key, *store, measurer,
                                                 options_for(40), make_xgboost_model(), hooks_of());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trials, 40);
}

TEST(Tune, RunsExactlyTheTrialsAskedForAndNothingTwice) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  const absl::StatusOr<TuneResult> result = tune_null(task, *store, options_for(37));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trials, 37);
  EXPECT_FALSE(result->interrupted);
  EXPECT_GT(result->zero_us, 0);
  EXPECT_TRUE(result->zero_verified);
  int trials = 0, zeros = 0;
  std::set<std::string> traces;
  std::set<uint64_t> kernels;
  for (const Measurement& m : rows_of(task, *store)) {
    if (m.source == "finalist") continue;
    m.source == "zero" ? ++zeros : ++trials;
    EXPECT_TRUE(traces.insert(m.trace).second) << m.trace;
    EXPECT_TRUE(kernels.insert(m.kernel_hash).second) << m.trace;
  }
  EXPECT_EQ(trials, 37);
  EXPECT_EQ(zeros, 1);
  EXPECT_LE(result->best.measurement.time_us, 1.02 * result->zero_us);
  EXPECT_TRUE(result->best.measurement.verified);
  for (size_t i = 1; i < result->curve.size(); ++i)
    EXPECT_LT(result->curve[i].best_us, result->curve[i - 1].best_us);
}

TEST(Tune, AFinishedTuneReturnsAtOnceAndMoreTrialsGoOn) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  const absl::StatusOr<TuneResult> first = tune_null(task, *store, options_for(20));
  ASSERT_TRUE(first.ok());
  const size_t rows = rows_of(task, *store).size();
  const absl::StatusOr<TuneResult> again = tune_null(task, *store, options_for(20));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(rows_of(task, *store).size(), rows);
  EXPECT_EQ(again->trials, 20);
  EXPECT_EQ(again->zero_us, first->zero_us);
  EXPECT_EQ(again->best.measurement.trace, first->best.measurement.trace);
  const absl::StatusOr<TuneResult> more = tune_null(task, *store, options_for(30));
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->trials, 30);
}

TEST(Tune, ZeroTrialsMeasureTheDraftsAnswerOnce) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<TuneResult> result = tune_null(task, *store, options_for(0));
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->trials, 0);
    EXPECT_GT(result->zero_us, 0);
    EXPECT_EQ(rows_of(task, *store).size(), 1u);
    EXPECT_EQ(rows_of(task, *store)[0].source, "zero");
  }
}

TEST(Tune, ResumesAfterAnInterruptionAtAnyBatch) {
  const Task task = small_matmul();
  for (int after = 0; after < 6; ++after) {
    auto store = make_memory_store();
    task.put(*store);
    SearchOptions options = options_for(32);
    options.batch = 8;
    options.stop = Stop::on_request();
    TuneHooks hooks = hooks_of();
    int acknowledged = 0;
    hooks.progress = [&](const TuneProgress&) {
      if (++acknowledged == after) options.stop.request();
    };
    if (after == 0) options.stop.request();
    const absl::StatusOr<TuneResult> cut = tune_null(task, *store, options, {}, hooks);
    ASSERT_TRUE(cut.ok()) << cut.status();
    EXPECT_TRUE(cut->interrupted);
    options.stop = Stop();
    const size_t stored = rows_of(task, *store).size();
    const absl::StatusOr<TuneResult> rest = tune_null(task, *store, options);
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_EQ(rest->trials, 32);
    EXPECT_GE(rows_of(task, *store).size(), stored);
    if (!cut->best.measurement.trace.empty()) {
      EXPECT_LE(rest->best.measurement.time_us, 1.02 * cut->best.measurement.time_us);
    }
    std::set<uint64_t> kernels;
    for (const Measurement& m : rows_of(task, *store)) {
      if (m.source != "finalist") EXPECT_TRUE(kernels.insert(m.kernel_hash).second);
    }
  }
}

TEST(Tune, FailuresCountAndTransientOnesAreTriedAgain) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  NullOptions null;
  null.failures = {{Verdict::kCrash, 0.2}, {Verdict::kWorkerLost, 0.2}};
  const absl::StatusOr<TuneResult> result = tune_null(task, *store, options_for(40), null);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trials, 40);
  EXPECT_GT(result->failed, 0);
  for (const Measurement& m : rows_of(task, *store)) EXPECT_NE(m.verdict, Verdict::kWorkerLost);
}

TEST(Tune, ADeadDeviceEndsTheRunWithAnError) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  class Dead : public Measurer {
   public:
    void submit(std::vector<Candidate> batch) override {
      for (const Candidate& c : batch) tickets_.push_back(c.ticket);
    }
    std::vector<Outcome> poll(double) override {
      std::vector<Outcome> outcomes;
      for (int64_t ticket : tickets_) {
        outcomes.emplace_back();
        outcomes.back().ticket = ticket;
        outcomes.back().verdict = Verdict::kDeviceUnhealthy;
        outcomes.back().detail = "on fire";
      }
      tickets_.clear();
      return outcomes;
    }
    void cancel() override { tickets_.clear(); }
    std::vector<Outcome> interleave(std::vector<Candidate>, int) override { return {}; }

   private:
    std::vector<int64_t> tickets_;
  } dead;
  const absl::StatusOr<TuneResult> result =
      tune(task.start, task.key, *store, dead, options_for(40), make_xgboost_model(), hooks_of());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(result.status().message().find("on fire"), std::string::npos);
}

TEST(Tune, StopsWhenTheSecondsAreOver) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  double clock = 0;
  TuneHooks hooks = hooks_of();
  hooks.now = [&] { return clock += 0.01; };
  SearchOptions options = options_for(100000);
  options.seconds = 3;
  const absl::StatusOr<TuneResult> result = tune_null(task, *store, options, {}, hooks);
  ASSERT_TRUE(result.ok());
  EXPECT_LT(clock, 4);
  EXPECT_GT(result->trials, 0);
  EXPECT_FALSE(result->interrupted);
}

// The first answer is given up when the time is over, and then nothing is out: the search is done.
TEST(Tune, SaysThatTheSecondsWereOverBeforeAnyAnswer) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  class Slow : public Measurer {
   public:
    void submit(std::vector<Candidate>) override {}
    std::vector<Outcome> poll(double) override { return {}; }
    void cancel() override {}
    std::vector<Outcome> interleave(std::vector<Candidate>, int) override { return {}; }
  } slow;
  double clock = 0;
  TuneHooks hooks = hooks_of();
  hooks.now = [&] { return clock += 0.01; };
  SearchOptions options = options_for(40);
  options.seconds = 0.3;
  const absl::StatusOr<TuneResult> result =
      tune(task.start, task.key, *store, slow, options, make_xgboost_model(), hooks);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->trials + result->failed, 0);
  EXPECT_TRUE(result->timed_out);
  EXPECT_FALSE(result->interrupted);
}

TEST(Tune, ANearShapesBestIsTriedEarly) {
  const Task known({"matmul", "M=64", "N=96", "K=64"}), task = small_matmul();
  auto store = make_memory_store();
  known.put(*store);
  ASSERT_TRUE(tune_null(known, *store, options_for(30)).ok());
  task.put(*store);
  ASSERT_TRUE(tune_null(task, *store, options_for(16)).ok());
  int warm = 0;
  for (const Measurement& m : rows_of(task, *store)) warm += m.source == "warm";
  EXPECT_GE(warm + (rows_of(task, *store)[0].trace == rows_of(known, *store)[0].trace), 1);
}

double tuned_us(const Task& task, const SearchOptions& options) {
  auto store = make_memory_store();
  task.put(*store);
  NullOptions null;
  null.seed = options.seed;
  const absl::StatusOr<TuneResult> result = tune_null(task, *store, options, null);
  CHECK(result.ok());
  return result->best.measurement.time_us;
}

TEST(Search, BeatsRandomSamplingOnAverage) {
  const Task task({"matmul", "M=120", "N=200", "K=77"});
  double searched = 0, random = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SearchOptions options = options_for(40, seed);
    searched += std::log(tuned_us(task, options));
    options.random_only = true;
    random += std::log(tuned_us(task, options));
  }
  EXPECT_LT(searched, random);
}

TEST(Search, StopsWhenFlatAndTriesAWindowWhenMoreIsAskedFor) {
  const Task task = small_matmul();
  auto store = make_memory_store();
  task.put(*store);
  const absl::StatusOr<TuneResult> first = tune_null(task, *store, options_for(700));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_LT(first->trials, 500);           // nothing more is to be expected
  EXPECT_GE(first->trials, 192);           // four windows at least
  EXPECT_FALSE(first->interrupted);
  const absl::StatusOr<TuneResult> more = tune_null(task, *store, options_for(900));
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_GE(more->trials, first->trials + 48);
  EXPECT_LT(more->trials, 900);            // flat again
  EXPECT_EQ(rows_of(task, *store).back().source, "finalist");
}

TEST(Search, EveryComponentCanBeTurnedOff) {
  const Task task = small_matmul();
  for (int off = 0; off < 6; ++off) {
    SearchOptions options = options_for(12);
    bool* switches[] = {&options.use_draft,   &options.use_model, &options.use_evolution,
                        &options.use_descent, &options.use_warm,  &options.use_racing};
    *switches[off] = false;
    EXPECT_GT(tuned_us(task, options), 0);
  }
}

TEST(Search, AFailedCandidateLowersTheScoreOfItsNeighbours) {
  const Task task({"matmul", "M=256", "N=256", "K=256"});
  // Whatever has more than four rows crashes: soon nothing of the kind is proposed.
  SearchOptions options = options_for(1000);
  Search search(task.start, options, make_xgboost_model());
  const auto rows = [](const Proposal& p) {
    for (size_t i = 0; i < feature_table().size(); ++i) {
      if (std::string_view(feature_table()[i].name) == "tile_rows") return p.features[i];
    }
    return 0.f;
  };
  int early = 0, late = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<Measurement> results;
    for (const Proposal& p : search.propose(16, 1000)) {
      Measurement m;
      m.trace = p.text;
      m.kernel_hash = hash(*p.kernel);
      const bool fails = rows(p) > 4;
      m.verdict = fails ? Verdict::kCrash : Verdict::kOk;
      m.time_us = fails ? 0 : null_time_us(*p.kernel, 1);
      m.samples_us = {m.time_us};
      if (round < 3) early += fails;
      if (round >= 7) late += fails;
      results.push_back(std::move(m));
    }
    search.observe(results);
  }
  EXPECT_LT(late, early / 2 + 1) << early;
}

Nest start_of_lines(const std::string& lines) {
  return make_nest(std::make_shared<const Program>(parsed(lines)),
                   std::make_shared<const Target>(*find_target("x86_avx512")), 1);
}

std::string products_in_a_row(int products) {
  std::string lines = "in m0: f32[64, 64]\n";
  for (int n = 1; n <= products; ++n) {
    lines += concat(n == products ? "out m" : "m", n, "[i: 64, j: 64] = sum[k: 64](m", n - 1,
                    "[i, k] * m", n - 1, "[k, j])\n");
  }
  return lines;
}

// The first answer to a program of many stages does not wait for as many draws as one product gets.
TEST(Search, ARoundOfDrawsIsBoundedWhateverTheProgram) {
  const auto drawn = [](int products) {
    search::Moves moves(start_of_lines(products_in_a_row(products)), {}, 1);
    std::vector<search::Option> options;
    moves.begin_round();
    moves.draft(400, options);
    return options.size();
  };
  const size_t one = drawn(1), few = drawn(28), many = drawn(56);
  EXPECT_GE(one, 390u);
  EXPECT_GE(many, 1u);
  // Twice the products, twice the steps, each of which has its domain and looks at all of them:
  // between half and a quarter of the draws.
  EXPECT_GE(few, 2 * many);
  EXPECT_LE(few, 4 * many);
}

// While the answer to one product is measured the next batch is proposed; that to fifty would wait.
TEST(Search, LongRoundsAreKnownAsSuch) {
  for (const int products : {1, 56}) {
    Search search(start_of_lines(products_in_a_row(products)), {}, nullptr);
    ASSERT_TRUE(search.zero_trial().ok());
    EXPECT_EQ(search.rounds_are_long(), products > 1);
  }
}

// Twenty windows in a row fit a program where they are tiled alike; drawn each by itself they
// hardly ever do.
TEST(Search, ManyWindowsAreNotLeftToTheLastResort) {
  std::string lines = "in t0: f32[16, 16, 16]\nin W: f32[16, 16, 3, 3]\n";
  for (int n = 1; n <= 20; ++n) {
    lines += concat(n == 20 ? "out t" : "t", n,
                    "[c: 16, y: 16, x: 16] = sum[d: 16, r: 3, s: 3](pad(t", n - 1,
                    "[d, y + r - 1, x + s - 1], 0) * W[c, d, r, s])\n");
  }
  Search search(start_of_lines(lines), {}, nullptr);
  const absl::StatusOr<Proposal> zero = search.zero_trial();
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_EQ(search.only_last_resort(), "");
}

// A large program has to look faster than a small one, unless measuring takes much longer anyway.
TEST(Search, BuildingCountsWhereItTakesLong) {
  search::Option option;
  option.draft_us = 100;
  EXPECT_EQ(search::build_handicap(option), 0);
  float before = 0;
  for (int64_t statements : {500, 2000, 8000, 16000}) {
    option.statements = statements;
    const float handicap = search::build_handicap(option);
    EXPECT_GT(handicap, before);
    EXPECT_LT(handicap, 0.5);
    before = handicap;
  }
  option.draft_us = 1e6;
  EXPECT_LT(search::build_handicap(option), before / 4);
}

}  // namespace
}  // namespace lw
