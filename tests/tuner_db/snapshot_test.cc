// Snapshots: what goes in comes out, whatever the bytes; readers keep what they opened.
#include "tuner_db/ladder/snapshot.h"
#include "tuner_db/ladder/snapshot_format.h"

#include "gtest/gtest.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/records/record_codec.h"

#define LLVMFuzzerTestOneInput feed_snapshot
#include "fuzz/snapshot_fuzz.cc"
#undef LLVMFuzzerTestOneInput

namespace lw {
namespace {

// Three keys of two targets, several traces each.
std::unique_ptr<Store> small_store() {
  std::unique_ptr<Store> store = make_memory_store();
  for (const auto& [extent, target] :
       {std::pair(128, "x86_test"), std::pair(256, "x86_test"), std::pair(128, "other")}) {
    const Key key = put_key(*store, extent, target);
    std::vector<Measurement> batch;
    for (int i = 0; i < 5; ++i) batch.push_back(make_measurement(i, {9.0 + i, 9.5 + i, 10.0 + i}));
    CHECK(store->append(key, batch).ok());
  }
  return store;
}

std::vector<ScheduleRecord> records_of(const Store& store) {
  std::vector<ScheduleRecord> records;
  const std::vector<Key> keys = *store.keys();
  for (const Key& key : keys) {
    records.push_back(make_record(*store.workload(key.workload), *store.best(key)));
  }
  return records;
}

TEST(Snapshot, HoldsTheBestOfEveryKey) {
  const Scratch scratch;
  const std::string file = scratch.directory + "/a.lws";
  const std::unique_ptr<Store> store = small_store();
  const absl::StatusOr<SnapshotStats> stats = write_snapshot(*store, file, 3, 77);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->records, 3);
  EXPECT_EQ(stats->targets, 2);
  const std::unique_ptr<Snapshot> snapshot = *Snapshot::open(file);
  EXPECT_TRUE(snapshot->verify().ok());
  EXPECT_EQ(snapshot->stats().unix_ms, 77);
  EXPECT_EQ(snapshot->keys()->size(), 3u);
  const std::vector<Key> keys = *store->keys();
  for (const Key& key : keys) {
    const std::shared_ptr<const ScheduleRecord> record = *snapshot->record(key);
    const ScheduleRecord expected =
        make_record(*store->workload(key.workload), *store->top(key, 3));
    EXPECT_EQ(*record, expected);
    ASSERT_EQ(record->others.size(), 2u);
    EXPECT_EQ(record->others[0].trace, make_trace(1));
    EXPECT_EQ(to_text(**snapshot->target(key.target)), to_text(*store->target(key.target)));
  }
  Key unknown = keys[0];
  unknown.threads = 99;
  EXPECT_TRUE(absl::IsNotFound(snapshot->record(unknown).status()));
}

TEST(Snapshot, SaysWhatWasWithdrawn) {
  const Scratch scratch;
  const std::string file = scratch.directory + "/a.lws";
  const std::unique_ptr<Store> store = small_store();
  const Key key = (*store->keys())[0];
  ASSERT_TRUE(write_snapshot(*store, file, 3, 1).ok());
  EXPECT_EQ((*(*Snapshot::open(file))->withdrawn())->size(), 0u);
  const ScheduleRecord before = **(*Snapshot::open(file))->record(key);
  EXPECT_EQ(before.trace, make_trace(0));
  for (const int trace : {0, 3}) {
    ASSERT_TRUE(store->withdraw({key, make_trace(trace), "wrong", "", "admin/a", 1}).ok());
  }
  ASSERT_TRUE(write_snapshot(*store, file, 3, 2).ok());
  const std::unique_ptr<Snapshot> snapshot = *Snapshot::open(file);
  EXPECT_TRUE(snapshot->verify().ok());
  EXPECT_EQ((*snapshot->record(key))->trace, make_trace(1));
  const WithdrawnList& list = **snapshot->withdrawn();
  EXPECT_EQ(list.size(), 4u) << "two records and their kernels";
  EXPECT_TRUE(list.has(before));
  EXPECT_FALSE(list.has(**snapshot->record(key)));
  const WithdrawnReasons reasons = *snapshot->withdrawn_reasons();
  EXPECT_EQ(reasons.at(record_digest(key, make_trace(0))), "by admin/a: wrong");
  EXPECT_EQ(reasons.at(kernel_digest(key, before.kernel_hash)), "by admin/a: wrong");
  EXPECT_EQ(reasons, reasons_of(*store->withdrawn()));
}

TEST(WithdrawnList, HasRecordsByTraceAndByKernel) {
  const Key key = make_key(make_workload(64), make_target());
  ScheduleRecord record;
  record.key = key;
  record.trace = make_trace(1);
  record.kernel_hash = 7;
  record.others = {{make_trace(2), 1}, {make_trace(3), 2}};
  const auto shared = std::make_shared<const ScheduleRecord>(record);
  EXPECT_EQ(unless_withdrawn(shared, WithdrawnList()), shared);
  EXPECT_EQ(unless_withdrawn(shared, WithdrawnList({record_digest(key, record.trace)})), nullptr);
  EXPECT_EQ(unless_withdrawn(shared, WithdrawnList({kernel_digest(key, 7)})), nullptr);
  const WithdrawnList other({record_digest(key, make_trace(2)), kernel_digest(key, 8), "none"});
  EXPECT_EQ(other.size(), 2u);
  ASSERT_NE(unless_withdrawn(shared, other), nullptr);
  EXPECT_EQ(unless_withdrawn(shared, other)->others,
            (std::vector<RankedTrace>{{make_trace(3), 2}}));
  record.kernel_hash = 0;                  // a kernel that nobody knows is no kernel
  EXPECT_EQ(kernel_digest(key, 0), "");
  EXPECT_FALSE(WithdrawnList({kernel_digest(key, 0)}).has(record));
  Key elsewhere = key;
  elsewhere.threads = 9;
  EXPECT_NE(kernel_digest(elsewhere, 7), kernel_digest(key, 7));

  std::set<std::string> many;
  for (int i = 0; i < 1000; ++i) many.insert(sha256(absl::StrCat(i)));
  const WithdrawnList list(many);
  ASSERT_EQ(list.size(), many.size());
  size_t at = 0;
  for (const std::string& digest : many) EXPECT_EQ(list.digest(at++), digest);
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(list.has(sha256(absl::StrCat(i))), i < 1000) << i;
  const std::string bytes = list.bytes();
  EXPECT_EQ(WithdrawnList::of_bytes(bytes)->bytes(), bytes);
  EXPECT_FALSE(WithdrawnList::of_bytes(bytes.substr(1)));
  EXPECT_FALSE(WithdrawnList::of_bytes(bytes.substr(32, 32) + bytes.substr(0, 32)));
  EXPECT_FALSE(WithdrawnList::of_bytes(bytes.substr(0, 32) + bytes.substr(0, 32)));
}

TEST(Snapshot, TheSameRecordsGiveTheSameBytes) {
  const Scratch scratch;
  const std::unique_ptr<Store> store = small_store();
  ASSERT_TRUE(write_snapshot(*store, scratch.directory + "/a", 3, 1).ok());
  ASSERT_TRUE(write_snapshot(*small_store(), scratch.directory + "/b", 3, 1).ok());
  EXPECT_EQ(slurp(scratch.directory + "/a"), slurp(scratch.directory + "/b"));
}

TEST(Snapshot, ReadersKeepTheFileThatTheyOpened) {
  const Scratch scratch;
  const std::string file = scratch.directory + "/a.lws";
  const std::unique_ptr<Store> store = small_store();
  ASSERT_TRUE(write_snapshot(*store, file, 1, 1).ok());
  const std::unique_ptr<Snapshot> old = *Snapshot::open(file);
  const Key key = (*store->keys())[0];
  std::vector<Measurement> faster = {make_measurement(50, {1, 1, 1, 1, 1, 1, 1})};
  ASSERT_TRUE(store->append(key, faster).ok());
  ASSERT_TRUE(write_snapshot(*store, file, 1, 2).ok());
  EXPECT_GT((*old->record(key))->time_us, 5);
  EXPECT_EQ((*(*Snapshot::open(file))->record(key))->time_us, 1);
  // Nothing is left beside it.
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.directory)) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 1u);
}

TEST(Snapshot, RefusesWhatIsNone) {
  const Scratch scratch;
  const std::string file = scratch.directory + "/a.lws";
  EXPECT_TRUE(absl::IsNotFound(Snapshot::open(file).status()));
  spill(file, "");
  EXPECT_TRUE(absl::IsDataLoss(Snapshot::open(file).status()));
  spill(file, std::string(4096, 'x'));
  EXPECT_TRUE(absl::IsFailedPrecondition(Snapshot::open(file).status()));
  ASSERT_TRUE(write_snapshot(*small_store(), file, 1, 1).ok());
  const std::string good = slurp(file);
  spill(file, good.substr(0, good.size() - 1));
  EXPECT_TRUE(absl::IsDataLoss(Snapshot::open(file).status()));
  std::string newer = good;
  newer[8] = static_cast<char>(kSnapshotVersion + 1);
  spill(file, newer);
  EXPECT_TRUE(absl::IsFailedPrecondition(Snapshot::open(file).status()));
  EXPECT_TRUE(absl::IsUnavailable(
      write_snapshot(*small_store(), scratch.directory + "/no/such/place", 1, 1).status()));
}

TEST(Snapshot, DamageIsFoundWhereItIsRead) {
  const std::unique_ptr<Store> store = small_store();
  const std::vector<ScheduleRecord> records = records_of(*store);
  const std::string good = snapshot_bytes(records, {}, 1);
  const size_t at = good.find("split(C");
  ASSERT_NE(at, std::string::npos);
  std::string bad = good;
  bad[at] ^= 1;
  const std::unique_ptr<Snapshot> snapshot = *Snapshot::over(bad);  // opening reads no record
  EXPECT_TRUE(absl::IsDataLoss(snapshot->verify()));
  int damaged = 0;
  for (const ScheduleRecord& record : records) {
    damaged += absl::IsDataLoss(snapshot->record(record.key).status());
  }
  EXPECT_EQ(damaged, 1);
}

TEST(Snapshot, AnyBytesAreReadOrRefused) {
  const std::unique_ptr<Store> store = small_store();
  const std::vector<ScheduleRecord> records = records_of(*store);
  WithdrawnReasons withdrawn;
  for (int i = 0; i < 9; ++i) withdrawn[sha256(absl::StrCat(i))] = absl::StrCat("reason ", i);
  const std::string good = snapshot_bytes(records, {{"id", make_target()}}, 1, withdrawn);
  const auto feed = [](const std::string& bytes) {
    feed_snapshot(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  };
  feed(good);
  for (size_t length = 0; length < good.size(); length += 37) feed(good.substr(0, length));
  // What checksums hide from damage, without them.
  ByteWriter record;
  encode(records[0], record);
  const std::string seeds[] = {good, record.bytes(), encode_structure({&records[0], &records[1]}),
                               encode_withdrawn(withdrawn)};
  Rng rng(1);
  for (int i = 0; i < 12000; ++i) {
    std::string bytes = seeds[i % 4];
    for (int64_t n = 1 + rng.below(4); n > 0; --n) {
      const size_t at = static_cast<size_t>(rng.below(static_cast<int64_t>(bytes.size()) - 8));
      const uint64_t odd[] = {0, 1, ~uint64_t{0}, uint64_t{1} << 63, bytes.size()};
      if (rng.below(2) == 0) {
        bytes[at] = static_cast<char>(rng.below(256));
      } else {
        std::memcpy(&bytes[rng.below(2) == 0 ? at : at / 8 * 8], &odd[rng.below(5)], 8);
      }
    }
    feed(bytes);
  }
}

TEST(RecordCodec, ReadsWhatItWroteAndNothingElse) {
  const std::unique_ptr<Store> store = small_store();
  const Key key = (*store->keys())[0];
  const ScheduleRecord record = make_record(*store->workload(key.workload), *store->top(key, 3));
  ASSERT_EQ(record.others.size(), 2u);
  ByteWriter out;
  encode(record, out);
  ByteReader in(out.bytes());
  EXPECT_EQ(decode_record(in), record);
  EXPECT_TRUE(in.finished());
  for (size_t length = 0; length < out.bytes().size(); ++length) {
    ByteReader cut(std::string_view(out.bytes()).substr(0, length));
    decode_record(cut);
    EXPECT_FALSE(cut.ok());
  }
}

}  // namespace
}  // namespace lw
