// One suite for every Store, the pure choice of the best under them, and records in and out.
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "tests/tuner_db/every_store.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- best.h

TEST(MedianInterval, OneSampleKnowsNothing) {
  const MedianInterval interval = median_interval({5});
  EXPECT_EQ(interval.median, 5);
  EXPECT_EQ(interval.high, kInfinity);
}

TEST(MedianInterval, FewSamplesUseStudent) {
  const MedianInterval interval = median_interval({10, 11, 12});
  EXPECT_EQ(interval.median, 11);
  EXPECT_NEAR(interval.high - interval.median, 4.303 / std::sqrt(3.0), 1e-9);
}

TEST(MedianInterval, OrderStatisticsCoverTheMedian) {
  EXPECT_EQ(median_interval({6, 1, 5, 2, 4, 3}).low, 1);    // n = 6: the extremes, 96.9 %
  EXPECT_EQ(median_interval({6, 1, 5, 2, 4, 3}).high, 6);
  Rng rng(1);
  for (int n : {6, 9, 20, 70, 101, 300}) {
    int covered = 0;
    for (int round = 0; round < 2000; ++round) {
      std::vector<double> samples;
      for (int i = 0; i < n; ++i) samples.push_back(-std::log(1 - rng.uniform()));  // skewed
      const MedianInterval interval = median_interval(samples);
      covered += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high;
    }
    EXPECT_GE(covered, 1880) << n;                          // 95 % less two standard deviations
  }
}

TEST(Best, LuckySingleSampleDoesNotReplaceAWellSampledIncumbent) {
  const Pool incumbent{20, 100, 102, true};
  EXPECT_EQ(best_of({incumbent, Pool{1, 60, kInfinity, true}}), 0);
  EXPECT_EQ(best_of({incumbent, Pool{5, 95, 104, true}}), 0);
  EXPECT_EQ(best_of({incumbent, Pool{5, 95, 99, true}}), 1);
}

TEST(Best, OneSampleOfASlowKernelBeatsAFarSlowerIncumbent) {
  const auto pool_of = [](double us, int samples) {
    Measurement m;
    m.verified = true;
    m.samples_us.assign(samples, us);
    const Measurement* only = &m;
    return pool({&only, 1});
  };
  EXPECT_EQ(best_of({pool_of(84000, 10), pool_of(18600, 1)}), 1);
  EXPECT_EQ(best_of({pool_of(20000, 10), pool_of(18600, 1)}), 0);
}

TEST(Best, EquallySampledGoByMedianThenByOrder) {
  EXPECT_EQ(best_of({Pool{3, 100, 110, true}, Pool{3, 90, 120, true}}), 1);
  EXPECT_EQ(best_of({Pool{3, 90, 110, true}, Pool{3, 90, 120, true}}), 0);
}

TEST(Best, IneligibleNeverWin) {
  EXPECT_EQ(best_of({Pool{3, 100, 110, true}, Pool{30, 1, 1, false}}), 0);
  EXPECT_EQ(best_of({Pool{3, 100, 110, false}}), -1);
  EXPECT_EQ(best_of({}), -1);
}

// ---- every Store

TEST_P(StoreTest, WorkloadsAndTargetsComeBack) {
  const WorkloadRow row = make_workload(128);
  const Key key = put_key(*store_);
  put_key(*store_);                                         // idempotent
  const WorkloadRow back = *store_->workload(row.id);
  EXPECT_EQ(back.canonical_text, row.canonical_text);
  EXPECT_EQ(back.source_words, row.source_words);
  EXPECT_EQ(back.shape, row.shape);
  EXPECT_EQ(back.flops, row.flops);
  EXPECT_EQ(back.structure, row.structure);
  EXPECT_EQ(to_text(*store_->target(key.target)), to_text(make_target()));
  EXPECT_EQ(store_->workloads()->size(), 1u);
  EXPECT_EQ(store_->workload("nope").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->target("nope").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreTest, MeasurementsComeBackWholeAndInOrder) {
  const Key key = put_key(*store_);
  std::vector<Measurement> sent = {make_measurement(2, {3, 1, 2}), make_measurement(1, {5}),
                                   make_failure(3, Verdict::kCrash), make_measurement(2, {4, 4})};
  sent[1].verified = false;
  sent[1].trace = "";                                       // the unscheduled program
  sent[2].detail = std::string("bytes \xFF\0 of any kind", 20);
  sent[2].max_rel_error = kInfinity;
  ASSERT_TRUE(store_->append(key, sent).ok());
  const std::vector<Measurement> back = *store_->measurements(key);
  ASSERT_EQ(back.size(), sent.size());
  for (size_t i = 0; i < back.size(); ++i) {
    EXPECT_EQ(content(back[i]), content(sent[i]));
    EXPECT_EQ(back[i].id, sent[i].id);
    EXPECT_GT(back[i].id, i == 0 ? 0 : back[i - 1].id);
  }
  Key other = key;
  other.threads = 1;
  EXPECT_THAT(*store_->measurements(other), IsEmpty());
  ASSERT_EQ(store_->keys()->size(), 1u);
  EXPECT_EQ(store_->keys()->front(), key);
}

TEST_P(StoreTest, AppendIsAllOrNone) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, {1}), make_measurement(2, {2})};
  batch[1].samples_us[0] = std::nan("");
  EXPECT_EQ(store_->append(key, batch).code(), absl::StatusCode::kInvalidArgument);
  batch[1] = make_measurement(2, {2});
  batch[1].samples_us.clear();
  const absl::Status status = store_->append(key, batch);
  EXPECT_THAT(std::string(status.message()), HasSubstr("measurement 2 of 2"));
  batch[1] = make_measurement(2, {2, 3});
  batch[1].time_us = 9;                                     // not within its samples
  EXPECT_FALSE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->stats()->measurements, 0);
}

TEST_P(StoreTest, AppendWantsItsWorkloadAndTarget) {
  const Key key = make_key(make_workload(128), make_target());
  std::vector<Measurement> batch = {make_measurement(1, {1})};
  EXPECT_EQ(store_->append(key, batch).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->put_workload(make_workload(128)).ok());
  EXPECT_THAT(std::string(store_->append(key, batch).message()), HasSubstr("target"));
  ASSERT_TRUE(store_->put_target(key.target, make_target()).ok());
  EXPECT_TRUE(store_->append(key, batch).ok());
}

TEST_P(StoreTest, AnUnknownErrorMagnitudeIsStoredAsInfinite) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_failure(1, Verdict::kWrongResult)};
  batch[0].max_rel_error = std::nan("");
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->measurements(key)->front().max_rel_error, kInfinity);
}

TEST_P(StoreTest, BestPoolsTheSamplesOfATrace) {
  const Key key = put_key(*store_);
  EXPECT_EQ(store_->best(key).status().code(), absl::StatusCode::kNotFound);
  std::vector<Measurement> first = {make_measurement(1, {100, 101, 99}),
                                    make_measurement(2, {98, 140, 97})};
  ASSERT_TRUE(store_->append(key, first).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(2));
  EXPECT_EQ(content(store_->best(key)->measurement), content(first[1]));  // one: as it was measured
  std::vector<Measurement> more = {make_measurement(1, {96, 97, 95, 96, 97})};
  ASSERT_TRUE(store_->append(key, more).ok());
  const Measurement best = store_->best(key)->measurement;
  EXPECT_EQ(best.trace, make_trace(1));
  EXPECT_EQ(best.samples_us.size(), 8u);
  EXPECT_EQ(best.time_us, 97);
  EXPECT_EQ(best.id, more[0].id);
}

TEST_P(StoreTest, BestIsNotTheLowestSingleSample) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, std::vector<double>(20, 100.0)),
                                    make_measurement(2, {80}), make_measurement(3, {90, 105, 92})};
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(1));
}

TEST_P(StoreTest, OfEquallyFastTracesTheirOrderDecides) {
  const Key key = put_key(*store_);
  for (int trace : {5, 3, 7, 4}) {         // as they arrive
    std::vector<Measurement> one = {make_measurement(trace, {80, 80})};
    ASSERT_TRUE(store_->append(key, one).ok());
  }
  const BestRow row = *store_->top(key, 3);
  EXPECT_EQ(row.measurement.trace, make_trace(3));
  ASSERT_EQ(row.others.size(), 2u);
  EXPECT_EQ(row.others[0].trace, make_trace(4));
  EXPECT_EQ(row.others[1].trace, make_trace(5));
  EXPECT_EQ(*store_->prune(1, 0), 3);
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(3));
}

TEST_P(StoreTest, BestIsVerifiedAndWasNeverWrong) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, {50, 50}), make_measurement(2, {60, 60}),
                                    make_measurement(3, {70, 70})};
  batch[0].verified = false;
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(2));
  batch = {make_failure(2, Verdict::kWrongResult)};
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(3));
  batch = {make_failure(3, Verdict::kWorkerLost)};          // the machine's fault
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(3));
  batch = {make_failure(3, Verdict::kCrash)};
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_FALSE(store_->best(key).ok());
}

TEST_P(StoreTest, TimesOfDifferentKindsNeverCompete) {
  const Key key = put_key(*store_);
  const auto put = [&](std::vector<Measurement> batch) {
    EXPECT_TRUE(store_->append(key, batch).ok());
  };
  const auto best = [&] {
    const Measurement m = store_->best(key)->measurement;
    return std::tuple(m.time_kind, m.trace, m.time_us);
  };
  // The farther from the truth, the faster.
  put({of_kind(make_measurement(1, {1, 1, 1, 1, 1, 1, 1}), TimeKind::kEstimated),
       of_kind(make_measurement(2, {2, 2, 2}), TimeKind::kEstimated)});
  EXPECT_EQ(best(), std::tuple(TimeKind::kEstimated, make_trace(1), 1));
  put({of_kind(make_measurement(6, {20}), TimeKind::kSimulated)});
  EXPECT_EQ(best(), std::tuple(TimeKind::kSimulated, make_trace(6), 20));
  put({of_kind(make_measurement(3, {50, 50}), TimeKind::kEmulated)});
  EXPECT_EQ(best(), std::tuple(TimeKind::kEmulated, make_trace(3), 50));
  Measurement unverified = make_measurement(4, {300, 300});
  unverified.verified = false;
  put({unverified});
  EXPECT_EQ(best(), std::tuple(TimeKind::kEmulated, make_trace(3), 50));
  // The same trace again, by a clock: what was computed of it is no sample.
  put({make_measurement(1, {400, 400, 400})});
  EXPECT_EQ(best(), std::tuple(TimeKind::kMeasured, make_trace(1), 400));
  EXPECT_EQ(store_->best(key)->measurement.samples_us.size(), 3u);
  put({make_measurement(5, {500, 500, 500}),
       of_kind(make_measurement(5, std::vector<double>(20, 3)), TimeKind::kEstimated)});
  EXPECT_EQ(best(), std::tuple(TimeKind::kMeasured, make_trace(1), 400));
  const BestRow top = *store_->top(key, 9);
  EXPECT_EQ(top.others, (std::vector<RankedTrace>{{make_trace(5), 500}}));
  // All of them come back as they were, also from an export.
  const std::vector<Measurement> all = *store_->measurements(key);
  const std::unique_ptr<Store> copy = make_memory_store();
  int64_t imported = 0;
  ASSERT_TRUE(import_records(*copy, *export_records(*store_), &imported).ok());
  EXPECT_EQ(imported, 8);
  const std::vector<Measurement> again = *copy->measurements(key);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(content(again[i]), content(all[i]));
  EXPECT_EQ(all[0].time_kind, TimeKind::kEstimated);
  EXPECT_EQ(all[2].time_kind, TimeKind::kSimulated);
  EXPECT_EQ(all[3].time_kind, TimeKind::kEmulated);
  EXPECT_TRUE(store_->check()->empty());
  // A trace that is kept is kept whole; of the others those that were measured come first.
  EXPECT_EQ(*store_->prune(3, 0), 3);
  EXPECT_EQ(best(), std::tuple(TimeKind::kMeasured, make_trace(1), 400));
  EXPECT_EQ(store_->measurements(key)->size(), 5u);
  // Wrong under an emulator is wrong.
  put({of_kind(make_failure(1, Verdict::kWrongResult), TimeKind::kEstimated)});
  EXPECT_EQ(best(), std::tuple(TimeKind::kMeasured, make_trace(5), 500));
}

TEST_P(StoreTest, WhatIsWithdrawnIsNeverBestUntilItIsRestored) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, {50, 50}), make_measurement(2, {60, 60})};
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->withdraw({key, make_trace(9), "why", "", "me", 1})));
  EXPECT_TRUE(absl::IsNotFound(store_->restore(key, make_trace(1))));
  ASSERT_TRUE(store_->withdraw({key, make_trace(1), "old", "", "me", 1}).ok());
  ASSERT_TRUE(store_->withdraw({key, make_trace(1), "wrong values", "{}", "you", 2}).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(2));
  EXPECT_EQ(store_->best_of_structure(make_workload(128).structure, 2)->at(0).measurement.trace,
            make_trace(2));
  const std::vector<Withdrawal> rows = *store_->withdrawn();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].trace, make_trace(1));
  EXPECT_EQ(rows[0].reason, "wrong values");
  EXPECT_EQ(rows[0].actor, "you");
  EXPECT_EQ(store_->withdrawn(key)->size(), 1u);
  EXPECT_EQ(store_->measurements(key)->size(), 2u);
  batch = {make_measurement(1, {40, 40})};                  // measured again: still out
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(2));
  EXPECT_EQ(*store_->prune(1, 2'000'000'000'000), 0);       // evidence, and the best
  EXPECT_THAT(*store_->check(), IsEmpty());
  ASSERT_TRUE(store_->restore(key, make_trace(1)).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(1));
  EXPECT_THAT(*store_->withdrawn(), IsEmpty());
  EXPECT_THAT(*store_->check(), IsEmpty());
}

TEST_P(StoreTest, BestOfStructureFindsOtherShapesAndTargets) {
  const Key a = put_key(*store_, 128), b = put_key(*store_, 256);
  const Key c = put_key(*store_, 128, "x86_b");
  WorkloadRow stranger = make_workload(512);
  stranger.structure = "another";
  ASSERT_TRUE(store_->put_workload(stranger).ok());
  const Key d = make_key(stranger, make_target());
  Key e = a;
  e.threads = 1;
  for (const Key& key : {a, b, c, d, e}) {
    std::vector<Measurement> batch = {make_measurement(1, {10})};
    ASSERT_TRUE(store_->append(key, batch).ok());
  }
  const std::vector<BestRow> rows = *store_->best_of_structure(make_workload(1).structure, 2);
  ASSERT_EQ(rows.size(), 3u);
  for (const BestRow& row : rows) EXPECT_TRUE(row.key == a || row.key == b || row.key == c);
}

TEST_P(StoreTest, AKeyIsClaimedOnce) {
  const Key key = make_key(make_workload(128), make_target());
  ASSERT_TRUE(store_->claim(key).ok());
  const absl::Status second = store_->claim(key);
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()), HasSubstr(std::to_string(getpid())));
  store_->release(key);
  EXPECT_TRUE(store_->claim(key).ok());
}

TEST_P(StoreTest, PruneKeepsTheBestAndRecentFailures) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch;
  for (int i = 0; i < 10; ++i) batch.push_back(make_measurement(i, {100.0 - i, 100.0 - i}));
  batch.push_back(make_failure(20, Verdict::kTimeout));
  batch.push_back(make_failure(21, Verdict::kTimeout));
  batch.back().unix_ms += 10;
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(*store_->prune(3, 1'800'000'000'005), 8);
  EXPECT_EQ(store_->stats()->measurements, 4);
  EXPECT_EQ(store_->stats()->failed, 1);
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(9));
  EXPECT_THAT(*store_->check(), IsEmpty());
  std::vector<Measurement> next = {make_measurement(1, {1})};
  ASSERT_TRUE(store_->append(key, next).ok());
  EXPECT_EQ(next[0].id, 13);                                // ids are never used twice
  EXPECT_EQ(*store_->prune(0, std::numeric_limits<int64_t>::max()), 5);
  EXPECT_THAT(*store_->keys(), IsEmpty());
}

TEST_P(StoreTest, CheckReportsWhatDoesNotAddUp) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, {1})};
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_THAT(*store_->check(), IsEmpty());
  WorkloadRow forged = make_workload(256);
  forged.id = std::string(64, '0');
  ASSERT_TRUE(store_->put_workload(forged).ok());
  batch[0].trace = "garbage !";
  ASSERT_TRUE(store_->append(key, batch).ok());
  EXPECT_EQ(store_->check()->size(), 2u);
}

TEST_P(StoreTest, ThreadsMayShareIt) {
  const Key key = put_key(*store_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        std::vector<Measurement> batch = {make_measurement(t, {100.0 + i})};
        EXPECT_TRUE(store_->append(key, batch).ok());
        EXPECT_TRUE(store_->best(key).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->measurements(key)->size(), 40u);
  EXPECT_EQ(store_->best(key)->measurement.samples_us.size(), 10u);
  EXPECT_THAT(*store_->check(), IsEmpty());
}

// The SQL store's shortcuts (stored statistics, two indexes) must not show.
TEST(Stores, AgreeOnRandomHistories) {
  Rng rng(7);
  for (int round = 0; round < 8; ++round) {
    Scratch scratch;
    std::vector<std::unique_ptr<Store>> stores;
    for (const Kind& kind : kKinds) {
      if (auto store = kind.make(scratch.file)) stores.push_back(std::move(store));
    }
    Key key;
    for (auto& store : stores) key = put_key(*store);
    for (int i = 0; i < 25; ++i) {
      std::vector<Measurement> batch;
      const int64_t count = 1 + rng.below(4);
      for (int64_t k = 0; k < count; ++k) {
        const int trace = static_cast<int>(rng.below(12));
        std::vector<double> samples;
        const int64_t n = 1 + rng.below(9);
        for (int64_t s = 0; s < n; ++s) samples.push_back(90 + trace + double(rng.below(30)));
        batch.push_back(make_measurement(trace, samples));
        batch.back().verified = rng.below(3) > 0;
        if (rng.below(40) == 0) batch.back() = make_failure(trace, Verdict::kWrongResult);
      }
      for (auto& store : stores) ASSERT_TRUE(store->append(key, batch).ok());
      const auto a = stores[0]->best(key);
      for (auto& store : stores) {
        const auto b = store->best(key);
        ASSERT_EQ(a.ok(), b.ok());
        if (!a.ok()) continue;
        ASSERT_EQ(content(a->measurement), content(b->measurement));
        ASSERT_EQ(a->measurement.id, b->measurement.id);
      }
    }
    const int64_t pruned = *stores[0]->prune(4, 0);
    for (size_t i = 1; i < stores.size(); ++i) {
      ASSERT_EQ(pruned, *stores[i]->prune(4, 0));
      ASSERT_EQ(*export_records(*stores[0]), *export_records(*stores[i]));
    }
  }
}

// ---- records

std::unique_ptr<Store> filled() {
  std::unique_ptr<Store> store = make_memory_store();
  for (int extent : {128, 256}) {
    const Key key = put_key(*store, extent);
    std::vector<Measurement> batch = {make_measurement(1, {1, 2, 0.1}), make_measurement(2, {5}),
                                      make_failure(3, Verdict::kBuildError)};
    batch[2].detail = "not \xC3\x28 UTF-8";
    CHECK(store->append(key, batch).ok());
  }
  CHECK(store->put_workload(make_workload(512)).ok());      // not measured yet
  return store;
}

TEST_P(StoreTest, ExportedRecordsComeBackOnce) {
  const std::string lines = *export_records(*filled());
  int64_t imported = 0;
  ASSERT_EQ(import_records(*store_, lines, &imported).message(), "");
  EXPECT_EQ(imported, 6);
  EXPECT_EQ(*export_records(*store_), lines);
  EXPECT_THAT(*store_->check(), IsEmpty());
  ASSERT_TRUE(import_records(*store_, lines + lines, &imported).ok());
  EXPECT_EQ(imported, 0);
  EXPECT_EQ(store_->stats()->workloads, 3);
}

TEST(Records, ABadLineStoresNothingAndIsNamed) {
  const std::string lines = *export_records(*filled());
  const std::pair<std::string, std::string> cases[] = {
      {lines + "{", "line 8"},
      {lines + "{\"verdictt\": 1}", "verdictt"},
      {lines + "{\"key\":{}}", "belong together"},
      {lines + "{\"workload\":{\"id\":\"forged\"}}", "sha256"},
      {lines.substr(lines.find('\n') + 1), "the database has no workload"},
  };
  for (const auto& [text, expected] : cases) {
    std::unique_ptr<Store> store = make_memory_store();
    int64_t imported = 0;
    const absl::Status status = import_records(*store, text, &imported);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
    EXPECT_EQ(store->stats()->measurements, 0);
  }
}

TEST(Records, MutatedLinesNeverCrashNorBreakTheStore) {
  const std::string lines = *export_records(*filled());
  Rng rng(3);
  int accepted = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = lines;
    for (int64_t change = 1 + rng.below(3); change > 0; --change) {
      const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(text.size())));
      const int64_t kind = rng.below(4);
      if (kind == 0) text[at] = static_cast<char>(rng.below(256));
      if (kind == 1) text.erase(at, static_cast<size_t>(1 + rng.below(20)));
      if (kind == 2) text.insert(at, text.substr(at / 2, static_cast<size_t>(rng.below(20))));
      if (kind == 3) text[at] = "0\"{}[],:-e"[rng.below(10)];
      if (text.empty()) text = "\n";
    }
    std::unique_ptr<Store> store = make_memory_store();
    int64_t imported = 0;
    if (!import_records(*store, text, &imported).ok()) continue;
    ++accepted;
    ASSERT_THAT(*store->check(), IsEmpty());
    ASSERT_TRUE(export_records(*store).ok());
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace lw
