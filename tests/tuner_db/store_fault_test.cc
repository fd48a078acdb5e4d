// Files that cannot be used, each with an error of its own, and processes that meet at one file.
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>


#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/sql/process.h"
#include "tuner_db/sql/sqlite_database.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Expects that opening `file` fails so, naming the file, and that its bytes stay as they are.
void expect_refused(const std::string& file, absl::StatusCode code, const std::string& words,
                    const DatabaseOptions& options = patience(0.2)) {
  const std::string before = slurp(file);
  const auto store = open_sqlite_store(file, options);
  ASSERT_FALSE(store.ok());
  const std::string message(store.status().message());
  EXPECT_EQ(store.status().code(), code) << message;
  EXPECT_THAT(message, HasSubstr(words));
  EXPECT_THAT(message, HasSubstr(std::filesystem::path(file).filename().string()));
  EXPECT_EQ(slurp(file), before);
}

// ---- files that are not usable

TEST(Refused, PathsThatCannotHoldAFile) {
  Scratch scratch;
  EXPECT_EQ(open_sqlite_store("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open_sqlite_store(scratch.directory).status().code(),
            absl::StatusCode::kInvalidArgument);
  expect_refused(scratch.directory + "/none/test.db", absl::StatusCode::kNotFound, "directory");
  expect_refused(scratch.file, absl::StatusCode::kNotFound, "no such database", read_only());
}

TEST(Refused, NewerVersions) {
  Scratch scratch;
  fill(scratch.file);
  sql(scratch.file, "PRAGMA user_version = 99");
  expect_refused(scratch.file, absl::StatusCode::kFailedPrecondition, "newer");
  expect_refused(scratch.file, absl::StatusCode::kFailedPrecondition, "newer", read_only());
}

TEST(Refused, OtherPrograms) {
  Scratch scratch;
  sql(scratch.file, "CREATE TABLE t(x); PRAGMA application_id = 7");
  expect_refused(scratch.file, absl::StatusCode::kFailedPrecondition, "another program");
  sql(scratch.file, "PRAGMA application_id = 0");
  expect_refused(scratch.file, absl::StatusCode::kFailedPrecondition, "another program");
}

TEST(Refused, WhatIsNoDatabase) {
  Scratch scratch;
  spill(scratch.file, std::string(5000, 'x'));
  expect_refused(scratch.file, absl::StatusCode::kFailedPrecondition, "not a SQLite database");
}

TEST(Refused, CorruptFiles) {
  Scratch scratch;
  fill(scratch.file);
  std::string bytes = slurp(scratch.file);
  std::fill(bytes.begin() + 100, bytes.begin() + 4096, '\xEE');  // the schema's page
  spill(scratch.file, bytes);
  expect_refused(scratch.file, absl::StatusCode::kDataLoss, "corrupt");
}

TEST(Refused, TablesOfAnotherShape) {
  Scratch scratch;
  const Key key = fill(scratch.file);
  sql(scratch.file, "ALTER TABLE measurements RENAME COLUMN verdict TO vordict");
  std::unique_ptr<Store> store = *open_sqlite_store(scratch.file);
  EXPECT_EQ(store->measurements(key).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(store->check()->empty());
}

TEST(Refused, NetworkFileSystems) {
  EXPECT_EQ(network_file_system(0x6969), "NFS");
  EXPECT_EQ(network_file_system(0xFF534D42), "CIFS");
  EXPECT_EQ(network_file_system(0xEF53), "");               // ext4
  EXPECT_EQ(network_file_system(0x01021994), "");           // tmpfs
}

// Permissions do not bind root, so these tests act as nobody while they run.
struct Unprivileged {
  uid_t before = geteuid();
  Unprivileged() { CHECK(before != 0 || seteuid(65534) == 0); }
  ~Unprivileged() { CHECK(before != 0 || seteuid(before) == 0); }
};

void set_mode(const std::string& path, mode_t mode) { CHECK(chmod(path.c_str(), mode) == 0); }

TEST(Refused, ReadOnlyFilesAndDirectoriesForWriting) {
  Scratch scratch;
  fill(scratch.file);
  for (const auto& [file_mode, directory_mode] : {std::pair(0444, 0777), {0666, 0555}}) {
    set_mode(scratch.file, file_mode);
    set_mode(scratch.directory, directory_mode);
    const Unprivileged us;
    expect_refused(scratch.file, absl::StatusCode::kPermissionDenied, "read-only");
  }
  set_mode(scratch.file, 0000);
  {
    const Unprivileged us;
    EXPECT_EQ(open_sqlite_store(scratch.file, read_only()).status().code(),
              absl::StatusCode::kPermissionDenied);
  }
  set_mode(scratch.directory, 0755);
}

TEST(ReadOnly, WorksWhereNothingCanBeWritten) {
  Scratch scratch;
  const Key key = fill(scratch.file);
  set_mode(scratch.file, 0444);
  set_mode(scratch.directory, 0555);
  {
    const Unprivileged us;
    const auto store = open_sqlite_store(scratch.file, read_only());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->measurements(key)->size(), 3u);
    EXPECT_TRUE((*store)->best(key).ok());
    EXPECT_EQ((*store)->put_workload(make_workload(1)).code(),
              absl::StatusCode::kPermissionDenied);
  }
  set_mode(scratch.directory, 0755);
}

TEST(ReadOnly, RefusesAUnreadableWalInsteadOfIgnoringIt) {
  Scratch scratch;
  wait_for(child([&] {
    fill(scratch.file);
    std::unique_ptr<Store> store = *open_sqlite_store(scratch.file);
    CHECK(store->put_workload(make_workload(999)).ok());
    _exit(0);                                               // as if killed: the WAL stays
  }));
  ASSERT_GT(std::filesystem::file_size(scratch.file + "-wal"), 0u);
  std::filesystem::remove(scratch.file + "-shm");
  set_mode(scratch.file, 0644);            // the file can be read, what lies beside it cannot
  set_mode(scratch.directory, 0555);
  {
    const Unprivileged us;
    expect_refused(scratch.file, absl::StatusCode::kPermissionDenied, "-wal", read_only());
  }
  set_mode(scratch.directory, 0755);
  EXPECT_EQ((*open_sqlite_store(scratch.file))->workloads()->size(), 2u);
}

TEST(ReadOnly, SeesWhatAnotherProcessWrites) {
  Scratch scratch;
  const Key key = fill(scratch.file);
  const auto reader = *open_sqlite_store(scratch.file, read_only());
  EXPECT_EQ(reader->measurements(key)->size(), 3u);
  fill(scratch.file);                                       // its own connection: read-write
  EXPECT_EQ(reader->measurements(key)->size(), 6u);
}

TEST(Opening, TwiceInAProcessSharesTheConnection) {
  Scratch scratch;
  const auto a = *open_sqlite_store(scratch.file), b = *open_sqlite_store(scratch.file);
  const Key key = put_key(*a);
  std::vector<Measurement> batch = {make_measurement(1, {1})};
  EXPECT_TRUE(b->append(key, batch).ok());
  EXPECT_EQ(a->measurements(key)->size(), 1u);
  const auto reader = *open_sqlite_store(scratch.file, read_only());
  EXPECT_EQ(reader->append(key, batch).code(), absl::StatusCode::kPermissionDenied);
}

TEST(Opening, AnEmptyFileBecomesADatabase) {
  Scratch scratch;
  spill(scratch.file, "");
  EXPECT_TRUE(open_sqlite_store(scratch.file).ok());
  EXPECT_TRUE(open_sqlite_store(scratch.file, read_only()).ok());
}

TEST(Opening, MigratesOlderFilesStepByStepAndAllOrNothing) {
  Scratch scratch;
  fill(scratch.file);
  const auto database = *open_sqlite(scratch.file, {});
  std::vector<std::string> steps = schema_steps();
  steps.push_back("CREATE TABLE extra (x INTEGER) STRICT; INSERT INTO extra VALUES (5);");
  steps.push_back("UPDATE extra SET x = x + 1;");
  auto version = [&] {
    int64_t value = -1;
    CHECK(database->read(1, [&](Transaction& tx) {
      Query query = tx.query("PRAGMA user_version");
      if (query.next()) value = query.integer(0);
      return query.status();
    }).ok());
    return value;
  };
  std::vector<std::string> broken = steps;
  broken.push_back("CREATE TABLE another (x INTEGER) STRICT; UPDATE nowhere SET x = 1;");
  EXPECT_FALSE(database->write(1, [&](WriteTransaction& tx) { return migrate(tx, broken); }).ok());
  EXPECT_EQ(version(), static_cast<int64_t>(schema_steps().size()));
  ASSERT_TRUE(database->write(1, [&](WriteTransaction& tx) { return migrate(tx, steps); }).ok());
  EXPECT_EQ(version(), static_cast<int64_t>(steps.size()));
  ASSERT_TRUE(database->read(1, [&](Transaction& tx) {
    Query query = tx.query("SELECT x FROM extra");
    EXPECT_TRUE(query.next());
    EXPECT_EQ(query.integer(0), 6);
    return query.status();
  }).ok());
}

TEST(Opening, NoticesThatTheFileIsGone) {
  Scratch scratch;
  const auto store = *open_sqlite_store(scratch.file);
  const Key key = put_key(*store);
  std::filesystem::rename(scratch.file, scratch.file + ".moved");
  std::vector<Measurement> batch = {make_measurement(1, {1})};
  const absl::Status status = store->append(key, batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("moved"));
}

// ---- other processes

TEST(Locked, WaitsItsPatienceAndSaysSo) {
  Scratch scratch;
  const Key key = fill(scratch.file);
  Pipe ready, done;
  const pid_t holder = child([&] {
    sqlite3* handle = nullptr;
    CHECK(sqlite3_open(scratch.file.c_str(), &handle) == SQLITE_OK);
    CHECK(sqlite3_exec(handle, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK);
    ready.say('r');
    done.hear();
    CHECK(sqlite3_exec(handle, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK);
  });
  ready.hear();
  const auto store = *open_sqlite_store(scratch.file, patience(0.3));
  std::vector<Measurement> batch = {make_measurement(1, {1})};
  const absl::Status status = store->append(key, batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("locked by another process"));
  EXPECT_EQ(store->measurements(key)->size(), 3u);          // readers do not wait for writers
  done.say('d');
  EXPECT_EQ(wait_for(holder), 0);
  EXPECT_TRUE(store->append(key, batch).ok());
}

TEST(Processes, WriteTheSameFileInTurn) {
  Scratch scratch;
  const Key key = fill(scratch.file, 0);
  std::vector<pid_t> writers;
  for (int w = 0; w < 3; ++w) {
    writers.push_back(child([&] {
      const auto store = *open_sqlite_store(scratch.file);
      for (int i = 0; i < 60; ++i) {
        std::vector<Measurement> batch = {make_measurement(w, {100.0 + i}),
                                          make_measurement(9, {90})};
        CHECK(store->append(key, batch).ok());
      }
    }));
  }
  for (pid_t writer : writers) EXPECT_EQ(wait_for(writer), 0);
  const auto store = *open_sqlite_store(scratch.file);
  EXPECT_EQ(store->measurements(key)->size(), 360u);
  EXPECT_THAT(*store->check(), IsEmpty());
}

// A worker forked while its parent writes must not keep the others waiting when the parent dies.
TEST(Processes, AForkedChildDoesNotKeepTheLock) {
  Scratch scratch;
  const Key key = fill(scratch.file, 0);
  Pipe ready;
  pid_t worker = 0;
  Pipe name;
  const pid_t parent = child([&] {
    const auto database = *open_sqlite(scratch.file, {});
    database->write(1, [&](WriteTransaction& tx) {
      const pid_t forked = child([] { pause(); });
      CHECK(write(name.write_end, &forked, sizeof forked) == sizeof forked);
      ready.say('r');
      pause();
      return absl::OkStatus();
    }).IgnoreError();
  });
  ready.hear();
  ASSERT_EQ(read(name.read_end, &worker, sizeof worker), ssize_t{sizeof worker});
  kill(parent, SIGKILL);
  wait_for(parent);
  const auto store = *open_sqlite_store(scratch.file, patience(1));
  std::vector<Measurement> batch = {make_measurement(1, {1})};
  const absl::Status status = store->append(key, batch);
  EXPECT_TRUE(status.ok()) << status;
  kill(worker, SIGKILL);
}

TEST(Processes, CreateTheSameFileAtOnce) {
  Scratch scratch;
  std::vector<pid_t> makers;
  for (int i = 0; i < 6; ++i) {
    makers.push_back(child([&] { CHECK(open_sqlite_store(scratch.file).ok()); }));
  }
  for (pid_t maker : makers) EXPECT_EQ(wait_for(maker), 0);
  EXPECT_THAT(*(*open_sqlite_store(scratch.file))->check(), IsEmpty());
}

TEST(Processes, ClaimsEndWithTheirOwner) {
  Scratch scratch;
  const Key key = fill(scratch.file);
  Pipe ready;
  const pid_t owner = child([&] {
    const auto store = *open_sqlite_store(scratch.file);
    CHECK(store->claim(key).ok());
    ready.say('r');
    pause();
  });
  ready.hear();
  const auto store = *open_sqlite_store(scratch.file);
  const absl::Status held = store->claim(key);
  EXPECT_EQ(held.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(held.message()), HasSubstr(std::to_string(owner)));
  store->release(key);                                      // is not ours to release
  EXPECT_FALSE(store->claim(key).ok());
  kill(owner, SIGKILL);
  for (int i = 0; i < 500 && !store->claim(key).ok(); ++i) usleep(1000);
  EXPECT_EQ(store->claim(key).code(), absl::StatusCode::kAlreadyExists);  // now ours
  wait_for(owner);
}

TEST(Processes, AReusedPidIsNotTheOwner) {
  ProcessName name = this_process();
  EXPECT_TRUE(is_alive(name));
  name.started -= 1;
  EXPECT_FALSE(is_alive(name));
  name = this_process();
  name.boot = "another";
  EXPECT_FALSE(is_alive(name));
}

}  // namespace
}  // namespace lw
