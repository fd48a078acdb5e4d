// The rows `memory` and `startup`: a daemon over a million measurements, with a queue; how much it
// holds, and how soon it answers after it was killed while it wrote. The files are in the page
// cache as far as what ran before left them there: a killed process leaves it warm, a lost machine
// cold.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "bench/service/agents.h"
#include "bench/service/fill.h"
#include "bench/service/process.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "src/api/lookup.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/client/grpc/grpc_source.h"

namespace lw {
namespace {

constexpr int kQueued = 10'000, kBatch = 500, kKills = 5;

std::string with_queue(const ServiceBenchOptions& options, ServiceReport& report, int jobs,
                       int candidates) {
  const std::string large = large_database(options, report);
  const std::string file = options.folder + "/state.db";
  for (const char* suffix : {"", "-wal", "-shm", ".log", ".serve"}) {
    std::filesystem::remove(file + suffix);
  }
  std::filesystem::copy_file(large, file);
  QueueShape queue;
  queue.jobs = jobs;
  queue.candidates = candidates;
  fill_queue(file, queue);
  return file;
}

void remove(const std::string& file) {
  for (const char* suffix : {"", "-wal", "-shm", ".serve"}) std::filesystem::remove(file + suffix);
}

// Until it has nothing to do: the index is read, the searches are as far as they get.
void await_idle(const Process& daemon) {
  for (double before = -1; daemon.cpu_s() - before > 0.05;) {
    before = daemon.cpu_s();
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace

void bench_memory(const ServiceBenchOptions& options, ServiceReport& report) {
  const std::string file = with_queue(options, report, kQueued, 16);
  BenchDaemon daemon = start_daemon(options.loopwright, file);
  await_idle(*daemon.process);
  report.tell("memory", "resident, before it was asked anything", daemon.process->memory().rss_mb,
              "MB");
  const std::shared_ptr<ScheduleSource> source =
      (*make_grpc_source(ServerAddress{daemon.address, {}, false}));
  Rng rng(6);
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<LookupRequest> queries;
    for (int i = 0; i < kBatch; ++i) {
      const Task task = bench_task(static_cast<int>(rng.below(options.keys)), options.shapes);
      queries.push_back(request_of(task));
    }
    CHECK(source->batch_lookup(queries, 10'000).ok());
  }
  const Memory memory = daemon.process->memory();
  report.add("memory", concat("resident, ", kQueued, " jobs of 16 queued, ", options.measurements,
                              " measurements, 5,000 look-ups"), memory.rss_mb, 300, "MB");
  report.tell("memory", "its proportional share", memory.pss_mb, "MB");
  CHECK(daemon.process->stop() == 0);
  remove(file);
}

void bench_startup(const ServiceBenchOptions& options, ServiceReport& report) {
  const std::string file = with_queue(options, report, kQueued, 1);
  const Task stored = bench_task(options.keys / 2, options.shapes);
  const LookupRequest query = request_of(stored);
  std::vector<double> serving_s, answered_s;
  for (int i = 0; i < kKills; ++i) {
    BenchDaemon daemon = start_daemon(options.loopwright, file, {"--no-search"});
    FleetShape fleet;
    fleet.address = daemon.address;
    fleet.agents = 64;
    fleet.rate = 20;
    fleet.warm_s = 0, fleet.timed_s = 3;
    std::thread traffic([&] { run_fleet(fleet); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    daemon.process->kill_hard();
    const double begin = now();
    BenchDaemon again = start_daemon(options.loopwright, file);
    serving_s.push_back(now() - begin);
    const auto found = (*make_grpc_source(ServerAddress{again.address, {}, false, {}}))
                           ->batch_lookup({&query, 1}, 10'000);
    answered_s.push_back(now() - begin);
    CHECK(found.ok() && (*found)[0].at(0).rung == Rung::kExact);
    traffic.join();
  }
  report.tell("startup", "after kill -9 among writes, to listening, worst",
              percentile(serving_s, 0.999), "s");
  report.add("startup", concat("to the first answered look-up, worst of ", kKills),
             percentile(answered_s, 0.999), 2, "s");
  remove(file);
}

}  // namespace lw
