#include "src/serve/core/core.h"

#include "src/base/check.h"

namespace lw {

absl::StatusOr<std::unique_ptr<Core>> Core::open(std::shared_ptr<Database> database,
                                                 const ServiceOptions& options) {
  std::unique_ptr<Core> core(new Core(std::move(database), options));
  RETURN_IF_ERROR(core->clock.synchronize(*core->database));
  core->started_ms = core->now_ms();
  return core;
}

Core::Core(std::shared_ptr<Database> opened, const ServiceOptions& given)
    : database(std::move(opened)), store(make_store(database)), options(given),
      clock(options.monotonic_ms), metrics(options.version), limiter(options.config),
      in_flight(options.config.quotas),
      commit(*database, [this](double seconds, int64_t operations) {
        metrics.observe(Metric::kCommitSeconds, seconds);
        metrics.observe(Metric::kCommitOperations, static_cast<double>(operations));
      }, &liveness) {
  denied.set(options.config.denied);
}

void Core::deny(std::set<std::string> names) {
  denied.set(std::move(names));
  parked.wake_prefix("");                  // who waits is looked at again
}

void Core::stop_giving() {
  is_stopping = true;
  parked.resume_all();
}

std::string Core::problem() const {
  const std::string of_database = commit.problem();
  if (!of_database.empty()) return of_database;
  return is_stopping ? "stopping" : "";
}

}  // namespace lw
