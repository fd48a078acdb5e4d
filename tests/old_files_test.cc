// Files of earlier versions: a database and an export as they were written keep what they hold.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/v1/schedule.pb.h"
#include "tests/fault_fixture.h"
#include "tuner_db/schema.h"

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
    ASSERT_TRUE(service->batch_lookup(local_caller(), lookup, &found).ok());
    is_exact = found.results(0).outcome() == v1::LOOKUP_OUTCOME_EXACT;
    if (!is_exact) usleep(1000);
  }
  EXPECT_TRUE(is_exact);
  make_study(*service, 4);
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

}  // namespace
}  // namespace lw
