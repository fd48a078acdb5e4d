#include "bench/service/agents.h"

#include <grpcpp/grpcpp.h>
#include <time.h>

#include <queue>

#include "bench/service/fill.h"
#include "bench/service/rows.h"
#include "loopwright/v1/agent.grpc.pb.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/net/words.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kCallSeconds = 60;

double cpu_now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// As long as what agents send: host, clock, load, hygiene.
std::string environment() {
  nlohmann::json facts;
  for (int i = 0; i < 16; ++i) facts[concat("fact_", i)] = "a value of twenty bytes";
  return facts.dump();
}

v1::Device description() {
  v1::Device device;
  const Target target = *find_target(kBenchTarget);
  *device.mutable_target() = to_proto(target);
  device.set_target_id(sha256(to_text(target)));
  device.set_backend((*find_backend(target.architecture))->version());
  device.set_kind("cpu");
  device.set_fingerprint(sha256("bench"));
  device.set_facts(environment());
  device.set_slots(1);
  device.mutable_words()->Assign(known_words().begin(), known_words().end());
  return device;
}

struct Agent {
  std::string name, device, session;
  v1::AgentService::Stub* stub = nullptr;
  std::vector<v1::Job> held;
  int64_t sequence = 0;
  bool describe = true, reports = true;
  double due = 0;
  // Of the call that is out.
  std::unique_ptr<grpc::ClientContext> context;
  v1::SynchronizeRequest request;
  v1::SynchronizeResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::SynchronizeResponse>> reader;
};

class Fleet {
 public:
  explicit Fleet(const FleetShape& shape) : shape_(shape), agents_(shape.agents) {
    const int connections = shape.connections > 0 ? shape.connections : shape.agents;
    for (int i = 0; i < connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs_.push_back(v1::AgentService::NewStub(grpc::CreateCustomChannel(
          shape.address, grpc::InsecureChannelCredentials(), arguments)));
    }
    Rng rng(9);
    measurement_ = to_proto(bench_measurement(0, rng));
    measurement_.clear_trace();
    measurement_.set_environment(environment());
    for (int i = 0; i < shape.agents; ++i) {
      Agent& agent = agents_[i];
      agent.name = concat("agents/bench", i);
      agent.device = concat("devices/bench", i);
      agent.session = concat("00000000-0000-4000-8000-", 100'000'000'000 + i);
      agent.stub = stubs_[i % connections].get();
    }
  }

  FleetCounts run() {
    const double start = now();
    begin_ = start + shape_.warm_s;
    end_ = begin_ + shape_.timed_s;
    // First calls spread over a second; then each keeps its beat.
    for (int i = 0; i < shape_.agents; ++i) {
      agents_[i].due = start + static_cast<double>(i) / shape_.agents;
      due_.push(&agents_[i]);
    }
    double cpu = 0;
    bool timed = false;
    int out = 0;
    while (out > 0 || !due_.empty()) {
      const double now = lw::now();
      if (!timed && now >= begin_) timed = true, cpu = cpu_now();
      while (!due_.empty() && due_.top()->due <= now) {
        Agent& agent = *due_.top();
        due_.pop();
        if (agent.due >= end_) continue;
        call(agent);
        ++out;
      }
      void* tag = nullptr;
      bool ok = false;
      const double wait = due_.empty() ? 1 : std::max(0.0, due_.top()->due - lw::now());
      const auto until = std::chrono::system_clock::now() +
                         std::chrono::microseconds(static_cast<int64_t>(1e6 * wait));
      if (queue_.AsyncNext(&tag, &ok, until) != grpc::CompletionQueue::GOT_EVENT) continue;
      --out;
      answered(*static_cast<Agent*>(tag));
    }
    counts_.own_cpu_s = cpu_now() - cpu;
    counts_.timed_s = shape_.timed_s;
    return std::move(counts_);
  }

 private:
  struct Later {
    bool operator()(const Agent* a, const Agent* b) const { return a->due > b->due; }
  };

  v1::JobResult result_of(const v1::Job& job) {
    v1::JobResult result;
    result.set_job(job.name());
    result.set_epoch(job.epoch());
    for (const v1::CandidateSpec& candidate : job.candidates()) {
      v1::CandidateOutcome& outcome = *result.add_outcomes();
      outcome.set_index(candidate.index());
      *outcome.mutable_measurement() = measurement_;
      outcome.mutable_measurement()->set_kernel_hash(++hash_);
    }
    result.set_digest(result_digest(result));
    result.mutable_run_time()->set_nanos(400'000'000);
    return result;
  }

  void call(Agent& agent) {
    v1::SynchronizeRequest& request = agent.request;
    request.Clear();
    request.set_agent(agent.name);
    request.set_session(agent.session);
    request.set_version("bench");
    request.set_sequence(++agent.sequence);
    v1::DeviceState& device = *request.add_devices();
    device.set_name(agent.device);
    device.set_health(v1::DEVICE_HEALTH_OK);
    if (agent.describe) {
      *device.mutable_description() = description();
      device.mutable_description()->set_name(agent.device);
    }
    agent.describe = false;
    const bool report = agent.reports && !agent.held.empty();
    for (const v1::Job& job : agent.held) {
      if (report) {
        *request.add_results() = result_of(job);
      } else {
        v1::HeldJob& held = *device.add_held();
        held.set_job(job.name());
        held.set_epoch(job.epoch());
        held.set_phase(v1::JOB_PHASE_MEASURING);
      }
    }
    device.set_wanted(report || agent.held.empty() ? 1 : 0);
    agent.context = std::make_unique<grpc::ClientContext>();
    agent.context->set_deadline(std::chrono::system_clock::now() +
                                std::chrono::seconds(kCallSeconds));
    agent.response.Clear();
    agent.reader = agent.stub->AsyncSynchronize(agent.context.get(), request, &queue_);
    agent.reader->Finish(&agent.response, &agent.status, &agent);
  }

  void answered(Agent& agent) {
    const double now = lw::now();
    const bool timed = agent.due >= begin_ && agent.due < end_;
    if (timed) {
      counts_.latency_ms.push_back((now - agent.due) * 1e3);
      ++counts_.calls;
      counts_.calls_with_results += agent.request.results_size() > 0;
    }
    if (!agent.status.ok()) {
      if (counts_.errors++ == 0) {
        std::fprintf(stderr, "Synchronize: %s\n", agent.status.error_message().c_str());
      }
    } else {
      take(agent, now);
    }
    agent.reports = shape_.rate == 0 || !agent.reports;
    agent.due = shape_.rate == 0 ? now : agent.due + 1 / shape_.rate;
    due_.push(&agent);
  }

  void take(Agent& agent, double now) {
    agent.describe = agent.response.describe();
    for (const v1::Receipt& receipt : agent.response.receipts()) {
      const auto job = std::find_if(agent.held.begin(), agent.held.end(), [&](const v1::Job& held) {
        return held.name() == receipt.job();
      });
      CHECK(job != agent.held.end());
      if (receipt.kind() == v1::RECEIPT_KIND_STORED) {
        ++counts_.stored_jobs;
        counts_.stored_results += job->candidates_size();
        if (now >= begin_ && now < end_) counts_.results += job->candidates_size();
      } else if (counts_.refused++ == 0) {
        std::fprintf(stderr, "a result was refused: %s\n", receipt.ShortDebugString().c_str());
      }
      agent.held.erase(job);
    }
    for (const v1::Job& job : agent.response.jobs()) agent.held.push_back(job);
    counts_.idle += agent.held.empty();
  }

  const FleetShape shape_;
  std::vector<std::unique_ptr<v1::AgentService::Stub>> stubs_;
  std::vector<Agent> agents_;
  std::priority_queue<Agent*, std::vector<Agent*>, Later> due_;
  grpc::CompletionQueue queue_;
  v1::Measurement measurement_;
  uint64_t hash_ = 0;
  double begin_ = 0, end_ = 0;
  FleetCounts counts_;
};

}  // namespace

FleetCounts run_fleet(const FleetShape& shape) { return Fleet(shape).run(); }

}  // namespace lw
