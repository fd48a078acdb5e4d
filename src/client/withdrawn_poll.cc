#include "src/client/withdrawn_poll.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace lw {
namespace {

using std::chrono::milliseconds;
constexpr int kCallMs = 5000;              // a list of many thousands over a slow line
constexpr int kLeastMs = 10;               // between two questions

}  // namespace

struct WithdrawnPoll::State {
  std::shared_ptr<ScheduleSource> source;
  std::shared_ptr<WithdrawnCache> cache;
  int every_ms = 0;
  std::function<int64_t()> unix_ms;
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false, ended = false;

  // How long the last answer, of whichever process, is good for. After a failure it is long over.
  int64_t left_ms() const {
    const int64_t age_ms = unix_ms() - cache->asked_ms();
    return age_ms < 0 ? 0 : every_ms - age_ms;  // a clock that was set back keeps nothing
  }

  void run() {
    std::unique_lock lock(mutex);
    int64_t pause_ms = left_ms();
    while (!changed.wait_for(lock, milliseconds(std::max<int64_t>(0, pause_ms)),
                             [this] { return stop; })) {
      lock.unlock();
      pause_ms = left_ms();
      if (pause_ms <= 0) {
        absl::StatusOr<std::optional<WithdrawnSaid>> said =
            source->poll_withdrawn(cache->known()->etag, kCallMs);
        if (said.ok()) cache->put(*std::move(said), unix_ms());
        pause_ms = every_ms;
      }
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }
};

WithdrawnPoll::WithdrawnPoll(std::shared_ptr<ScheduleSource> source,
                             std::shared_ptr<WithdrawnCache> cache, int every_ms, int patience_ms,
                             std::function<int64_t()> unix_ms)
    : patience_ms_(patience_ms), state_(std::make_shared<State>()) {
  state_->source = std::move(source);
  state_->cache = std::move(cache);
  state_->every_ms = std::max(every_ms, kLeastMs);
  state_->unix_ms = std::move(unix_ms);
  // Detached: a call that hangs must not keep a compiler from ending.
  std::thread([shared = state_] { shared->run(); }).detach();
}

WithdrawnPoll::~WithdrawnPoll() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, milliseconds(patience_ms_), [this] { return state_->ended; });
}

}  // namespace lw
