// Calls that wait for something to happen: agents for work, clients for news of a study.
//
// A call is parked on topics ("target X", "study Y", "agent Z") until there is news of one, its
// time is over, or it is gone. News cannot fall between looking and parking: version() is read
// before looking, and parking with a version that is not the present one resumes at once. Of those
// that wait for work one is woken for each news; one that did get work passes the news on, so that
// a thousand waiting agents do not all run for one job. Thread-safe; callbacks run without a lock
// held, on whoever brings the news.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <set>
#include <string>

namespace lw {

class ParkedCalls {
 public:
  enum class Why { kNews, kTimeout, kReplaced };
  using Resume = std::function<void(Why)>;
  using Topics = std::set<std::string>;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // A number that changes with each news of any of the topics (and now and then without).
  uint64_t version(const Topics& topics) const;
  // `name`: of a caller that waits once at a time (an earlier call of it is resumed with
  // kReplaced); "": of none. Returns a ticket, 0 when the call was resumed at once.
  // At `look_ms` the time itself is news to it.
  int64_t park(const std::string& name, Topics topics, uint64_t version, int64_t until_ms,
               Resume resume, int64_t look_ms = kNever);
  // The call is gone. False: it is being resumed, or was.
  bool forget(int64_t ticket);
  void wake_one(const std::string& topic);
  void wake_all(const std::string& topic);
  void wake_prefix(const std::string& prefix);  // all topics that begin so
  void expire(int64_t now_ms);
  int64_t first_look_ms() const;
  void resume_all();                       // the daemon stops: nobody parks any more
  size_t size() const;

 private:
  struct Call {
    int64_t ticket;
    std::string name;
    Topics topics;
    int64_t until_ms, look_ms;
    Resume resume;
  };
  uint64_t version_locked(const Topics& topics) const;
  void bump(const std::string& topic);
  template <class Wanted>
  void resume_if(Why why, bool one, Wanted wanted);

  mutable std::mutex mutex_;
  std::list<Call> calls_;                  // in order of arrival
  std::array<uint64_t, 1024> versions_{};  // by a topic's hash
  int64_t ticket_ = 0;
  bool closed_ = false;
};

inline std::string agent_topic(const std::string& agent) { return "agent " + agent; }
inline std::string queue_topic(const std::string& queue) { return "queue " + queue; }
inline std::string study_topic(const std::string& study) { return "study " + study; }

}  // namespace lw
