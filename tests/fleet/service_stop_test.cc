// Ends that are asked for, and an agent that comes back too late. A daemon told to stop under load
// ends in order, and watchers go on with the next one; an agent told to leave finishes, told twice
// gives back; an agent that was stopped past its lease is refused, and goes on working.
#include <csignal>

#include "src/expr/language/text.h"
#include "tests/fleet/service_witness.h"
#include "tests/fleet/tcp_switch.h"

namespace lw {
namespace {

class ServiceStop : public FolderTest {
 protected:
  std::string journal() const { return folder_ + "/journal"; }

  void start_daemon(const std::string& lease_s = "2") {
    ASSERT_TRUE(processes_.start_daemon(
        "daemon", daemon_words(loopback(port_), folder_ + "/service.db", lease_s)))
        << read_text(processes_.log("daemon"));
  }
  void start_agent(const std::string& name, int port, int delay_ms) {
    if (agents_.insert(name).second) logs_.push_back(processes_.log(name));
    processes_.start(name, agent_words(loopback(port), name, delay_ms, folder_ + "/state"));
  }
  void start_client() { processes_.start("client", client_words(loopback(port_), journal(), 2)); }

  // Events of the name in the agent's log.
  std::vector<nlohmann::json> said(const std::string& agent, const std::string& event) const {
    std::vector<nlohmann::json> all;
    for (nlohmann::json& one : log_events(processes_.log(agent))) {
      if (one["event"] == event) all.push_back(std::move(one));
    }
    return all;
  }
  bool has_said(const std::string& agent, const std::string& event, const nlohmann::json& job) {
    const std::vector<nlohmann::json> all = said(agent, event);
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one["job"] == job; });
  }

  size_t count_events(const std::string& what) const {
    size_t count = 0;
    for (const JournalLine& line : read_journal(journal())) count += line.what == what;
    return count;
  }

  void look(bool finished) {
    witness_.look({journal()}, logs_, finished);
    ASSERT_EQ(witness_.problems(), std::vector<std::string>()) << witness_.text();
  }

  // Where the test itself submits, its studies stand in no journal.
  void look_without_journal() {
    witness_.look({}, logs_);
    for (const std::string& problem : witness_.problems()) {
      EXPECT_NE(problem.find("were asked for"), std::string::npos) << problem;
    }
  }

  // A study of one workload, of at most `batch` candidates a job; its name.
  std::string submit(int extent, int trials, int batch) {
    const absl::StatusOr<Task> task = make_client_task(
        absl::StrCat("matmul M=", extent, " N=16 K=16"), {.target = "x86_avx2", .threads = 1});
    loopwright::v1::CreateStudyRequest request;
    request.set_request_id(absl::StrFormat("00000000-0000-4000-8000-%012d", extent));
    loopwright::v1::StudyWorkload& workload = *request.mutable_spec()->add_workloads();
    workload.set_name("w");
    workload.set_program(print(*task->program()));
    request.mutable_spec()->set_threads(1);
    request.mutable_spec()->set_trials(trials);
    request.mutable_spec()->set_batch(batch);
    google::longrunning::Operation operation;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const grpc::Status status = stub()->CreateStudy(&context, request, &operation);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return absl::StrCat("studies/", operation.name().substr(operation.name().find('/') + 1));
  }

  bool has_ended(const std::string& study) {
    loopwright::v1::GetStudyRequest request;
    request.set_name(study);
    loopwright::v1::Study response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    return stub()->GetStudy(&context, request, &response).ok() &&
           response.end_time().seconds() != 0;
  }

  std::unique_ptr<loopwright::v1::TuningService::Stub> stub() const {
    return loopwright::v1::TuningService::NewStub(
        grpc::CreateChannel(loopback(port_), grpc::InsecureChannelCredentials()));
  }

  const int port_ = free_port();
  Processes processes_{folder_};
  std::set<std::string> agents_;
  std::vector<std::string> logs_;
  Witness witness_{folder_ + "/service.db"};
};

TEST_F(ServiceStop, ADaemonToldToStopLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(start_daemon());
  for (const char* name : {"a0", "a1"}) start_agent(name, port_, 10);
  start_client();
  for (int i = 1; i <= 2; ++i) {
    const size_t seen = count_events("saw");
    ASSERT_TRUE(await(60, [&] { return count_events("saw") > seen + 3; })) << "nobody watches";
    EXPECT_EQ(processes_.end("daemon", SIGTERM, 30), 0);  // its grace is 10 s
    ASSERT_NO_FATAL_FAILURE(look(false));
    ASSERT_NO_FATAL_FAILURE(start_daemon());
  }
  EXPECT_EQ(finish_client(processes_), 0) << "studies are stuck";
  for (const char* name : {"a0", "a1"}) EXPECT_EQ(processes_.end(name, SIGTERM), 0);
  EXPECT_EQ(processes_.end("daemon", SIGTERM), 0);
  ASSERT_NO_FATAL_FAILURE(look(true));
}

TEST_F(ServiceStop, AnAgentFinishesThenGivesBack) {
  ASSERT_NO_FATAL_FAILURE(start_daemon("10"));
  start_agent("a0", port_, 300);
  const std::string study = submit(32, 6, 2);
  ASSERT_TRUE(await(60, [&] { return said("a0", "job_taken").size() > 1; }));
  EXPECT_EQ(processes_.end("a0", SIGTERM, 60), 0);
  const size_t taken = said("a0", "job_taken").size();
  EXPECT_EQ(said("a0", "job_finished").size(), taken);
  EXPECT_EQ(said("a0", "result_stored").size(), taken);

  start_agent("a0", port_, 2000);
  ASSERT_TRUE(await(60, [&] { return said("a0", "job_taken").size() > taken; }));
  processes_.signal("a0", SIGTERM);
  ASSERT_TRUE(await(60, [&] { return !said("a0", "leaving").empty(); }));
  EXPECT_EQ(processes_.end("a0", SIGTERM, 60), 0);

  start_agent("a1", port_, 1);             // what was given back is there for the next one
  EXPECT_TRUE(await(60, [&] { return has_ended(study); }));
  EXPECT_EQ(processes_.end("a1", SIGTERM), 0);
  EXPECT_EQ(processes_.end("daemon", SIGTERM), 0);
}

// The agent has finished its job when it is stopped, with its answer not yet on its way: nothing
// but the server's fence can refuse it.
TEST_F(ServiceStop, AZombiesResultIsRefused) {
  ASSERT_NO_FATAL_FAILURE(start_daemon("3"));
  TcpSwitch way({port_});
  start_agent("zombie", way.port(), 200);
  const std::string study = submit(40, 4, 2);
  ASSERT_TRUE(await(60, [&] { return !said("zombie", "job_taken").empty(); }));
  way.set_cut(true);
  const nlohmann::json taken = said("zombie", "job_taken")[0];
  ASSERT_TRUE(await(60, [&] { return has_said("zombie", "job_finished", taken["job"]); }));
  processes_.signal("zombie", SIGSTOP);

  start_agent("heir", port_, 1);
  ASSERT_TRUE(await(60, [&] { return has_said("heir", "result_stored", taken["job"]); }));
  ASSERT_TRUE(await(60, [&] { return has_ended(study); }));
  witness_.look({}, logs_);
  const Witness::Counts before = witness_.counts();

  processes_.signal("zombie", SIGCONT);
  way.set_cut(false);
  ASSERT_TRUE(await(60, [&] { return has_said("zombie", "result_not_counted", taken["job"]); }));
  EXPECT_EQ(said("zombie", "result_not_counted")[0]["kind"], "RECEIPT_KIND_LEASE_LOST");
  EXPECT_FALSE(has_said("zombie", "result_stored", taken["job"]));
  look_without_journal();
  EXPECT_EQ(witness_.counts().measurements, before.measurements);
  EXPECT_EQ(witness_.counts().events, before.events);
  EXPECT_GE(witness_.counts().orphans, 1u);

  // It is an agent like any other again.
  EXPECT_EQ(processes_.end("heir", SIGTERM), 0);
  const std::string next = submit(48, 2, 1);
  EXPECT_TRUE(await(60, [&] { return has_ended(next); }));
  EXPECT_EQ(processes_.end("zombie", SIGTERM), 0);
  EXPECT_EQ(processes_.end("daemon", SIGTERM), 0);
}

// Stopped in the middle of its work: when it wakes its lease is over, by its own clock too.
TEST_F(ServiceStop, AnAgentThatSleptThroughItsLeaseGoesOn) {
  ASSERT_NO_FATAL_FAILURE(start_daemon("1"));
  start_agent("sleeper", port_, 150);
  const std::string study = submit(56, 6, 2);
  ASSERT_TRUE(await(60, [&] { return !said("sleeper", "job_taken").empty(); }));
  processes_.signal("sleeper", SIGSTOP);
  start_agent("heir", port_, 1);
  ASSERT_TRUE(await(60, [&] { return has_ended(study); }));
  processes_.signal("sleeper", SIGCONT);
  EXPECT_EQ(processes_.end("heir", SIGTERM), 0);
  const std::string next = submit(64, 2, 1);
  EXPECT_TRUE(await(60, [&] { return has_ended(next); }));
  EXPECT_EQ(processes_.end("sleeper", SIGTERM), 0);
  EXPECT_EQ(processes_.end("daemon", SIGTERM), 0);
  look_without_journal();
}

}  // namespace
}  // namespace lw
