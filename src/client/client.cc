#include "loopwright/client.h"

#include <algorithm>
#include <mutex>
#include <tuple>

#include "absl/strings/str_split.h"
#include "loopwright/program.h"
#include "schedules/targets/target.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/client/cache.h"
#include "src/client/remote.h"
#include "src/client/server_source.h"
#include "src/client/withdrawn_poll.h"
#include "tuner_db/ladder/snapshot.h"

namespace lw {
namespace {

bool is_exact(const std::vector<Match>& candidates) {
  return !candidates.empty() && candidates[0].rung == Rung::kExact;
}

// Whether `a` answers better than `b`: as the ladder prefers.
bool better(const Key& asked, const std::vector<Match>& a, const std::vector<Match>& b) {
  if (a.empty() || b.empty()) return b.empty() && !a.empty();
  const auto rank = [&](const Match& match) {
    const ScheduleRecord& record = *match.record;
    const bool is_of_this =
        record.key.workload == asked.workload && record.key.threads == asked.threads;
    const TimeKind kind = match.rung > Rung::kLoose ? record.time_kind : TimeKind::kMeasured;
    return std::tuple(kind, match.rung, !is_of_this, match.distance);
  };
  return rank(a[0]) < rank(b[0]);
}

struct Found {
  std::vector<Match> candidates;
  std::string origin;
};

}  // namespace

class ScheduleClient::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<Impl>> open(ClientOptions options);
  std::vector<absl::StatusOr<ClientAnswer>> lookup(absl::Span<const Task> tasks);
  std::vector<std::vector<Match>> candidates(const std::vector<LookupRequest>& queries);
  ClientStats stats() const;

 private:
  explicit Impl(ClientOptions options) : options_(std::move(options)) {}
  std::vector<Found> find(const std::vector<LookupRequest>& queries);
  // Without the server; true when it need not be asked.
  bool find_here(const LookupRequest& query, int64_t now_ms, Found* found);
  // Takes out what is withdrawn, and says whether anything was.
  bool drop_withdrawn(std::vector<Match>* candidates);
  std::unique_ptr<RecordSource> snapshot_now() const;  // REQUIRES: there is one
  absl::StatusOr<ClientAnswer> settle_one(const Task& task, Found found, const Stop& stop);
  absl::StatusOr<ClientAnswer> settle_well(const Task& task, Found found, const Stop& stop);

  const ClientOptions options_;
  std::unique_ptr<Snapshot> snapshot_;
  std::shared_ptr<const ScheduleCache> cache_;
  std::shared_ptr<WithdrawnCache> withdrawn_;
  std::unique_ptr<Remote> remote_;
  std::unique_ptr<WithdrawnPoll> poll_;
  mutable std::mutex mutex_;  // of the statistics
  ClientStats stats_;
};

absl::StatusOr<std::unique_ptr<ScheduleClient::Impl>> ScheduleClient::Impl::open(
    ClientOptions options) {
  if (!options.unix_ms) options.unix_ms = lw::unix_ms;
  std::unique_ptr<Impl> client(new Impl(std::move(options)));
  const ClientOptions& o = client->options_;
  if (!o.snapshot.empty()) {
    ASSIGN_OR_RETURN(client->snapshot_, Snapshot::open(o.snapshot));
  }
  if (!o.cache_folder.empty()) {
    client->cache_ = std::make_shared<const ScheduleCache>(o.cache_folder);
  }
  client->withdrawn_ = std::make_shared<WithdrawnCache>(o.cache_folder);
  std::shared_ptr<ScheduleSource> source = o.source;
  if (source == nullptr && !o.server.empty()) {
    ASSIGN_OR_RETURN(source, open_server_source({o.server, o.tls_ca, o.tls_certificate, o.tls_key,
                                                 o.insecure}));
  }
  if (source != nullptr && !o.frozen) {
    RemoteOptions remote = o.remote;
    remote.deadline_ms = o.most_ms > 0 ? std::min(o.deadline_ms, o.most_ms) : o.deadline_ms;
    // By value: a late answer may outlive the client.
    auto keep = [cache = client->cache_, clock = o.unix_ms](const std::vector<LookupRequest>& queries,
                                         const Replies& replies) {
      if (cache == nullptr) return;
      const int64_t now = clock();
      for (size_t i = 0; i < queries.size(); ++i) {
        cache->write(queries[i].key, replies[i], now).IgnoreError();
      }
    };
    client->remote_ = std::make_unique<Remote>(source, remote, std::move(keep));
    if (client->cache_ != nullptr || client->snapshot_ != nullptr) {
      client->poll_ = std::make_unique<WithdrawnPoll>(std::move(source), client->withdrawn_,
                                                      1000 * o.withdrawn_fresh_s,
                                                      remote.deadline_ms, o.unix_ms);
    }
  }
  return client;
}

bool ScheduleClient::Impl::drop_withdrawn(std::vector<Match>* candidates) {
  const std::shared_ptr<const WithdrawnSaid> said = withdrawn_->known();
  std::shared_ptr<const WithdrawnList> then;
  if (snapshot_ != nullptr) then = snapshot_->withdrawn().value_or(nullptr);
  int64_t dropped = 0;
  std::erase_if(*candidates, [&](Match& match) {
    match.record = unless_withdrawn(std::move(match.record), said->list);
    if (match.record != nullptr && then != nullptr) {
      match.record = unless_withdrawn(std::move(match.record), *then);
    }
    dropped += match.record == nullptr;
    return match.record == nullptr;
  });
  if (dropped == 0) return false;
  const std::lock_guard guard(mutex_);
  stats_.withdrawn += dropped;
  return true;
}

std::unique_ptr<RecordSource> ScheduleClient::Impl::snapshot_now() const {
  const std::shared_ptr<const WithdrawnSaid> said = withdrawn_->known();
  return without_withdrawn(*snapshot_, {said, &said->list});
}

bool ScheduleClient::Impl::find_here(const LookupRequest& query, int64_t now_ms, Found* found) {
  bool known = false;  // the server has said what it knows, just now
  if (cache_ != nullptr) {
    std::optional<CacheEntry> entry = cache_->read(query.key);
    if (entry) {
      const int64_t age_s = (now_ms - entry->unix_ms) / 1000;
      const bool exact = is_exact(entry->candidates);
      // A clock that was set back must not keep an entry for ever.
      known = age_s >= 0 && age_s < (exact ? options_.fresh_s : options_.miss_fresh_s);
      if (drop_withdrawn(&entry->candidates)) known = false;
      found->candidates = std::move(entry->candidates);
      found->origin = "cache";
      if (known && exact) return true;
    }
  }
  if (snapshot_ != nullptr) {
    LadderOptions ladder = options_.ladder;
    ladder.now_ms = now_ms;
    // A damaged snapshot is as good as none: the build goes on.
    absl::StatusOr<std::vector<Match>> climbed = climb(query, *snapshot_now(), ladder);
    if (climbed.ok() && better(query.key, *climbed, found->candidates)) {
      *found = {*std::move(climbed), "snapshot"};
    }
    if (is_exact(found->candidates) && found->origin == "snapshot") return true;
  }
  return known;
}

std::vector<Found> ScheduleClient::Impl::find(const std::vector<LookupRequest>& queries) {
  std::vector<Found> found(queries.size());
  std::vector<LookupRequest> open;
  std::vector<size_t> places;
  const int64_t now = options_.unix_ms();
  for (size_t i = 0; i < queries.size(); ++i) {
    if (find_here(queries[i], now, &found[i]) || remote_ == nullptr) continue;
    open.push_back(queries[i]);
    places.push_back(i);
  }
  if (!open.empty()) {
    absl::StatusOr<Replies> replies = remote_->ask(std::move(open));
    for (size_t n = 0; replies.ok() && n < places.size(); ++n) {
      Found& here = found[places[n]];
      std::vector<Match>& said = (*replies)[n];
      // What the cache holds is an older answer of the same server.
      if (here.origin == "cache" || better(queries[places[n]].key, said, here.candidates))
        here = {std::move(said), "server"};
    }
  }
  const std::lock_guard guard(mutex_);
  for (const Found& one : found) {
    ++stats_.lookups;
    if (one.candidates.empty())
      ++stats_.misses;
    else if (!is_exact(one.candidates))
      ++stats_.nearest;
    else if (one.origin == "cache")
      ++stats_.cache_hits;
    else if (one.origin == "snapshot")
      ++stats_.snapshot_hits;
    else
      ++stats_.server_hits;
  }
  return found;
}

// In time, rather than well.
absl::StatusOr<ClientAnswer> ScheduleClient::Impl::settle_one(const Task& task, Found found,
                                                              const Stop& stop) {
  absl::StatusOr<ClientAnswer> answer = settle_well(task, std::move(found), stop);
  if (!absl::IsDeadlineExceeded(answer.status())) return answer;
  LookupOptions nothing;
  nothing.zero_trial = false;
  ASSIGN_OR_RETURN(LookupAnswer none, default_answer(task, nothing));
  none.notes.push_back(concat("the look-up's ", options_.most_ms, " ms were over"));
  return ClientAnswer{std::move(none), ""};
}

absl::StatusOr<ClientAnswer> ScheduleClient::Impl::settle_well(const Task& task, Found found,
                                                               const Stop& stop) {
  LookupOptions options;
  options.stop = stop;
  options.ladder = options_.ladder;
  options.ladder.now_ms = options_.unix_ms();
  options.zero_trial = options_.on_miss == OnMiss::kZeroTrial;
  const auto miss = [&](std::string_view why) {
    return absl::NotFoundError(concat("'", task.workload().source_words, "' is not tuned for ",
                                      task.target()->name, " with ", task.threads(), " threads",
                                      why));
  };
  if (options_.frozen && !is_exact(found.candidates)) return miss("");
  std::vector<std::string> notes;
  if (!found.candidates.empty()) {
    // The draft's best is looked for only where somebody waits for a default anyway.
    LookupOptions quick = options;
    quick.zero_trial = false;
    absl::StatusOr<LookupAnswer> answer = settle(task, found.candidates, quick);
    if (answer.ok()) return ClientAnswer{*std::move(answer), found.origin};
    if (options_.frozen) return miss(concat(": ", std::string(answer.status().message())));
    notes.push_back(std::string(answer.status().message()));
  }
  // An exact record that does not apply: the rungs below, of the snapshot.
  if (is_exact(found.candidates) && snapshot_ != nullptr) {
    LookupOptions below = options;
    below.ladder.highest = Rung::kLoose;
    ASSIGN_OR_RETURN(LookupAnswer answer, look_up(task, *snapshot_now(), below));
    answer.notes.insert(answer.notes.begin(), notes.begin(), notes.end());
    const bool none = answer.record == nullptr;
    return ClientAnswer{std::move(answer), none ? "" : "snapshot"};
  }
  ASSIGN_OR_RETURN(LookupAnswer answer, default_answer(task, options));
  answer.notes = std::move(notes);
  return ClientAnswer{std::move(answer), ""};
}

std::vector<absl::StatusOr<ClientAnswer>> ScheduleClient::Impl::lookup(
    absl::Span<const Task> tasks) {
  const Stop stop =
      options_.most_ms > 0 ? Stop().before(after_seconds(1e-3 * options_.most_ms)) : Stop();
  std::vector<LookupRequest> queries;
  for (const Task& task : tasks) {
    queries.push_back(request_of(task));
  }
  std::vector<Found> found = find(queries);
  std::vector<absl::StatusOr<ClientAnswer>> answers;
  for (size_t i = 0; i < tasks.size(); ++i) {
    answers.push_back(settle_one(tasks[i], std::move(found[i]), stop));
  }
  return answers;
}

std::vector<std::vector<Match>> ScheduleClient::Impl::candidates(
    const std::vector<LookupRequest>& queries) {
  std::vector<std::vector<Match>> result;
  for (Found& one : find(queries)) {
    const bool refused = options_.frozen && !is_exact(one.candidates);
    result.push_back(refused ? std::vector<Match>() : std::move(one.candidates));
  }
  return result;
}

ClientStats ScheduleClient::Impl::stats() const {
  ClientStats stats;
  {
    const std::lock_guard guard(mutex_);
    stats = stats_;
  }
  if (remote_ != nullptr) stats.remote = remote_->stats();
  return stats;
}

ScheduleClient::ScheduleClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ScheduleClient::~ScheduleClient() = default;

absl::StatusOr<std::unique_ptr<ScheduleClient>> ScheduleClient::open(ClientOptions options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Impl> impl, Impl::open(std::move(options)));
  return std::unique_ptr<ScheduleClient>(new ScheduleClient(std::move(impl)));
}

absl::StatusOr<ClientAnswer> ScheduleClient::lookup(const Task& task) {
  return std::move(lookup(absl::MakeConstSpan(&task, 1))[0]);
}

std::vector<absl::StatusOr<ClientAnswer>> ScheduleClient::lookup(absl::Span<const Task> tasks) {
  return impl_->lookup(tasks);
}

std::vector<std::vector<Match>> ScheduleClient::candidates(
    const std::vector<LookupRequest>& queries) {
  return impl_->candidates(queries);
}

ClientStats ScheduleClient::stats() const { return impl_->stats(); }

absl::StatusOr<Task> make_client_task(const std::string& workload, const TaskOptions& options) {
  std::vector<std::string> words = {workload};
  if (!is_program_text(workload)) words = absl::StrSplit(workload, ' ', absl::SkipEmpty());
  return make_task(words, options);
}

}  // namespace lw
