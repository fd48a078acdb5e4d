// Starting, stopping, and the housekeeping thread: what nobody calls for. Every tenth of a second
// it resumes parked calls whose time is over (at once those that look again at a time of their
// own); every half a second it ends leases that ran out, reads what the queue holds (another daemon
// may have filled it) and who uses how much; every few seconds it counts what there is for the
// metrics; and piece by piece it forgets what is over (service/forget.cc).
#include "src/serve/service/service.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <tuple>

#include "src/serve/rows/online.h"
#include "src/serve/service/impl.h"

namespace lw {
namespace {

constexpr int64_t kTickMs = 100, kSweepMs = 500, kRefreshMs = 500, kMeasureMs = 5000,
                  kMeasureAgainMs = 1000;
constexpr int kApiMinor = 1;               // one more with each addition to proto/loopwright/v1
constexpr int64_t kFollowMs = 300;         // what other processes changed is looked for
constexpr int64_t kWithdrawnMs = 1000;
constexpr int kIndexPause = 9;             // times what reading a key took
constexpr int kExpireAtOnce = 200, kForgetAtOnce = 1000, kAdoptAtOnce = 200;
constexpr size_t kResidentBytes = size_t{48} << 20;  // of records in the index

}  // namespace

absl::StatusOr<std::unique_ptr<Service>> Service::start(std::shared_ptr<Database> database,
                                                        const ServiceOptions& options) {
  std::unique_ptr<Service> service(new Service(std::move(database), options));
  service->denied_.set(options.config.denied);
  RETURN_IF_ERROR(service->clock_.synchronize(*service->database_));
  service->started_ms_ = service->now_ms();
  service->commit_ = std::make_unique<GroupCommit>(
      *service->database_, [self = service.get()](double seconds, int64_t operations) {
        self->metrics_.committed(seconds, operations);
      }, &service->liveness_);
  RETURN_IF_ERROR(service->refresh());
  if (options.search) {
    Service* self = service.get();
    SearchSeat seat;
    seat.database = self->database_.get();
    seat.store = self->store_.get();
    seat.commit = [self](std::function<absl::Status(Database&)> body) {
      return self->commit_->run(std::move(body), GroupCommit::Turn::kFirst);
    };
    seat.now_ms = [self] { return self->now_ms(); };
    seat.changed = [self](const Changes& changes) { self->changed(changes); };
    seat.owner = make_id(service->now_ms());
    seat.liveness = &self->liveness_;
    seat.rules = options.rules;
    seat.online_ms = options.online_ms;
    seat.gone_ms = options.searcher.gone_ms;
    seat.most_waiting_s = options.config.quotas.waiting_seconds;
    seat.before_search = options.before_search;
    service->searcher_ = std::make_unique<Searcher>(std::move(seat), options.searcher);
    service->searcher_->start();           // it calls back into a service that knows it
  }
  service->house_ = std::thread([self = service.get()] { self->keep_house(); });
  service->indexer_ = std::thread([self = service.get()] { self->keep_index(); });
  return service;
}

Service::Service(std::shared_ptr<Database> database, const ServiceOptions& options)
    : database_(std::move(database)), store_(make_store(database_)), options_(options),
      clock_(options.monotonic_ms), metrics_(options.version), limiter_(options.config),
      in_flight_(options.config.quotas), door_(*store_),
      index_(std::make_unique<LadderIndex>(*store_, LadderIndexOptions{kResidentBytes})) {
  shares_.weights = options_.config.weights;
  shares_.usual_weight = options_.config.default_weight;
}

Service::~Service() {
  stop_giving();
  {
    std::lock_guard lock(house_mutex_);
    stop_ = true;
  }
  house_changed_.notify_all();
  if (house_.joinable()) house_.join();
  if (indexer_.joinable()) indexer_.join();
  // It stays there, stopped, for acknowledgements of the commits that are still under way.
  if (searcher_ != nullptr) searcher_->stop();
  if (commit_ != nullptr) {
    write_refusals(INT64_MAX).IgnoreError();
    tell_forgotten();
    const absl::Status stored =
        commit_->run([this](Database& database) { return clock_.store(database); });
    if (!stored.ok()) log(Level::kWarning, "clock_not_stored",
                          {{"error", std::string(stored.message())}});
    commit_->stop();                       // stays there too: its acknowledgements ask it for
                                           // problems
  }
}

void Service::deny(std::set<std::string> denied) {
  denied_.set(std::move(denied));
  parked_.wake_prefix("");                 // who waits is looked at again
}

void Service::stop_giving() {
  stopping_ = true;
  parked_.resume_all();
}

std::string Service::problem() const {
  const std::string of_database = commit_->problem();
  if (!of_database.empty()) return of_database;
  return stopping_ ? "stopping" : "";
}

void Service::note_queued(const std::string& queue) {
  {
    std::lock_guard lock(mutex_);
    maybe_queued_.insert(queue);
  }
  parked_.wake_one(queue_topic(queue));
}

void Service::changed(const Changes& changes) {
  for (const std::string& queue : changes.queued) note_queued(queue);
  for (const std::string& agent : changes.agents) review(agent_name(agent));
  for (const std::string& study : changes.studies) {
    parked_.wake_all(study_topic(study));
    if (searcher_ != nullptr) searcher_->wake(study);
  }
  for (const std::string& study : changes.ended) {
    if (searcher_ != nullptr) searcher_->drop(study);
  }
  for (const Key& key : changes.keys) note_key(key);
  for (const auto& [outcome, count] : changes.attempts) {
    for (int i = 0; i < count; ++i) metrics_.attempt_ended(outcome);
  }
  for (const auto& [verdict, count] : changes.verdicts) metrics_.measurement(verdict, count);
  for (double seconds : changes.queue_wait_s) metrics_.job_waited(seconds);
  for (double seconds : changes.run_s) metrics_.job_measured(seconds);
  for (const auto& [phase, seconds] : changes.cost_s) metrics_.tuning_cost(phase, seconds);
  for (const auto& [reason, count] : changes.discards) metrics_.discarded(reason, count);
  if (changes.expired > 0) metrics_.lease_expired(changes.expired);
  for (const Doubt& doubt : changes.doubts) {
    metrics_.doubted(doubt.kind);
    log(Level::kWarning, "word_doubted",
        {{"kind", doubt.kind}, {"key", doubt.key}, {"actor", doubt.actor},
         {"device", doubt.device}, {"detail", doubt.detail}});
  }
}

void Service::keep_house() {
  Database::keep_connection_for_this_thread();
  int64_t swept = 0, refreshed = 0, measured = 0;
  while (true) {
    {
      std::unique_lock lock(house_mutex_);
      // A call that parks with an earlier look than was known says so, under the lock.
      const auto tick = std::chrono::steady_clock::now() + std::chrono::milliseconds(kTickMs);
      while (!stop_ && std::chrono::steady_clock::now() < tick) {
        const int64_t look_in_ms = parked_.first_look_ms() - now_ms();
        if (look_in_ms <= 0) break;
        const auto pause = std::chrono::milliseconds(std::min(kTickMs, look_in_ms));
        house_changed_.wait_until(lock, std::min(tick, std::chrono::steady_clock::now() + pause));
      }
      if (stop_) return;
    }
    const int64_t now = now_ms();
    parked_.expire(now);
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
      status.Update(write_refusals(now));
      forget_silent_agents();
    }
    status.Update(forget());
    if (!status.ok()) {
      log(Level::kWarning, "housekeeping_failed", {{"error", std::string(status.message())}});
    }
  }
}

// Leases that ran out, and what is to be forgotten; a write only where there is something.
absl::Status Service::sweep() {
  bool overdue = false, old = false, unread = false;
  const int64_t now = now_ms();
  RETURN_IF_ERROR(database_->read(5, [&]() -> absl::Status {
    Query leases = database_->query(
        "SELECT 1 FROM jobs WHERE state = 'leased' AND lease_until < ? LIMIT 1", now);
    overdue = leases.next();
    RETURN_IF_ERROR(leases.status());
    Query requests = database_->query("SELECT 1 FROM requests WHERE created_ms < ? LIMIT 1",
                                      now - kRequestsKeptMs);
    old = requests.next();
    RETURN_IF_ERROR(requests.status());
    Query jobs = database_->query("SELECT 1 FROM jobs WHERE state = 'queued' AND backend = '' "
                                  "LIMIT 1");
    unread = jobs.next();
    return jobs.status();
  }));
  if (!overdue && !old && !unread) return absl::OkStatus();
  auto changes = std::make_shared<Changes>();
  RETURN_IF_ERROR(commit_->run([&](Database& database) -> absl::Status {
    *changes = Changes();
    RETURN_IF_ERROR(expire_leases(database, *store_, options_.rules, kExpireAtOnce, now,
                                  changes.get()).status());
    if (unread) RETURN_IF_ERROR(adopt_old_jobs(database, kAdoptAtOnce, changes.get()).status());
    return old ? forget_requests(database, now, kForgetAtOnce) : absl::OkStatus();
  }, GroupCommit::Turn::kFirst));
  changed(*changes);
  return absl::OkStatus();
}

// Which queues have jobs that could run now.
absl::Status Service::refresh() {
  std::vector<std::string> queues;
  RETURN_IF_ERROR(database_->read(5, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(queues, lw::queues(*database_));
    return absl::OkStatus();
  }));
  for (const std::string& queue : queues) note_queued(queue);
  // Another daemon's results and events announce themselves to it alone.
  if (database_->is_shared()) parked_.wake_prefix("study ");
  return absl::OkStatus();
}

// Who puts a record finds it with the next look-up.
void Service::index_now(const Key& key) {
  if (!index_->update(key).ok()) note_key(key);
}

void Service::note_key(const Key& key) {
  std::lock_guard lock(mutex_);
  news_.push_back(key);
}

// The index of look-ups, kept up behind: the first reading of a large database takes seconds, in
// which look-ups are answered exactly or not at all.
void Service::keep_index() {
  Database::keep_connection_for_this_thread();
  bool is_read = false;
  int64_t followed = 0, looked = 0;
  while (true) {
    absl::Status status;
    if (!is_read) {
      status = index_->refresh();
      is_read = status.ok();
    }
    // Not only by this process: another daemon, `tune --db` or `db import` write there too.
    if (is_read && now_ms() - followed >= kFollowMs) {
      const absl::StatusOr<std::vector<Key>> changed = index_->follow();
      status.Update(changed.status());
      if (changed.ok()) {
        for (const Key& key : *changed) note_key(key);
      }
      followed = now_ms();
    }
    if (now_ms() - looked >= kWithdrawnMs) {
      status.Update(index_->refresh_withdrawn());
      looked = now_ms();
    }
    std::vector<Key> news;
    {
      std::lock_guard lock(mutex_);
      news.swap(news_);
    }
    // A busy key comes hundreds of times a second.
    std::sort(news.begin(), news.end());
    news.erase(std::unique(news.begin(), news.end()), news.end());
    for (const Key& key : news) {
      const auto begun = std::chrono::steady_clock::now();
      const absl::Status updated = index_->update(key);
      if (!updated.ok()) note_key(key);    // the next round tries again
      status.Update(updated);
      // The best of a key with many candidates is read in milliseconds, which commits wait for.
      std::unique_lock lock(house_mutex_);
      const auto pause = kIndexPause * (std::chrono::steady_clock::now() - begun);
      if (house_changed_.wait_for(lock, pause, [this] { return stop_; })) return;
    }
    if (!status.ok()) {
      log(Level::kWarning, "index_not_updated", {{"error", std::string(status.message())}});
    }
    std::unique_lock lock(house_mutex_);
    house_changed_.wait_for(lock, std::chrono::milliseconds(kTickMs), [this] { return stop_; });
    if (stop_) return;
  }
}

void Service::before_metrics() {
  if (now_ms() - measured_ms_.exchange(now_ms()) < kMeasureAgainMs) return;
  const absl::Status status = measure_fleet();
  if (!status.ok()) {
    log(Level::kWarning, "metrics_not_read", {{"error", std::string(status.message())}});
  }
}

absl::Status Service::keep_time() {
  RETURN_IF_ERROR(clock_.synchronize(*database_));
  // Written now and then, so that a restart does not fall behind the present.
  commit_->submit([this](Database& database) { return clock_.store(database); },
                  [](absl::Status) {}, GroupCommit::Turn::kFirst);
  return measure_fleet();
}

absl::Status Service::measure_fleet() {
  int64_t queued = 0, leased = 0, agents = 0;
  std::map<std::string, int64_t> devices, studies;
  RETURN_IF_ERROR(database_->read(5, [&]() -> absl::Status {
    Query jobs = database_->query("SELECT (SELECT count(*) FROM jobs WHERE state = 'queued'), "
                                  "(SELECT count(*) FROM jobs WHERE state = 'leased')");
    if (jobs.next()) queued = jobs.integer(0), leased = jobs.integer(1);
    RETURN_IF_ERROR(jobs.status());
    Query online = database_->query(concat("SELECT count(*) FROM agents WHERE ", kOnline),
                                    online_since());
    if (online.next()) agents = online.integer(0);
    RETURN_IF_ERROR(online.status());
    Query of_state = database_->query(
        concat("SELECT CASE WHEN NOT (", kOnline, ") THEN 'offline' WHEN admission <> 'open' THEN "
               "admission WHEN health = 'unhealthy' THEN 'unhealthy' ELSE 'online' END, count(*) "
               "FROM devices GROUP BY 1"), online_since());
    while (of_state.next()) devices[of_state.text(0)] = of_state.integer(1);
    RETURN_IF_ERROR(of_state.status());
    Query by_state = database_->query("SELECT state, count(*) FROM studies WHERE state <> ? "
                                      "GROUP BY state", kDeleted);
    while (by_state.next()) studies[by_state.text(0)] = by_state.integer(1);
    return by_state.status();
  }));
  metrics_.queue(queued, leased);
  metrics_.agents_online(agents);
  metrics_.devices(devices);
  metrics_.studies(studies);
  metrics_.read_only(!commit_->problem().empty());
  metrics_.hanging(liveness_.hanging());
  std::error_code none;
  const auto wal = std::filesystem::file_size(database_->path() + "-wal", none);
  if (!database_->is_shared()) metrics_.wal(none ? 0 : static_cast<int64_t>(wal));
  return absl::OkStatus();
}

absl::Status Service::get_capabilities(const Caller&,
                                       const loopwright::v1::GetCapabilitiesRequest&,
                                       loopwright::v1::GetCapabilitiesResponse* response) {
  response->set_server_version(options_.version);
  response->set_api_minor(kApiMinor);
  for (const char* feature : {"studies", "watch", "agents", "lookup", "records", "fleet",
                              "withdrawn", "words", "admission", "delete"}) {
    response->add_features(feature);
  }
  response->set_max_message_bytes(options_.config.quotas.message_bytes);
  response->set_max_workloads_per_study(
      static_cast<int32_t>(options_.config.quotas.workloads_per_study));
  response->set_max_lookup_keys(1000);
  return absl::OkStatus();
}

}  // namespace lw
