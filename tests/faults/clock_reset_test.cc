// A clock that was a day ahead and came back: what it does to a service that lives through it, and
// how `db clock --reset` makes an end of it.
#include <chrono>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/serve/clock_reset.h"
#include "tests/faults/fault_daemon.h"
#include "tests/support/postgres_fixture.h"
#include "tuner_db/ladder/index.h"
#include "tuner_db/schema/schema.h"

namespace lw {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kNearMs = 600'000;       // however long a test takes

class ClockReset : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (database_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  }
  std::shared_ptr<Database> open() {
    if (GetParam() == std::string("sqlite")) return *open_database(scratch_.file);
    PostgresCluster* cluster = PostgresCluster::get();
    return cluster == nullptr ? nullptr : *open_database(cluster->fresh());
  }
  void run(const std::string& sql) {
    ASSERT_EQ(database_->write(5, [&](WriteTransaction& tx) { return tx.run(sql); }).message(), "");
  }
  int64_t number(const std::string& sql) {
    int64_t found = -1;
    EXPECT_TRUE(database_->read(5, [&](Transaction& tx) {
      Query query = tx.query(sql);
      if (query.next()) found = query.integer(0);
      return query.status();
    }).ok()) << sql;
    return found;
  }
  void start() { service_ = *Service::start(database_, quick_service()); }
  // As after a stop of the daemon, a jump of the clock, and a start.
  void start_a_day_ahead() {
    const int64_t then = present() + kDayMs;
    run(concat("INSERT INTO clock (id, time_ms) VALUES (1, ", then, ") ON CONFLICT (id) DO UPDATE "
               "SET time_ms = excluded.time_ms"));
    start();
    EXPECT_GE(service_->core->now_ms(), then);
  }
  int64_t present() { return *database_->server_ms(); }
  std::string make(const v1::StudySpec& spec, const std::string& request_id) {
    v1::CreateStudyRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = spec;
    google::longrunning::Operation operation;
    const absl::Status status = service_->studies.create_study(local_caller(), request, &operation);
    EXPECT_TRUE(status.ok()) << status;
    return id_of(operation.name());
  }
  v1::StudyState state(const std::string& study) {
    v1::GetStudyRequest request;
    request.set_name("studies/" + study);
    v1::Study found;
    EXPECT_TRUE(service_->studies.get_study(local_caller(), request, &found).ok());
    return found.progress().state();
  }
  void call(FleetAgent& agent) {
    const auto response = synchronize(*service_, agent.request());
    ASSERT_TRUE(response.ok()) << response.status();
    agent.apply(*response);
  }
  void finish(const std::string& study, FleetAgent& agent) {
    for (int i = 0; i < kPatienceMs && state(study) != v1::STUDY_STATE_SUCCEEDED; ++i) {
      call(agent);
      agent.work();
    }
    EXPECT_EQ(state(study), v1::STUDY_STATE_SUCCEEDED);
  }
  static v1::StudySpec for_nobody() {      // waits for a target that is not there, ten days at most
    v1::StudySpec spec = small_study(4, "aarch64_neon");
    spec.mutable_most_waiting()->set_seconds(10 * kDayMs / 1000);
    return spec;
  }

  Scratch scratch_;
  std::shared_ptr<Database> database_ = open();
  std::unique_ptr<Service> service_;
};
INSTANTIATE_TEST_SUITE_P(All, ClockReset, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

// Forwards: a lease ends once, which is no crash; what waits, waits; answers are still known by
// their request. Back: the service's time stays where it was.
TEST_P(ClockReset, AServiceLivesThroughADayForwardsAndBack) {
  start();
  const std::string study = make(small_study(8), "1");
  const std::string waiting = make(for_nobody(), "2");
  FleetAgent agent("a1", "s1", {"d1"});
  for (int i = 0; i < kPatienceMs && agent.held().empty(); ++i) call(agent);
  ASSERT_FALSE(agent.held().empty());
  service_.reset();
  start_a_day_ahead();
  EXPECT_TRUE(eventually([&] {
    return number("SELECT count(*) FROM jobs WHERE state = 'leased'") == 0;
  }));
  EXPECT_EQ(state(waiting), v1::STUDY_STATE_QUEUED);
  EXPECT_EQ(make(small_study(8), "1"), study) << "the same request, the same answer";
  finish(study, agent);
  EXPECT_LE(number("SELECT max(attempt) FROM jobs"), 2);
  EXPECT_EQ(number("SELECT count(*) FROM measurements WHERE verdict = 'crash'"), 0);
  const int64_t ahead = service_->core->now_ms();
  service_.reset();
  start();                                 // the machine's clock has long been right again
  EXPECT_GE(service_->core->now_ms(), ahead);
  EXPECT_EQ(state(waiting), v1::STUDY_STATE_QUEUED);
  finish(make(small_study(4), "3"), agent);
  service_.reset();
  EXPECT_THAT(defects_of(*database_, *make_store(database_)), IsEmpty());
}

TEST_P(ClockReset, SetsBackWhatHoldsMomentsToCome) {
  start_a_day_ahead();
  FleetAgent agent("a1", "s1", {"d1"});
  const std::string study = make(small_study(8), "1");
  const std::string waiting = make(for_nobody(), "2");
  for (int i = 0; i < kPatienceMs && agent.held().empty(); ++i) call(agent);
  ASSERT_FALSE(agent.held().empty());
  run(concat("UPDATE agents SET rest_until = ", service_->core->now_ms() + 1000));
  service_.reset();
  run(concat("UPDATE keys SET changed_ms = ", present() + kDayMs));

  const ClockState seen = *read_clock(*database_);
  EXPECT_NEAR(static_cast<double>(seen.stored_ms - seen.present_ms), kDayMs, kNearMs);
  for (const char* what : {"jobs.lease_until", "jobs.created_ms", "studies.created_ms",
                           "studies.updated_ms", "agents.seen_ms", "devices.seen_ms",
                           "requests.created_ms", "agents.rest_until"}) {
    EXPECT_THAT(seen.ahead, Contains(::testing::Key(std::string(what))));
  }
  const ClockState before = *reset_clock(*database_);
  EXPECT_EQ(before.ahead, seen.ahead);
  const ClockState after = *read_clock(*database_);
  EXPECT_THAT(after.ahead, IsEmpty());
  EXPECT_LE(after.stored_ms, after.present_ms);
  EXPECT_GT(after.stored_ms, after.present_ms - kNearMs);
  // It waits for ten days, as it was to.
  const int64_t until =
      number(concat("SELECT wait_until FROM studies WHERE id = '", waiting, "'"));
  EXPECT_NEAR(static_cast<double>(until - present()), 10 * kDayMs, kNearMs);

  // The service goes on where it was, in the present: the agent has its job, requests are known.
  start();
  EXPECT_LT(service_->core->now_ms(), present() + kNearMs);
  EXPECT_EQ(make(small_study(8), "1"), study);
  finish(study, agent);
  EXPECT_EQ(number("SELECT max(attempt) FROM jobs"), 1);
  service_.reset();
  EXPECT_THAT(defects_of(*database_, *make_store(database_)), IsEmpty());
}

// Of every table's moments, whatever step brought them; what happened keeps the time it was given.
TEST_P(ClockReset, KnowsEveryColumnOfMoments) {
  start();
  make(small_study(4), "1");
  FleetAgent agent("a1", "s1", {"d1"});
  for (int i = 0; i < kPatienceMs && agent.held().empty(); ++i) call(agent);
  service_.reset();
  std::vector<std::pair<std::string, std::string>> columns;
  for (const TableSchema& table : schema_tables()) {
    const bool history = table.name == "measurements" || table.name == "withdrawn" ||
                         table.name == "audit";
    for (const Column& one : table.columns) {
      const bool moment = one.name.ends_with("_ms") || one.name.ends_with("_until") ||
                          one.name == "run_after";
      if (!moment || history || one.name == "wait_until") continue;
      columns.emplace_back(table.name, one.name);
    }
  }
  EXPECT_GT(columns.size(), 15u);
  const int64_t then = present() + kDayMs;
  for (const auto& [table, name] : columns) {
    run(concat("UPDATE ", sql_name(table), " SET ", name, " = ", then));
  }
  run(concat("UPDATE measurements SET unix_ms = ", then));
  ASSERT_TRUE(reset_clock(*database_).ok());
  for (const auto& [table, name] : columns) {
    EXPECT_EQ(number(concat("SELECT count(*) FROM ", sql_name(table), " WHERE ", name, " > ",
                            present() + kNearMs)), 0) << table << "." << name;
  }
  EXPECT_EQ(number(concat("SELECT count(*) FROM measurements WHERE unix_ms <> ", then)), 0);
}

TEST_P(ClockReset, SeesADaemonAtWork) {
  EXPECT_FALSE(*is_clock_kept(*database_)) << "there was none yet";
  start();
  EXPECT_TRUE(eventually([&] { return number("SELECT count(*) FROM clock") == 1; }));
  EXPECT_TRUE(*is_clock_kept(*database_));
  service_.reset();
  EXPECT_FALSE(*is_clock_kept(*database_));
}

// Look-ups follow what others change by the database's clock: one that was ahead must not hide what
// comes after it was set back.
TEST_P(ClockReset, AClockThatWasSetBackHidesNoChange) {
  const std::unique_ptr<Store> store = make_store(database_);
  const lw::Key first = put_key(*store, 64), second = put_key(*store, 128);
  for (const lw::Key& key : {first, second}) {
    std::vector<Measurement> batch = {make_measurement(1, {10, 11, 12})};
    ASSERT_TRUE(store->append(key, batch).ok());
  }
  LadderIndex index(*store);
  ASSERT_TRUE(index.refresh().ok());
  ASSERT_TRUE(index.follow().ok());
  EXPECT_THAT(*index.follow(), IsEmpty());
  run(concat("UPDATE keys SET revision = revision + 1, changed_ms = ", present() + kDayMs,
             " WHERE workload = '", first.workload, "'"));
  EXPECT_THAT(*index.follow(), ElementsAre(first)) << "while it is ahead";
  ASSERT_TRUE(store->withdraw({second, make_trace(1), "wrong", "", "a test", 1}).ok());
  EXPECT_THAT(*index.follow(), ElementsAre(second)) << "and when it is right again";
  EXPECT_THAT(*index.follow(), IsEmpty());
}

}  // namespace
}  // namespace lw
