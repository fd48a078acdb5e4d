// Clocks that jump: the machine's by hours, under a running service and over its restarts; an
// agent's, which nobody asks; and the service's own, led by the test, past leases.
//
// The machine's clock is this program's own clock_gettime: the C++ library and everything else in
// the process calls it in place of the system's.
#include <sys/syscall.h>
#include <time.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/net/times.h"
#include "src/serve/rows/clock.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/postgres_fixture.h"

namespace {
std::atomic<int64_t> real_time_offset_s{0};
}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += real_time_offset_s;
  return static_cast<int>(result);
}

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kHour_s = 3600;

class Clocks : public testing::Test {
 protected:
  Clocks() { real_time_offset_s = 0; }
  ~Clocks() override { real_time_offset_s = 0; }

  void start(const ServiceOptions& options = quick_service()) {
    service_ = *Service::start(database_, options);
  }
  std::string create(int trials) {
    return make_study(*service_, trials, absl::StrCat(++requests_));
  }
  v1::Study study(const std::string& id) {
    v1::GetStudyRequest request;
    request.set_name("studies/" + id);
    v1::Study study;
    EXPECT_TRUE(service_->studies.get_study(local_caller(), request, &study).ok());
    return study;
  }
  // Times of the study's events, in order.
  std::vector<int64_t> times(const std::string& id) {
    std::vector<int64_t> all;
    bool ended = false;
    const std::vector<v1::StudyEvent> events = *service_->studies.events(id, 0, 1000, &ended);
    for (const v1::StudyEvent& event : events) {
      all.push_back(ms_of(event.time()));
    }
    return all;
  }
  void expect_sane_leases(int64_t ttl_ms) {
    for (const std::string& until :
         column(*database_, "SELECT lease_until FROM jobs WHERE state = 'leased'")) {
      const int64_t left = std::stoll(until) - service_->core->now_ms();
      EXPECT_GT(left, 0);
      EXPECT_LE(left, ttl_ms);
    }
  }

  Scratch scratch_;
  std::shared_ptr<Database> database_ = *open_sqlite(scratch_.file, {});
  std::unique_ptr<Service> service_;
  int requests_ = 0;
};

TEST_F(Clocks, TheServicesTimeIgnoresJumpsOfTheMachines) {
  int64_t monotonic = 1000;
  ServiceClock clock([&] { return monotonic; });
  ASSERT_TRUE(clock.synchronize(*database_).ok());
  const int64_t begin = clock.now_ms();
  for (int64_t jump : {-kHour_s, kHour_s, -10 * kHour_s, int64_t{0}}) {
    real_time_offset_s = jump;
    ++monotonic;
    ASSERT_TRUE(clock.synchronize(*database_).ok());
    EXPECT_EQ(clock.now_ms(), begin + monotonic - 1000);
  }
}

TEST_F(Clocks, ARestartNeverGoesBack) {
  int64_t monotonic = 5'000'000;
  int64_t last = 0;
  for (int64_t jump : {int64_t{0}, -kHour_s, -kHour_s, kHour_s, -10 * kHour_s}) {
    real_time_offset_s = jump;
    monotonic = 1000 - jump;                 // the machine has restarted too: any origin
    ServiceClock clock([&] { return monotonic; });
    ASSERT_TRUE(clock.synchronize(*database_).ok());
    EXPECT_GE(clock.now_ms(), last);
    monotonic += 700;
    last = clock.now_ms();
    ASSERT_TRUE(database_->write(5, [&](WriteTransaction& tx) { return clock.store(tx); }).ok());
  }
}

TEST_F(Clocks, AStudyGoesOnThroughJumps) {
  start();
  const std::string id = create(12);
  FleetAgent agent("a1", "s1", {"d1"});
  const int64_t jumps[] = {-kHour_s, kHour_s, 0, 24 * kHour_s, -24 * kHour_s};
  for (int i = 0; i < 3000 && !study(id).has_end_time(); ++i) {
    real_time_offset_s = jumps[i % 5];
    const auto response = synchronize(*service_, agent.request());
    ASSERT_TRUE(response.ok()) << response.status();
    agent.apply(*response);
    expect_sane_leases(LeaseRules().ttl_ms);
    real_time_offset_s = jumps[(i + 2) % 5];
    agent.work();
  }
  EXPECT_EQ(study(id).progress().state(), v1::STUDY_STATE_SUCCEEDED);
  const std::vector<int64_t> at = times(id);
  EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
  EXPECT_THAT(column(*database_, "SELECT id FROM jobs WHERE attempt <> 1"), IsEmpty());
  EXPECT_THAT(column(*database_, "SELECT id FROM orphans"), IsEmpty());
}

TEST_F(Clocks, AStudyGoesOnOverRestartsWithAnotherTime) {
  start();
  const std::string id = create(12);
  FleetAgent agent("a1", "s1", {"d1"});
  const int64_t jumps[] = {-kHour_s, 2 * kHour_s, -3 * kHour_s, 0};
  int64_t trials = 0;
  int restarts = 0;
  for (int i = 0; i < 3000 && !study(id).has_end_time(); ++i) {
    const auto response = synchronize(*service_, agent.request());
    ASSERT_TRUE(response.ok()) << response.status();
    agent.apply(*response);
    agent.work();
    // Each daemon lives to see something measured and its search go on, however slow the machine.
    if (study(id).progress().trials() == trials || restarts == 5) continue;
    if (!column(*database_, "SELECT id FROM studies WHERE fruitless > 0").empty()) continue;
    trials = study(id).progress().trials();
    service_.reset();
    real_time_offset_s = jumps[restarts++ % 4];
    start();
  }
  EXPECT_GE(restarts, 3);
  EXPECT_EQ(study(id).progress().state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_EQ(study(id).progress().trials(), 12);
  const std::vector<int64_t> at = times(id);
  EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
  service_.reset();
  EXPECT_THAT(defects_of(*database_, *make_store(database_)), IsEmpty());
}

// A daemon that was killed has stored the time of its latest acknowledgements, or a later one.
TEST_F(Clocks, AKilledServiceComesBackNoEarlierThanWhatItStored) {
  database_.reset();
  ASSERT_EQ(wait_for(child([&] {
    database_ = *open_sqlite(scratch_.file, {});
    start();
    create(4);
    _exit(0);                                // as if killed
  })), 0);
  real_time_offset_s = -kHour_s;
  database_ = *open_sqlite(scratch_.file, {});
  start();
  const std::vector<std::string> made = column(*database_, "SELECT created_ms FROM studies");
  ASSERT_EQ(made.size(), 1u);
  EXPECT_GE(service_->core->now_ms(), std::stoll(made[0]));
}

TEST_F(Clocks, AnAgentsClockDoesNotMatter) {
  start();
  const std::string id = create(6);
  FleetAgent agent("a1", "s1", {"d1"});
  const int64_t begin = service_->core->now_ms();
  for (int i = 0; i < 3000 && !study(id).has_end_time(); ++i) {
    v1::SynchronizeRequest request = agent.request();
    for (v1::JobResult& result : *request.mutable_results()) {
      for (v1::CandidateOutcome& outcome : *result.mutable_outcomes()) {
        outcome.mutable_measurement()->set_unix_ms(begin + (i % 2 == 0 ? -1 : 1) * 3'600'000);
      }
      result.set_digest(result_digest(result));
    }
    const auto response = synchronize(*service_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    agent.apply(*response);
    agent.work();
  }
  EXPECT_EQ(study(id).progress().state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_THAT(column(*database_, concat("SELECT unix_ms FROM measurements WHERE unix_ms < ", begin,
                                        " OR unix_ms > ", service_->core->now_ms())), IsEmpty());
}

// An agent that slept past its lease: its result is refused, and the job is another's.
TEST_F(Clocks, ALeaseEndsByTheServicesClock) {
  std::atomic<int64_t> slept{0};
  ServiceOptions options = quick_service();
  options.monotonic_ms = [&] {
    return slept + std::chrono::duration_cast<std::chrono::milliseconds>(
                       std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  start(options);
  const std::string id = create(6);
  FleetAgent sleeper("a1", "s1", {"d1"}), other("a2", "s2", {"d2"});
  for (int i = 0; i < 2000 && sleeper.held().empty(); ++i) {
    sleeper.apply(*synchronize(*service_, sleeper.request()));
  }
  ASSERT_FALSE(sleeper.held().empty());
  const v1::Job job = sleeper.held().front();
  slept += options.rules.ttl_ms + 1000;
  bool taken = false;
  for (int i = 0; i < 2000 && !taken; ++i) {
    other.apply(*synchronize(*service_, other.request()));
    for (const v1::Job& held : other.held()) taken = taken || held.name() == job.name();
  }
  ASSERT_TRUE(taken);
  sleeper.work();
  const auto late = synchronize(*service_, sleeper.request(0, 0));
  ASSERT_TRUE(late.ok());
  ASSERT_EQ(late->receipts_size(), 1);
  EXPECT_EQ(late->receipts(0).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  for (int i = 0; i < 3000 && !study(id).has_end_time(); ++i) {
    other.work();
    other.apply(*synchronize(*service_, other.request()));
  }
  EXPECT_EQ(study(id).progress().state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_THAT(column(*database_, "SELECT count(*) FROM orphans"), ElementsAre("1"));
  service_.reset();
  EXPECT_THAT(defects_of(*database_, *make_store(database_)), IsEmpty());
}

// What a daemon remembers of agents does not grow with all the names it ever heard.
TEST_F(Clocks, AgentsThatFellSilentAreForgotten) {
  std::atomic<int64_t> passed{0};
  ServiceOptions options = quick_service();
  options.monotonic_ms = [&] {
    return passed + std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  start(options);
  for (int i = 0; i < 50; ++i) {
    FleetAgent agent(absl::StrCat("a", i), "s1", {absl::StrCat("d", i)});
    ASSERT_TRUE(synchronize(*service_, agent.request()).ok());
  }
  EXPECT_EQ(service_->agents.size(), 50u);
  passed += kHour_s * 1000;
  FleetAgent agent("a0", "s1", {"d0"});
  agent.set_sequence(7);
  ASSERT_TRUE(synchronize(*service_, agent.request()).ok());
  for (int i = 0; i < kPatienceMs && service_->agents.size() > 1; ++i) usleep(1000);
  EXPECT_EQ(service_->agents.size(), 1u);
}

TEST(SharedClock, FollowsAJumpOfADayInStepsOfSeconds) {
  PostgresCluster* cluster = PostgresCluster::get();
  if (cluster == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  const std::shared_ptr<Database> database = *open_database(cluster->fresh());
  ServiceClock clock([] { return int64_t{1'000'000}; });
  ASSERT_TRUE(clock.synchronize(*database).ok());
  const int64_t before = clock.now_ms();
  ASSERT_TRUE(database->write(5, [&](WriteTransaction& tx) {
    return tx.query("INSERT INTO clock (id, time_ms) VALUES (1, ?)",
                    before + int64_t{86'400'000}).run();
  }).ok());
  ASSERT_TRUE(clock.synchronize(*database).ok());
  EXPECT_EQ(clock.now_ms() - before, 10'000);
}

}  // namespace
}  // namespace lw
