// An honest client, its board and compilers that look up, with a daemon in a process of its own behind
// certificates: what tests of hostile callers share.
#pragma once

#include <cstdio>
#include <set>

#include "loopwright/v1/agent.grpc.pb.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "schedules/steps.h"
#include "src/api/task.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "src/search/null_measurer.h"
#include "src/serve/rows/clock.h"
#include "tests/fleet/service_client.h"
#include "tests/support/tls_fixture.h"

namespace lw {

namespace v1 = loopwright::v1;

inline constexpr int kDelay_ms = 20;              // of a candidate on the board
inline constexpr int kShortTrials = 60, kLongTrials = 192;  // of an honest study

class ServiceHostile : public FolderTest {
 protected:
  void SetUp() override {
    pki("ca", "");
    pki("issue", "server main --host 127.0.0.1");
    for (const char* who : {"client honest", "reader compiler", "agent board", "client crook",
                            "reader snoop", "agent rogue", "admin boss"}) {
      pki("issue", who);
    }
    // A client's right studies are no attack: they have their share, here a small one.
    std::ofstream(folder_ + "/config.json") << R"({"weights": {"honest": 100}})";
    Words words = {LW_BINARY_DIR "/loopwright", "serve", "--listen", address_, "--http", http_,
                   "--db", folder_ + "/service.db", "--config", folder_ + "/config.json"};
    append(words, tls_words("server-main"));
    ASSERT_TRUE(processes_.start_daemon("daemon", words)) << read_text(processes_.log("daemon"));
    words = {LW_BINARY_DIR "/loopwright", "agent", "--server", address_, "--name", "board",
             "--state", folder_ + "/state", "--device",
             absl::StrCat("null:board-0,target=x86_avx2,delay_ms=", kDelay_ms)};
    append(words, tls_words("agent-board"));
    processes_.start("board", words);
    honest_ = v1::TuningService::NewStub(channel("client-honest"));
    compiler_ = v1::ScheduleService::NewStub(channel("reader-compiler"));
    boss_ = v1::FleetService::NewStub(channel("admin-boss"));
  }

  void pki(const std::string& verb, const std::string& rest) {
    const auto result = tls::certificates(absl::StrCat(verb, " ", folder_, "/pki ", rest));
    ASSERT_EQ(result.exit, 0) << result.output;
  }
  static void append(Words& words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
  }
  Words tls_words(const std::string& who) const {
    const std::string folder = absl::StrCat(folder_, "/pki/", who, "/");
    return {"--tls-ca", folder + "ca.pem", "--tls-cert", folder + "cert.pem", "--tls-key",
            folder + "key.pem"};
  }
  std::shared_ptr<grpc::Channel> channel(const std::string& who) const {
    const std::string folder = absl::StrCat(folder_, "/pki/", who, "/");
    return *open_channel({.address = address_,
                          .tls = {folder + "ca.pem", folder + "cert.pem", folder + "key.pem"},
                          .keepalive = {}});
  }

  static absl::StatusOr<Task> task_of(int m) {
    return make_client_task(absl::StrCat("matmul M=", m, " N=256 K=128"),
                            {.target = "x86_avx2", .threads = 1});
  }

  // An honest study of the size from its making to its end, in seconds. `repeats`: it may measure more
  // than it was asked to, where words turn out false.
  double study(int m, bool repeats = false) {
    const auto begun = std::chrono::steady_clock::now();
    v1::CreateStudyRequest request;
    request.set_request_id(make_id(m));
    request.mutable_spec()->add_workloads()->set_program(print(*task_of(m)->program()));
    request.mutable_spec()->set_trials(trials_);
    request.mutable_spec()->set_threads(1);
    request.mutable_spec()->set_target("devices/board-0");
    google::longrunning::Operation operation;
    EXPECT_TRUE(await(60, [&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
      return honest_->CreateStudy(&context, request, &operation).ok();
    }));
    v1::GetStudyRequest get;
    get.set_name("studies" + operation.name().substr(operation.name().find('/')));
    ours_.insert(get.name());
    v1::Study study;
    EXPECT_TRUE(await(120, [&] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
      return honest_->GetStudy(&context, get, &study).ok() && study.has_end_time();
    })) << study.DebugString();
    EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
    EXPECT_GE(study.progress().trials(), trials_);
    if (!repeats) EXPECT_EQ(study.progress().trials(), trials_);
    known_.push_back(m);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    return taken.count();
  }

  // Seconds that the board has worked for studies of others, which have their share of it.
  double worked_for_others() const {
    double seconds = 0;
    for (const nlohmann::json& event : log_events(processes_.log("board"))) {
      if (event["event"] != "job_finished" || ours_.contains(event["study"].get<std::string>())) continue;
      seconds += event["run_s"].get<double>();
    }
    return seconds;
  }

  v1::DeviceStatus device_of(const std::string& name) {
    v1::ListDevicesRequest request;
    request.set_page_size(500);
    v1::ListDevicesResponse devices;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    const grpc::Status listed = boss_->ListDevices(&context, request, &devices);
    EXPECT_TRUE(listed.ok()) << listed.error_message();
    for (const v1::DeviceStatus& device : devices.devices()) {
      if (device.device().name() == name) return device;
    }
    return {};
  }

  // What the honest board would measure of the answer's trace, which tells a forgery.
  double true_us(const Task& task, const std::string& trace) {
    const absl::StatusOr<Trace> parsed = parse_trace(trace);
    if (!parsed.ok()) return -1;
    const auto nest = replay(task.start(), *parsed);
    if (!nest.ok()) return -1;
    const auto kernel = lower(*nest);
    return kernel.ok() ? null_time_us(*kernel, 1) : -1;
  }

  // One look-up of a size that is known; its seconds, or -1 without a true answer.
  double look_up(int m) {
    const Task task = *task_of(m);
    v1::BatchLookupRequest request;
    v1::LookupQuery& query = *request.add_queries();
    query.set_workload_id(task.workload().id);
    query.set_family(task.workload().structure);
    for (int64_t extent : task.workload().shape) query.add_shape(extent);
    query.set_target_name("x86_avx2");
    query.set_threads(1);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::BatchLookupResponse response;
    const auto begun = std::chrono::steady_clock::now();
    const grpc::Status status = compiler_->BatchLookup(&context, request, &response);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    if (!status.ok() || response.results_size() != 1) {
      ADD_FAILURE() << "look-up of " << m << ": " << status.error_message();
      return -1;
    }
    const v1::LookupResult& result = response.results(0);
    served_trace_ = result.trace();
    const double us = true_us(task, result.trace());
    const bool is_true = result.outcome() == v1::LOOKUP_OUTCOME_EXACT && us > 0 &&
                         std::abs(result.measurement().time_us() - us) < 0.05 * us;
    if (!is_true) {
      ++forged_;
      if (forged_ < 4) {
        ADD_FAILURE() << "for " << m << ", of " << us << " us: " << result.DebugString();
      }
    }
    return taken.count();
  }

  // Look-ups of the known sizes all the while, 100 a second.
  std::vector<double> look_up_while(const std::function<void()>& body) {
    std::vector<double> seconds;
    const std::vector<int> sizes = known_;
    std::atomic<bool> over = false;
    std::thread compiler([&] {
      for (size_t i = 0; !over; ++i) {
        const double taken = look_up(sizes[i % sizes.size()]);
        if (taken >= 0) seconds.push_back(taken);
        pause_ms(10);
      }
    });
    body();
    over = true;
    compiler.join();
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  }

  const int trials_ = rounds_or(0) > 0 ? kLongTrials : kShortTrials;
  const std::string address_ = loopback(free_port()), http_ = loopback(free_port());
  Processes processes_{folder_};
  std::unique_ptr<v1::TuningService::Stub> honest_;
  std::unique_ptr<v1::ScheduleService::Stub> compiler_;
  std::unique_ptr<v1::FleetService::Stub> boss_;
  std::vector<int> known_;                 // sizes with an honest study that has ended
  std::set<std::string> ours_;             // names of honest studies
  std::atomic<int> forged_ = 0;
  std::string served_trace_;               // by the latest look-up
};

}  // namespace lw
