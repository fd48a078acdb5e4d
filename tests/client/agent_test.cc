// The agent against a server that is a script: what it says when, what it keeps, what it gives up.
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "src/agent/job.h"
#include "src/agent/ledger.h"
#include "src/base/log.h"
#include "src/expr/language/text.h"
#include "src/measure/cpu/emulator.h"
#include "tests/support/agent_fixture.h"

namespace lw {
namespace {

using testing::HasSubstr;

TEST(Agent, DescribesItselfInItsFirstCallOnly) {
  FakeServer server;
  RunningAgent agent(server, {"null:board,target=x86_sse2"});
  ASSERT_TRUE(server.until_calls(1));
  server.give_job(make_job("jobs/1", "board", {""}, "x86_sse2"));
  ASSERT_TRUE(server.until_results(1));
  const std::vector<v1::SynchronizeRequest> requests = server.requests();
  const v1::SynchronizeRequest& first = requests[0];
  EXPECT_EQ(first.agent(), "agents/test");
  EXPECT_EQ(first.version(), "1.2.3");
  EXPECT_EQ(first.sequence(), 1);
  EXPECT_EQ(first.session().size(), 36u);
  EXPECT_GT(first.wait().seconds(), 0);
  ASSERT_EQ(first.devices_size(), 1);
  const v1::Device& device = first.devices(0).description();
  EXPECT_EQ(device.name(), "devices/board");
  EXPECT_EQ(device.agent(), "agents/test");
  EXPECT_EQ(device.kind(), "null");
  EXPECT_TRUE(device.exact());
  EXPECT_EQ(device.target().name(), "x86_sse2");
  EXPECT_EQ(device.target_id().size(), 64u);
  EXPECT_EQ(device.fingerprint().size(), 64u);
  EXPECT_THAT(device.backend(), HasSubstr("llvm"));
  EXPECT_EQ(first.devices(0).wanted(), 2);
  EXPECT_EQ(first.devices(0).health(), v1::DEVICE_HEALTH_OK);
  std::set<int64_t> sequences;  // a cancelled call may never arrive, or late
  for (const v1::SynchronizeRequest& request : requests) sequences.insert(request.sequence());
  EXPECT_EQ(sequences.size(), requests.size());
  for (size_t i = 1; i < requests.size(); ++i) {
    EXPECT_FALSE(requests[i].devices(0).has_description());
    EXPECT_EQ(requests[i].session(), first.session());
  }
}

TEST(Agent, RunsAJobAndReportsEveryCandidate) {
  FakeServer server;
  RunningAgent agent(server, {"null:board"});
  server.give_job(make_job("jobs/1", "board", {"", kTiled, "split(C, nothing; 2)"}));
  v1::Job compare = make_job("jobs/2", "board", {"", kTiled});
  compare.set_kind(v1::JOB_KIND_COMPARE);
  server.give_job(compare);
  server.give_job(make_job("jobs/3", "board", {"", kTiled, "split(C, nothing; 2)"}));
  ASSERT_TRUE(server.until_results(3));
  const std::vector<v1::JobResult> results = server.results();
  const v1::JobResult& result = results[0];
  EXPECT_EQ(result.job(), "jobs/1");
  EXPECT_EQ(result.epoch(), 7);
  EXPECT_EQ(result.failure(), v1::VERDICT_UNSPECIFIED) << result.failure_detail();
  ASSERT_EQ(result.outcomes_size(), 3);
  for (int i : {0, 1}) {
    const absl::StatusOr<Measurement> m = from_proto(result.outcomes(i).measurement());
    ASSERT_TRUE(m.ok()) << m.status();
    EXPECT_EQ(result.outcomes(i).index(), i);
    EXPECT_EQ(m->verdict, Verdict::kOk) << m->detail;
    EXPECT_TRUE(m->verified);
    EXPECT_NE(m->kernel_hash, 0u);
    EXPECT_EQ(m->seed, 3u);
    EXPECT_FALSE(m->environment.empty());
  }
  EXPECT_LT(result.outcomes(1).measurement().time_us(), result.outcomes(0).measurement().time_us());
  EXPECT_EQ(result.outcomes(2).measurement().verdict(), v1::VERDICT_BUILD_ERROR);
  EXPECT_NE(result.outcomes(2).measurement().detail(), "");
  ASSERT_EQ(results[1].outcomes_size(), 2);
  EXPECT_EQ(results[1].outcomes(1).measurement().samples_us_size(), 3);
  ASSERT_EQ(results[2].outcomes_size(), 3);
  for (int i : {0, 1}) {  // the null device is deterministic
    EXPECT_EQ(results[2].outcomes(i).measurement().time_us(),
              result.outcomes(i).measurement().time_us());
  }
}

// An order of another version is not the device's fault: the server hears of no failure.
TEST(Agent, GivesBackWhatItCannotRead) {
  FakeServer server;
  RunningAgent agent(server, {"null:board"});
  v1::Job wrong_text = make_job("jobs/1", "board", {""});
  wrong_text.set_program("op f() { garbage");
  v1::Job wrong_id = make_job("jobs/2", "board", {""});
  wrong_id.set_workload_id(std::string(64, '0'));
  v1::Job wrong_kind = make_job("jobs/4", "board", {""});
  wrong_kind.set_kind(static_cast<v1::JobKind>(17));
  const std::vector<v1::Job> jobs = {wrong_text, wrong_id, make_job("jobs/3", "board", {}),
                                     wrong_kind, make_job("jobs/5", "board", {"", "new_step("})};
  for (const v1::Job& job : jobs) server.give_job(job);
  v1::Job wrong_code = make_job("jobs/6", "board", {""});
  wrong_code.set_backend("llvm 0");
  server.give_job(wrong_code);
  ASSERT_TRUE(server.until_results(6));
  for (const v1::JobResult& result : server.results()) {
    EXPECT_EQ(result.failure(), v1::VERDICT_UNSPECIFIED);
    EXPECT_TRUE(result.abandoned()) << "as older servers read it";
    EXPECT_EQ(result.refusal(), result.job() == "jobs/6" ? v1::JOB_REFUSAL_BACKEND
                                                         : v1::JOB_REFUSAL_VERSION);
    EXPECT_THAT(result.failure_detail(), HasSubstr("job."));
    EXPECT_EQ(result.outcomes_size(), 0);
  }
  EXPECT_EQ(server.requests().back().devices(0).health(), v1::DEVICE_HEALTH_OK);
}

// Neither the candidates' fault nor the device's: its memory is.
TEST(Agent, GivesBackWhatIsTooLargeForIt) {
  FakeServer server;
  RunningAgent agent(server, {"null:small,memory_mib=1", "null:board"});
  const auto job_for = [](const std::string& name, const std::string& device) {
    v1::Job job = make_job(name, device, {""});
    Program program = *load_workload({"matmul", "M=512", "N=512", "K=512"});
    job.set_program(print(program));
    job.set_workload_id(workload_id(program));
    return job;
  };
  server.give_job(job_for("jobs/1", "small"));
  server.give_job(make_job("jobs/2", "small", {""}));
  server.give_job(job_for("jobs/3", "board"));  // which does not say what it has
  ASSERT_TRUE(server.until_results(3));
  for (const v1::JobResult& result : server.results()) {
    const bool refused = result.job() == "jobs/1";
    EXPECT_EQ(result.failure(), v1::VERDICT_UNSPECIFIED) << result.failure_detail();
    EXPECT_EQ(result.refusal(),
              refused ? v1::JOB_REFUSAL_TOO_LARGE : v1::JOB_REFUSAL_UNSPECIFIED);
    EXPECT_EQ(result.abandoned(), refused);
    EXPECT_EQ(result.outcomes_size(), refused ? 0 : 1);
    if (refused) EXPECT_THAT(result.failure_detail(), HasSubstr("GB"));
  }
  for (const v1::SynchronizeRequest& request : server.requests()) {
    for (const v1::DeviceState& device : request.devices()) {
      EXPECT_EQ(device.health(), v1::DEVICE_HEALTH_OK);
    }
  }
  const v1::SynchronizeRequest first = server.requests()[0];
  EXPECT_EQ(first.devices(0).description().memory_bytes(), 1 << 20);
  EXPECT_EQ(first.devices(1).description().memory_bytes(), 0);
}

// A result that is larger than the server's messages, for ever: the others get through, and the
// server hears that it has none.
TEST(Agent, AResultThatIsNeverTakenHoldsUpNoOther) {
  FakeServer server(/*most_bytes=*/8 << 10);
  RunningAgent agent(server, {"null:board"});
  v1::Job large = make_job("jobs/1", "board", {});
  for (int i = 0; i < 100; ++i) {
    v1::CandidateSpec& spec = *large.add_candidates();
    spec.set_index(i);
    spec.set_trace(kTiled);
  }
  server.give_job(large);
  server.give_job(make_job("jobs/2", "board", {"", kTiled}));
  server.give_job(make_job("jobs/3", "board", {""}));
  ASSERT_TRUE(server.until_results(3));
  ASSERT_TRUE(server.until_nothing_is_owed());
  for (const v1::JobResult& result : server.results()) {
    const bool refused = result.job() == "jobs/1";
    EXPECT_EQ(result.abandoned(), refused);
    EXPECT_EQ(result.refusal(),
              refused ? v1::JOB_REFUSAL_VERSION : v1::JOB_REFUSAL_UNSPECIFIED);
    EXPECT_EQ(result.outcomes_size() == 0, refused);
    if (refused) EXPECT_THAT(result.failure_detail(), HasSubstr("the server refused its result of"));
  }
}

TEST(Agent, RepeatsAResultUntilItsReceipt) {
  FakeServer server;
  server.set(30, false, /*withhold=*/2);
  RunningAgent agent(server, {"null:board"});
  server.give_job(make_job("jobs/1", "board", {"", kTiled}));
  ASSERT_TRUE(server.until_results(3));
  ASSERT_TRUE(server.until_nothing_is_owed());
  const std::vector<v1::JobResult> results = server.results();
  ASSERT_EQ(results.size(), 3u);  // and no more after the receipt
  EXPECT_EQ(results[0].digest().size(), 64u);
  for (const v1::JobResult& result : results) {
    EXPECT_EQ(result.SerializeAsString(), results[0].SerializeAsString());
  }
}

TEST(Agent, TakesAJobOnceHoweverOftenItComes) {
  FakeServer server;
  RunningAgent agent(server, {"null:board,delay_ms=30"});
  server.give_job(make_job("jobs/1", "board", {""}), /*times=*/2);
  ASSERT_TRUE(server.until_results(1));
  server.give_job(make_job("jobs/1", "board", {""}));
  server.give_job(make_job("jobs/2", "board", {""}));
  ASSERT_TRUE(server.until_results(2));
  EXPECT_EQ(server.results()[0].job(), "jobs/1");
  EXPECT_EQ(server.results()[1].job(), "jobs/2");
}

TEST(Agent, KeepsItsWorkWhileTheServerIsAway) {
  FakeServer server;
  RunningAgent agent(server, {"null:board,delay_ms=200"});
  server.give_job(make_job("jobs/1", "board", {"", ""}));
  ASSERT_TRUE(server.until_held("jobs/1"));
  server.shut();
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // the job ends meanwhile
  server.open();
  ASSERT_TRUE(server.until_results(1));
  EXPECT_EQ(server.results()[0].outcomes_size(), 2);
}

TEST(Agent, GivesUpWorkWhoseLeaseItCannotRenew) {
  FakeServer server;
  server.set(/*lease_s=*/0.8, false, 0);
  RunningAgent agent(server, {"null:board,delay_ms=4000"});
  server.give_job(make_job("jobs/1", "board", {""}));
  ASSERT_TRUE(server.until_held("jobs/1"));
  server.fail(api_failure(grpc::StatusCode::UNAVAILABLE, "STOPPING"));
  ASSERT_TRUE(server.until([&] { return true; }));
  for (bool held = true; held;) {
    ASSERT_TRUE(server.until_calls(1));
    held = FakeServer::holds(server.requests().back(), "jobs/1");
  }
  server.fail(grpc::Status::OK);
  server.give_job(make_job("jobs/2", "board", {"garbage("}));
  ASSERT_TRUE(server.until_results(1));
  EXPECT_EQ(server.results()[0].job(), "jobs/2");
}

TEST(Agent, StopsWhatIsCancelled) {
  FakeServer server;
  RunningAgent agent(server, {"null:board,delay_ms=60000"});
  const v1::Job job = make_job("jobs/1", "board", {""});
  server.give_job(job);
  ASSERT_TRUE(server.until_held("jobs/1"));
  server.cancel(job);
  server.give_job(make_job("jobs/2", "board", {"garbage("}));
  ASSERT_TRUE(server.until_results(1));
  EXPECT_EQ(server.results()[0].job(), "jobs/2");
  EXPECT_FALSE(FakeServer::holds(server.requests().back(), "jobs/1"));
}

TEST(Agent, FinishesAndTakesNothingWhileDraining) {
  FakeServer server;
  RunningAgent agent(server, {"null:board,delay_ms=300"});
  server.give_job(make_job("jobs/1", "board", {""}));
  ASSERT_TRUE(server.until_held("jobs/1"));
  server.set(30, /*drain=*/true, 0);
  ASSERT_TRUE(server.until_results(1));
  ASSERT_TRUE(server.until_calls(1));
  EXPECT_EQ(server.requests().back().devices(0).wanted(), 0);
  server.set(30, /*drain=*/false, 0);
  ASSERT_TRUE(server.until_calls(2));
  EXPECT_EQ(server.requests().back().devices(0).wanted(), 2);
}

TEST(Agent, LeavesWhenItsWorkIsDone) {
  FakeServer server;
  RunningAgent agent(server, {"null:board,delay_ms=300"});
  server.give_job(make_job("jobs/1", "board", {""}));
  ASSERT_TRUE(server.until_held("jobs/1"));
  agent.signals = 1;
  EXPECT_TRUE(agent.join().ok()) << agent.status;
  ASSERT_EQ(server.results().size(), 1u);
  EXPECT_EQ(server.results()[0].outcomes_size(), 1);
  const v1::SynchronizeRequest last = server.requests().back();
  EXPECT_TRUE(last.leaving());
  EXPECT_EQ(last.devices(0).wanted(), 0);
  EXPECT_EQ(last.devices(0).held_size(), 0);
}

TEST(Agent, GivesWorkBackWhenToldTwice) {
  FakeServer server;
  RunningAgent agent(server, {"null:board,delay_ms=60000"});
  server.give_job(make_job("jobs/1", "board", {""}));
  server.give_job(make_job("jobs/2", "board", {""}));
  ASSERT_TRUE(server.until_held("jobs/2"));
  agent.signals = 2;
  EXPECT_TRUE(agent.join().ok()) << agent.status;
  std::map<std::string, bool> abandoned;
  for (const v1::JobResult& result : server.results()) {
    abandoned[result.job()] = result.abandoned();
    EXPECT_EQ(result.failure(), v1::VERDICT_UNSPECIFIED);
    EXPECT_EQ(result.outcomes_size(), 0);
  }
  EXPECT_EQ(abandoned, (std::map<std::string, bool>{{"jobs/1", true}, {"jobs/2", true}}));
}

TEST(Agent, LeavesByItselfWithoutWorkWhenAskedTo) {
  FakeServer server;
  AgentOptions options;
  options.server.address = server.address();
  options.devices = {"null:board"};
  options.name = "once";
  options.once_s = 0.3;
  EXPECT_TRUE(run_agent(options).ok());
  EXPECT_TRUE(server.requests().back().leaving());
}

TEST(Agent, EndsWhenAnotherRunTakesOver) {
  FakeServer server;
  RunningAgent agent(server, {"null:board"});
  ASSERT_TRUE(server.until_calls(1));
  server.fail(api_failure(grpc::StatusCode::FAILED_PRECONDITION, "SESSION_REPLACED"));
  const absl::Status status = agent.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another run of agents/test"));
}

TEST(Agent, WaitsAsLongAsTheServerAsks) {
  FakeServer server;
  server.fail(api_failure(grpc::StatusCode::RESOURCE_EXHAUSTED, "OVERLOADED", /*retry_s=*/0.5));
  RunningAgent agent(server, {"null:board"});
  ASSERT_TRUE(server.until([&] { return true; }) && server.until_calls(2));
  const std::vector<double> times = server.times();
  for (size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i] - times[i - 1], 0.49);
}

TEST(Agent, ServesSeveralDevicesAtOnce) {
  FakeServer server;
  RunningAgent agent(server, {"null:left,delay_ms=60000", "null:right"});
  server.give_job(make_job("jobs/1", "left", {""}));
  ASSERT_TRUE(server.until_held("jobs/1"));
  server.give_job(make_job("jobs/2", "right", {""}));
  ASSERT_TRUE(server.until_results(1));
  EXPECT_EQ(server.results()[0].job(), "jobs/2");
  EXPECT_TRUE(FakeServer::holds(server.requests().back(), "jobs/1"));
}

TEST(Agent, RefusesOptionsThatDoNotAddUp) {
  const auto refusal = [](const std::string& device, const std::string& address = "127.0.0.1:9") {
    AgentOptions options;
    options.name = "test";
    options.devices = {device};
    options.server.address = address;
    const absl::Status status = run_agent(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << device;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal("gpu"), HasSubstr("cpu, qemu-aarch64, npu, opencl, cuda, exec, null"));
  EXPECT_THAT(refusal("cpu:0"), HasSubstr("number of processors"));
  EXPECT_THAT(refusal("cpu:3999"), HasSubstr("are left"));
  EXPECT_THAT(refusal("cpu@x"), HasSubstr("cpu@0-3+8"));
  EXPECT_THAT(refusal("cpu@4095"), HasSubstr("not this process's"));
  EXPECT_THAT(refusal("null:UPPER"), HasSubstr("a name is"));
  EXPECT_THAT(refusal("null,target=vax"), HasSubstr("vax"));
  EXPECT_THAT(refusal("null,delay_ms=-1"), HasSubstr("delay_ms"));
  EXPECT_THAT(refusal("cpu,delay_ms=1"), HasSubstr("unknown option"));
  EXPECT_THAT(refusal("cpu,isolation=total"), HasSubstr("none, process, limits"));
  EXPECT_THAT(refusal("null,isolation=none"), HasSubstr("unknown option"));
  EXPECT_THAT(refusal("qemu-aarch64,isolation=filter"), HasSubstr("isolation=none"));
  EXPECT_THAT(refusal("qemu-aarch64,target=x86_avx2"), HasSubstr("no machine like"));
  EXPECT_THAT(refusal("npu,target=x86_avx2"), HasSubstr("no machine like"));
  EXPECT_THAT(refusal("npu,target=npu_mid33"), HasSubstr("npu_mid33"));
  EXPECT_THAT(refusal("exec"), HasSubstr("as in exec:./my_simulator"));
  EXPECT_THAT(refusal("exec: ,name=a"), HasSubstr("as in exec:./my_simulator"));
  EXPECT_THAT(refusal("exec:./sim,limit_s=0"), HasSubstr("limit_s is 1 to 86400"));
  EXPECT_THAT(refusal("exec:./sim,2"), HasSubstr("no commas in commands"));
  EXPECT_THAT(refusal("exec:./sim,target=npu_mid33"), HasSubstr("npu_mid33"));
  EXPECT_THAT(refusal("exec:./sim,clock=fast"), HasSubstr("clock is none, or left out"));
  EXPECT_THAT(refusal("npu:a,limit_s=3"), HasSubstr("unknown option"));
  EXPECT_THAT(refusal("null", "nowhere"), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refusal("null", "10.0.0.1:70"), HasSubstr("--tls-ca"));
}

// What the agent requires holds for each of its devices, or it does not begin.
TEST(Agent, NoDeviceRunsWithLessIsolationThanIsRequired) {
  AgentOptions options;
  options.name = "test";
  options.isolation = IsolationLevel::kFilter;
  options.devices = {"null", "qemu-aarch64"};
  options.server.address = "127.0.0.1:9";
  const absl::Status status = run_agent(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'filter' is required, and qemu-aarch64 runs candidates with all rights"));
}

TEST(Devices, WordsAndTheirTextAreInverses) {
  for (const char* text :
       {"cpu:2@4+5,name=left", "cpu:1@0,name=a,isolation=filter", "null,name=b,target=x86_sse2",
        "qemu-aarch64,name=arm,target=aarch64_neon", "cpu:1@0,name=b,isolation=none",
        "qemu-aarch64,name=arm,target=aarch64_neon,isolation=none", "null,name=c,target=x86_avx2,delay_ms=5",
        "exec:ssh -p 22 me@board './sim --x=1:2',name=b,target=npu_edge16,limit_s=60",
        "exec:ssh board lw_runner,name=b,target=aarch64_neon,clock=none", "opencl",
        "opencl:0,name=left", "opencl:Mali-G78 r0p1,name=gpu", "cuda", "cuda:GPU-8d5f,name=h200"}) {
    const absl::StatusOr<DeviceSpec> spec = parse_device(text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->text(), text);
  }
  EXPECT_EQ(parse_device("cpu,isolation=namespaces")->isolation, IsolationLevel::kNamespaces);
  EXPECT_EQ(parse_device("qemu-aarch64:arm")->target, "aarch64_neon");
  EXPECT_EQ(parse_device("exec:./sim", "npu_edge16")->target, "npu_edge16");
  EXPECT_EQ(parse_device("exec:./sim,target=npu_big128", "npu_edge16")->target, "npu_big128");
  EXPECT_EQ(parse_device("cpu:1", "npu_edge16")->target, "");
}

// ---- the books ----------------------------------------------------------------------------------

TEST(Ledger, SaysThatADeviceHasChangedUntilTheServerHasHeard) {
  DeviceBook book;
  book.spec = *parse_device("null:board");
  book.description.set_fingerprint("before");
  LedgerOptions options;
  options.agent = "agents/test";
  Ledger ledger(options, {book});
  EXPECT_EQ(ledger.request(0, false).devices(0).description().fingerprint(), "before");
  EXPECT_TRUE(ledger.request(0, false).devices(0).has_description());  // no answer came
  v1::Device after;
  after.set_fingerprint("after");
  ledger.redescribe(0, after);  // while that call is under way
  ledger.apply({}, 0);
  const v1::SynchronizeRequest told = ledger.request(0, false);
  EXPECT_EQ(told.devices(0).description().fingerprint(), "after");
  EXPECT_EQ(told.devices(0).description().name(), "devices/board");
  EXPECT_EQ(told.devices(0).description().agent(), "agents/test");
  ledger.apply({}, 0);
  EXPECT_FALSE(ledger.request(0, false).devices(0).has_description());
  v1::SynchronizeResponse asks;
  asks.set_describe(true);
  ledger.apply(asks, 0);
  EXPECT_TRUE(ledger.request(0, false).devices(0).has_description());
}

TEST(Ledger, KeepsCallsSmallAndLosesNothing) {
  DeviceBook book;
  book.spec = *parse_device("null:board");
  LedgerOptions options;
  options.agent = "agents/test";
  options.slots = 3;
  Ledger ledger(options, {book});
  ledger.request(0, false);
  v1::SynchronizeResponse jobs;
  for (const char* name : {"jobs/1", "jobs/2", "jobs/3"}) {
    *jobs.add_jobs() = make_job(name, "board", {""});
  }
  EXPECT_TRUE(ledger.apply(jobs, /*sent_at=*/100));
  EXPECT_EQ(ledger.wanted(), 0);
  for (int i = 0; i < 3; ++i) {
    const std::shared_ptr<HeldJob> job = ledger.next_job(0);
    ASSERT_NE(job, nullptr);
    v1::JobResult result = failed_job(job->job, v1::VERDICT_WORKER_LOST, "");
    result.set_failure_detail(std::string(1 << 20, 'x'));
    EXPECT_TRUE(ledger.finish(0, *job, result));
  }
  EXPECT_TRUE(ledger.has_unsent_results());
  const v1::SynchronizeRequest first = ledger.request(0, false);
  EXPECT_EQ(first.results_size(), 1);
  ASSERT_EQ(first.devices(0).held_size(), 2);  // or they would be given away
  EXPECT_EQ(first.devices(0).health(), v1::DEVICE_HEALTH_UNHEALTHY);
  v1::SynchronizeResponse stored;
  stored.add_receipts()->set_job("jobs/1");
  stored.mutable_receipts(0)->set_epoch(7);
  stored.mutable_receipts(0)->set_kind(v1::RECEIPT_KIND_STORED);
  ledger.apply(stored, 101);
  EXPECT_EQ(ledger.request(0, false).results(0).job(), "jobs/2");
}

TEST(Ledger, LeasesRunFromTheCallAndEndBeforeTheServers) {
  DeviceBook book;
  book.spec = *parse_device("null:board");
  LedgerOptions options;
  options.agent = "agents/test";
  Ledger ledger(options, {book});
  ledger.request(0, false);
  v1::SynchronizeResponse response;
  *response.add_jobs() = make_job("jobs/1", "board", {""});
  *response.mutable_jobs(0)->mutable_lease() = duration_of(30);
  ledger.apply(response, /*sent_at=*/100);
  EXPECT_DOUBLE_EQ(ledger.renew_at(), 110);
  ledger.request(0, false);
  v1::SynchronizeResponse renewed;
  *renewed.mutable_lease() = duration_of(30);
  ledger.apply(renewed, 112);
  EXPECT_DOUBLE_EQ(ledger.renew_at(), 122);
  EXPECT_DOUBLE_EQ(ledger.longest_wait(), 10);
  const std::shared_ptr<HeldJob> job = ledger.next_job(0);
  ledger.expire(138.9);
  EXPECT_FALSE(job->stop);
  ledger.expire(139.1);
  EXPECT_TRUE(job->stop);
  EXPECT_FALSE(ledger.finish(0, *job, v1::JobResult()));
  EXPECT_EQ(ledger.results(), 0u);
  EXPECT_DOUBLE_EQ(ledger.longest_wait(), 20) << "of a job that comes then 10 s are left";
}

// The log is for people; here the calls speak.
const bool kQuiet = [] {
  set_log_level(Level::kError);
  return true;
}();

}  // namespace
}  // namespace lw
