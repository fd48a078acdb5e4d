// Agents that wait for work, and everybody that waits for news of a study.
//
// A call that found nothing to do is parked until a job is queued for one of its devices' targets,
// its time is over, or it is gone. Of those that wait for a target one is woken for each news; when
// it did get work it passes the news on, so that a thousand waiting agents do not all run for one
// job. Thread-safe; callbacks run without a lock held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace lw {

class ParkedCalls {
 public:
  enum class Why { kWork, kTimeout, kReplaced };
  using Resume = std::function<void(Why)>;

  // One call of an agent waits at a time: an earlier one is resumed with kReplaced. Returns a ticket.
  int64_t park(const std::string& agent, const std::set<std::string>& targets, int64_t until_ms,
               Resume resume);
  void forget(int64_t ticket);             // the call is gone; its Resume will not run (unless it does)
  // A job for the target was queued, or one that woke for it passes the news on.
  void news(const std::string& target);
  void expire(int64_t now_ms);
  void resume_all();                       // the daemon stops
  size_t size() const;

 private:
  struct Call {
    int64_t ticket;
    std::string agent;
    std::set<std::string> targets;
    int64_t until_ms;
    Resume resume;
  };
  mutable std::mutex mutex_;
  std::list<Call> calls_;                  // in order of arrival
  int64_t ticket_ = 0;
};

// What changed lately, by study: a count that only grows.
class Bulletin {
 public:
  void announce(const std::set<std::string>& studies);
  // Waits until the study's count is not `seen`, or the time is over; the count then.
  uint64_t wait(const std::string& study, uint64_t seen, int64_t timeout_ms);
  uint64_t count(const std::string& study) const;
  void close();                            // nobody waits any more

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, uint64_t> counts_;
  bool closed_ = false;
};

}  // namespace lw
