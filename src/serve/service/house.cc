#include "src/serve/service/house.h"

#include <algorithm>
#include <filesystem>

#include "src/serve/core/calls.h"
#include "src/serve/rows/online.h"

namespace lw {
namespace {

constexpr int64_t kTickMs = 100, kSweepMs = 500, kRefreshMs = 500, kMeasureMs = 5000,
                  kMeasureAgainMs = 1000;
constexpr int kExpireAtOnce = 200, kForgetAtOnce = 1000, kAdoptAtOnce = 200;

}  // namespace

absl::Status House::start() {
  RETURN_IF_ERROR(refresh());
  thread_ = std::thread([this] { keep(); });
  return absl::OkStatus();
}

void House::join() {
  if (thread_.joinable()) thread_.join();
}

void House::finish() {
  write_refusals(core_, INT64_MAX).IgnoreError();
  forgetter_.tell();
  const absl::Status stored =
      core_.commit.run([this](WriteTransaction& tx) { return core_.clock.store(tx); });
  if (!stored.ok()) log(Level::kWarning, "clock_not_stored",
                        {{"error", std::string(stored.message())}});
}

void House::keep() {
  Database::keep_connection_for_this_thread();
  int64_t swept = 0, refreshed = 0, measured = 0;
  while (true) {
    // A call that parks with an earlier look than was known rings the bell.
    const auto tick = Bell::Clock::now() + std::chrono::milliseconds(kTickMs);
    const bool goes_on = core_.bell.sleep([&] {
      const int64_t look_in_ms = core_.parked.first_look_ms() - core_.now_ms();
      const auto pause = std::chrono::milliseconds(std::min(kTickMs, look_in_ms));
      return std::min(tick, Bell::Clock::now() + pause);
    });
    if (!goes_on) return;
    const int64_t now = core_.now_ms();
    core_.parked.expire(now);
    absl::Status status;
    if (now - swept >= kSweepMs) {
      swept = now;
      status.Update(sweep());
    }
    if (now - refreshed >= kRefreshMs) {
      refreshed = now;
      status.Update(refresh());
    }
    if (now - measured >= kMeasureMs) {
      measured = now;
      status.Update(keep_time());
      status.Update(write_refusals(core_, now));
      agents_.forget_silent();
    }
    status.Update(forgetter_.step());
    if (!status.ok()) {
      log(Level::kWarning, "housekeeping_failed", {{"error", std::string(status.message())}});
    }
  }
}

// Leases that ran out, and what is to be forgotten; a write only where there is something.
absl::Status House::sweep() {
  bool overdue = false, old = false, unread = false;
  const int64_t now = core_.now_ms();
  RETURN_IF_ERROR(core_.database->read(5, [&](Transaction& tx) -> absl::Status {
    Query leases = tx.query(
        "SELECT 1 FROM jobs WHERE state = 'leased' AND lease_until < ? LIMIT 1", now);
    overdue = leases.next();
    RETURN_IF_ERROR(leases.status());
    Query requests = tx.query("SELECT 1 FROM requests WHERE created_ms < ? LIMIT 1",
                              now - kRequestsKeptMs);
    old = requests.next();
    RETURN_IF_ERROR(requests.status());
    Query jobs = tx.query("SELECT 1 FROM jobs WHERE state = 'queued' AND backend = '' "
                          "LIMIT 1");
    unread = jobs.next();
    return jobs.status();
  }));
  if (!overdue && !old && !unread) return absl::OkStatus();
  auto changes = std::make_shared<Changes>();
  RETURN_IF_ERROR(core_.commit.run([&](WriteTransaction& tx) -> absl::Status {
    *changes = Changes();
    RETURN_IF_ERROR(expire_leases(tx, core_.options.rules, kExpireAtOnce, now,
                                  changes.get()).status());
    if (unread) RETURN_IF_ERROR(adopt_old_jobs(tx, kAdoptAtOnce, changes.get()).status());
    return old ? forget_requests(tx, now, kForgetAtOnce) : absl::OkStatus();
  }, GroupCommit::Turn::kFirst));
  core_.changed(*changes);
  return absl::OkStatus();
}

// Which queues have jobs that could run now.
absl::Status House::refresh() {
  std::vector<std::string> queues;
  RETURN_IF_ERROR(core_.database->read(5, [&](Transaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(queues, lw::queues(tx));
    return absl::OkStatus();
  }));
  Changes changes;
  changes.queued = {queues.begin(), queues.end()};
  core_.changed(changes);
  // Another daemon's results and events announce themselves to it alone.
  if (core_.database->is_shared()) core_.parked.wake_prefix("study ");
  return absl::OkStatus();
}

void House::before_metrics() {
  if (core_.now_ms() - measured_ms_.exchange(core_.now_ms()) < kMeasureAgainMs) return;
  const absl::Status status = measure_fleet();
  if (!status.ok()) {
    log(Level::kWarning, "metrics_not_read", {{"error", std::string(status.message())}});
  }
}

absl::Status House::keep_time() {
  RETURN_IF_ERROR(core_.clock.synchronize(*core_.database));
  // Written now and then, so that a restart does not fall behind the present.
  core_.commit.submit([this](WriteTransaction& tx) { return core_.clock.store(tx); },
                      [](absl::Status) {}, GroupCommit::Turn::kFirst);
  return measure_fleet();
}

absl::Status House::measure_fleet() {
  int64_t queued = 0, leased = 0, agents = 0;
  std::map<std::string, int64_t> devices, studies;
  RETURN_IF_ERROR(core_.database->read(5, [&](Transaction& tx) -> absl::Status {
    Query jobs = tx.query("SELECT (SELECT count(*) FROM jobs WHERE state = 'queued'), "
                          "(SELECT count(*) FROM jobs WHERE state = 'leased')");
    if (jobs.next()) queued = jobs.integer(0), leased = jobs.integer(1);
    RETURN_IF_ERROR(jobs.status());
    Query online = tx.query(concat("SELECT count(*) FROM agents WHERE ", kOnline),
                            core_.online_since());
    if (online.next()) agents = online.integer(0);
    RETURN_IF_ERROR(online.status());
    Query of_state = tx.query(
        concat("SELECT CASE WHEN NOT (", kOnline, ") THEN 'offline' WHEN admission <> 'open' THEN "
               "admission WHEN health = 'unhealthy' THEN 'unhealthy' ELSE 'online' END, count(*) "
               "FROM devices GROUP BY 1"), core_.online_since());
    while (of_state.next()) devices[of_state.text(0)] = of_state.integer(1);
    RETURN_IF_ERROR(of_state.status());
    Query by_state = tx.query("SELECT state, count(*) FROM studies WHERE state <> ? "
                              "GROUP BY state", kDeleted);
    while (by_state.next()) studies[by_state.text(0)] = by_state.integer(1);
    return by_state.status();
  }));
  using enum Metric;
  Metrics& metrics = core_.metrics;
  metrics.set(kJobsQueued, static_cast<double>(queued));
  metrics.set(kJobsLeased, static_cast<double>(leased));
  metrics.set(kAgentsOnline, static_cast<double>(agents));
  metrics.set_all(kDevices, devices);
  metrics.set_all(kStudies, studies);
  metrics.set(kDatabaseReadOnly, core_.commit.problem().empty() ? 0 : 1);
  metrics.set(kHanging, core_.liveness.hanging());
  std::error_code none;
  const auto wal = std::filesystem::file_size(core_.database->path() + "-wal", none);
  if (!core_.database->is_shared()) metrics.set(kWalBytes, none ? 0 : static_cast<double>(wal));
  return absl::OkStatus();
}

}  // namespace lw
