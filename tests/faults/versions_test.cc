// Programs of different versions that meet: agents and servers tell each other what they know, what
// does not fit gets no work and no blame, and is told which of the two is to be updated.
//
//                        this server                          an older server
//   an older agent       says no words: OlderAgentsAreServed  -
//   this agent           every other test of the service      AnOlderServerHasItsAgent
//   a newer agent        ...WhatItReadsMore, ...WhatItSaysMore
//   an older client      open enums: StatesOfLaterVersions
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/agent/ledger.h"
#include "src/cli/service/service.h"
#include "src/measure/cpu/emulator.h"
#include "src/net/words.h"
#include "tests/faults/fault_daemon.h"
#include "tests/support/agent_fixture.h"

namespace lw {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> without(std::vector<std::string> words, std::string_view word) {
  EXPECT_EQ(std::erase(words, std::string(word)), 1u) << word;
  return words;
}
std::vector<std::string> with(std::vector<std::string> words, std::string_view word) {
  words.emplace_back(word);
  return words;
}

// ---- words

TEST(Words, NameStepsJobsAndVerdicts) {
  EXPECT_THAT(known_words(), Contains("step split@1"));
  EXPECT_THAT(known_words(), Contains("job compare"));
  EXPECT_THAT(known_words(), Contains("verdict device_limit"));
  EXPECT_TRUE(std::is_sorted(known_words().begin(), known_words().end()));
}

TEST(Words, SayWhichOfTheTwoIsToBeUpdated) {
  const std::vector<std::string>& ours = known_words();
  EXPECT_EQ(misfit(ours), "");
  EXPECT_EQ(misfit(with(with(ours, "step future@1"), "job future")), "") << "it reads more";
  EXPECT_EQ(misfit(with(ours, "colour blue")), "") << "of a later version's concern";
  std::vector<std::string> shuffled(ours.rbegin(), ours.rend());
  EXPECT_EQ(misfit(shuffled), "");
  EXPECT_THAT(misfit(without(ours, "step split@1")),
              HasSubstr("does not know step split@1: update the agent"));
  EXPECT_THAT(misfit(without(ours, "job compare")), HasSubstr("update the agent"));
  EXPECT_EQ(misfit(without(ours, "verdict crash")), "") << "it says less";
  EXPECT_THAT(misfit(with(ours, "verdict haunted")),
              HasSubstr("server's version does not know verdict haunted: update the server"));
}

TEST(Words, ProgramsOfBeforeKnowWhatTheyKnew) {
  std::vector<std::string> theirs = {"job compare", "job measure"};
  for (const std::string& word : known_words()) {
    if (word.starts_with("verdict ")) theirs.push_back(word);
  }
  for (const char* step : {"compute_at", "dot", "fuse", "inline_producer", "non_temporal",
                           "parallel", "phase", "prefetch", "register_tile", "reorder",
                           "reverse_inline", "rfactor", "slide", "split", "stage", "unroll",
                           "vectorize", "winograd"}) {
    theirs.push_back(concat("step ", step, "@1"));
  }
  std::sort(theirs.begin(), theirs.end());
  EXPECT_EQ(misfit({}, theirs), "");
  EXPECT_THAT(misfit({}, with(theirs, "step future@1")),
              HasSubstr("does not know step future@1: update the agent"));
}

// ---- at the server's door

class Door : public testing::Test {
 protected:
  // The agent's next call, made as a program that knows these words.
  absl::StatusOr<v1::SynchronizeResponse> call(FleetAgent& agent,
                                               const std::vector<std::string>& words) {
    v1::SynchronizeRequest request = agent.request();
    for (v1::DeviceState& state : *request.mutable_devices()) {
      if (!state.has_description()) continue;
      state.mutable_description()->mutable_words()->Assign(words.begin(), words.end());
    }
    absl::StatusOr<v1::SynchronizeResponse> response = synchronize(*service_, request);
    if (response.ok()) agent.apply(*response);
    return response;
  }
  v1::DeviceStatus device() {
    v1::ListDevicesResponse devices;
    EXPECT_TRUE(service_->fleet.list_devices(local_caller(), {}, &devices).ok());
    EXPECT_EQ(devices.devices_size(), 1);
    return devices.devices(0);
  }
  bool has_ended(const std::string& study) {
    v1::GetStudyRequest request;
    request.set_name("studies/" + study);
    v1::Study found;
    EXPECT_TRUE(service_->studies.get_study(local_caller(), request, &found).ok());
    return found.progress().state() == v1::STUDY_STATE_SUCCEEDED;
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& why) {
    make_study(*service_, 4);
    FleetAgent agent("a1", "s1", {"d1"});
    for (int i = 0; i < 3; ++i) {          // it stays, and asks again
      const auto response = call(agent, words);
      EXPECT_EQ(response.status().code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(reason_of(response.status()), v1::ERROR_REASON_VERSION_UNSUPPORTED);
      EXPECT_GE(retry_delay_ms(response.status()), 10'000) << "slowly";
      EXPECT_THAT(std::string(response.status().message()), HasSubstr(why));
    }
    const v1::DeviceStatus seen = device();
    EXPECT_EQ(seen.admission(), v1::DEVICE_ADMISSION_UNSUPPORTED);
    EXPECT_THAT(seen.reason(), HasSubstr(why));
    EXPECT_TRUE(seen.online());
    EXPECT_EQ(seen.failures_in_row() + seen.jobs_failed(), 0) << "nobody is to blame";
    EXPECT_THAT(column(*database_, "SELECT id FROM jobs"), IsEmpty());
    EXPECT_THAT(column(*database_, "SELECT losses FROM agents"), ElementsAre("0"));
  }

  Scratch scratch_;
  const std::shared_ptr<Database> database_ = *open_sqlite(scratch_.file, {});
  const std::unique_ptr<Service> service_ = *Service::start(database_, quick_service());
};

// As long as there is nothing in jobs that they cannot read; then they are told so.
TEST_F(Door, OlderAgentsAreServed) {
  const std::string why = misfit({});
  const std::string study = make_study(*service_, 4);
  FleetAgent agent("a1", "s1", {"d1"});
  for (int i = 0; i < (why.empty() ? 2000 : 4) && !has_ended(study); ++i) {
    ASSERT_TRUE(call(agent, {}).ok());
    agent.work();
  }
  EXPECT_EQ(has_ended(study), why.empty());
  EXPECT_EQ(device().reason(), why);
}

TEST_F(Door, AnAgentIsRefusedForWhatTheServersJobsSayMore) {
  expect_refused(without(known_words(), "step register_tile@1"), "update the agent");
}

TEST_F(Door, ANewerAgentIsRefusedForWhatItSaysMore) {
  expect_refused(with(known_words(), "verdict haunted"), "update the server");
}

TEST_F(Door, ANewerAgentIsServedForWhatItReadsMore) {
  const std::string study = make_study(*service_, 4);
  FleetAgent agent("a1", "s1", {"d1"});
  for (int i = 0; i < 2000 && !has_ended(study); ++i) {
    ASSERT_TRUE(call(agent, with(known_words(), "step future@3")).ok());
    agent.work();
  }
  EXPECT_TRUE(has_ended(study));
}

// Of a study nothing begins on a device that could not read its jobs; with its update it does.
TEST_F(Door, AnUpdateOpensIt) {
  FleetAgent old("a1", "s1", {"d1"});
  EXPECT_FALSE(call(old, without(known_words(), "step split@1")).ok());
  const std::string study = make_study(*service_, 4);
  bool ended = false;
  EXPECT_TRUE(eventually([&] {
    std::string waits;
    const auto events = *service_->studies.events(study, 0, 100, &ended);
    for (const v1::StudyEvent& event : events) waits = event.detail();
    return waits.find("1 unsupported") != std::string::npos;
  }));
  FleetAgent updated("a1", "s2", {"d1"});
  for (int i = 0; i < 2000 && !has_ended(study); ++i) {
    ASSERT_TRUE(call(updated, known_words()).ok());
    updated.work();
  }
  EXPECT_TRUE(has_ended(study));
  EXPECT_EQ(device().admission(), v1::DEVICE_ADMISSION_OPEN);
  EXPECT_EQ(device().reason(), "");
}

// The server was updated under its agents: what they have measured is taken, and nothing more
// given.
TEST_F(Door, ResultsOfAnAgentThatFitsNoMoreAreTaken) {
  make_study(*service_, 8);
  FleetAgent agent("a1", "s1", {"d1"});
  for (int i = 0; i < 2000 && agent.held().empty(); ++i) {
    ASSERT_TRUE(call(agent, known_words()).ok());
  }
  ASSERT_FALSE(agent.held().empty());
  ASSERT_TRUE(database_->write(5, [&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<DeviceRow> row, find_device(tx, "d1"));
    row->description.clear_words();
    row->description.add_words("job measure");
    return put_device(tx, *row);
  }).ok());
  v1::SynchronizeRequest renewal = agent.request(1, 0);
  const auto holding = synchronize(*service_, renewal);
  ASSERT_TRUE(holding.ok()) << holding.status();
  EXPECT_EQ(holding->cancels_size(), 0);
  agent.work();
  const auto response = synchronize(*service_, agent.request(1, 0));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->receipts_size(), 1);
  EXPECT_EQ(response->receipts(0).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_EQ(response->jobs_size(), 0);
  EXPECT_THAT(response->refused_devices().at("devices/d1"), HasSubstr("update the agent"));
  EXPECT_THAT(response->draining_devices(), ElementsAre("devices/d1"));
  agent.apply(*response);
  EXPECT_TRUE(eventually([&] {             // not every call is looked at
    return reason_of(synchronize(*service_, agent.request(1, 0)).status()) ==
           v1::ERROR_REASON_VERSION_UNSUPPORTED;
  }));
}

TEST_F(Door, TheServerSaysWhatItCan) {
  v1::GetCapabilitiesResponse can;
  ASSERT_TRUE(service_->studies.get_capabilities(local_caller(), {}, &can).ok());
  EXPECT_GE(can.api_minor(), 1);
  EXPECT_THAT(can.features(), Contains("words"));
  EXPECT_THAT(can.features(), Contains("admission"));
}

// ---- at the agent's

TEST(AgentsDoor, AServerOfAnotherVersionIsAskedAgain) {
  FakeServer server;
  server.fail(api_failure(grpc::StatusCode::FAILED_PRECONDITION, "VERSION_UNSUPPORTED", 1e9));
  AgentOptions options;
  options.server.address = server.address();
  options.devices = {"null:board"};
  options.name = "test";
  options.leave_s = 0.5;
  options.backoff_s = 0.02;
  options.most_backoff_s = options.most_asked_s = 0.1;
  std::atomic<int> signals = 0;
  options.interrupts = [&] { return signals.load(); };
  absl::Status status = absl::UnknownError("it has not ended");
  std::thread agent([&] { status = run_agent(options); });
  EXPECT_TRUE(server.until_calls(3)) << "it stays";
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  server.give_job(make_job("jobs/1", "board", {""}));
  server.fail(grpc::Status::OK);           // one of the two has been updated
  EXPECT_TRUE(server.until_results(1));
  signals = 1;
  agent.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AgentsDoor, ItSaysItsWords) {
  FakeServer server;
  RunningAgent agent(server, {"null:board"});
  ASSERT_TRUE(server.until_calls(1));
  const v1::SynchronizeRequest first = server.requests()[0];
  const auto& words = first.devices(0).description().words();
  EXPECT_EQ(std::vector<std::string>(words.begin(), words.end()), known_words());
}

// A server's word is taken for seconds, not for years.
TEST(AgentsDoor, WhatAServerSaysOfTimeIsBounded) {
  FakeServer server;
  server.set(30, /*drain=*/true, 0);       // so that further calls are not held
  server.set_next(1e10);
  server.give_job(make_job("jobs/0", "board", {""}));
  RunningAgent agent(server, {"null:board"});
  ASSERT_TRUE(server.until_results(1));
  EXPECT_TRUE(server.until_calls(3));
  server.fail(api_failure(grpc::StatusCode::RESOURCE_EXHAUSTED, "RATE_LIMITED", 1e10));
  EXPECT_TRUE(server.until_calls(3));
  server.set_next(-1e10);
  server.fail(api_failure(grpc::StatusCode::UNAVAILABLE, "READ_ONLY", -1e10));
  EXPECT_TRUE(server.until_calls(3));
  server.set(30, /*drain=*/false, 0);
  server.give_job(make_job("jobs/1", "board", {""}));
  server.fail(grpc::Status::OK);
  EXPECT_TRUE(server.until_results(2));
}

// A daemon of before words and numbered sessions, by what it reads and says. (Words, which it would
// pass over, fit the service that stands in for it.)
class OlderServer : public v1::AgentService::Service {
 public:
  explicit OlderServer(lw::Service& service) : service_(service) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = concat("127.0.0.1:", port);
  }
  ~OlderServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Synchronize(grpc::ServerContext*, const v1::SynchronizeRequest* request,
                           v1::SynchronizeResponse* response) override {
    v1::SynchronizeRequest known = *request;
    known.clear_session_number();
    auto answer = synchronize(service_, known);
    if (!answer.ok()) return to_grpc(answer.status());
    *response = *std::move(answer);
    response->clear_session_number();
    return grpc::Status::OK;
  }

  std::string address;

 private:
  lw::Service& service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(Door, AnOlderServerHasItsAgent) {
  const std::string study = make_study(*service_, 6);
  OlderServer older(*service_);
  AgentOptions options;
  options.server.address = older.address;
  options.devices = {"null:d1,target=x86_avx2"};
  options.name = "a1";
  options.wait_s = 1;
  std::atomic<int> signals = 0;
  options.interrupts = [&] { return signals.load(); };
  std::thread agent([&] { EXPECT_TRUE(run_agent(options).ok()); });
  EXPECT_TRUE(eventually([&] { return has_ended(study); }));
  signals = 1;
  agent.join();
}

// ---- clients

TEST(Clients, StatesOfLaterVersionsAreShownAsUnknown) {
  v1::DeviceStatus later;
  later.set_admission(static_cast<v1::DeviceAdmission>(99));
  v1::DeviceStatus read;
  ASSERT_TRUE(read.ParseFromString(later.SerializeAsString()));
  EXPECT_EQ(read.admission(), 99);
  EXPECT_EQ(enum_text(read.admission()), "?");
  EXPECT_EQ(enum_text(v1::DEVICE_ADMISSION_PENDING), "pending");
}

// ---- sessions

TEST_F(Door, ASessionOfLongAgoIsKnownForReplaced) {
  FleetAgent first("a1", "s0", {"d1"});
  v1::SynchronizeRequest request = first.request();
  const auto answer = synchronize(*service_, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GT(answer->session_number(), 0);
  int64_t number = answer->session_number();
  for (int i = 1; i <= 20; ++i) {
    FleetAgent next("a1", absl::StrCat("s", i), {"d1"});
    const auto told = synchronize(*service_, next.request());
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_EQ(told->session_number(), ++number);
  }
  v1::SynchronizeRequest late = first.request();  // a process that slept all the while
  late.set_session_number(answer->session_number());
  EXPECT_EQ(reason_of(synchronize(*service_, late).status()), v1::ERROR_REASON_SESSION_REPLACED);
  // One that a restored backup knows nothing of is none of before.
  ASSERT_TRUE(database_->write(5, [&](WriteTransaction& tx) {
    return tx.run("UPDATE agents SET sessions = 's1', session_number = 2");
  }).ok());
  FleetAgent later("a1", "s99", {"d1"});
  v1::SynchronizeRequest known = later.request();
  known.set_session_number(40);
  const auto taken = synchronize(*service_, known);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->session_number(), 41);
}

TEST(Ledgers, SayTheNumberOfTheirSession) {
  Ledger ledger({.agent = "agents/a1", .session = "s1"}, {});
  EXPECT_EQ(ledger.request(0, false).session_number(), 0);
  v1::SynchronizeResponse response;
  response.set_session_number(7);
  ledger.apply(response, 0);
  EXPECT_EQ(ledger.request(0, false).session_number(), 7);
  response.clear_session_number();         // most answers touch no disk
  ledger.apply(response, 0);
  EXPECT_EQ(ledger.request(0, false).session_number(), 7);
}

}  // namespace
}  // namespace lw
