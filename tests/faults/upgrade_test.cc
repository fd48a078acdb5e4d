// Upgrades under running programs: a newer Loopwright migrates a database that an older one has
// open. The older one reads on, stores nothing more, and says so; and its statements run on tables
// that have more columns than it knows, as they do until the last old daemon has gone.
#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/fault_daemon.h"
#include "tests/faults/service_life.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/postgres_fixture.h"
#include "tuner_db/schema/schema.h"
#include "tuner_db/tables/backup.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const int kOurs = static_cast<int>(schema_steps().size());
constexpr char kNextStep[] = "ALTER TABLE targets ADD COLUMN later TEXT NOT NULL DEFAULT 'x';";

class Upgrade : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (url_.empty()) GTEST_SKIP() << "PostgreSQL is not installed";
  }
  bool on_postgres() const { return GetParam() == std::string("postgres"); }

  std::string place() {
    if (!on_postgres()) return scratch_.file;
    PostgresCluster* cluster = PostgresCluster::get();
    return cluster == nullptr ? "" : cluster->fresh();
  }

  // What a newer program's opening does, on a connection of its own; `migrated` runs before it
  // commits.
  void migrate_behind(const std::function<void()>& migrated = [] {}) {
    if (on_postgres()) {
      PGconn* connection = PQconnectdb(url_.c_str());
      const auto run = [&](const std::string& sql) {
        PGresult* result = PQexec(connection, sql.c_str());
        EXPECT_EQ(PQresultStatus(result), PGRES_COMMAND_OK) << PQerrorMessage(connection);
        PQclear(result);
      };
      run("BEGIN; LOCK TABLE loopwright_schema IN ACCESS EXCLUSIVE MODE");
      run(concat(to_postgres(kNextStep), "; UPDATE loopwright_schema SET version = ", kOurs + 1));
      migrated();
      run("COMMIT");
      PQfinish(connection);
      return;
    }
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(url_.c_str(), &handle), SQLITE_OK);
    const auto run = [&](const std::string& sql) {
      EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
          << sqlite3_errmsg(handle);
    };
    run("BEGIN IMMEDIATE");
    run(concat(kNextStep, "PRAGMA user_version = ", kOurs + 1));
    migrated();
    run("COMMIT");
    sqlite3_close(handle);
  }

  // Of PostgreSQL: somebody waits for a lock.
  bool somebody_waits() const {
    return PostgresCluster::run(url_, "SELECT count(*) FROM pg_stat_activity WHERE "
                                      "wait_event_type = 'Lock'") != "0";
  }

  Scratch scratch_;
  const std::string url_ = place();
};
INSTANTIATE_TEST_SUITE_P(All, Upgrade, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Upgrade, AnOlderProgramReadsOnAndStoresNothingMore) {
  const std::shared_ptr<Database> database = *open_database(url_);
  const std::unique_ptr<Store> store = make_store(database);
  const Key key = put_key(*store);
  std::vector<Measurement> batch = {make_measurement(1, {10, 11, 12})};
  ASSERT_TRUE(store->append(key, batch).ok());
  migrate_behind();
  bool ran = false;
  const absl::Status refused = database->write(5, [&](WriteTransaction& tx) {
    ran = true;
    return absl::OkStatus();
  });
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("version ", kOurs + 1, ", and this one knows ", kOurs)));
  EXPECT_FALSE(ran);
  std::vector<Measurement> more = {make_measurement(2, {1})};
  EXPECT_EQ(store->append(key, more).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store->put_target("t", make_target()).code(), absl::StatusCode::kFailedPrecondition);
  // Half a backup would be worse than none.
  EXPECT_EQ(backup(*database, scratch_.directory + "/copy").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store->best(key)->measurement.time_us, batch[0].time_us);
  EXPECT_EQ(store->measurements(key)->size(), 1u);
  // Who comes now is refused altogether.
  if (!on_postgres()) return;                // this process shares an open file
  for (bool read_only : {false, true}) {
    DatabaseOptions options;
    options.read_only = read_only;
    EXPECT_EQ(open_database(url_, options).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

// A transaction that waits while the migration commits belongs to the time after it.
TEST_P(Upgrade, AWriterThatWaitedForTheMigrationIsTurnedAway) {
  const std::shared_ptr<Database> database = *open_database(url_);
  std::atomic<bool> begun = false;
  absl::Status status;
  std::thread writer;
  migrate_behind([&] {
    writer = std::thread([&] {
      begun = true;
      status = database->write(60, [&](WriteTransaction& tx) {
        return tx.run("INSERT INTO targets (id, text) VALUES ('a', 'b')");
      });
    });
    while (!begun || (on_postgres() && !somebody_waits())) usleep(1000);
  });
  writer.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(column(*database, "SELECT id FROM targets"), IsEmpty());
}

// And the other way round: a migration waits for those who write.
TEST_P(Upgrade, AMigrationWaitsForAWriter) {
  if (!on_postgres()) GTEST_SKIP() << "of a file's writers there is one";
  const std::shared_ptr<Database> database = *open_database(url_);
  std::thread migration;
  std::atomic<bool> migrated = false;
  ASSERT_TRUE(database->write(60, [&](WriteTransaction& tx) -> absl::Status {
    migration = std::thread([&] { migrate_behind([&] { migrated = true; }); });
    while (!somebody_waits()) usleep(1000);
    EXPECT_FALSE(migrated);
    return tx.run("INSERT INTO targets (id, text) VALUES ('a', 'b')");
  }).ok());
  migration.join();
  EXPECT_THAT(column(*database, "SELECT id FROM targets"), testing::ElementsAre("a"));
}

// A daemon in a rolling update: the new one has migrated the database.
TEST_P(Upgrade, AnOlderDaemonAnswersLookupsSaysSoAndEndsWhenTold) {
  const WorkloadRow workload = make_workload(128);
  RunningDaemon daemon(url_);
  DaemonClient client(daemon.address);
  ASSERT_TRUE(client.put("1", 128).ok());
  const auto study = client.create("2", small_study(100));
  ASSERT_TRUE(study.ok()) << study.status();
  FleetAgent agent("a1", "s1", {"d1"});
  ASSERT_TRUE(eventually([&] {
    const auto answer = client.synchronize(agent.request());
    if (answer.ok()) agent.apply(*answer);
    agent.work();
    return !agent.owed().empty();
  }));
  migrate_behind();
  const auto refused = client.create("3", small_study(4));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << refused.status();
  EXPECT_EQ(reason_of(refused.status()), v1::ERROR_REASON_READ_ONLY) << refused.status();
  EXPECT_GT(retry_delay_ms(refused.status()), 0);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("update it"));
  // Its agents go to the next server, with what they have measured.
  EXPECT_EQ(client.synchronize(agent.request()).status().code(), absl::StatusCode::kUnavailable);
  int code = 0;
  EXPECT_TRUE(eventually([&] { return !daemon.get("/readyz", &code).empty() && code == 503; }));
  EXPECT_THAT(daemon.get("/readyz"), HasSubstr("schema version"));
  daemon.get("/readyz?reads", &code);
  EXPECT_EQ(code, 200);
  daemon.get("/healthz", &code);
  EXPECT_EQ(code, 200);
  v1::BatchLookupRequest lookup;
  v1::LookupQuery& query = *lookup.add_queries();
  const Key key = make_key(workload, make_target());
  query.set_workload_id(key.workload);
  query.set_target_id(key.target);
  query.set_backend(key.backend);
  query.set_threads(key.threads);
  const auto found = client.call<v1::BatchLookupResponse>(
      client.schedules, &v1::ScheduleService::Stub::BatchLookup, lookup);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->results(0).outcome(), v1::LOOKUP_OUTCOME_EXACT);
  EXPECT_TRUE(client.study("studies/" + id_of(study->name())).ok());
  EXPECT_TRUE(daemon.stop().ok());
}

// Every statement of a service and of the commands names the columns that it means: it runs on
// tables with a column more, and with the same outcome.
TEST_P(Upgrade, StatementsRunOnTablesWithMoreColumns) {
  const std::shared_ptr<Database> database = *open_database(url_);
  ASSERT_TRUE(database->write(5, [&](WriteTransaction& tx) -> absl::Status {
    for (const TableSchema& table : schema_tables()) {
      RETURN_IF_ERROR(tx.run_script(concat("ALTER TABLE ", sql_name(table.name),
                                           " ADD COLUMN later TEXT NOT NULL DEFAULT 'x';")));
    }
    return absl::OkStatus();
  }).ok());
  Life(url_, scratch_.directory, false).run();
  EXPECT_THAT(column(*database, "SELECT state FROM studies ORDER BY state"),
              testing::ElementsAre("cancelled", "succeeded"));
  const std::unique_ptr<Store> store = make_store(database);
  const Key key = make_key(make_workload(128), make_target());
  const std::string trace = store->best(key)->measurement.trace;
  ASSERT_TRUE(store->withdraw({key, trace, "wrong", "", "a test", 1}).ok());
  EXPECT_NE(store->best(key)->measurement.trace, trace);
  ASSERT_TRUE(store->restore(key, trace).ok());
  ASSERT_TRUE(store->claim(key).ok());
  store->release(key);
  int64_t imported = 0;
  ASSERT_TRUE(import_records(*store, slurp(LW_SOURCE_DIR "/tests/data/v1.jsonl"), &imported).ok());
  EXPECT_EQ(imported, 18);
  EXPECT_TRUE(export_records(*store).ok());
  EXPECT_TRUE(store->prune(1, INT64_MAX).ok());
  const std::vector<std::string> defects = *store->check();
  EXPECT_THAT(defects, testing::ElementsAre(HasSubstr("the tables are not those of its version")));
  for (const TableSchema& table : schema_tables()) {
    EXPECT_THAT(column(*database, concat("SELECT DISTINCT later FROM ", sql_name(table.name))),
                testing::AnyOf(IsEmpty(), testing::ElementsAre("x"))) << table.name;
  }
}

// Of files that a newer program has written, no command reads or changes anything.
class NewerFile : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    fill(path("new.db"));
    sql(path("new.db"), absl::StrCat(kNextStep, "PRAGMA user_version = ", kOurs + 1));
  }
};

TEST_F(NewerFile, IsRefusedByEveryCommand) {
  const std::string before = slurp(path("new.db"));
  write("empty.jsonl", "");
  const std::vector<std::string> commands[] = {
      {"best", "matmul", "M=16", "N=16", "K=16"},
      {"tune", "matmul", "M=16", "N=16", "K=16", "--trials", "1"},
      {"show", "matmul", "M=16", "N=16", "K=16"},
      {"export", "matmul", "M=16", "N=16", "K=16", "-o", "out"},
      {"serve", "--listen", "127.0.0.1:0", "--http", ""},
      {"report", "-o", "report.html"},
      {"db", "ls"}, {"db", "show", "a"}, {"db", "stats"}, {"db", "check"}, {"db", "export"},
      {"db", "import", "empty.jsonl"}, {"db", "prune"}, {"db", "snapshot", "-o", "out.lws"},
      {"db", "backup", "-o", "out.bak"}, {"db", "restore", "--force", "old.db"},
      {"db", "withdraw", "1", "--reason", "x"}, {"db", "withdrawn"}};
  fill(path("old.db"));
  for (std::vector<std::string> words : commands) {
    SCOPED_TRACE(absl::StrCat(words[0], " ", words.size() > 1 ? words[1] : ""));
    words.insert(words.end(), {"--db", "new.db"});
    const CliRun run = program(command(words));
    EXPECT_TRUE(run.code == 5 || run.code == 1) << run.code;
    EXPECT_THAT(run.err, HasSubstr(absl::StrCat("newer Loopwright (schema version ", kOurs + 1)));
    EXPECT_FALSE(std::filesystem::exists(path("out.lws")));
  }
  EXPECT_EQ(slurp(path("new.db")), before);
  // Nor does it come back as an old one.
  const CliRun restored = cli("db restore new.db --db fresh.db");
  EXPECT_NE(restored.code, 0);
  EXPECT_THAT(restored.err, HasSubstr("newer Loopwright"));
}

}  // namespace
}  // namespace lw
