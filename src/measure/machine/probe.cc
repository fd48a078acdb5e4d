#include "src/measure/machine/probe.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/expr/expr.h"
#include "src/kernel/kernel.h"
#include "src/measure/run/runner.h"
#include "src/measure/run/timing.h"

namespace lw {
namespace {

constexpr double kSample = 0.002;  // long enough for the clock, short enough to meet quiet moments

absl::StatusOr<Artifact> build_once(const std::string& text, const Target& target) {
  static std::mutex mutex;
  static std::map<std::string, Artifact>* built = new std::map<std::string, Artifact>();
  std::lock_guard<std::mutex> lock(mutex);
  const std::string key = to_text(target) + text;
  const std::map<std::string, Artifact>::iterator it = built->find(key);
  if (it != built->end()) return it->second;
  ASSIGN_OR_RETURN(const Kernel kernel, parse_kernel(text));
  ASSIGN_OR_RETURN(const Backend* backend, find_backend(target.architecture));
  ASSIGN_OR_RETURN(Artifact artifact, backend->build(kernel, target));
  return (*built)[key] = std::move(artifact);
}

// One thread's kernel with its arguments.
struct Instance {
  std::unique_ptr<Runner> runner;
  std::vector<GuardedMap> maps;
  std::vector<void*> pointers;
};

absl::StatusOr<Instance> instantiate(const Probe& probe, const Artifact& artifact) {
  Instance instance;
  ASSIGN_OR_RETURN(instance.runner, Runner::create(artifact, nullptr));
  for (int64_t bytes : probe.argument_bytes) {
    ASSIGN_OR_RETURN(GuardedMap map, GuardedMap::create(bytes, -1, true));
    instance.pointers.push_back(map.data());
    instance.maps.push_back(std::move(map));
  }
  if (probe.ones && !probe.argument_bytes.empty()) {
    const int64_t bytes = probe.argument_bytes[0];
    float* f = reinterpret_cast<float*>(instance.pointers[0]);
    double* d = reinterpret_cast<double*>(instance.pointers[0]);
    if (probe.f64) std::fill_n(d, bytes / 8, 1.0);
    if (!probe.f64) std::fill_n(f, bytes / 4, 1.0f);
  }
  return instance;
}

struct Round {
  std::vector<Instance>* instances;
  const Probe* probe;
  int64_t calls;
};

// The thread that uses the memory touches it first: its pages are near, and none faults later.
void touch(void* closure, int64_t, int64_t worker) {
  const Round& round = *static_cast<Round*>(closure);
  Instance& instance = (*round.instances)[static_cast<size_t>(worker)];
  for (size_t i = round.probe->ones ? 1 : 0; i < instance.maps.size(); ++i) {
    std::memset(instance.maps[i].data(), 0, static_cast<size_t>(instance.maps[i].bytes()));
  }
}

void call(void* closure, int64_t, int64_t worker) {
  const Round& round = *static_cast<Round*>(closure);
  Instance& instance = (*round.instances)[static_cast<size_t>(worker)];
  for (int64_t c = 0; c < round.calls; ++c) instance.runner->run(instance.pointers.data());
}

double rate_in(ParallelPool& pool, Round& round, double work, double budget_s) {
  const int threads = pool.workers();
  const auto timed = [&](int64_t calls) {
    round.calls = calls;
    const double begin = now();
    pool.run(threads, call, &round);
    return now() - begin;
  };
  const double end = now() + budget_s;
  pool.run(threads, touch, &round);
  timed(1);
  const double once = timed(1);
  const int64_t calls = std::max<int64_t>(1, static_cast<int64_t>(kSample / std::max(once, 1e-8)));
  double best = 0;
  do {
    best = std::max(best, work * static_cast<double>(calls * threads) / timed(calls));
  } while (now() < end);
  return best;
}

}  // namespace

absl::StatusOr<double> best_rate(const Probe& probe, const Target& target, int threads, double work,
                                 double budget_s) {
  ASSIGN_OR_RETURN(const Artifact artifact, build_once(probe.kernel, target));
  const std::vector<int> cpus = allowed_cpus();
  std::vector<Instance> instances;
  for (int t = 0; t < threads; ++t) {
    ASSIGN_OR_RETURN(Instance instance, instantiate(probe, artifact));
    instances.push_back(std::move(instance));
  }
  // The same processors as the measurer's: the last ones.
  std::vector<int> used(cpus.end() - std::min<int64_t>(threads, static_cast<int64_t>(cpus.size())),
                        cpus.end());
  ParallelPool pool(threads, used);
  pin_to({used[0]});
  Round round{&instances, &probe, 1};
  const double best = rate_in(pool, round, work, budget_s);
  pin_to(cpus);
  return best;
}

}  // namespace lw
