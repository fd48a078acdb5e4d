// The row `tuning`: the same workload, seed and number of trials, in one process and through a
// daemon with one agent on this machine; in turn, each time into a fresh database. The daemon and
// the agent run already, as they would; the time is `submit --watch`'s.
#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <thread>

#include "bench/service/process.h"
#include "bench/service/rows.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/store.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

const std::vector<std::string> kWorkload = {"matmul", "M=512", "N=512", "K=512"};

struct Tuned {
  double wall_s = 0, best_us = 0;
  int64_t measurements = 0;
};

std::string fresh(const std::string& file) {
  for (const char* suffix : {"", "-wal", "-shm", ".log", ".serve"}) {
    std::filesystem::remove(file + suffix);
  }
  return file;
}

void read_outcome(const std::string& file, Tuned* tuned) {
  DatabaseOptions read_only;
  read_only.read_only = true;
  const std::unique_ptr<Store> store = *open_sqlite_store(file, read_only);
  const std::vector<Key> keys = *store->keys();
  CHECK(keys.size() == 1);
  tuned->best_us = store->best(keys[0])->measurement.time_us;
  tuned->measurements = store->stats()->measurements;
}

std::vector<std::string> command(const ServiceBenchOptions& options, const std::string& verb,
                                 const std::vector<std::string>& more) {
  std::vector<std::string> all = {options.loopwright, verb};
  all.insert(all.end(), kWorkload.begin(), kWorkload.end());
  all.insert(all.end(),
             {"--trials", std::to_string(options.trials), "--seconds", "3600", "--quiet"});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Tuned tune_here(const ServiceBenchOptions& options) {
  const std::string file = fresh(options.folder + "/tune.db");
  Tuned tuned;
  const double begin = now();
  Process child(command(options, "tune", {"--db", file}), file + ".log");
  child.rest();
  CHECK(child.wait() == 0);
  tuned.wall_s = now() - begin;
  read_outcome(file, &tuned);
  return tuned;
}

void await_device(const std::string& address) {
  const auto stub = v1::FleetService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::ListDevicesResponse response;
    CHECK(stub->ListDevices(&context, {}, &response).ok());
    if (response.devices_size() > 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Tuned tune_by_service(const ServiceBenchOptions& options, ServiceReport& report) {
  const std::string file = fresh(options.folder + "/service.db");
  Tuned tuned;
  double daemon_cpu = 0;
  {
    BenchDaemon daemon = start_daemon(options.loopwright, file);
    Process agent({options.loopwright, "agent", "--server", daemon.address, "--state",
                 options.folder + "/agent"}, file + ".log");
    await_device(daemon.address);
    daemon_cpu = daemon.process->cpu_s();
    const double begin = now();
    Process child(command(options, "submit", {"--server", daemon.address, "--watch"}),
                  file + ".log");
    child.rest();
    CHECK(child.wait() == 0);
    tuned.wall_s = now() - begin;
    daemon_cpu = daemon.process->cpu_s() - daemon_cpu;
  }
  read_outcome(file, &tuned);
  report.tell("tuning", "the daemon's processor time", daemon_cpu, "s");
  return tuned;
}

}  // namespace

void bench_tuning(const ServiceBenchOptions& options, ServiceReport& report) {
  double here_s = 0, service_s = 0;
  for (int i = 0; i < options.repeats; ++i) {
    for (const bool local : {true, false}) {
      const Tuned tuned = local ? tune_here(options) : tune_by_service(options, report);
      (local ? here_s : service_s) += tuned.wall_s;
      const std::string who = local ? "tune in one process" : "daemon and agent";
      report.tell("tuning", concat(who, ", ", options.trials, " trials of matmul 512^3"),
                  tuned.wall_s, "s");
      report.tell("tuning", concat(who, ", best"), tuned.best_us, "us");
      report.tell("tuning", concat(who, ", measurements stored"),
                  static_cast<double>(tuned.measurements), "");
    }
  }
  report.add("tuning",
             concat("the service's time to the process's, ", options.repeats, " runs each"),
             service_s / here_s, 1.25, "x");
}

}  // namespace lw
