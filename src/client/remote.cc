#include "src/client/remote.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/client/source.h"

namespace lw {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr size_t kWaiting = 16;  // calls; more are dropped
constexpr int kMostPauses = 64;
constexpr int kLateFor = 20;     // deadlines: how late an answer may be and still reach the cache

}  // namespace

struct Remote::State {
  struct Call {
    std::vector<LookupRequest> queries;
    Clock::time_point asked;
    bool done = false, late = false;
    absl::StatusOr<Replies> replies = absl::UnavailableError("not called");
  };

  State(std::shared_ptr<ScheduleSource> s, RemoteOptions o, Arrived a)
      : source(std::move(s)), options(o), arrived(std::move(a)) {}

  std::shared_ptr<ScheduleSource> source;
  RemoteOptions options;
  Arrived arrived;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Call>> calls;  // waiting, and first the one in progress
  bool running = false, stop = false, ended = false;
  int failed = 0, pauses = 1;
  Clock::time_point next_try{};
  RemoteStats stats;

  bool is_open() const { return failed >= options.failures; }

  // REQUIRES: mutex held.
  void settle(bool good) {
    if (good) {
      failed = 0;
      pauses = 1;
      return;
    }
    ++stats.failures;
    if (++failed < options.failures) return;
    next_try = Clock::now() + milliseconds(int64_t{options.pause_ms} * pauses);
    pauses = std::min(2 * pauses, kMostPauses);
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stop || !calls.empty(); });
      if (stop) break;
      const std::shared_ptr<Call> call = calls.front();
      ++stats.calls;
      lock.unlock();
      absl::StatusOr<Replies> replies =
          source->batch_lookup(call->queries, kLateFor * options.deadline_ms);
      if (replies.ok() && replies->size() != call->queries.size()) {
        replies = absl::UnavailableError("the server answered another number of queries");
      }
      // Stored first: who is woken may ask the cache.
      if (replies.ok()) arrived(call->queries, *replies);
      lock.lock();
      const bool slow = Clock::now() - call->asked > milliseconds(options.deadline_ms);
      if (!call->late) settle(replies.ok() && !slow);
      call->replies = std::move(replies);
      call->done = true;
      calls.pop_front();
      changed.notify_all();
    }
    ended = true;
    changed.notify_all();
  }
};

Remote::Remote(std::shared_ptr<ScheduleSource> source, RemoteOptions options, Arrived arrived)
    : state_(std::make_shared<State>(std::move(source), options, std::move(arrived))) {}

Remote::~Remote() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  if (state_->running) {
    state_->changed.wait_for(lock, milliseconds(state_->options.deadline_ms),
                             [this] { return state_->ended; });
  }
}

absl::StatusOr<Replies> Remote::ask(std::vector<LookupRequest> queries) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const Clock::time_point now = Clock::now();
  const bool open = state.is_open();
  if (open && (now < state.next_try || !state.calls.empty())) {
    ++state.stats.skipped;
    return absl::UnavailableError("the server is not asked: it failed just now");
  }
  if (state.calls.size() >= kWaiting) return absl::UnavailableError("too many calls wait");
  if (!state.running) {
    // Detached: a call that hangs must not keep a compiler from ending.
    state.running = true;
    std::thread([shared = state_] { shared->run(); }).detach();
  }
  auto call = std::make_shared<State::Call>();
  call->queries = std::move(queries);
  call->asked = now;
  state.calls.push_back(call);
  state.changed.notify_all();
  if (open) {
    ++state.stats.skipped;
    return absl::UnavailableError("the server is tried in the background: it failed just now");
  }
  if (!state.changed.wait_until(lock, now + milliseconds(state.options.deadline_ms),
                                [&] { return call->done; })) {
    call->late = true;
    ++state.stats.late;
    state.settle(false);
    return absl::DeadlineExceededError(
        concat("no answer within ", state.options.deadline_ms, " ms"));
  }
  return call->replies;
}

RemoteStats Remote::stats() const {
  const std::lock_guard guard(state_->mutex);
  RemoteStats stats = state_->stats;
  stats.open = state_->is_open();
  return stats;
}

}  // namespace lw
