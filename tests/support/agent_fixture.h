// A server that is a script, and an agent on a thread: what the agent's tests share.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "loopwright/program.h"
#include "loopwright/v1/agent.grpc.pb.h"
#include "schedules/targets/target.h"
#include "src/agent/agent.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/net/times.h"
#include "tuner_db/messages/messages.h"

namespace lw {

namespace v1 = loopwright::v1;

inline constexpr double kPatience = 15;  // for what must happen: never the time that it takes

inline grpc::Status api_failure(grpc::StatusCode code, const std::string& reason,
                                double retry_s = 0) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("loopwright");
  details.add_details()->PackFrom(info);
  if (retry_s > 0) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = duration_of(retry_s);
    details.add_details()->PackFrom(retry);
  }
  return {code, "the script says " + reason, details.SerializeAsString()};
}

// ---- a server -----------------------------------------------------------------------------------

class FakeServer : public v1::AgentService::Service {
 public:
  // `most_bytes`: of a message that it takes; 0: gRPC's own limit.
  explicit FakeServer(int most_bytes = 0) : most_bytes_(most_bytes) { open(); }
  ~FakeServer() override { shut(); }

  void open() {
    grpc::ServerBuilder builder;
    int bound = 0;
    builder.AddListeningPort(concat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                             &bound);
    if (most_bytes_ > 0) builder.SetMaxReceiveMessageSize(most_bytes_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    port_ = bound;
  }
  void shut() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  std::string address() const { return concat("127.0.0.1:", port_); }

  grpc::Status Synchronize(grpc::ServerContext* context, const v1::SynchronizeRequest* request,
                           v1::SynchronizeResponse* response) override {
    std::unique_lock<std::mutex> lock(mutex_);
    requests_.push_back(*request);
    times_.push_back(now());
    changed_.notify_all();
    give_back_what_was_lost(*request);
    if (!failure_.ok()) return failure_;
    for (const v1::JobResult& result : request->results()) {
      results_.push_back(result);
      if (withhold_ > 0 && withhold_-- > 0) continue;
      v1::Receipt& receipt = *response->add_receipts();
      receipt.set_job(result.job());
      receipt.set_epoch(result.epoch());
      receipt.set_kind(v1::RECEIPT_KIND_STORED);
    }
    const double until =
        now() + seconds_of(request->wait());
    while (!give(*request, response) && response->receipts().empty() && now() < until &&
           !context->IsCancelled() && failure_.ok()) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    *response->mutable_next() = duration_of(next_s_);
    *response->mutable_lease() = duration_of(lease_s_);
    response->set_drain(drain_);
    return failure_;
  }

  // ---- the script; thread-safe ----
  void give_job(v1::Job job, int times = 1) {
    const std::lock_guard<std::mutex> lock(mutex_);
    *job.mutable_lease() = duration_of(lease_s_);
    for (int i = 0; i < times; ++i) jobs_.push_back(job);
  }
  void cancel(const v1::Job& job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    v1::CancelOrder& order = cancels_.emplace_back();
    order.set_job(job.name());
    order.set_epoch(job.epoch());
  }
  void fail(grpc::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::move(status);
    changed_.notify_all();
  }
  void set_next(double next_s) {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_s_ = next_s;
  }
  void set(double lease_s, bool drain, int withhold) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lease_s_ = lease_s, drain_ = drain, withhold_ = withhold;
  }

  // Waits until it holds.
  bool until(const std::function<bool()>& holds) {
    std::unique_lock<std::mutex> lock(mutex_);
    const double end = now() + kPatience;
    while (!holds() && now() < end) changed_.wait_for(lock, std::chrono::milliseconds(20));
    return holds();
  }
  bool until_results(size_t count) {
    return until([&] { return results_.size() >= count; });
  }
  bool until_held(const std::string& job) {
    return until([&] { return !requests_.empty() && holds(requests_.back(), job); });
  }
  bool until_nothing_is_owed() {
    return until([&] { return !requests_.empty() && requests_.back().results().empty(); });
  }
  bool until_calls(size_t more) {
    size_t begin = 0;
    until([&] {
      begin = requests_.size();
      return true;
    });
    return until([&] { return requests_.size() >= begin + more; });
  }
  static bool holds(const v1::SynchronizeRequest& request, const std::string& job) {
    return jobs_held(request).contains(job);
  }
  std::vector<v1::SynchronizeRequest> requests() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }
  std::vector<v1::JobResult> results() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return results_;
  }
  std::vector<double> times() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return times_;
  }

 private:
  struct Given {
    v1::Job job;
    int64_t sequence;  // of the call that it was the answer to
  };

  static std::set<std::string> jobs_held(const v1::SynchronizeRequest& request) {
    std::set<std::string> jobs;
    for (const v1::DeviceState& device : request.devices()) {
      for (const v1::HeldJob& held : device.held()) jobs.insert(held.job());
    }
    return jobs;
  }

  // The agent may have cancelled a call before its answer came: like the service, gives jobs again
  // that a later call does not know.
  void give_back_what_was_lost(const v1::SynchronizeRequest& request) {
    known_.merge(jobs_held(request));
    for (const v1::JobResult& result : request.results()) known_.insert(result.job());
    std::vector<v1::Job> lost;
    std::erase_if(given_, [&](const Given& given) {
      if (known_.contains(given.job.name())) return true;
      if (request.sequence() <= given.sequence) return false;
      lost.push_back(given.job);
      return true;
    });
    jobs_.insert(jobs_.begin(), lost.begin(), lost.end());
  }

  bool give(const v1::SynchronizeRequest& request, v1::SynchronizeResponse* response) {
    for (const v1::CancelOrder& order : std::exchange(cancels_, {})) {
      *response->add_cancels() = order;
    }
    for (const v1::DeviceState& device : request.devices()) {
      int wanted = device.wanted();
      for (auto it = jobs_.begin(); wanted > 0 && it != jobs_.end();) {
        if (it->device() != device.name()) {
          ++it;
          continue;
        }
        *response->add_jobs() = *it;
        given_.push_back({*it, request.sequence()});
        it = jobs_.erase(it);
        --wanted;
      }
    }
    return !response->jobs().empty() || !response->cancels().empty();
  }

  const int most_bytes_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  grpc::Status failure_ = grpc::Status::OK;
  double lease_s_ = 30, next_s_ = 0.1;
  bool drain_ = false;
  int withhold_ = 0;
  std::vector<v1::Job> jobs_;
  std::vector<Given> given_;     // and not known to have arrived
  std::set<std::string> known_;  // jobs that the agent has named
  std::vector<v1::CancelOrder> cancels_;
  std::vector<v1::SynchronizeRequest> requests_;
  std::vector<v1::JobResult> results_;
  std::vector<double> times_;
};

// ---- an agent and its jobs ----------------------------------------------------------------------

struct RunningAgent {
  RunningAgent(const FakeServer& server, std::vector<std::string> devices,
               const std::string& state = "") {
    options.server.address = server.address();
    options.devices = std::move(devices);
    options.name = "test";
    options.state = state;
    options.version = "1.2.3";
    options.leave_s = 0.5;
    options.backoff_s = 0.05;
    options.most_backoff_s = 0.2;
    options.most_asked_s = 1;
    options.interrupts = [this] { return signals.load(); };
    thread = std::thread([this] { status = run_agent(options); });
  }
  ~RunningAgent() {
    signals = 2;
    if (thread.joinable()) thread.join();
  }
  absl::Status join() {
    thread.join();
    return status;
  }
  std::atomic<int> signals = 0;
  AgentOptions options;
  absl::Status status;
  std::thread thread;
};

inline v1::Job make_job(const std::string& name, const std::string& device,
                        const std::vector<std::string>& traces,
                        const std::string& target = "x86_avx2", int threads = 1) {
  const Program program = *load_workload({"matmul M=32 N=48 K=40"});
  v1::Job job;
  job.set_name(name);
  job.set_epoch(7);
  job.set_device(concat("devices/", device));
  job.set_study("studies/1");
  job.set_kind(v1::JOB_KIND_MEASURE);
  job.set_program(print(program));
  job.set_workload_id(workload_id(program));
  *job.mutable_target() = to_proto(*find_target(target));
  job.set_threads(threads);
  job.set_cache("warm");
  job.set_seed(3);
  job.set_rounds(3);
  *job.mutable_timeout() = duration_of(60);
  for (const std::string& trace : traces) {
    v1::CandidateSpec& spec = *job.add_candidates();
    spec.set_index(job.candidates_size() - 1);
    spec.set_trace(trace);
    spec.set_verify(true);
  }
  return job;
}

inline constexpr char kTiled[] = "register_tile(C, j; 16, 0)";

}  // namespace lw
