// Backups of either database restore into either.
#include "tuner_db/tables/backup.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/sqlite_database.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A row in every table that the store does not fill, as the schema lists them, with values of
// every kind; references point at rows filled before.
void fill_generically(Database& db) {
  ASSERT_TRUE(db.write(5, [&](WriteTransaction& tx) -> absl::Status {
    for (const TableSchema& table : schema_tables()) {
      std::string columns, places;
      std::vector<Value> values;
      for (const Column& column : table.columns) {
        absl::StrAppend(&columns, columns.empty() ? "" : ",", sql_name(column.name));
        absl::StrAppend(&places, places.empty() ? "?" : ",?");
        switch (column.type) {
          case ColumnType::kInteger: values.push_back(int64_t{41}); break;
          case ColumnType::kReal: values.push_back(0.1); break;
          case ColumnType::kText:
            values.push_back(std::string_view("b\xFF\0\xF4\x8F\xBF\xBFz", 8));
            break;
          case ColumnType::kBlob: values.push_back(Blob{std::string_view("\0\x01\xFF", 3)}); break;
        }
      }
      RETURN_IF_ERROR(tx.query_values(absl::StrCat("INSERT INTO ", sql_name(table.name), " (",
                                                   columns, ") VALUES (", places, ")"),
                                      values)
                          .run());
    }
    return absl::OkStatus();
  }).ok());
}

// Every table as text.
std::string dump(Database& db) {
  std::string text;
  CHECK(db.read(5, [&](Transaction& tx) -> absl::Status {
    for (const TableSchema& table : schema_tables()) {
      std::vector<std::string> rows;
      RETURN_IF_ERROR(tx.each("SELECT * FROM " + sql_name(table.name), [&](const Query& row) {
        std::string line;
        for (size_t i = 0; i < table.columns.size(); ++i) {
          const int at = static_cast<int>(i);
          switch (table.columns[i].type) {
            case ColumnType::kInteger: absl::StrAppend(&line, row.integer(at)); break;
            case ColumnType::kReal: absl::StrAppendFormat(&line, "%.17g", row.real(at)); break;
            default: line += row.bytes(at);
          }
          line += "|";
        }
        rows.push_back(line);
        return absl::OkStatus();
      }));
      std::sort(rows.begin(), rows.end());
      absl::StrAppend(&text, table.name, ":\n");
      for (const std::string& row : rows) absl::StrAppend(&text, row, "\n");
    }
    return absl::OkStatus();
  }).ok());
  return text;
}

struct Pair {
  const char *name, *from, *to;
};

class BackupTest : public ::testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    if (from_.empty() || to_.empty()) GTEST_SKIP() << "PostgreSQL is not installed";
  }
  std::string place(const std::string& kind, const char* file) {
    if (kind == "sqlite") return scratch_.directory + "/" + file;
    PostgresCluster* cluster = PostgresCluster::get();
    return cluster == nullptr ? "" : cluster->fresh();
  }
  Scratch scratch_;
  std::string from_ = place(GetParam().from, "from.db"), to_ = place(GetParam().to, "to.db");
  std::string copy_ = scratch_.directory + "/copy.db";
};
INSTANTIATE_TEST_SUITE_P(All, BackupTest,
                         ::testing::Values(Pair{"SqliteToSqlite", "sqlite", "sqlite"},
                                           Pair{"SqliteToPostgres", "sqlite", "postgres"},
                                           Pair{"PostgresToSqlite", "postgres", "sqlite"},
                                           Pair{"PostgresToPostgres", "postgres", "postgres"}),
                         [](const auto& info) { return std::string(info.param.name); });

// Nor does reading it leave any.
TEST_P(BackupTest, NoFilesLieBesideABackup) {
  {
    const auto from = *open_database(from_);
    const std::unique_ptr<Store> store = make_store(from);
    const Key key = put_key(*store);
    std::vector<Measurement> batch = {make_measurement(1, {1, 2})};
    ASSERT_TRUE(store->append(key, batch).ok());
    std::filesystem::create_directory(scratch_.directory + "/alone");
    copy_ = scratch_.directory + "/alone/copy.db";
    ASSERT_EQ(backup(*from, copy_).message(), "");
  }
  for (int i = 0; i < 2; ++i) {
    const std::unique_ptr<Store> copy = *open_store(copy_, read_only());
    EXPECT_TRUE(copy->check()->empty());
    EXPECT_EQ(copy->keys()->size(), 1u);
  }
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.directory + "/alone")) {
    EXPECT_EQ(entry.path(), copy_);
  }
}

TEST_P(BackupTest, EveryRowOfEveryTableComesBack) {
  std::string before;
  {
    const std::shared_ptr<Database> db = *open_database(from_);
    fill_generically(*db);
    before = dump(*db);
    ASSERT_EQ(backup(*db, copy_).message(), "");
    ASSERT_EQ(backup(*db, copy_).message(), "");             // replaces the first
  }
  EXPECT_EQ(dump(**open_database(copy_)), before);           // a database like any other
  ASSERT_EQ(restore(copy_, to_).message(), "");
  EXPECT_EQ(dump(**open_database(to_)), before);
}

TEST_P(BackupTest, RestoredStoresGoOn) {
  std::string records;
  Key key;
  {
    const std::shared_ptr<Database> db = *open_database(from_);
    const std::unique_ptr<Store> store = make_store(db);
    key = put_key(*store);
    std::vector<Measurement> batch = {make_measurement(1, {3, 4}), make_measurement(2, {5, 6}),
                                      make_failure(3, Verdict::kCrash)};
    ASSERT_TRUE(store->append(key, batch).ok());
    ASSERT_EQ(*store->prune(1, 2'000'000'000'000), 2);       // the greatest ids are gone
    records = *export_records(*store);
    ASSERT_EQ(backup(*db, copy_).message(), "");
  }
  ASSERT_EQ(restore(copy_, to_).message(), "");
  const std::unique_ptr<Store> store = *open_store(to_);
  EXPECT_EQ(*export_records(*store), records);
  EXPECT_THAT(*store->check(), IsEmpty());
  std::vector<Measurement> next = {make_measurement(7, {1, 2})};
  ASSERT_TRUE(store->append(key, next).ok());
  EXPECT_EQ(next[0].id, 4);                                  // ids are still never used twice
}

TEST_P(BackupTest, RefusesWhatIsNotEmptyUnlessForced) {
  {
    const std::unique_ptr<Store> store = *open_store(to_);
    put_key(*store, 64);
    const std::shared_ptr<Database> db = *open_database(from_);
    put_key(*make_store(db), 128);
    ASSERT_TRUE(backup(*db, copy_).ok());
  }
  const absl::Status refused = restore(copy_, to_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("not empty"));
  EXPECT_EQ((*open_store(to_))->workloads()->front().id, make_workload(64).id);
  ASSERT_EQ(restore(copy_, to_, true).message(), "");
  ASSERT_EQ((*open_store(to_))->workloads()->size(), 1u);
  EXPECT_EQ((*open_store(to_))->workloads()->front().id, make_workload(128).id);
}

TEST(Backup, RefusesItselfAndPlacesThatCannotBeWritten) {
  Scratch scratch;
  const std::shared_ptr<Database> db = *open_database(scratch.file);
  EXPECT_EQ(backup(*db, scratch.file).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(restore(scratch.file, scratch.file).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(backup(*db, scratch.directory + "/none/copy.db").ok());
  EXPECT_EQ(restore(scratch.directory + "/none.db", scratch.file).code(),
            absl::StatusCode::kNotFound);
}

TEST(Backup, DamagedOnesRestoreNothing) {
  Scratch scratch;
  const std::string copy = scratch.directory + "/copy.db", to = scratch.directory + "/to.db";
  fill(scratch.file, 60);
  ASSERT_TRUE(backup(**open_database(scratch.file), copy).ok());
  std::string bytes = slurp(copy);
  std::fill(bytes.end() - 6000, bytes.end() - 2000, '\x5A');
  spill(copy, bytes);
  EXPECT_EQ(restore(copy, to).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(to));
}

TEST(Backup, OlderOnesAreBroughtUpToDateInACopy) {
  Scratch scratch;
  sql(scratch.file,
      schema_steps()[0] +
          absl::StrCat("PRAGMA user_version = 1; PRAGMA application_id = ", kApplicationId,
                       ";INSERT INTO targets VALUES "
                       "('a', 'b')"));
  const std::string bytes = slurp(scratch.file);
  ASSERT_EQ(restore(scratch.file, scratch.directory + "/to.db").message(), "");
  EXPECT_EQ(slurp(scratch.file), bytes);
  EXPECT_EQ((*open_store(scratch.directory + "/to.db"))->stats()->targets, 1);
}

// Another process's failure, or a full disk, never leaves half a file.
TEST(Backup, AFullDiskLeavesTheOldOne) {
  FaultyVfs vfs;
  Scratch scratch;
  const std::string copy = scratch.directory + "/copy.db";
  fill(scratch.file, 5);
  const std::shared_ptr<Database> db = *open_database(scratch.file);
  ASSERT_TRUE(backup(*db, copy).ok());
  const std::string bytes = slurp(copy);
  vfs.fail(FaultyVfs::Fault::kFull, 3);
  EXPECT_EQ(backup(*db, copy).code(), absl::StatusCode::kResourceExhausted);
  vfs.heal();
  EXPECT_EQ(slurp(copy), bytes);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.directory)) {
    files += entry.path().filename().string().starts_with(".backup");
  }
  EXPECT_EQ(files, 0);
}

}  // namespace
}  // namespace lw
