#include "src/serve/polls.h"

#include <chrono>

namespace lw {

int64_t ParkedCalls::park(const std::string& agent, const std::set<std::string>& targets,
                          int64_t until_ms, Resume resume) {
  std::vector<Resume> replaced;
  int64_t ticket = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto it = calls_.begin(); it != calls_.end();) {
      if (it->agent == agent) {
        replaced.push_back(std::move(it->resume));
        it = calls_.erase(it);
      } else {
        ++it;
      }
    }
    ticket = ++ticket_;
    calls_.push_back({ticket, agent, targets, until_ms, std::move(resume)});
  }
  for (Resume& other : replaced) other(Why::kReplaced);
  return ticket;
}

void ParkedCalls::forget(int64_t ticket) {
  std::lock_guard lock(mutex_);
  calls_.remove_if([&](const Call& call) { return call.ticket == ticket; });
}

void ParkedCalls::news(const std::string& target) {
  Resume resume;
  {
    std::lock_guard lock(mutex_);
    for (auto it = calls_.begin(); it != calls_.end(); ++it) {
      if (!it->targets.contains(target)) continue;
      resume = std::move(it->resume);
      calls_.erase(it);
      break;
    }
  }
  if (resume) resume(Why::kWork);
}

void ParkedCalls::expire(int64_t now_ms) {
  std::vector<Resume> over;
  {
    std::lock_guard lock(mutex_);
    for (auto it = calls_.begin(); it != calls_.end();) {
      if (it->until_ms <= now_ms) {
        over.push_back(std::move(it->resume));
        it = calls_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (Resume& resume : over) resume(Why::kTimeout);
}

void ParkedCalls::resume_all() { expire(INT64_MAX); }

size_t ParkedCalls::size() const {
  std::lock_guard lock(mutex_);
  return calls_.size();
}

void Bulletin::announce(const std::set<std::string>& studies) {
  if (studies.empty()) return;
  {
    std::lock_guard lock(mutex_);
    for (const std::string& study : studies) ++counts_[study];
  }
  changed_.notify_all();
}

uint64_t Bulletin::count(const std::string& study) const {
  std::lock_guard lock(mutex_);
  const auto found = counts_.find(study);
  return found == counts_.end() ? 0 : found->second;
}

uint64_t Bulletin::wait(const std::string& study, uint64_t seen, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [&] { return closed_ || counts_[study] != seen; });
  return counts_[study];
}

void Bulletin::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace lw
