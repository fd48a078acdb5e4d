// The ladder over records: which rung answers, in which order, from a store, from the index in
// memory and from a snapshot alike.
#include "tuner_db/ladder/ladder.h"

#include <cmath>
#include <thread>

#include "gtest/gtest.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/identity.h"
#include "schedules/targets/npu/npu_target.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/ladder/index.h"
#include "tuner_db/ladder/snapshot.h"

namespace lw {
namespace {

WorkloadRow matmul(int64_t m, int64_t n, int64_t k) {
  WorkloadRow row = make_workload(1);
  row.canonical_text = absl::StrCat("lw 1\nC[", m, ", ", n, "] = sum(A * B, ", k, ")\n");
  row.id = sha256(row.canonical_text);
  row.source_words = absl::StrCat("matmul M=", m, " N=", n, " K=", k);
  row.shape = {m, k, k, n, m, n, k};  // A, B, C, and the reduction
  row.flops = 2.0 * m * n * k;
  return row;
}

Target wide() {
  Target target = make_target("wide");
  target.features = {"avx2", "avx512f", "fma", "sse2"};
  CpuTarget part = cpu(target);
  part.vector_bytes = 64;
  part.cpu = "x86-64-v4";
  set_cpu(&target, part);
  return target;
}

Key put(Store& store, const WorkloadRow& workload, const Target& target, double us,
        const std::string& backend = "llvm 19.1.7 r1", int threads = 2,
        TimeKind kind = TimeKind::kMeasured) {
  Key key = make_key(workload, target);
  key.backend = backend;
  key.threads = threads;
  EXPECT_TRUE(store.put_workload(workload).ok());
  EXPECT_TRUE(store.put_target(key.target, target).ok());
  std::vector<Measurement> batch = {
      of_kind(make_measurement(static_cast<int>(us), {us, us, us}), kind)};
  EXPECT_TRUE(store.append(key, batch).ok());
  return key;
}

LookupRequest ask(const WorkloadRow& workload, const Target& target) {
  return {make_key(workload, target), workload.structure, workload.shape,
          std::make_shared<const Target>(target)};
}

// The same answers whatever the records come from.
class Ladder : public testing::TestWithParam<const char*> {
 protected:
  std::vector<Match> climb_all(const LookupRequest& request, LadderOptions options = {}) {
    const std::string kind = GetParam();
    if (kind == "store") {
      source_ = make_store_source(*store_);
    } else if (kind == "index") {
      auto index = std::make_unique<LadderIndex>(*store_);
      EXPECT_TRUE(index->refresh().ok());
      source_ = std::move(index);
    } else {
      const Scratch scratch;
      const std::string file = scratch.directory + "/a.lws";
      EXPECT_TRUE(write_snapshot(*store_, file, 3, 1).ok());
      source_ = *Snapshot::open(file);  // lives on though the file goes
    }
    absl::StatusOr<std::vector<Match>> found = climb(request, *source_, options);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : std::vector<Match>();
  }

  std::unique_ptr<Store> store_ = make_memory_store();
  std::unique_ptr<RecordSource> source_;
};

TEST_P(Ladder, ExactIsOfThisTargetWhenTwoAreStored) {
  const WorkloadRow w = matmul(512, 512, 512);
  put(*store_, w, make_target(), 20);
  put(*store_, w, wide(), 10);
  for (const auto& [target, us] : {std::pair(make_target(), 20.0), std::pair(wide(), 10.0)}) {
    const std::vector<Match> found = climb_all(ask(w, target));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].rung, Rung::kExact);
    EXPECT_EQ(found[0].record->time_us, us);
    EXPECT_FALSE(found[0].stale);
  }
}

TEST_P(Ladder, HardFeaturesThatTheAskingMachineLacksAreNeverGivenOut) {
  const WorkloadRow w = matmul(512, 512, 512);
  put(*store_, w, wide(), 10);
  EXPECT_TRUE(climb_all(ask(w, make_target())).empty());
  const std::vector<Match> found = climb_all(ask(matmul(512, 512, 256), wide()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestShape);
}

TEST_P(Ladder, TheOtherWayRoundTheRecordIsNearestTarget) {
  const WorkloadRow w = matmul(512, 512, 512);
  put(*store_, w, make_target(), 20);
  const std::vector<Match> found = climb_all(ask(w, wide()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestTarget);
  EXPECT_GT(found[0].distance, std::log(2) - 1e-9);  // twice the vector, another cpu
}

// Simulated times of a machine that is only simulated lead as others' measured ones do.
TEST_P(Ladder, AnNpuIsAnsweredByOneWhoseProgramsRunOnIt) {
  const WorkloadRow w = matmul(512, 512, 512);
  const Target mid32 = *find_target("npu_mid32");
  npu::Config config = npu_config(mid32);
  config.name = "small", config.spm.bytes /= 2;
  const Target small = npu_target(config);
  const auto put_simulated = [&](const WorkloadRow& workload, const Target& target, double us) {
    put(*store_, workload, target, us, "llvm 19.1.7 r1", 2, TimeKind::kSimulated);
  };
  put(*store_, w, make_target(), 1);
  put_simulated(w, small, 20);
  std::vector<Match> found = climb_all(ask(w, mid32));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestTarget);
  EXPECT_EQ(found[0].record->time_kind, TimeKind::kSimulated);
  EXPECT_TRUE(climb_all(ask(w, *find_target("npu_edge16"))).empty());
  put_simulated(matmul(512, 512, 256), mid32, 10);
  found = climb_all(ask(w, mid32));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rung, Rung::kNearestShape);
  found = climb_all(ask(matmul(512, 512, 256), small));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].record->time_us, 20) << "what was made for more memory does not fit";
}

TEST_P(Ladder, ARungAnswersByTimesOfOneKind) {
  const auto put_kind = [&](int64_t k, double us, TimeKind kind) {
    const Key key = make_key(matmul(64, 64, k), make_target());
    EXPECT_TRUE(store_->put_workload(matmul(64, 64, k)).ok());
    EXPECT_TRUE(store_->put_target(key.target, make_target()).ok());
    std::vector<Measurement> batch = {of_kind(make_measurement(1, {us, us, us}), kind)};
    EXPECT_TRUE(store_->append(key, batch).ok());
  };
  const auto ask_times = [&] {
    std::vector<std::pair<TimeKind, double>> times;
    for (const Match& match : climb_all(ask(matmul(64, 64, 64), make_target()))) {
      EXPECT_EQ(match.rung, Rung::kNearestShape);
      times.emplace_back(match.record->time_kind, match.record->time_us);
    }
    std::sort(times.begin(), times.end());
    return times;
  };
  using Times = std::vector<std::pair<TimeKind, double>>;
  for (int64_t k : {65, 66, 67, 68, 69}) {
    put_kind(k, static_cast<double>(k), TimeKind::kEstimated);  // the nearest
  }
  EXPECT_EQ(ask_times(), (Times{{TimeKind::kEstimated, 65}, {TimeKind::kEstimated, 66},
                                {TimeKind::kEstimated, 67}, {TimeKind::kEstimated, 68}}));
  put_kind(71, 71, TimeKind::kSimulated);
  EXPECT_EQ(ask_times(), (Times{{TimeKind::kSimulated, 71}}));
  put_kind(70, 170, TimeKind::kEmulated);
  EXPECT_EQ(ask_times(), (Times{{TimeKind::kEmulated, 170}}));
  put_kind(80, 280, TimeKind::kMeasured);
  put_kind(90, 290, TimeKind::kMeasured);
  EXPECT_EQ(ask_times(), (Times{{TimeKind::kMeasured, 280}, {TimeKind::kMeasured, 290}}));
}

TEST_P(Ladder, AnotherVersionOfTheGeneratorIsLooseAnotherMajorIsNot) {
  const WorkloadRow w = matmul(512, 512, 512);
  put(*store_, w, make_target(), 20, "llvm 18.1.0 r1");
  std::vector<Match> found = climb_all(ask(w, make_target()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestShape);
  EXPECT_TRUE(found[0].stale);
  put(*store_, w, make_target(), 30, "llvm 19.1.0 r7");
  found = climb_all(ask(w, make_target()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kLoose);
  EXPECT_EQ(found[0].record->time_us, 30);
  EXPECT_TRUE(found[0].stale);
}

TEST_P(Ladder, NearestShapeIsByDimensionNotByProduct) {
  put(*store_, matmul(1, 4096, 64), make_target(), 20);
  put(*store_, matmul(64, 128, 64), make_target(), 30);
  put(*store_, matmul(65, 64, 64), make_target(), 40);
  const std::vector<Match> found = climb_all(ask(matmul(64, 64, 64), make_target()));
  ASSERT_EQ(found.size(), 2u);  // 1 x 4096 is a factor of 4096 away
  EXPECT_NEAR(found[0].distance, std::log(65.0 / 64) + 6 * kDivisibility, 1e-5);
  EXPECT_EQ(found[0].record->time_us, 40);
  EXPECT_NEAR(found[1].distance, std::log(2), 1e-5);
  LadderOptions options;
  options.count = 1;
  EXPECT_EQ(climb_all(ask(matmul(64, 64, 64), make_target()), options).size(), 1u);
}

TEST_P(Ladder, WhatIsNotVerifiedOrEverWrongIsNeverGivenOut) {
  const WorkloadRow w = matmul(512, 512, 512);
  const Key key = put(*store_, w, make_target(), 20);
  std::vector<Measurement> wrong = {make_failure(20, Verdict::kWrongResult)};
  wrong[0].trace = make_trace(20);
  ASSERT_TRUE(store_->append(key, wrong).ok());
  std::vector<Measurement> unverified = {make_measurement(7, {1, 1, 1})};
  unverified[0].verified = false;
  ASSERT_TRUE(store_->append(key, unverified).ok());
  EXPECT_TRUE(climb_all(ask(w, make_target())).empty());
  EXPECT_TRUE(climb_all(ask(matmul(256, 512, 512), make_target())).empty());
}

TEST_P(Ladder, RungsCanBeLeftOut) {
  const WorkloadRow w = matmul(512, 512, 512);
  put(*store_, w, make_target(), 20);
  LadderOptions options;
  options.lowest = Rung::kLoose;
  EXPECT_TRUE(climb_all(ask(matmul(256, 512, 512), make_target()), options).empty());
  options = {};
  options.highest = Rung::kLoose;
  const std::vector<Match> found = climb_all(ask(w, make_target()), options);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestShape);  // itself, as a foreign trace
  EXPECT_EQ(found[0].distance, 0);
}

TEST_P(Ladder, OldRecordsAreStale) {
  const WorkloadRow w = matmul(512, 512, 512);
  put(*store_, w, make_target(), 20);
  LadderOptions options;
  options.now_ms = 1'800'000'000'000 + options.stale_after_ms;
  EXPECT_FALSE(climb_all(ask(w, make_target()), options)[0].stale);
  ++options.now_ms;
  EXPECT_TRUE(climb_all(ask(w, make_target()), options)[0].stale);
}

TEST_P(Ladder, FewerThreadsAreAnotherMachine) {
  const WorkloadRow w = matmul(512, 512, 512);
  put(*store_, w, make_target(), 20, "llvm 19.1.7 r1", 8);
  const std::vector<Match> found = climb_all(ask(w, make_target()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestTarget);
  EXPECT_NEAR(found[0].distance, std::log(4), 1e-9);
}

// As an earlier version named it: with its cores.
Key put_by_old_name(Store& store, const WorkloadRow& workload, Target target, int cores, double us,
                    const std::string& backend = "llvm 19.1.7 r1") {
  target.cores = cores;
  EXPECT_NE(sha256(to_text(target)), target_id(target));
  return put(store, workload, target, us, backend);
}

TEST_P(Ladder, AMachineIsTheSameWhateverCoresItWasStoredWith) {
  const WorkloadRow w = matmul(512, 512, 512);
  put_by_old_name(*store_, w, make_target(), 8, 20);
  put_by_old_name(*store_, w, wide(), 8, 10);  // nor is it any other machine of eight
  std::vector<Match> found = climb_all(ask(w, make_target()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kExact);
  EXPECT_EQ(found[0].record->time_us, 20);
  LadderOptions exact;
  exact.lowest = Rung::kExact;
  EXPECT_EQ(climb_all(ask(w, make_target()), exact).size(), 1u);
  found = climb_all(ask(matmul(512, 512, 256), make_target()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestShape);
}

// Times of the same workload are its own; those of others make estimates for it.
TEST_P(Ladder, OnOtherTargetsTheSameWorkloadComesFirst) {
  const WorkloadRow w = matmul(512, 512, 512);
  Target slow = make_target("slow");
  slow.ghz = 0.4;
  put(*store_, w, slow, 90);
  for (int i = 1; i <= 6; ++i) put(*store_, matmul(512, 512, 512 + 8 * i), make_target(), 10 + i);
  const std::vector<Match> found = climb_all(ask(w, wide()));
  ASSERT_EQ(found.size(), 4u);
  for (const Match& match : found) EXPECT_EQ(match.rung, Rung::kNearestTarget);
  EXPECT_EQ(found[0].record->time_us, 90);
  for (int i : {2, 3}) EXPECT_GE(found[i].distance, found[i - 1].distance);
  EXPECT_GT(found[0].distance, found[3].distance);
}

TEST_P(Ladder, ShapesThatNobodyMeasuredGiveWayToTheSameOneMeasuredElsewhere) {
  const WorkloadRow w = matmul(512, 512, 512), near = matmul(512, 512, 480);
  put(*store_, near, wide(), 5, "llvm 19.1.7 r1", 2, TimeKind::kEstimated);
  ASSERT_EQ(climb_all(ask(w, wide())).size(), 1u);
  EXPECT_EQ(climb_all(ask(w, wide()))[0].rung, Rung::kNearestShape);
  put(*store_, matmul(512, 512, 500), make_target(), 30);
  put(*store_, w, make_target("estimated"), 20, "llvm 19.1.7 r1", 2, TimeKind::kEstimated);
  EXPECT_EQ(climb_all(ask(w, wide()))[0].rung, Rung::kNearestShape) << "nor is this measured";
  put(*store_, w, make_target(), 40);
  const std::vector<Match> found = climb_all(ask(w, wide()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kNearestTarget);
  EXPECT_EQ(found[0].record->time_us, 40);
  LadderOptions shapes;
  shapes.lowest = Rung::kNearestShape;
  EXPECT_EQ(climb_all(ask(w, wide()), shapes)[0].rung, Rung::kNearestShape);
  put(*store_, near, wide(), 50);          // once it is measured here, it is nearer
  EXPECT_EQ(climb_all(ask(w, wide()))[0].rung, Rung::kNearestShape);
}

TEST_P(Ladder, ALooseRecordMayBeByAnOldName) {
  const WorkloadRow w = matmul(512, 512, 512);
  put_by_old_name(*store_, w, make_target(), 8, 20, "llvm 19.1.0 r7");
  const std::vector<Match> found = climb_all(ask(w, make_target()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rung, Rung::kLoose);
}

INSTANTIATE_TEST_SUITE_P(Sources, Ladder, testing::Values("store", "index", "snapshot"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ShapeDistance, CountsADimensionOnce) {
  const std::vector<int64_t> a = {512, 64, 512}, b = {1024, 64, 1024};
  EXPECT_NEAR(shape_distance(a, b), std::log(2), 1e-6);
  EXPECT_EQ(shape_distance(a, a), 0);
  EXPECT_TRUE(std::isinf(shape_distance(a, {512, 64})));
  EXPECT_GT(shape_distance({512}, {511}), shape_distance({512}, {640}));  // tiles of 64 fit 640
}

TEST(LadderIndex, FollowsTheStoreAndWithdraws) {
  const std::unique_ptr<Store> store = make_memory_store();
  LadderIndex index(*store);
  ASSERT_TRUE(index.refresh().ok());
  const WorkloadRow w = matmul(512, 512, 512);
  const Key key = put(*store, w, make_target(), 20);
  EXPECT_FALSE(index.record(key).ok());
  ASSERT_TRUE(index.update(key).ok());
  EXPECT_EQ((*index.record(key))->time_us, 20);
  put(*store, w, make_target(), 10);
  ASSERT_TRUE(index.update(key).ok());
  EXPECT_EQ((*index.record(key))->time_us, 10);
  EXPECT_EQ(index.withdrawn(), nullptr) << "nobody has looked: not even an empty list is known";
  ASSERT_TRUE(index.refresh_withdrawn().ok());
  const auto none = index.withdrawn();
  EXPECT_EQ(none->list.size(), 0u);
  const std::shared_ptr<const ScheduleRecord> wrong = *index.record(key);
  ASSERT_TRUE(store->withdraw({key, make_trace(10), "wrong", "", "test", 1}).ok());
  ASSERT_TRUE(index.refresh_withdrawn().ok());
  EXPECT_EQ((*index.record(key))->time_us, 20);
  EXPECT_TRUE(index.withdrawn()->list.has(*wrong));
  EXPECT_NE(index.withdrawn()->etag, none->etag);
  ASSERT_TRUE(store->restore(key, make_trace(10)).ok());
  ASSERT_TRUE(index.refresh_withdrawn().ok());
  EXPECT_EQ(index.withdrawn()->etag, none->etag);
  ASSERT_TRUE(store->withdraw({key, make_trace(10), "wrong", "", "test", 1}).ok());
  ASSERT_TRUE(index.refresh_withdrawn().ok());
  ASSERT_TRUE(store->withdraw({key, make_trace(20), "wrong", "", "test", 2}).ok());
  ASSERT_TRUE(index.refresh_withdrawn().ok());
  EXPECT_TRUE(absl::IsNotFound(index.record(key).status()));
  ASSERT_TRUE(store->restore(key, make_trace(10)).ok());
  ASSERT_TRUE(index.refresh_withdrawn().ok());
  EXPECT_EQ((*index.record(key))->time_us, 10);
  EXPECT_EQ(index.stats().keys, 1u);
}

TEST(LadderIndex, WithoutRoomRecordsComeFromTheStore) {
  const std::unique_ptr<Store> store = make_memory_store();
  LadderIndexOptions options;
  options.resident_bytes = 0;
  LadderIndex index(*store, options);
  const Key key = put(*store, matmul(512, 512, 512), make_target(), 20);
  ASSERT_TRUE(index.refresh().ok());
  EXPECT_EQ(index.stats().resident, 0u);
  EXPECT_EQ((*index.record(key))->time_us, 20);
}

TEST(LadderIndex, ReadersAndWritersAtOnce) {
  const std::unique_ptr<Store> store = make_memory_store();
  LadderIndex index(*store);
  std::thread writer([&] {
    for (int i = 1; i <= 200; ++i) {
      const Key key = put(*store, matmul(i, 64, 64), make_target(), i);
      EXPECT_TRUE(index.update(key).ok());
    }
  });
  for (int i = 1; i <= 2000; ++i) {
    EXPECT_TRUE(climb(ask(matmul(i % 300 + 1, 64, 32), make_target()), index, {}).ok());
  }
  writer.join();
  EXPECT_EQ(index.stats().keys, 200u);
}

}  // namespace
}  // namespace lw
