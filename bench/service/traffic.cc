// The rows `synchronize` and `results`: a daemon on a disk, its queue filled beforehand and its own
// searches off (one machine of two cores cannot think of a thousand candidates a second and serve
// them). After each run the database must hold what was acknowledged, and pass its check.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "bench/service/agents.h"
#include "bench/service/fill.h"
#include "bench/service/process.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "loopwright/v1/schedule.grpc.pb.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/sql/database.h"
#include "tuner_db/sql/group_commit.h"

namespace lw {
namespace {

constexpr double kMostResultsPerSecond = 16'000;  // that the queue is filled for

std::string fresh(const ServiceBenchOptions& options, const std::string& name) {
  const std::string file = options.folder + "/" + name;
  for (const char* suffix : {"", "-wal", "-shm", ".log", ".serve"}) {
    std::filesystem::remove(file + suffix);
  }
  return file;
}

int64_t count(Database& database, const std::string& what) {
  int64_t counted = -1;
  CHECK(database.read(5, [&](Transaction& tx) {
    Query query = tx.query("SELECT count(*) FROM " + what);
    if (query.next()) counted = query.integer(0);
    return query.status();
  }).ok());
  return counted;
}

// What was acknowledged is there, once, and all invariants hold. `put`: records beside the results.
void verify(const std::string& file, const FleetCounts& counts, int64_t put) {
  const std::shared_ptr<Database> database = *open_database(file);
  CHECK(counts.errors == 0 && counts.refused == 0);
  CHECK(count(*database, "measurements") == counts.stored_results + put);
  CHECK(count(*database, "jobs WHERE state = 'done'") == counts.stored_jobs);
  CHECK(count(*database, "orphans") == 0);
  const absl::StatusOr<std::vector<std::string>> defects = make_store(database)->check();
  CHECK(defects.ok());
  for (const std::string& line : *defects) std::fprintf(stderr, "%s\n", line.c_str());
  CHECK(defects->empty());
}

struct Traffic {
  FleetCounts counts;
  double daemon_cpu_s = 0, daemon_mb = 0, all_s = 0;
};

// What else happens meanwhile to the daemon at this address, until it is `over`: how many records it
// has put.
using Beside = std::function<int64_t(const std::string& address, const std::atomic<bool>& over)>;

Traffic drive(const ServiceBenchOptions& options, const std::string& name, FleetShape fleet,
              const QueueShape& queue, std::vector<std::string> flags = {},
              const Beside& beside = {}) {
  const std::string file = fresh(options, name + ".db");
  fill_queue(file, queue);
  flags.push_back("--no-search");
  BenchDaemon daemon = start_daemon(options.loopwright, file, flags);
  fleet.address = daemon.address;
  Traffic traffic;
  const double begin = now(), written = daemon.process->written_mb();
  std::atomic<bool> over = false;
  int64_t put = 0;
  std::thread other;
  if (beside) other = std::thread([&] { put = beside(daemon.address, over); });
  traffic.counts = run_fleet(fleet);
  over = true;
  if (other.joinable()) other.join();
  traffic.all_s = now() - begin;
  traffic.daemon_cpu_s = daemon.process->cpu_s();
  traffic.daemon_mb = daemon.process->written_mb() - written;
  CHECK(daemon.process->stop() == 0);
  verify(file, traffic.counts, put);
  fresh(options, name + ".db");
  return traffic;
}

void tell_costs(const std::string& row, const Traffic& traffic, ServiceReport& report) {
  const FleetCounts& counts = traffic.counts;
  report.tell(row, "the daemon's processor time for a stored result's job",
              1e6 * traffic.daemon_cpu_s / static_cast<double>(counts.stored_jobs), "us");
  report.tell(row, "the daemon's processors in use", traffic.daemon_cpu_s / traffic.all_s, "");
  report.tell(row, "the simulation's processors in use", counts.own_cpu_s / counts.timed_s, "");
  report.tell(row, "written to the disk", traffic.daemon_mb / traffic.all_s, "MB/s");
  if (counts.idle > 0) {
    report.tell(row, "answers without a job", static_cast<double>(counts.idle), "");
  }
}

void saturate(const ServiceBenchOptions& options, ServiceReport& report, int agents,
              int candidates, double bar) {
  FleetShape fleet;
  fleet.agents = agents;
  fleet.connections = options.connections;
  fleet.rate = 0;
  fleet.warm_s = 2;
  fleet.timed_s = options.seconds / 2;
  QueueShape queue;
  queue.candidates = candidates;
  queue.jobs =
      static_cast<int>(kMostResultsPerSecond * (fleet.timed_s + fleet.warm_s)) / candidates;
  const Traffic traffic = drive(options, "results", fleet, queue);
  const double rate = static_cast<double>(traffic.counts.results) / traffic.counts.timed_s;
  report.add("results", concat("results/s; ", candidates, " a job, ", agents * candidates,
                               " in flight, ", agents, " agents"), rate, bar, "/s", true);
  tell_costs("results", traffic, report);
}

// Appends through the group commit, nothing else: what the store allows.
void group_commit_alone(const ServiceBenchOptions& options, ServiceReport& report) {
  constexpr int kInFlight = 256;
  const std::string file = fresh(options, "commit.db");
  const std::shared_ptr<Database> database = *open_database(file);
  const std::unique_ptr<Store> store = make_store(database);
  const Task task = bench_task(0, 1);
  CHECK(put_task(*store, task).ok());
  std::vector<std::vector<Measurement>> ready;
  Rng rng(4);
  const double seconds = options.seconds / 4;
  for (int i = 0; i < static_cast<int>(seconds * kMostResultsPerSecond); ++i) {
    ready.push_back({bench_measurement(i, rng)});
  }
  GroupCommit::Counts counts;
  const double begin = now();
  size_t next = 0;                         // by the writer's thread alone
  std::function<void()> submit;            // outlives the commit, which calls it to its end
  {
    GroupCommit commit(*database);
    submit = [&] {
      if (next == ready.size() || now() - begin > seconds) return;
      std::vector<Measurement>& batch = ready[next++];
      commit.submit(
          [&task, &batch](WriteTransaction& tx) { return store_in(tx)->append(task.key(), batch); },
          [&](absl::Status status) {
            CHECK(status.ok());
            submit();
          });
    };
    CHECK(commit.run([&](WriteTransaction&) {
      for (int i = 0; i < kInFlight; ++i) submit();
      return absl::OkStatus();
    }).ok());
    while (now() - begin < seconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    counts = commit.counts();
  }
  report.tell("results", "the group commit alone, 256 in flight",
              static_cast<double>(counts.operations) / seconds, "/s");
  report.tell("results", "operations a transaction",
              static_cast<double>(counts.operations) / static_cast<double>(counts.groups), "");
  fresh(options, "commit.db");
}

// Stubs that send and take messages of any size.
std::shared_ptr<grpc::Channel> open(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::string request_id(int64_t number) {
  return concat("00000000-0000-4000-8000-", 100'000'000'000 + number);
}

void scale(double factor, Measurement* m) {
  for (double& us : m->samples_us) us *= factor;
  m->time_us *= factor, m->ci_low_us *= factor, m->ci_high_us *= factor;
}

// Ten thousand records of a hundred keys, other ones each time: of a hundred schedules of each.
loopwright::v1::PutRecordsRequest ten_thousand(const std::vector<Task>& tasks,
                                               const std::vector<std::vector<std::string>>& traces,
                                               Store& store, int64_t number, Rng& rng) {
  loopwright::v1::PutRecordsRequest request;
  request.set_request_id(request_id(number));
  for (size_t t = 0; t < tasks.size(); ++t) {
    const Task& task = tasks[t];
    const WorkloadRow workload = *store.workload(task.key().workload);
    const Target target = *store.target(task.key().target);
    for (int i = 0; i < 100; ++i) {
      loopwright::v1::Record& record = *request.add_records();
      *record.mutable_key() = to_proto(task.key());
      Measurement m = bench_measurement(static_cast<int>(100 * number + i), rng);
      m.trace = traces[t][static_cast<size_t>(i)];
      scale(task.workload().flops / 1e6, &m);  // some 10 to 100 GFLOP/s
      *record.mutable_measurement() = to_proto(m);
      if (i > 0) continue;
      *record.mutable_workload() = to_proto(workload);
      *record.mutable_target() = to_proto(target);
    }
  }
  return request;
}

}  // namespace

// While ten thousand records are put every two seconds and a backup is made every five.
void bench_beside(const ServiceBenchOptions& options, ServiceReport& report) {
  namespace v1 = loopwright::v1;
  const std::string folder = options.folder + "/beside";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string config = folder + "/config.json", scratch = folder + "/tasks.db";
  std::ofstream(config) << "{\"quotas\": {\"message_bytes\": 33554432}}";
  const std::unique_ptr<Store> store = make_store(*open_database(scratch));
  std::vector<Task> tasks;
  std::vector<std::vector<std::string>> traces;
  for (int i = 0; i < 100; ++i) {
    tasks.push_back(bench_task(i, 100));
    traces.push_back(bench_traces(tasks.back(), 100));
    CHECK(put_task(*store, tasks.back()).ok());
  }
  std::vector<double> put_ms, backup_ms;
  const auto beside = [&](const std::string& address, const std::atomic<bool>& over) {
    const auto records = v1::ScheduleService::NewStub(open(address));
    const auto fleet = v1::FleetService::NewStub(open(address));
    const auto until = [&](double time) {
      while (!over && now() < time) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    };
    std::thread backups([&] {
      for (int64_t number = 1'000'000; !over; ++number) {
        const double begin = now();
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
        v1::BackupDatabaseRequest request;
        request.set_request_id(request_id(number));
        v1::BackupDatabaseResponse response;
        CHECK(fleet->BackupDatabase(&context, request, &response).ok());
        backup_ms.push_back(1e3 * (now() - begin));
        std::filesystem::remove(folder + "/" + response.file());
        until(begin + 5);
      }
    });
    Rng rng(5);
    int64_t stored = 0;
    for (int64_t number = 0; !over; ++number) {
      const v1::PutRecordsRequest request = ten_thousand(tasks, traces, *store, number, rng);
      const double begin = now();
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
      v1::PutRecordsResponse response;
      const grpc::Status status = records->PutRecords(&context, request, &response);
      if (!status.ok()) std::fprintf(stderr, "%s\n", status.error_message().c_str());
      CHECK(status.ok());
      stored += response.stored();
      put_ms.push_back(1e3 * (now() - begin));
      until(begin + 2);
    }
    backups.join();
    return stored;
  };
  FleetShape fleet;
  fleet.agents = options.agents;
  fleet.connections = options.connections;
  fleet.timed_s = options.seconds;
  QueueShape queue;
  queue.jobs = static_cast<int>(1.2 * fleet.agents * (fleet.warm_s + fleet.timed_s + 2));
  Traffic traffic = drive(options, "beside", fleet, queue,
                          {"--config", config, "--backups", folder}, beside);
  FleetCounts& counts = traffic.counts;
  const std::string what = concat("Synchronize, ", fleet.agents, " agents, beside puts and backups");
  report.tell("beside", what + ", p50", percentile(counts.latency_ms, 0.5), "ms");
  report.add("beside", what + ", p99", percentile(counts.latency_ms, 0.99), 250, "ms");
  report.tell("beside", "worst", percentile(counts.latency_ms, 0.999999), "ms");
  report.tell("beside", "PutRecords of 10,000, the first", put_ms.front(), "ms");
  report.tell("beside", "PutRecords of 10,000, median", percentile(put_ms, 0.5), "ms");
  report.tell("beside", "BackupDatabase, median", percentile(backup_ms, 0.5), "ms");
  tell_costs("beside", traffic, report);
  std::filesystem::remove_all(folder);
}

void bench_synchronize(const ServiceBenchOptions& options, ServiceReport& report) {
  FleetShape fleet;
  fleet.agents = options.agents;
  fleet.connections = options.connections;
  fleet.timed_s = options.seconds;
  QueueShape queue;
  queue.jobs = static_cast<int>(1.2 * fleet.agents * (fleet.warm_s + fleet.timed_s + 2));
  Traffic traffic = drive(options, "synchronize", fleet, queue);
  FleetCounts& counts = traffic.counts;
  const std::string what =
      concat("Synchronize, ", fleet.agents, " agents, 2 calls/s each, half with a result");
  report.tell("synchronize", what + ", p50", percentile(counts.latency_ms, 0.5), "ms");
  report.add("synchronize", what + ", p99", percentile(counts.latency_ms, 0.99), 50, "ms");
  report.tell("synchronize", "worst", percentile(counts.latency_ms, 0.999999), "ms");
  report.tell("synchronize", "calls", static_cast<double>(counts.calls) / counts.timed_s, "/s");
  report.tell("synchronize", "calls with a result",
              static_cast<double>(counts.calls_with_results) / counts.timed_s, "/s");
  tell_costs("synchronize", traffic, report);
}

void bench_results(const ServiceBenchOptions& options, ServiceReport& report) {
  saturate(options, report, 64, 16, 5000);
  saturate(options, report, 256, 1, 0);
  group_commit_alone(options, report);
}

}  // namespace lw
