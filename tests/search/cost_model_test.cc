// The cost model: facts about nests, metrics by hand, what the trees learn, models on disk.
#include "cost_model/cost_model.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>

#include "absl/strings/str_format.h"
#include "cost_model/cpu/analysis.h"
#include "cost_model/trees/learned.h"
#include "gtest/gtest.h"
#include "schedules/steps.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "tests/support/files.h"
#include "tests/support/text_cases.h"

namespace lw {
namespace {

Nest start_of(const std::vector<std::string>& words, const std::string& target = "x86_avx512",
              int threads = 1) {
  absl::StatusOr<Program> program = load_workload(words);
  CHECK(program.ok());
  return make_nest(std::make_shared<const Program>(*std::move(program)),
                   std::make_shared<const Target>(*find_target(target)), threads);
}

Nest scheduled(const Nest& start, const std::string& text) {
  absl::StatusOr<Trace> trace = parse_trace(text);
  EXPECT_TRUE(trace.ok()) << trace.status();
  absl::StatusOr<Nest> nest = replay(start, *trace);
  EXPECT_TRUE(nest.ok()) << nest.status() << "\n" << text;
  return *std::move(nest);
}

float feature(const Nest& nest, std::string_view name) {
  const std::vector<float> values = features(nest);
  for (size_t i = 0; i < values.size(); ++i) {
    if (name == feature_table()[i].name) return values[i];
  }
  ADD_FAILURE() << name;
  return 0;
}

Example example(double time_us, uint64_t group = 0, bool failed = false) {
  return {{}, group, time_us, failed};
}

TEST(Metrics, PairwiseAndPeakMatchHandComputedValues) {
  // Labels 1, 1/2, 1/4, 0; predicted order: second, first, failed, third.
  const std::vector<Example> examples = {example(10), example(20), example(40),
                                         example(0, 0, true)};
  const RankingMetrics m = evaluate({3, 4, 1, 2}, examples);
  EXPECT_DOUBLE_EQ(m.pairwise, 4.0 / 6);  // wrong: (1st, 2nd) and (3rd, failed)
  EXPECT_DOUBLE_EQ(m.peak_at_1, 0.5);
  EXPECT_DOUBLE_EQ(m.peak_at_5, (0.5 + 1 + 1 + 1) / 4);
  EXPECT_DOUBLE_EQ(m.recall_at_30, 1);
  EXPECT_DOUBLE_EQ(m.random_peak_at_1, (1 + 0.5 + 0.25) / 4);
  EXPECT_EQ(m.examples, 4);
}

TEST(Metrics, RandomPeakIsTheMeanOverAllOrders) {
  std::vector<Example> examples = {example(1), example(3), example(2),
                                   example(7), example(5), example(4)};
  std::vector<int> order = {0, 1, 2, 3, 4, 5};
  double sum = 0;
  int count = 0;
  do {
    std::vector<float> score(6);
    for (int i = 0; i < 6; ++i) score[order[i]] = static_cast<float>(-i);
    sum += evaluate(score, examples).peak_at_5;
    ++count;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_NEAR(evaluate({1, 2, 3, 4, 5, 6}, examples).random_peak_at_5, sum / count, 1e-9);
}

TEST(Metrics, GroupsAreWeightedByTheirSizeAndNeverCompared) {
  const std::vector<Example> examples = {example(1, 1), example(2, 1), example(100, 2),
                                         example(200, 2), example(400, 2)};
  const RankingMetrics m = evaluate({2, 1, 1, 2, 3}, examples);
  EXPECT_DOUBLE_EQ(m.pairwise, (2 * 1.0 + 3 * 0.0) / 5);
  EXPECT_EQ(m.groups, 2);
}

TEST(Metrics, RecallCountsTheTopK) {
  std::vector<Example> examples;
  std::vector<float> score;
  for (int i = 0; i < 60; ++i) {
    examples.push_back(example(i + 1));
    score.push_back(
        static_cast<float>(i < 15 || i >= 45 ? 100 - i : -i));  // 15 of the best 30 stay on top
  }
  EXPECT_DOUBLE_EQ(evaluate(score, examples).recall_at_30, 0.5);
}

// The values of each feature for some recorded schedules, as tests/goldens/features.txt has them: a
// line is a name, its version, and a value a schedule.
std::string feature_lines() {
  std::vector<std::vector<float>> columns;
  for (const TextCase& c : read_cases(LW_SOURCE_DIR "/tests/replay/library.replay")) {
    for (const char* wanted : {"attention", "conv2d_bn_relu", "layer_norm", "matmul", "softmax"}) {
      if (c.title != wanted) continue;
      const absl::StatusOr<Nest> start =
          lw::start_of(load_workload({c.title}), c.sections[0].header);
      CHECK(start.ok());
      if (start->winograd) continue;
      columns.push_back(features(scheduled(*start, c.sections[0].text)));
    }
  }
  EXPECT_GE(columns.size(), 10u);
  std::string lines;
  for (size_t f = 0; f < feature_table().size(); ++f) {
    absl::StrAppend(&lines, feature_table()[f].name, " ", feature_table()[f].version);
    for (const std::vector<float>& column : columns) absl::StrAppendFormat(&lines, " %.4g", column[f]);
    lines += "\n";
  }
  return lines;
}

TEST(Features, MeanWhatTheirVersionsSay) {
  const std::string file = LW_SOURCE_DIR "/tests/goldens/features.txt";
  const std::string lines = feature_lines();
  std::istringstream recorded(slurp(file)), now(lines);
  bool other_schema = false;
  for (std::string was, is; std::getline(now, is);) {
    if (!std::getline(recorded, was)) was.clear();
    std::istringstream a(was), b(is);
    std::string name, other_name;
    int version = 0, other_version = 0;
    a >> name >> version;
    b >> other_name >> other_version;
    other_schema = other_schema || name != other_name || version != other_version;
    bool same = true;
    for (double x = 0, y = 0; a >> x && b >> y;) {
      same = same && std::abs(x - y) <= 1e-3 * std::max(std::abs(x), 1.0);
    }
    ASSERT_TRUE(same || other_schema)
        << is << "\nwas " << was << "\nraise its version in features.cc, and train anew";
  }
  other_schema = other_schema || recorded.peek() != EOF;   // one was taken away
  if (rewrites_expectations()) std::ofstream(file) << lines;
  else EXPECT_FALSE(other_schema) << "run with LOOPWRIGHT_UPDATE=1";
}

TEST(Features, ValuesAreFinite) {
  EXPECT_GE(feature_table().size(), 60u);
  const std::vector<std::vector<std::string>> workloads = {
      {"matmul", "M=96", "N=100", "K=33"}, {"softmax", "M=8", "N=100"}, {"conv2d", "H=14", "W=14"}};
  for (const std::vector<std::string>& words : workloads) {
    for (const char* target : {"x86_avx512", "x86_avx2", "x86_sse2"}) {
      const Nest start = start_of(words, target, 2);
      Rng rng(3);
      for (const Sketch& sketch : make_space(start)) {
        for (int i = 0; i < 20; ++i) {
          const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
          if (!drawn.ok()) continue;
          for (float value : features(drawn->nest))
            ASSERT_TRUE(std::isfinite(value)) << to_text(drawn->trace);
          ASSERT_GT(draft_us(drawn->nest), 0);
          ASSERT_EQ(draft_us(drawn->nest), draft_us(drawn->nest));
        }
      }
    }
  }
}

TEST(Features, TileOfAMatmulIsDescribedExactly) {
  const Nest nest = scheduled(start_of({"matmul", "M=512", "N=512", "K=512"}),
                              "register_tile(C, k, i, j; 1, 8, 48, 0, 0, 0)\n");
  EXPECT_EQ(feature(nest, "tile_rows"), 8);
  EXPECT_EQ(feature(nest, "tile_columns"), 3);
  EXPECT_EQ(feature(nest, "tile_unroll"), 1);
  const Analysis a = analyze(nest);
  const StageCost& c = a.stages[a.main];
  // 512 / 48 leaves 32 columns: two vectors instead of three.
  EXPECT_DOUBLE_EQ(c.updates, 64 * 11 * 512.0);
  EXPECT_DOUBLE_EQ(c.mix.arithmetic, 512.0 * 512 * 32);
  EXPECT_DOUBLE_EQ(c.mix.loads, 64 * 512.0 * (10 * (8 + 3) + (8 + 2)));
}

TEST(Draft, OrdersWhatEveryoneKnows) {
  const Nest start = start_of({"matmul", "M=512", "N=512", "K=512"});
  const double unscheduled = draft_us(start);
  const double tiled = draft_us(scheduled(start, "register_tile(C, k, i, j; 1, 8, 48, 0, 0, 0)\n"));
  const double narrow =
      draft_us(scheduled(start, "register_tile(C, k, i, j; 1, 1, 16, 0, 0, 0)\n"));
  EXPECT_LT(tiled, narrow);
  EXPECT_LT(narrow, unscheduled);
  // No faster than the arithmetic ports.
  const Target& target = *start.target;
  EXPECT_GE(tiled, 512.0 * 512 * 32 / 2 / (target.ghz * 1000));
}

// Whole vectors bypass the caches, others do not: the same as without the step.
TEST(Draft, OnlyWholeVectorsAreStreamed) {
  for (const auto& [columns, streams] : {std::pair("N=4096", true), {"N=4088", false}}) {
    const Nest start = start_of({"bias_add", "M=2048", columns});
    const std::string tile = "register_tile(C, j; 64, 0)\n";
    const double stored = draft_us(scheduled(start, tile)),
                 streamed = draft_us(scheduled(start, tile + "non_temporal(C; 1)\n"));
    if (streams) EXPECT_LT(streamed, 0.9 * stored);
    else EXPECT_EQ(streamed, stored);
  }
}

// Each third pixel meets a tap: a third of the multiply-adds, and of what is loaded for them.
TEST(Draft, LeavesOutWhatConditionsLeaveOut) {
  const Nest nest = scheduled(
      start_of({"conv2d_transpose", "H=8", "W=8", "CI=16", "CO=16", "R=3", "stride=3", "pad=0"}),
      "register_tile(Y, ci, x, co; 1, 12, 16, 0, 0, 0)\n");
  const Analysis a = analyze(nest);
  const StageCost& c = a.stages[a.main];
  const double updates = 24 * 2 * 3 * 3 * 16 / 3.0;  // y, x.0, the window and ci; a third of y and r
  EXPECT_DOUBLE_EQ(c.updates, updates);
  EXPECT_DOUBLE_EQ(c.mix.arithmetic, updates * 12 / 3.0);
  EXPECT_DOUBLE_EQ(c.mix.loads, updates * (12 / 3.0 + 1));
}

// What was stored in parts of vectors is waited for.
TEST(Draft, CopiesOfPartsOfVectorsAreWaitedFor) {
  const auto at = [](const char* columns, int loop) {
    const std::string tile = "register_tile(C, k, i, j; 1, 4, 15, 0, 0, 0)\n";
    return draft_us(scheduled(start_of({"matmul", "M=512", columns, "K=512"}),
                              tile + "stage(C, B; " + std::to_string(loop) + ", -1, 0)\n"));
  };
  EXPECT_GT(at("N=15", 2), 2 * at("N=15", 0));
}

TEST(Draft, ThreadsDivideParallelWork) {
  const std::string trace = "register_tile(C, k, i, j; 1, 8, 48, 0, 0, 0)\nparallel(C, i.0; 1)\n";
  const double one =
      draft_us(scheduled(start_of({"matmul", "M=512", "N=512", "K=512"}, "x86_avx512", 1), trace));
  const double four =
      draft_us(scheduled(start_of({"matmul", "M=512", "N=512", "K=512"}, "x86_avx512", 4), trace));
  EXPECT_LT(four, 0.4 * one);
  EXPECT_GT(four, 0.2 * one);
}

// Times follow a feature that the draft does not see.
std::vector<Example> hidden_rule(int count, uint64_t seed, uint64_t group) {
  std::vector<Example> examples;
  Rng rng(seed);
  for (int i = 0; i < count; ++i) {
    Example e;
    e.group = group;
    for (size_t f = 0; f < feature_table().size(); ++f)
      e.features.push_back(static_cast<float>(rng.uniform() * 8));
    e.time_us = 10 * std::exp2(0.3 * e.features[20] + (e.features[30] > 4 ? 1 : 0));
    e.failed = e.features[40] > 7.2;
    examples.push_back(std::move(e));
  }
  return examples;
}

std::vector<float> scores(const Model& model, const std::vector<Example>& examples) {
  std::vector<std::vector<float>> rows;
  for (const Example& e : examples) rows.push_back(e.features);
  return model.score(rows);
}

TEST(Xgboost, LearnsToRankAndFromFailures) {
  auto model = make_xgboost_model();
  EXPECT_FALSE(model->trained());
  const std::vector<Example> train = hidden_rule(300, 1, 7), test = hidden_rule(200, 2, 7);
  const double before = evaluate(scores(*model, test), test).pairwise;
  ASSERT_TRUE(model->fit(train, 1).ok());
  EXPECT_TRUE(model->trained());
  const RankingMetrics after = evaluate(scores(*model, test), test);
  EXPECT_GT(after.pairwise, 0.75);
  EXPECT_GT(after.pairwise, before + 0.15);
  EXPECT_GT(after.peak_at_5, after.random_peak_at_5);
  // A failed candidate lowers the score of its neighbours: same features but the one that fails.
  std::vector<float> good = test[0].features, bad = good;
  good[40] = 2, bad[40] = 7.9f;
  EXPECT_GT(model->score({good})[0], model->score({bad})[0]);
}

TEST(Xgboost, SameExamplesAndSeedGiveTheSameScores) {
  const std::vector<Example> train = hidden_rule(200, 1, 7);
  auto a = make_xgboost_model(), b = make_xgboost_model();
  ASSERT_TRUE(a->fit(train, 5).ok());
  ASSERT_TRUE(b->fit(train, 5).ok());
  EXPECT_EQ(scores(*a, train), scores(*b, train));
}

// What the draft predicts is hidden from a model that does without it, and nothing else is.
TEST(Xgboost, WithoutTheDraftItsPredictionsDoNotCount) {
  Training training;
  training.draft = false;
  const auto blind = make_xgboost_model(training), seeing = make_xgboost_model();
  const std::vector<Example> train = hidden_rule(200, 1, 7);
  std::vector<Example> other = train;
  size_t predicted = 0;
  for (size_t f = 0; f < feature_table().size(); ++f) {
    const std::string name = feature_table()[f].name;
    if (name == "log_draft_us" || name == "dram_share" || name == "serial_share") {
      EXPECT_TRUE(feature_table()[f].predicted) << name;
    }
    if (name == "tile_rows" || name == "loads" || name == "fits_l2") {
      EXPECT_FALSE(feature_table()[f].predicted) << name;
    }
    if (!feature_table()[f].predicted) continue;
    ++predicted;
    for (size_t i = 0; i < other.size(); ++i)
      other[i].features[f] = static_cast<float>(1 + (i * 7 + f) % 11);
  }
  EXPECT_GT(predicted, 16u);
  EXPECT_EQ(scores(*blind, train), std::vector<float>(train.size(), 0));
  ASSERT_TRUE(blind->fit(train, 1).ok());
  ASSERT_TRUE(seeing->fit(train, 1).ok());
  EXPECT_EQ(scores(*blind, train), scores(*blind, other));
  EXPECT_NE(scores(*seeing, train), scores(*seeing, other));
  const auto again = make_xgboost_model(training);
  ASSERT_TRUE(again->fit(other, 1).ok());
  EXPECT_EQ(scores(*again, train), scores(*blind, train));
  EXPECT_FALSE(save_model(*blind, testing::TempDir() + "/blind.model", "x86_64").ok());
}

std::string temporary_model(const std::string& name) {
  return testing::TempDir() + "/" + std::to_string(getpid()) + name;
}

TEST(Xgboost, SavedModelScoresEquallyAndStaysTheBaseOfMore) {
  const std::vector<Example> train = hidden_rule(200, 1, 7), more = hidden_rule(100, 3, 8);
  auto model = make_xgboost_model();
  ASSERT_TRUE(model->fit(train, 1).ok());
  const std::string path = temporary_model("model");
  ASSERT_TRUE(save_model(*model, path, "x86_64").ok());
  absl::StatusOr<std::unique_ptr<Model>> loaded = load_model(path, "x86_64");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE((*loaded)->trained());
  const std::vector<float> before = scores(*model, more), after = scores(**loaded, more);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-4);
  // Few examples of a new workload refine the base instead of replacing it, also across another
  // save.
  const std::vector<Example> few(more.begin(), more.begin() + 10);
  ASSERT_TRUE((*loaded)->fit(few, 1).ok());
  EXPECT_GT(evaluate(scores(**loaded, more), more).pairwise, 0.7);
  ASSERT_TRUE(save_model(**loaded, path, "x86_64").ok());
  absl::StatusOr<std::unique_ptr<Model>> again = load_model(path, "x86_64");
  ASSERT_TRUE(again.ok()) << again.status();
  const std::vector<float> refined = scores(**loaded, more), reread = scores(**again, more);
  for (size_t i = 0; i < refined.size(); ++i) EXPECT_NEAR(refined[i], reread[i], 1e-4);
  unlink(path.c_str());
}

TEST(Metrics, PairsWithinEachOthersIntervalsDoNotCount) {
  std::vector<Example> examples(3);
  for (size_t i = 0; i < 3; ++i) {
    examples[i].time_us = 10 + static_cast<double>(i);
    examples[i].low_us = examples[i].time_us - 1.5, examples[i].high_us = examples[i].time_us + 1.5;
  }
  // Neighbours cannot be told apart, the outer two can: they are in order.
  EXPECT_DOUBLE_EQ(evaluate({2, 3, 1}, examples).pairwise, 1);
  for (Example& e : examples) e.low_us = e.high_us = e.time_us;
  EXPECT_DOUBLE_EQ(evaluate({2, 3, 1}, examples).pairwise, 2.0 / 3);
  EXPECT_DOUBLE_EQ(evaluate({2, 3, 1}, examples).best_of_tenth, 10.0 / 11);
}

TEST(Xgboost, DamageAnywhereInAFileIsFound) {
  const std::string path = temporary_model("flipped");
  auto model = make_xgboost_model();
  ASSERT_TRUE(model->fit(hidden_rule(50, 1, 1), 1).ok());
  ASSERT_TRUE(save_model(*model, path, "x86_64").ok());
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 97) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << flipped;
    EXPECT_FALSE(load_model(path, "x86_64").ok()) << "byte " << at;
  }
  unlink(path.c_str());
}

TEST(Xgboost, ModelsOfOtherFeaturesAndDamagedFilesAreRefused) {
  const std::string path = temporary_model("bad");
  EXPECT_EQ(load_model(path, "x86_64").status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path) << "something else\n";
  EXPECT_EQ(load_model(path, "x86_64").status().code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(path) << "loopwright model 2\n12ab\nx86_64\n\n0\n";
  const absl::Status other = load_model(path, "x86_64").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(other.message().find("12ab"), std::string::npos);
  auto model = make_xgboost_model();
  ASSERT_TRUE(model->fit(hidden_rule(50, 1, 1), 1).ok());
  ASSERT_TRUE(save_model(*model, path, "aarch64").ok());
  const absl::Status elsewhere = load_model(path, "x86_64").status();
  EXPECT_EQ(elsewhere.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(elsewhere.message().find("aarch64"), std::string::npos);
  ASSERT_TRUE(save_model(*model, path, "x86_64").ok());
  ASSERT_EQ(truncate(path.c_str(), 200), 0);
  EXPECT_EQ(load_model(path, "x86_64").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(save_model(*make_draft_model(), path, "x86_64").ok());
  unlink(path.c_str());
}

}  // namespace
}  // namespace lw
