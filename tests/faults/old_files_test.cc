// Files of earlier versions: a database and an export as they were written keep what they hold.
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/schedule.pb.h"
#include "schedules/targets/identity.h"
#include "src/client/cache.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/faulty_vfs.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/ladder/snapshot.h"
#include "tuner_db/records/record_codec.h"
#include "tuner_db/schema/schema.h"

namespace lw {
namespace {

using ::testing::IsEmpty;

// A database as schema version 1 left it (tests/data/make_v1_database.py), and what it exports.
TEST(OldFiles, ADatabaseOfVersionOneIsMigratedQueriedAndServed) {
  Scratch scratch;
  spill(scratch.file, slurp(LW_SOURCE_DIR "/tests/data/v1.sqlite"));
  const std::string lines = slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl");
  const auto database = *open_sqlite(scratch.file, {});
  const std::unique_ptr<Store> store = make_store(database);
  EXPECT_EQ(store->stats()->schema_version, static_cast<int>(schema_steps().size()));
  EXPECT_THAT(*store->check(), IsEmpty());
  EXPECT_EQ(store->stats()->measurements, 18);
  const std::vector<Key> keys = *store->keys();
  ASSERT_EQ(keys.size(), 2u);
  for (const Key& key : keys) {
    const auto best = store->best(key);
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_GT(best->measurement.time_us, 0.05);
    EXPECT_LT(best->measurement.time_us, 0.25);
  }
  EXPECT_EQ(*export_records(*store), lines);
  // Again, as a daemon's: its look-ups find what was there, and new work goes on beside it.
  const auto service = *Service::start(database, quick_service());
  v1::BatchLookupRequest lookup;
  v1::LookupQuery& query = *lookup.add_queries();
  query.set_workload_id(keys[0].workload);
  query.set_target_id(keys[0].target);
  query.set_backend(keys[0].backend);
  query.set_threads(keys[0].threads);
  bool is_exact = false;                     // the index is read behind
  for (int i = 0; i < kPatienceMs && !is_exact; ++i) {
    v1::BatchLookupResponse found;
    ASSERT_TRUE(service->schedules.batch_lookup(local_caller(), lookup, &found).ok());
    is_exact = found.results(0).outcome() == v1::LOOKUP_OUTCOME_EXACT;
    if (!is_exact) usleep(1000);
  }
  EXPECT_TRUE(is_exact);
  make_study(*service, 4);
}

// The disk fills, or fails, at any write of a migration (of the later ones, at some): what was there stays as it was, the error says
// what is wrong, and with room again the next opening takes the file all the way.
TEST(OldFiles, AMigrationThatTheDiskStopsIsDoneByTheNextOpening) {
  const std::string lines = slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl");
  FaultyVfs vfs;
  int stopped = 0;
  for (const FaultyVfs::Fault fault : {FaultyVfs::Fault::kFull, FaultyVfs::Fault::kWrite,
                                       FaultyVfs::Fault::kShortWrite, FaultyVfs::Fault::kSync}) {
    bool reached = true;
    for (int after = 0; reached; after += 1 + after / 16) {
      const Scratch scratch;
      spill(scratch.file, slurp(LW_SOURCE_DIR "/tests/data/v1.sqlite"));
      vfs.fail(fault, after);
      absl::Status status;
      {
        const auto database = open_sqlite(scratch.file, {});
        status = database.status();
      }
      reached = vfs.has_failed();
      vfs.heal();
      if (!status.ok()) {
        ++stopped;
        EXPECT_TRUE(status.code() == absl::StatusCode::kResourceExhausted ||
                    status.code() == absl::StatusCode::kUnavailable) << status;
      }
      const auto store = open_sqlite_store(scratch.file);
      ASSERT_TRUE(store.ok()) << "after " << after << " writes: " << store.status();
      EXPECT_EQ((*store)->stats()->schema_version, static_cast<int>(schema_steps().size()));
      EXPECT_THAT(*(*store)->check(), IsEmpty());
      EXPECT_EQ(*export_records(**store), lines);
    }
  }
  EXPECT_GT(stopped, 20);
}

// Before version 3 only the environment said that nobody had measured.
TEST(OldFiles, WhatWasEstimatedIsKnownToBe) {
  const Scratch scratch;
  std::filesystem::copy_file(LW_SOURCE_DIR "/tests/data/v1.sqlite", scratch.file);
  sql(scratch.file, "UPDATE measurements SET environment = "
                    "'{\"emulated\":true,\"emulator\":\"qemu-x\",\"estimated\":true}' "
                    "WHERE candidate IN (SELECT id FROM candidates WHERE key = 1)");
  const std::unique_ptr<Store> store = *open_store(scratch.file);
  EXPECT_THAT(*store->check(), IsEmpty());
  int estimated = 0;
  const std::vector<Key> keys = *store->keys();
  for (const Key& key : keys) {
    const TimeKind kind = store->best(key)->measurement.time_kind;
    estimated += kind == TimeKind::kEstimated;
    const std::vector<Measurement> measured = *store->measurements(key);
    for (const Measurement& m : measured) EXPECT_EQ(m.time_kind, kind);
  }
  EXPECT_EQ(estimated, 1);
  // So it is in what an older program exports.
  const std::unique_ptr<Store> copy = make_memory_store();
  const std::string lines = absl::StrReplaceAll(
      *export_records(*store), {{",\"timeKind\":\"TIME_KIND_ESTIMATED\"", ""}});
  EXPECT_THAT(lines, testing::Not(testing::HasSubstr("timeKind")));
  int64_t imported = 0;
  ASSERT_TRUE(import_records(*copy, lines, &imported).ok());
  for (const Key& key : keys) {
    EXPECT_EQ(copy->best(key)->measurement.time_kind, store->best(key)->measurement.time_kind);
  }
}

TEST(OldFiles, SnapshotsOfOldVersionsAnswer) {
  const std::unique_ptr<Store> store = make_memory_store();
  int64_t imported = 0;
  ASSERT_TRUE(
      import_records(*store, slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl"), &imported).ok());
  for (const auto& [file, traces] : {std::pair("v1.lws", 3), std::pair("v2.lws", kRecordTraces)}) {
    const auto snapshot = Snapshot::open(absl::StrCat(LW_SOURCE_DIR "/tests/data/", file));
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_TRUE((*snapshot)->verify().ok());
    const std::vector<Key> keys = *store->keys();
    for (const Key& key : keys) {
      const auto record = (*snapshot)->record(key);
      ASSERT_TRUE(record.ok()) << record.status();
      ScheduleRecord is = make_record(*store->workload(key.workload), *store->top(key, traces));
      if (file == std::string("v1.lws")) is.time_kind = TimeKind::kMeasured;  // it could not say
      EXPECT_EQ(**record, is);
    }
  }
}

// A record as versions 1 and 2 of snapshots and caches wrote it.
void encode_old(const ScheduleRecord& r, int version, ByteWriter& out) {
  for (const std::string* text : {&r.key.workload, &r.key.target, &r.key.backend, &r.key.cache,
                                  &r.key.objective, &r.name, &r.source_words, &r.structure, &r.trace,
                                  &r.source}) {
    out.text(*text);
  }
  out.u64(static_cast<uint64_t>(r.key.threads));
  out.u64(r.shape.size());
  for (const int64_t extent : r.shape) out.u64(static_cast<uint64_t>(extent));
  for (const double value :
       {r.flops, r.bytes, r.time_us, r.ci_low_us, r.ci_high_us, r.max_rel_error}) {
    out.real(value);
  }
  out.u64(r.kernel_hash);
  out.u64(static_cast<uint64_t>(r.samples));
  out.u64(r.verified ? 1 : 0);
  out.u64(static_cast<uint64_t>(r.unix_ms));
  out.u64(r.others.size());
  for (const RankedTrace& other : r.others) {
    out.text(other.trace);
    out.real(other.time_us);
  }
  if (version == 2) out.u64(static_cast<uint64_t>(r.time_kind));
}

TEST(OldFiles, EntriesOfCachesOfOldVersionsAnswer) {
  const std::unique_ptr<Store> store = make_memory_store();
  int64_t imported = 0;
  ASSERT_TRUE(
      import_records(*store, slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl"), &imported).ok());
  const Key key = (*store->keys())[0];
  ScheduleRecord record = make_record(*store->workload(key.workload), *store->top(key, 3));
  for (const int version : {1, 2}) {
    record.time_kind = version == 1 ? TimeKind::kMeasured : TimeKind::kEstimated;
    ByteWriter body;
    body.text(key_text(key));
    for (const uint64_t number : {7, 1, 0}) body.u64(number);   // its age, records, rung
    body.real(0);
    body.u64(0);
    encode_old(record, version, body);
    ByteWriter sum;
    sum.u64(checksum(body.bytes()));
    const auto magic = [](int number) { return absl::StrCat("loopwright cache ", number, "\n"); };
    const auto entry = decode_entry(key, magic(version) + sum.bytes() + body.bytes());
    ASSERT_TRUE(entry.has_value()) << version;
    ASSERT_EQ(entry->candidates.size(), 1u);
    EXPECT_EQ(entry->unix_ms, 7);
    EXPECT_EQ(*entry->candidates[0].record, record);
    for (const int other : {0, 3 - version, 3, 4, 9}) {
      EXPECT_FALSE(decode_entry(key, magic(other) + sum.bytes() + body.bytes()).has_value());
    }
  }
}

TEST(OldFiles, AnExportOfVersionOneIsImported) {
  const std::string lines = slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl");
  const std::unique_ptr<Store> store = make_memory_store();
  int64_t imported = 0;
  const absl::Status status = import_records(*store, lines, &imported);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(imported, 18);
  EXPECT_EQ(*export_records(*store), lines);
}

// A database in which each key of the version 1 file stands under the name that a process with
// `cores` cores gave its target.
class ByOldNames : public testing::Test {
 protected:
  void SetUp() override {
    spill(scratch_.file, slurp(LW_SOURCE_DIR "/tests/data/v1.sqlite"));
    const auto database = *open_sqlite(scratch_.file, {});
    ASSERT_TRUE(rename_all(*database, two_, 2).ok());
  }

  // Every key and what hangs on it, by the name of so many cores.
  absl::Status rename_all(Database& database, std::string& name, int cores) {
    return database.write(1, [&](WriteTransaction& tx) -> absl::Status {
      Target target;
      {
        Query row = tx.query("SELECT DISTINCT t.id, t.text FROM targets t JOIN keys k ON "
                             "k.target = t.id");
        CHECK(row.next());
        identity_ = row.text(0);
        target = *read_target(row.text(1));
        CHECK(!row.next());
      }
      EXPECT_EQ(target_id(target), identity_);
      target.cores = cores;
      const std::string text = to_text(target);
      name = sha256(text);
      RETURN_IF_ERROR(tx.query("INSERT INTO targets VALUES (?,?)", name, text).run());
      RETURN_IF_ERROR(tx.query("UPDATE keys SET target = ?", name).run());
      return tx.query("DELETE FROM targets WHERE id = ?", identity_).run();
    });
  }

  Scratch scratch_;
  std::string identity_, two_;
};

TEST_F(ByOldNames, AreReadExactlyWithoutWriting) {
  const std::unique_ptr<Store> store = *open_sqlite_store(scratch_.file, {.read_only = true});
  const std::vector<Key> keys = *store->keys();
  ASSERT_EQ(keys.size(), 2u);
  const auto source = make_store_source(*store);
  for (const Key& key : keys) {
    EXPECT_EQ(key.target, two_);
    const WorkloadRow workload = *store->workload(key.workload);
    LookupRequest request = {key, workload.structure, workload.shape,
                             std::make_shared<const Target>(*store->target(key.target))};
    request.key.target = identity_;
    const auto found = climb(request, *source, {});
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->size(), 1u);
    EXPECT_EQ((*found)[0].rung, Rung::kExact);
    EXPECT_EQ((*found)[0].record->time_us, store->best(key)->measurement.time_us);
  }
}

TEST_F(ByOldNames, BecomeTheIdentityWhenOpenedForWriting) {
  const std::unique_ptr<Store> store = *open_sqlite_store(scratch_.file);
  EXPECT_EQ(*export_records(*store), slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl"));
  EXPECT_THAT(*store->check(), IsEmpty());
  EXPECT_EQ(store->target(two_)->cores, 2);  // an old id still says what it was
}

TEST_F(ByOldNames, OfSeveralCoresAreOneMachineWithAllTheirMeasurements) {
  Key key;
  double best_us = 0;
  {
    // The same keys as a process with eight cores measured them, one trace of which is withdrawn.
    const auto database = *open_sqlite(scratch_.file, {});  // by identity now
    const std::unique_ptr<Store> store = make_store(database);
    key = (*store->keys())[0];
    const BestRow best = *store->best(key);
    best_us = best.measurement.time_us;
    std::string eight;
    const std::vector<Measurement> all = *store->measurements(key);
    ASSERT_TRUE(rename_all(*database, eight, 8).ok());
    Key old = key;
    old.target = eight;
    ASSERT_TRUE(store->withdraw({old, best.measurement.trace, "wrong", "", "a test", 1}).ok());
    // And again by identity, one measurement more.
    Target target = *store->target(eight);
    ASSERT_TRUE(store->put_target(identity_, identity_of(target)).ok());
    std::vector<Measurement> more = {all[0]};
    ASSERT_TRUE(store->append(key, more).ok());
  }
  const std::unique_ptr<Store> store = *open_sqlite_store(scratch_.file);
  EXPECT_THAT(*store->check(), IsEmpty());
  EXPECT_EQ(store->keys()->size(), 2u);
  EXPECT_EQ(store->stats()->measurements, 19);
  ASSERT_EQ(store->withdrawn(key)->size(), 1u);
  const absl::StatusOr<BestRow> best = store->best(key);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_NE(best->measurement.trace, (*store->withdrawn(key))[0].trace);
  EXPECT_GE(best->measurement.time_us, best_us);
  ASSERT_TRUE(store->restore(key, (*store->withdrawn(key))[0].trace).ok());
  EXPECT_EQ(store->best(key)->measurement.time_us, best_us);
}

TEST_F(ByOldNames, AreImportedUnderTheIdentity) {
  const std::string lines = slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl");
  const std::string old =
      absl::StrReplaceAll(lines, {{identity_, two_}, {"\"cores\":1,", "\"cores\":2,"}});
  ASSERT_NE(old, lines);
  const std::unique_ptr<Store> store = make_memory_store();
  int64_t imported = 0;
  const absl::Status status = import_records(*store, old, &imported);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(imported, 18);
  EXPECT_EQ(*export_records(*store), lines);
}

}  // namespace
}  // namespace lw
