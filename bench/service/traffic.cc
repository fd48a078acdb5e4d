// The rows `synchronize` and `results`: a daemon on a disk, its queue filled beforehand and its own
// searches off (one machine of two cores cannot think of a thousand candidates a second and serve
// them). After each run the database must hold what was acknowledged, and pass its check.
#include <filesystem>
#include <thread>

#include "bench/service/agents.h"
#include "bench/service/fill.h"
#include "bench/service/process.h"
#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/expr/message.h"
#include "tuner_db/database.h"
#include "tuner_db/group_commit.h"

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
  CHECK(database.read(5, [&] {
    Query query = database.query("SELECT count(*) FROM " + what);
    if (query.next()) counted = query.integer(0);
    return query.status();
  }).ok());
  return counted;
}

// What was acknowledged is there, once, and all invariants hold.
void verify(const std::string& file, const FleetCounts& counts) {
  const std::shared_ptr<Database> database = *open_database(file);
  CHECK(counts.errors == 0 && counts.refused == 0);
  CHECK(count(*database, "measurements") == counts.stored_results);
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

Traffic drive(const ServiceBenchOptions& options, const std::string& name, FleetShape fleet,
              const QueueShape& queue) {
  const std::string file = fresh(options, name + ".db");
  fill_queue(file, queue);
  BenchDaemon daemon = start_daemon(options.loopwright, file, {"--no-search"});
  fleet.address = daemon.address;
  Traffic traffic;
  const double begin = bench_now(), written = daemon.process->written_mb();
  traffic.counts = run_fleet(fleet);
  traffic.all_s = bench_now() - begin;
  traffic.daemon_cpu_s = daemon.process->cpu_s();
  traffic.daemon_mb = daemon.process->written_mb() - written;
  CHECK(daemon.process->stop() == 0);
  verify(file, traffic.counts);
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
  const double begin = bench_now();
  size_t next = 0;                         // by the writer's thread alone
  std::function<void()> submit;            // outlives the commit, which calls it to its end
  {
    GroupCommit commit(*database);
    submit = [&] {
      if (next == ready.size() || bench_now() - begin > seconds) return;
      std::vector<Measurement>& batch = ready[next++];
      commit.submit([&store, &task, &batch](Database&) { return store->append(task.key, batch); },
                    [&](absl::Status status) {
                      CHECK(status.ok());
                      submit();
                    });
    };
    CHECK(commit.run([&](Database&) {
      for (int i = 0; i < kInFlight; ++i) submit();
      return absl::OkStatus();
    }).ok());
    while (bench_now() - begin < seconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    counts = commit.counts();
  }
  report.tell("results", "the group commit alone, 256 in flight",
              static_cast<double>(counts.operations) / seconds, "/s");
  report.tell("results", "operations a transaction",
              static_cast<double>(counts.operations) / static_cast<double>(counts.groups), "");
  fresh(options, "commit.db");
}

}  // namespace

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
