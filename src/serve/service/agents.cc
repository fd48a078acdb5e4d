// Synchronize: most calls say nothing new and find nothing to do; these touch no disk. The others
// become one operation of the group commit, and are answered when it is durable.
//
// A network may say a call twice (a proxy that asks again, a connection that is doubled), and
// either answer may be the one that reaches the agent. So a copy of a session's latest call joins
// it and gets its answer, however early it comes; what is older than the latest call is answered at
// once: results and leases are seen to, no work is given or taken back.
#include "src/serve/service/agents.h"

#include <algorithm>
#include <atomic>

#include "src/net/times.h"
#include "src/serve/core/calls.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

constexpr int64_t kLongestWaitMs = 120'000;
constexpr int64_t kReviewMs = 5000;        // how often an agent's leases are looked at anyway,
constexpr int kReviewsPerLease = 6;        // and twice between two calls that would renew one
constexpr int64_t kIdleNextMs = 1000;
constexpr int64_t kKnownMs = 600'000;      // a silent agent is remembered; far above a wait
constexpr size_t kMostKnown = 20'000;      // agents; of more, only those heard of lately

}  // namespace

// What this daemon remembers of an agent; another daemon may know more, so it only saves work.
struct Agents::Known {
  int64_t heard_ms = 0;                    // when it called last
  std::string session;
  int64_t sequence = 0;
  std::shared_ptr<Sync> latest;            // the call of that number
  int64_t reviewed_ms = 0;
  std::map<std::string, std::string> queues;  // of its open devices, when last asked
  std::map<std::string, Claims> prepared;
};

struct Agents::Sync {
  std::shared_ptr<const v1::SynchronizeRequest> request;  // null: answered
  std::string agent;
  Identity identity;
  SyncCall call;
  SyncAnswer answer;
  std::atomic<int64_t> until_ms = 0;       // at most; 0: it waits no longer
  bool first = true;                       // not resumed: results and leases are still to be seen
                                           // to
  uint64_t version = 0;                    // of the topics, before the queue was looked at
  std::mutex mutex;                        // guards all below
  int64_t ticket = 0;                      // while parked
  std::vector<Done> waiting;               // the call and its copies, until the answer
  int callers = 0;                         // of these, who have not gone
  bool is_answered = false;
  absl::Status status;                     // the answer, for copies that come later
  v1::SynchronizeResponse response;

  // Of its open devices that want work.
  std::set<std::string> wanted_queues() const {
    std::set<std::string> wanted;
    for (const v1::DeviceState& device : request->devices()) {
      const auto queue = answer.queues.find(id_of(device.name()));
      if (device.wanted() > 0 && queue != answer.queues.end()) wanted.insert(queue->second);
    }
    return wanted;
  }
  ParkedCalls::Topics topics() const {
    ParkedCalls::Topics topics = {agent_topic(agent)};
    for (const std::string& queue : wanted_queues()) topics.insert(queue_topic(queue));
    return topics;
  }
};

Agents::Agents(Core& core) : core_(core) {
  shares_.weights = core_.options.config.weights;
  shares_.usual_weight = core_.options.config.default_weight;
}

Agents::Known& Agents::known(const std::string& agent) {
  std::shared_ptr<Known>& known = agents_[agent];
  if (known == nullptr) known = std::make_shared<Known>();
  return *known;
}

// What is known of an agent only saves work: whoever calls again under a forgotten name is new.
void Agents::forget_silent() {
  const int64_t now = core_.now_ms();
  std::lock_guard lock(mutex_);
  for (int64_t keep_ms = kKnownMs; keep_ms > 0; keep_ms /= 2) {
    std::erase_if(agents_, [&](const auto& one) { return one.second->heard_ms + keep_ms < now; });
    if (agents_.size() <= kMostKnown) return;
  }
}

size_t Agents::size() const {
  std::lock_guard lock(mutex_);
  return agents_.size();
}

// The call that waits looks again, and so does the next one if none waits.
void Agents::review(const std::string& agent) {
  {
    std::lock_guard lock(mutex_);
    known(agent).reviewed_ms = 0;
  }
  core_.parked.wake_all(agent_topic(agent));
}

void Agents::note_queued(const std::string& queue) {
  {
    std::lock_guard lock(mutex_);
    maybe_queued_.insert(queue);
  }
  core_.parked.wake_one(queue_topic(queue));
}

std::shared_ptr<void> Agents::synchronize(const Caller& caller,
                                          std::shared_ptr<const v1::SynchronizeRequest> request,
                                          Done done) {
  absl::Status status = may_synchronize(caller.identity, request->agent());
  if (status.ok()) status = check_request(*request);
  if (!status.ok()) {
    done(status, {});
    return nullptr;
  }
  auto sync = std::make_shared<Sync>();
  sync->request = std::move(request);
  sync->agent = sync->request->agent();
  sync->call.request = sync->request.get();
  sync->identity = caller.identity;
  sync->call.peer = caller.peer;
  sync->call.new_devices_wait = core_.options.config.new_devices_wait;
  sync->waiting.push_back(done);
  sync->callers = 1;
  // A session's first call is answered at once: its agent wants to know that it is heard.
  const int64_t wait_ms = sync->request->sequence() <= 1 ? 0 : ms_of(sync->request->wait());
  // A lease runs from its call: of one that is given in the last moment a third has to be left.
  const int64_t longest_ms = std::min(kLongestWaitMs, core_.options.rules.ttl_ms * 2 / 3);
  sync->until_ms = core_.now_ms() + std::clamp<int64_t>(wait_ms, 0, longest_ms);
  std::shared_ptr<Sync> first;             // what this is a copy of
  {
    std::lock_guard lock(mutex_);
    Known& known = this->known(sync->agent);
    if (known.session != sync->request->session()) {
      known = Known();
      known.session = sync->request->session();
    }
    known.heard_ms = core_.now_ms();
    const int64_t sequence = sync->request->sequence();
    if (sequence > 0 && sequence == known.sequence) first = known.latest;
    if (sequence < known.sequence) sync->until_ms = 0;
    if (sequence >= known.sequence && first == nullptr) {
      known.sequence = sequence;
      known.latest = sync;
    }
    sync->call.prepared = known.prepared;
    sync->answer.queues = known.queues;
  }
  if (first != nullptr) return join(first, std::move(done)) ? first : nullptr;
  attempt(sync);
  return sync;
}

// Whether the answer is still to come.
bool Agents::join(const std::shared_ptr<Sync>& sync, Done done) {
  {
    std::lock_guard lock(sync->mutex);
    if (!sync->is_answered) {
      sync->waiting.push_back(std::move(done));
      ++sync->callers;
      return true;
    }
  }
  done(sync->status, sync->response);
  return false;
}

void Agents::abandon(const std::shared_ptr<void>& call) {
  if (call == nullptr) return;
  const auto sync = std::static_pointer_cast<Sync>(call);
  int64_t ticket = 0;
  {
    std::lock_guard lock(sync->mutex);
    if (--sync->callers > 0) return;
    ticket = sync->ticket;
  }
  if (ticket == 0 || !core_.parked.forget(ticket)) return;
  sync->until_ms = 0;
  answered(sync, absl::OkStatus());
}

// Whether the call needs a transaction, as far as is known without one.
bool Agents::needs_write(Sync& sync) {
  const v1::SynchronizeRequest& request = *sync.request;
  std::lock_guard lock(mutex_);
  Known& known = this->known(sync.agent);
  const int64_t review_ms = std::min(kReviewMs, core_.options.rules.ttl_ms / kReviewsPerLease);
  const bool due = known.reviewed_ms + review_ms <= core_.now_ms();
  if (due || (sync.first && (request.results_size() > 0 || request.leaving()))) return true;
  for (const v1::DeviceState& device : request.devices()) {
    if (sync.first && device.has_description()) return true;
  }
  const std::set<std::string> wanted = sync.wanted_queues();
  return std::any_of(wanted.begin(), wanted.end(),
                     [this](const std::string& queue) { return maybe_queued_.contains(queue); });
}

// Asked when its turn in the commit has come: a later call may have overtaken it on the way there,
// or while it was parked.
bool Agents::is_latest(const Sync& sync) {
  std::lock_guard lock(mutex_);
  const Known& known = this->known(sync.agent);
  return known.session == sync.request->session() && sync.request->sequence() >= known.sequence;
}

void Agents::attempt(std::shared_ptr<Sync> sync) {
  if (absl::Status denied = core_.denied.check(sync->identity); !denied.ok()) {
    answered(sync, std::move(denied));
    return;
  }
  sync->version = core_.parked.version(sync->topics());
  sync->answer.held_until_ms = 0;
  if (!needs_write(*sync)) {
    answered(sync, absl::OkStatus());
    return;
  }
  {
    std::lock_guard lock(sync->mutex);
    sync->call.stopping = core_.is_stopping || sync->callers == 0;
    sync->ticket = 0;
  }
  core_.commit.submit(
      [this, sync](WriteTransaction& tx) {
        sync->call.is_latest = is_latest(*sync);
        return lw::synchronize(tx, sync->call, shares_, core_.options.rules, core_.now_ms(),
                               &sync->answer);
      },
      [this, sync](absl::Status status) {
        if (status.ok()) {
          core_.changed(sync->answer.changes);
          std::lock_guard lock(mutex_);
          Known& known = this->known(sync->agent);
          known.reviewed_ms = sync->answer.rests ? 0 : core_.now_ms();
          known.queues = sync->answer.queues;
          for (const JobRow& job : sync->answer.claimed) {
            known.prepared[job.device] = {job.study, job.position, 1};
          }
          // Whoever asked and got less than it wanted has seen the queue's end.
          if (core_.parked.version(sync->topics()) == sync->version) {
            for (const std::string& queue : sync->answer.exhausted) maybe_queued_.erase(queue);
          }
        }
        if (status.ok() && (!sync->answer.claimed.empty() || sync->answer.waits_anew)) {
          for (const std::string& queue : sync->wanted_queues()) {
            core_.parked.wake_one(queue_topic(queue));
          }
        }
        answered(sync, status.ok() ? sync->answer.refusal : write_error(core_, status));
      },
      GroupCommit::Turn::kFirst);
}

// Answers, or parks what has no news.
void Agents::answered(std::shared_ptr<Sync> sync, absl::Status status) {
  v1::SynchronizeResponse& response = sync->answer.response;
  const bool news = response.jobs_size() + response.receipts_size() + response.cancels_size() > 0 ||
                    response.describe();
  const bool wait = status.ok() && !news && core_.now_ms() < sync->until_ms &&
                    !sync->request->leaving();
  if (wait) {
    sync->first = false;
    park(sync, sync->version);
    return;
  }
  if (status.ok()) {
    int64_t next = response.jobs_size() > 0 ? core_.options.rules.ttl_ms / 3 : kIdleNextMs;
    const int64_t held_ms = sync->answer.held_until_ms;
    if (held_ms > 0) next = std::clamp<int64_t>(held_ms - core_.now_ms(), 1, next);
    *response.mutable_next() = duration_of_ms(next);
    response.set_drain(core_.is_stopping);
  }
  if (!status.ok()) {                      // a copy of it tries again
    std::lock_guard lock(mutex_);
    Known& known = this->known(sync->agent);
    if (known.latest == sync) known.latest = nullptr;
  }
  std::vector<Done> waiting;
  {
    std::lock_guard lock(sync->mutex);
    waiting.swap(sync->waiting);
    sync->is_answered = true;
    sync->status = std::move(status);
    sync->response = std::move(response);
  }
  // What copies do not need is large.
  sync->request = nullptr;
  sync->call = SyncCall();
  sync->answer = SyncAnswer();
  for (Done& done : waiting) done(sync->status, sync->response);
}

void Agents::park(std::shared_ptr<Sync> sync, uint64_t version) {
  const int64_t held_ms = sync->answer.held_until_ms;
  const int64_t look_ms = held_ms > 0 ? held_ms : ParkedCalls::kNever;
  const int64_t ticket = core_.parked.park(sync->agent, sync->topics(), version, sync->until_ms,
                                           [this, sync](ParkedCalls::Why why) {
                                             if (why == ParkedCalls::Why::kNews) {
                                               attempt(sync);
                                             } else {
                                               sync->until_ms = 0;
                                               answered(sync, absl::OkStatus());
                                             }
                                           },
                                           look_ms);
  if (look_ms != ParkedCalls::kNever && ticket != 0) {
    core_.bell.ring();                     // the house may sleep for longer
  }
  bool gone = false;
  {
    std::lock_guard lock(sync->mutex);
    // Resumed by now, the call may have parked again elsewhere: tickets ascend, the last one
    // counts.
    sync->ticket = std::max(sync->ticket, ticket);
    gone = sync->callers == 0;
  }
  if (gone && ticket != 0 && core_.parked.forget(ticket)) {
    sync->until_ms = 0;
    answered(sync, absl::OkStatus());
  }
}

}  // namespace lw
