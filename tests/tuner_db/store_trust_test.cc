// Whose measurements count, on every Store.
#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "tests/tuner_db/every_store.h"
#include "tuner_db/best.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/workload_row.h"

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_P(StoreTest, WhatDoesNotCountIsNeverBestAndDisqualifiesNothing) {
  const Key key = put_key(*store_);
  Measurement forged = make_measurement(1, {0.001, 0.001}), crash = make_failure(2, Verdict::kCrash);
  for (Measurement* m : {&forged, &crash}) m->counts = false, m->actor = "client/mallory";
  std::vector<Measurement> batch = {make_measurement(2, {10, 11}), forged, crash,
                                    make_measurement(3, {20, 21})};
  batch[3].annulled = "{\"actor\":\"admin/a\"}";
  ASSERT_TRUE(store_->append(key, batch).ok());
  const BestRow best = *store_->top(key, 4);
  EXPECT_EQ(best.measurement.trace, make_trace(2));
  EXPECT_TRUE(best.measurement.verified);
  EXPECT_THAT(best.others, IsEmpty());
  const std::vector<Measurement> back = *store_->measurements(key);
  EXPECT_EQ(back[1].actor, "client/mallory");
  EXPECT_FALSE(back[1].counts);
  EXPECT_EQ(back[3].annulled, batch[3].annulled);
  ASSERT_TRUE(store_->prune(1, 0).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(2));
  EXPECT_EQ(store_->measurements(key)->back().annulled, batch[3].annulled);
  EXPECT_THAT(*store_->check(), IsEmpty());
}

// Into an empty store, and into one that has its own word on the trace.
TEST_P(StoreTest, WithdrawalsSurviveExportAndImport) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, {1, 1}), make_measurement(2, {10, 11}),
                                    make_measurement(1, {2, 2})};
  ASSERT_TRUE(store_->append(key, batch).ok());
  ASSERT_TRUE(store_->withdraw({key, make_trace(1), "forged", "{}", "admin/a", 5}).ok());
  const std::string lines = *export_records(*store_);
  const std::unique_ptr<Store> copy = make_memory_store();
  int64_t imported = 0;
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = import_records(*copy, lines, &imported);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(copy->withdrawn(key)->size(), 1u);
    EXPECT_EQ(copy->withdrawn(key)->front().reason, i == 0 ? "forged" : "ours");
    EXPECT_EQ(copy->withdrawn(key)->front().actor, i == 0 ? "admin/a" : "admin/b");
    EXPECT_EQ(copy->best(key)->measurement.trace, make_trace(2));
    ASSERT_TRUE(copy->withdraw({key, make_trace(1), "ours", "", "admin/b", 6}).ok());
  }
  ASSERT_TRUE(store_->restore(key, make_trace(1)).ok());
  ASSERT_TRUE(import_records(*store_, lines, &imported).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(2));
}

TEST_P(StoreTest, TheListOfWithdrawalsHasARevision) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, {1, 1}), make_measurement(2, {10, 11})};
  batch[1].kernel_hash = 0;
  ASSERT_TRUE(store_->append(key, batch).ok());
  std::set<int64_t> revisions = {*store_->withdrawn_revision()};
  const auto moved = [&] { return revisions.insert(*store_->withdrawn_revision()).second; };
  EXPECT_FALSE(moved());
  for (const int trace : {1, 2}) {
    ASSERT_TRUE(store_->withdraw({key, make_trace(trace), "wrong", "", "me", 1}).ok());
    EXPECT_TRUE(moved());
  }
  std::vector<WithdrawnDigests> rows = *store_->withdrawn_digests();
  ASSERT_EQ(rows.size(), 2u);
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.kernel > b.kernel; });
  EXPECT_EQ(rows[0].key, key);
  EXPECT_EQ(rows[0].record, record_digest(key, make_trace(1)));
  EXPECT_EQ(rows[0].kernel, kernel_digest(key, batch[0].kernel_hash));
  EXPECT_EQ(rows[1].record, record_digest(key, make_trace(2)));
  EXPECT_EQ(rows[1].kernel, "");
  EXPECT_FALSE(store_->restore(key, make_trace(9)).ok());
  EXPECT_FALSE(store_->withdraw({key, make_trace(9), "wrong", "", "me", 1}).ok());
  EXPECT_FALSE(moved());
  ASSERT_TRUE(store_->restore(key, make_trace(2)).ok());
  EXPECT_TRUE(moved());
  EXPECT_EQ(store_->withdrawn_digests()->size(), 1u);
}

// By traces 1, 2 and 4 the same kernel is had, by 3 another, of 5 nobody has said.
class KernelTest : public StoreTest {
 protected:
  static Measurement of_kernel(int trace, uint64_t kernel_hash, double us) {
    Measurement m = make_measurement(trace, {us, us});
    m.kernel_hash = kernel_hash;
    return m;
  }
  void append(Measurement m) {
    std::vector<Measurement> batch = {std::move(m)};
    ASSERT_TRUE(store_->append(key_, batch).ok());
  }
  void withdraw(int trace) {
    ASSERT_TRUE(store_->withdraw({key_, make_trace(trace), "wrong", "", "admin/a", 5}).ok());
  }
  void restore(int trace) { ASSERT_TRUE(store_->restore(key_, make_trace(trace)).ok()); }
  std::string best() {
    EXPECT_THAT(*store_->check(), IsEmpty());
    const absl::StatusOr<BestRow> row = store_->top(key_, 9);
    return row.ok() ? row->measurement.trace : "";
  }

  static constexpr uint64_t kWrong = 0xfedcba9876543210u, kRight = 7;
  Key key_;
  void SetUp() override {
    StoreTest::SetUp();
    if (store_ == nullptr) return;
    key_ = put_key(*store_);
    append(of_kernel(1, kWrong, 1));
    append(of_kernel(2, kWrong, 2));
    append(of_kernel(3, kRight, 30));
    append(of_kernel(5, 0, 50));
  }
};
INSTANTIATE_TEST_SUITE_P(All, KernelTest, ::testing::ValuesIn(kKinds), kind_name);

TEST_P(KernelTest, AWithdrawnKernelIsOutWithEveryTraceThatGivesIt) {
  EXPECT_EQ(best(), make_trace(1));
  withdraw(1);
  EXPECT_EQ(best(), make_trace(3)) << "trace 2 is the same kernel";
  EXPECT_EQ(store_->top(key_, 9)->others.size(), 1u) << "trace 5, of which nobody knows";
  EXPECT_EQ(store_->withdrawn(key_)->front().kernel_hash, kWrong);
  append(of_kernel(4, kWrong, 1));
  EXPECT_EQ(best(), make_trace(3)) << "nor is it what gives the kernel later";
  append(of_kernel(5, kWrong, 1));
  EXPECT_EQ(best(), make_trace(3)) << "nor what turns out to";

  // Another key's kernel is another kernel.
  const Key other = put_key(*store_, 256);
  std::vector<Measurement> elsewhere = {of_kernel(2, kWrong, 2)};
  ASSERT_TRUE(store_->append(other, elsewhere).ok());
  EXPECT_TRUE(store_->best(other).ok());

  // A search neither builds on it nor tries it again.
  const std::vector<Measurement> known = *trusted_measurements(*store_, key_);
  for (const Measurement& m : known) {
    EXPECT_EQ(m.verdict == Verdict::kWrongResult, m.kernel_hash == kWrong) << m.trace;
  }
  // What is evidence is kept.
  ASSERT_TRUE(store_->prune(1, 0).ok());
  EXPECT_EQ(store_->measurements(key_)->size(), 6u);
  EXPECT_EQ(best(), make_trace(3));

  EXPECT_TRUE(absl::IsNotFound(store_->restore(key_, make_trace(2)))) << "it was not withdrawn";
  restore(1);
  EXPECT_EQ(best(), make_trace(1));
  EXPECT_EQ(store_->top(key_, 9)->others.size(), 4u);
}

TEST_P(KernelTest, EachWithdrawalOfAKernelIsRestoredByItself) {
  withdraw(1);
  withdraw(2);
  restore(1);
  EXPECT_EQ(best(), make_trace(3));
  restore(2);
  EXPECT_EQ(best(), make_trace(1));
}

// Nor can who puts hints take a good kernel out by what it says of it.
TEST_P(KernelTest, WhatDoesNotCountNamesNoKernel) {
  Measurement forged = of_kernel(3, kWrong, 1);
  forged.counts = false;
  append(forged);
  Measurement annulled = of_kernel(3, kWrong, 1);
  annulled.annulled = "{}";
  append(annulled);
  withdraw(1);
  EXPECT_EQ(best(), make_trace(3));
}

TEST_P(KernelTest, AWithdrawnKernelSurvivesExportAndImport) {
  withdraw(1);
  const std::string lines = *export_records(*store_);
  const std::unique_ptr<Store> copy = make_memory_store();
  int64_t imported = 0;
  ASSERT_TRUE(import_records(*copy, lines, &imported).ok());
  EXPECT_EQ(copy->best(key_)->measurement.trace, make_trace(3));
  EXPECT_EQ(copy->withdrawn(key_)->front().kernel_hash, kWrong);
  restore(1);
  EXPECT_EQ(best(), make_trace(1));
  ASSERT_TRUE(import_records(*store_, lines, &imported).ok());
  EXPECT_EQ(best(), make_trace(3));
  std::vector<Measurement> later = {of_kernel(4, kWrong, 1)};
  ASSERT_TRUE(copy->append(key_, later).ok());
  EXPECT_EQ(copy->best(key_)->measurement.trace, make_trace(3));
}

TEST_P(StoreTest, WhatIsPutTwiceIsOneMeasurementThatCountsWhenVouchedFor) {
  const Key key = put_key(*store_);
  Measurement hint = make_measurement(1, {10, 11});
  hint.counts = false, hint.actor = "client/c";
  std::vector<Measurement> batch = {hint, hint};
  int64_t stored = 0;
  ASSERT_TRUE(store_->put(key, batch, &stored).ok());
  EXPECT_EQ(stored, 1);
  EXPECT_EQ(batch[0].id, batch[1].id);
  EXPECT_FALSE(store_->best(key).ok());

  std::vector<Measurement> vouched = {make_measurement(1, {10, 11})};
  vouched[0].actor = "admin/a";
  ASSERT_TRUE(store_->put(key, vouched, &stored).ok());
  EXPECT_EQ(stored, 1);
  EXPECT_EQ(vouched[0].id, batch[0].id);
  EXPECT_EQ(store_->best(key)->measurement.time_us, 10.5);
  EXPECT_EQ(store_->measurements(key)->front().actor, "admin/a");
  ASSERT_TRUE(store_->put(key, batch, &stored).ok());       // whose word does not count takes nothing
  EXPECT_EQ(stored, 0);
  EXPECT_TRUE(store_->best(key).ok());

  vouched[0].annulled = "{}";
  ASSERT_TRUE(store_->put(key, vouched, &stored).ok());
  EXPECT_FALSE(store_->best(key).ok());
  vouched[0].annulled = "";
  ASSERT_TRUE(store_->put(key, vouched, &stored).ok());     // what was annulled stays so
  EXPECT_EQ(stored, 0);
  EXPECT_FALSE(store_->best(key).ok());
  EXPECT_EQ(store_->measurements(key)->size(), 1u);
  EXPECT_THAT(*store_->check(), IsEmpty());
}

TEST_P(StoreTest, WhatIsAnnulledCountsForNothingUntilItIsBroughtBack) {
  const Key key = put_key(*store_), other = put_key(*store_, 256);
  Measurement glitch = make_measurement(1, {0.001, 0.001}), crash = make_failure(2, Verdict::kCrash);
  glitch.actor = crash.actor = "agent/board-7", glitch.device = "d7", crash.device = "d8";
  std::vector<Measurement> batch = {glitch, make_measurement(2, {10, 11}), crash,
                                    make_measurement(3, {20, 21})};
  ASSERT_TRUE(store_->append(key, batch).ok());
  std::vector<Measurement> elsewhere = {glitch};
  ASSERT_TRUE(store_->append(other, elsewhere).ok());
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(1));

  MeasurementFilter filter;
  filter.actor = "agent/board-7";
  EXPECT_EQ(*store_->find(filter, 0, 2), (std::vector<int64_t>{batch[0].id, batch[2].id}));
  EXPECT_EQ(*store_->find(filter, batch[2].id, 9), std::vector<int64_t>{elsewhere[0].id});
  filter.key = key;
  EXPECT_EQ(store_->find(filter, 0, 9)->size(), 2u);
  MeasurementFilter of_device{.key = key, .trace = make_trace(2), .device = "d8"};
  EXPECT_EQ(*store_->find(of_device, 0, 9), std::vector<int64_t>{batch[2].id});
  EXPECT_THAT(*store_->find({.key = key, .trace = make_trace(9)}, 0, 9), IsEmpty());
  EXPECT_EQ(*store_->find({.first = batch[1].id, .last = batch[2].id}, 0, 9),
            (std::vector<int64_t>{batch[1].id, batch[2].id}));

  int64_t changed = 0;
  const std::vector<int64_t> ids = *store_->find(filter, 0, 9);
  const std::string mark = annulment_text({"admin/a", "the board is broken", 5});
  EXPECT_EQ(*store_->annul(ids, mark, &changed), std::vector<Key>{key});
  EXPECT_EQ(changed, 2);
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(2)) << "nor does its crash count";
  EXPECT_EQ(store_->measurements(key)->front().annulled, mark);
  EXPECT_THAT(*store_->annul(ids, mark, &changed), IsEmpty());
  EXPECT_EQ(changed, 0);
  EXPECT_THAT(*store_->find(filter, 0, 9), IsEmpty());
  EXPECT_THAT(*store_->check(), IsEmpty());

  const std::unique_ptr<Store> copy = make_memory_store();  // its mark travels with it
  int64_t imported = 0;
  ASSERT_TRUE(import_records(*copy, *export_records(*store_), &imported).ok());
  EXPECT_EQ(copy->best(key)->measurement.trace, make_trace(2));
  EXPECT_EQ(copy->measurements(key)->front().annulled, mark);

  filter.annulled = true;
  EXPECT_EQ(*store_->annul(*store_->find(filter, 0, 9), "", &changed), std::vector<Key>{key});
  EXPECT_EQ(store_->best(key)->measurement.trace, make_trace(1));
  EXPECT_THAT(*store_->check(), IsEmpty());
}

// Whoever registers a workload first decides nothing of what its text says.
TEST_P(StoreTest, AWrongRowOfAWorkloadIsReportedAndPutRight) {
  const WorkloadRow right = make_workload(64);
  WorkloadRow wrong = right;
  wrong.structure = sha256("another"), wrong.shape = {3, 1}, wrong.program.clear();
  wrong.flops = 1, wrong.bytes = 1e9, wrong.name = "first";
  ASSERT_TRUE(store_->put_workload(wrong).ok());
  ASSERT_THAT(*store_->check(), ElementsAre(HasSubstr("its family is not that of its canonical")));
  ASSERT_TRUE(store_->put_workload(right).ok());
  const WorkloadRow now = *store_->workload(right.id);
  EXPECT_EQ(now.structure, right.structure);
  EXPECT_EQ(now.shape, right.shape);
  EXPECT_EQ(now.flops, right.flops);
  EXPECT_EQ(now.bytes, right.bytes);
  EXPECT_EQ(now.program, right.program);
  EXPECT_EQ(now.name, "first") << "a label";
  EXPECT_THAT(*store_->check(), IsEmpty());
  for (const auto& [what, spoil] : std::vector<std::pair<std::string, std::function<void(WorkloadRow&)>>>{
           {"shape", [](WorkloadRow& row) { row.shape[0] = 65; }},
           {"flops", [](WorkloadRow& row) { row.flops *= 100; }},
           {"bytes", [](WorkloadRow& row) { row.bytes = 0; }},
           {"program", [](WorkloadRow& row) { row.program = make_workload(65).program; }}}) {
    WorkloadRow spoilt = right;
    spoil(spoilt);
    EXPECT_THAT(contradiction(spoilt), HasSubstr(what));
  }
  EXPECT_EQ(contradiction(right), "");
}

TEST_P(StoreTest, AnImportSaysNothingOfAWorkloadBesideItsText) {
  const Key key = put_key(*store_);
  std::vector<Measurement> batch = {make_measurement(1, {10, 11})};
  ASSERT_TRUE(store_->append(key, batch).ok());
  const WorkloadRow right = *store_->workload(key.workload);
  std::string lines = absl::StrReplaceAll(
      *export_records(*store_), {{right.structure, sha256("another")}, {"\"flops\":", "\"flops\":7"},
                                 {"\"shape\":[", "\"shape\":[\"9\","}});
  const std::unique_ptr<Store> copy = make_memory_store();
  int64_t imported = 0;
  absl::Status status = import_records(*copy, lines, &imported);
  ASSERT_TRUE(status.ok()) << status;
  const WorkloadRow taken = *copy->workload(key.workload);
  EXPECT_EQ(taken.structure, right.structure);
  EXPECT_EQ(taken.flops, right.flops);
  EXPECT_EQ(taken.shape, right.shape);
  EXPECT_EQ(taken.program, right.program);
  // A program of another name is that workload's all the same, of other extents it is not.
  lines = absl::StrReplaceAll(*export_records(*store_), {{"op matmul()", "op product()"}});
  ASSERT_TRUE(import_records(*make_memory_store(), lines, &imported).ok());
  lines = absl::StrReplaceAll(*export_records(*store_), {{"A: f32[128, 64]", "A: f32[129, 64]"}});
  status = import_records(*make_memory_store(), lines, &imported);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("line 1: workload: the program is another workload's"));
  WorkloadRow none = right;
  none.canonical_text = "anything\n", none.id = sha256(none.canonical_text);
  lines = absl::StrReplaceAll(*export_records(*store_),
                              {{right.id, none.id}, {"loopwright expression 1\\n", "anything\\n"}});
  EXPECT_THAT(std::string(import_records(*make_memory_store(), lines, &imported).message()),
              HasSubstr("line 1: workload: "));
}

}  // namespace
}  // namespace lw
