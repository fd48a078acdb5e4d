// What an answer to an agent holds, and what becomes of one that never arrives: attempts of jobs
// are for devices, not for connections.
#include <condition_variable>
#include <mutex>
#include <optional>

#include "src/base/message.h"
#include "src/net/times.h"
#include "tests/queue/queue_fixture.h"
#include "tests/support/daemon_fixture.h"

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// An agent that has something to say hangs up, as often as not with an answer on its way.
TEST_P(QueueTest, AnAnswerThatIsLostIsSaidAgain) {
  const int64_t id = queue(make_study("ci"));
  Asker a;
  const v1::Job first = take_one(a);
  for (int i = 0; i < 2 * rules_.most_attempts; ++i) {
    a.held.clear();
    now_ += 100;
    const v1::Job again = take_one(a);
    EXPECT_EQ(again.name(), first.name());
    EXPECT_EQ(again.epoch(), 1);
    EXPECT_EQ(ms_of(again.lease()), job(id).lease_until - now_) << "what is left of it";
  }
  EXPECT_EQ(job(id).attempt, 1);
  EXPECT_EQ(number("SELECT losses FROM agents"), 0);
  EXPECT_EQ(send(a, result_of(first)).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 1);
}

// Only to whom it was given, and as long as it may want it.
TEST_P(QueueTest, ALostAnswerIsNobodyElses) {
  const int64_t id = queue(make_study("ci"));
  const auto lose = [&](Asker* a) {
    a->held.clear();
    take_one(*a);
    a->held.clear();
  };
  Asker a;
  lose(&a);
  EXPECT_THAT(take(a, 0), IsEmpty()) << "it wants no more";
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  lose(&a);
  a.leaving = true;
  EXPECT_THAT(take(a), IsEmpty()) << "it leaves";
  EXPECT_EQ(job(id).state, v1::JOB_STATE_QUEUED);
  a.leaving = false;
  lose(&a);
  a.session = "s9";                        // what it may have had died with it
  EXPECT_EQ(take_one(a).epoch(), 4);
  EXPECT_THAT(job(id).lost_on, ElementsAre("a"));
}

// It counts among what the device wants.
TEST_P(QueueTest, WhatIsSaidAgainLeavesRoomForTheRest) {
  for (int i = 0; i < 6; ++i) queue(make_study(absl::StrCat("c", i)));
  Asker a;
  EXPECT_EQ(take(a, 2).size(), 2u);
  a.held.clear();
  EXPECT_EQ(take(a, 3).size(), 3u);
  EXPECT_EQ(number("SELECT count(*) FROM jobs WHERE state = 'leased'"), 3);
}

// Forty boards that want four jobs each, of the largest programs: agents take messages of 32 MiB.
TEST_P(QueueTest, AnAnswerAlwaysArrives) {
  constexpr int kJobs = 200;
  constexpr size_t kArrives = size_t{16} << 20;
  const std::string study = make_study("ci");
  for (int i = 0; i < kJobs; ++i) queue(study);
  write([&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<JobRow> jobs, select_jobs(tx, "ORDER BY id", {}));
    for (JobRow job : jobs) {
      job.payload.set_program(std::string(250 << 10, ' '));
      const std::string bytes = job.payload.SerializeAsString();
      RETURN_IF_ERROR(tx.query("UPDATE jobs SET payload = ? WHERE id = ?", Blob{bytes},
                               job.id).run());
    }
    return absl::OkStatus();
  });
  Asker a;
  a.devices.clear();
  for (int i = 0; i < 40; ++i) a.devices.push_back(absl::StrCat("d", i));
  int given = 0;
  for (int i = 0; i < kJobs && given < kJobs; ++i) {
    const absl::StatusOr<v1::SynchronizeResponse> response = call(a, 4);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_LT(response->ByteSizeLong(), kArrives);
    ASSERT_GT(response->jobs_size(), 0);
    given += response->jobs_size();
  }
  EXPECT_EQ(given, kJobs);
  // And again, when all of them were lost.
  a.held.clear();
  given = 0;
  for (int i = 0; i < kJobs && given < kJobs; ++i) {
    const absl::StatusOr<v1::SynchronizeResponse> response = call(a, 4);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_LT(response->ByteSizeLong(), kArrives);
    given += response->jobs_size();
  }
  EXPECT_EQ(given, kJobs);
  EXPECT_EQ(number("SELECT max(attempt) FROM jobs"), 1);
}

// What an agent says of another's device or job counts for nothing, and takes nothing from it.
TEST_P(QueueTest, AnAgentAnswersForNobodyElse) {
  const int64_t id = queue(make_study("ci"));
  Asker a, b{.agent = "b", .session = "s2", .devices = {"e"}};
  const v1::Job job = take_one(a);
  take(b, 0);
  b.results = {result_of(job)};
  const absl::StatusOr<v1::SynchronizeResponse> forged = call(b, 0);
  ASSERT_TRUE(forged.ok()) << forged.status();
  ASSERT_EQ(forged->receipts_size(), 1);
  EXPECT_EQ(forged->receipts(0).kind(), v1::RECEIPT_KIND_LEASE_LOST);
  v1::Job claimed = job;                   // as if it were a job of its own device
  claimed.set_device("devices/e");
  b.held = {claimed};
  const absl::StatusOr<v1::SynchronizeResponse> held = call(b, 0);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->cancels_size(), 1);
  EXPECT_EQ(this->job(id).agent, "a");
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 0);
  EXPECT_EQ(send(a, result_of(job)).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(number("SELECT count(*) FROM measurements"), 1);
  EXPECT_EQ(text("SELECT actor FROM measurements"), "agent/a");
}

// The daemon's agents over a network that loses every third answer with jobs.
class LossyWay : public v1::AgentService::Service {
 public:
  explicit LossyWay(lw::Service& service) : service_(service) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = concat("127.0.0.1:", port);
  }
  ~LossyWay() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Synchronize(grpc::ServerContext* context, const v1::SynchronizeRequest* request,
                           v1::SynchronizeResponse* response) override {
    struct Answer {
      std::mutex mutex;
      std::condition_variable changed;
      std::optional<std::pair<absl::Status, v1::SynchronizeResponse>> made;
    };
    const auto answer = std::make_shared<Answer>();
    const auto call = service_.agents.synchronize(
        {local_identity(), "test"}, std::make_shared<const v1::SynchronizeRequest>(*request),
        [answer](absl::Status status, v1::SynchronizeResponse response) {
          const std::lock_guard lock(answer->mutex);
          answer->made.emplace(std::move(status), std::move(response));
          answer->changed.notify_all();
        });
    std::unique_lock lock(answer->mutex);
    while (!answer->made.has_value()) {
      answer->changed.wait_for(lock, std::chrono::milliseconds(1));
      if (answer->made.has_value() || !context->IsCancelled()) continue;
      lock.unlock();
      service_.agents.abandon(call);
      lock.lock();
      answer->changed.wait(lock, [&] { return answer->made.has_value(); });
    }
    lock.unlock();
    if (answer->made->second.jobs_size() > 0 && ++answers % 3 == 0) {
      ++lost;
      return {grpc::StatusCode::UNAVAILABLE, "lost"};
    }
    *response = answer->made->second;
    return to_grpc(answer->made->first);
  }

  std::string address;
  std::atomic<int> answers = 0, lost = 0;  // with jobs

 private:
  lw::Service& service_;
  std::unique_ptr<grpc::Server> server_;
};

// The whole, with jobs that are copies of a study's, so that no search sets the pace.
TEST(LostAnswers, CostNoAttempt) {
  constexpr int kJobs = 400;
  Scratch scratch;
  ServiceOptions options;
  options.rules.ttl_ms = 300'000;          // whatever else this machine does
  std::vector<JobRow> jobs;
  {
    Daemon daemon(scratch.file, options);
    NullAgent agent(daemon.server->address(), "a0");
    google::longrunning::Operation operation;
    ASSERT_TRUE(Daemon::call(*daemon.tuning, &v1::TuningService::Stub::CreateStudy,
                             study_request({32}, 8), &operation).ok());
    ASSERT_TRUE(eventually([&] {
      EXPECT_TRUE(daemon.database->read(5, [&](Transaction& tx) -> absl::Status {
        ASSIGN_OR_RETURN(jobs, select_jobs(tx, "WHERE state = 'done' LIMIT 1", {}));
        return absl::OkStatus();
      }).ok());
      return !jobs.empty();
    }));
  }
  options.search = false;
  Daemon daemon(scratch.file, options);
  ASSERT_TRUE(daemon.database->write(30, [&](WriteTransaction& tx) -> absl::Status {
    RETURN_IF_ERROR(tx.query("UPDATE studies SET state = 'running'").run());
    JobRow copy = jobs[0];
    copy.state = v1::JOB_STATE_QUEUED;
    copy.attempt = 0;
    copy.agent = copy.device = copy.session = copy.digest = "";
    copy.lease_until = 0;
    for (int i = 0; i < kJobs; ++i) RETURN_IF_ERROR(insert_job(tx, copy).status());
    return absl::OkStatus();
  }).ok());
  AgentOptions agent;
  LossyWay way(*daemon.service);
  agent.server.address = way.address;
  agent.name = "a1";
  for (int i = 0; i < 4; ++i) {
    agent.devices.push_back(absl::StrCat("null:d", i, ",target=x86_avx2,delay_ms=1"));
  }
  agent.devices.erase(agent.devices.begin());  // the default one
  std::atomic<int> signals = 0;
  agent.interrupts = [&] { return signals.load(); };
  std::thread thread([&] { EXPECT_TRUE(run_agent(agent).ok()); });
  const auto number = [&](const std::string& sql) {
    int64_t found = -1;
    EXPECT_TRUE(daemon.database->read(5, [&](Transaction& tx) {
      Query query = tx.query(sql);
      if (query.next()) found = query.integer(0);
      return query.status();
    }).ok());
    return found;
  };
  EXPECT_TRUE(eventually([&] {
    return number("SELECT count(*) FROM jobs WHERE state = 'done'") > kJobs;
  }));
  signals = 1;
  thread.join();
  std::printf("%d answers with jobs were lost\n", way.lost.load());
  EXPECT_GT(way.lost, 5);
  EXPECT_EQ(number("SELECT count(*) FROM jobs WHERE attempt > 1"), 0);
}

}  // namespace
}  // namespace lw
