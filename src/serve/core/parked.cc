#include "src/serve/core/parked.h"

#include <algorithm>
#include <vector>

#include "src/base/hash.h"

namespace lw {

uint64_t ParkedCalls::version_locked(const Topics& topics) const {
  uint64_t sum = 0;
  for (const std::string& topic : topics) sum += versions_[hash64(topic) % versions_.size()];
  return sum;
}

uint64_t ParkedCalls::version(const Topics& topics) const {
  std::lock_guard lock(mutex_);
  return version_locked(topics);
}

void ParkedCalls::bump(const std::string& topic) {
  ++versions_[hash64(topic) % versions_.size()];
}

int64_t ParkedCalls::park(const std::string& name, Topics topics, uint64_t version,
                          int64_t until_ms, Resume resume, int64_t look_ms) {
  std::vector<Resume> replaced;
  int64_t ticket = 0;
  Why at_once = Why::kNews;
  {
    std::lock_guard lock(mutex_);
    for (auto it = calls_.begin(); !name.empty() && it != calls_.end();) {
      if (it->name == name) {
        replaced.push_back(std::move(it->resume));
        it = calls_.erase(it);
      } else {
        ++it;
      }
    }
    if (closed_) {
      at_once = Why::kTimeout;
    } else if (version_locked(topics) == version) {
      ticket = ++ticket_;
      calls_.push_back({ticket, name, std::move(topics), until_ms, look_ms, std::move(resume)});
    }
  }
  for (Resume& other : replaced) other(Why::kReplaced);
  if (ticket == 0) resume(at_once);
  return ticket;
}

bool ParkedCalls::forget(int64_t ticket) {
  std::lock_guard lock(mutex_);
  return calls_.remove_if([&](const Call& call) { return call.ticket == ticket; }) > 0;
}

template <class Wanted>
void ParkedCalls::resume_if(Why why, bool one, Wanted wanted) {
  std::vector<Resume> resumed;
  {
    std::lock_guard lock(mutex_);
    for (auto it = calls_.begin(); it != calls_.end() && !(one && !resumed.empty());) {
      if (wanted(*it)) {
        resumed.push_back(std::move(it->resume));
        it = calls_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (Resume& resume : resumed) resume(why);
}

void ParkedCalls::wake_one(const std::string& topic) {
  {
    std::lock_guard lock(mutex_);
    bump(topic);
  }
  resume_if(Why::kNews, true, [&](const Call& call) { return call.topics.contains(topic); });
}

void ParkedCalls::wake_all(const std::string& topic) {
  {
    std::lock_guard lock(mutex_);
    bump(topic);
  }
  resume_if(Why::kNews, false, [&](const Call& call) { return call.topics.contains(topic); });
}

void ParkedCalls::wake_prefix(const std::string& prefix) {
  resume_if(Why::kNews, false, [&](const Call& call) {
    const auto first = call.topics.lower_bound(prefix);
    return first != call.topics.end() && first->compare(0, prefix.size(), prefix) == 0;
  });
}

void ParkedCalls::expire(int64_t now_ms) {
  resume_if(Why::kTimeout, false, [&](const Call& call) { return call.until_ms <= now_ms; });
  resume_if(Why::kNews, false, [&](const Call& call) { return call.look_ms <= now_ms; });
}

int64_t ParkedCalls::first_look_ms() const {
  std::lock_guard lock(mutex_);
  int64_t first_ms = kNever;
  for (const Call& call : calls_) first_ms = std::min(first_ms, call.look_ms);
  return first_ms;
}

void ParkedCalls::resume_all() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  resume_if(Why::kTimeout, false, [](const Call&) { return true; });
}

size_t ParkedCalls::size() const {
  std::lock_guard lock(mutex_);
  return calls_.size();
}

}  // namespace lw
