// Threads that compute in turns, so that who needs much holds nobody up who needs little.
//
// There are few seats. Of those who wait for one, the client that has used least goes first, and of
// a client's the party that has; who holds a seat gives it up, in the middle of its work, when
// somebody waits who has used clearly less. Being away saves up no more than a little, and who is
// new counts as the least of those who are there.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace lw {

// Thread-safe; a party is used by one thread at a time.
class Turns {
 public:
  struct Party;

  // `now_us`: a clock that never falls; empty: the system's.
  explicit Turns(int seats, std::function<int64_t()> now_us = nullptr);

  // Outlived by the Turns.
  std::shared_ptr<Party> join(const std::string& client);
  // Waits for a seat.
  void enter(Party& party);
  // REQUIRES (both): it has a seat. pause() lets others go first, perhaps for long, and returns how
  // long it has computed since it entered.
  int64_t pause(Party& party);             // microseconds
  void leave(Party& party);
  // From now on nobody waits.
  void close();

 private:
  struct Client {
    int64_t used_us = 0;
    int present = 0;                       // parties that have entered
  };
  void charge(Party& party);
  void sit_down(std::unique_lock<std::mutex>& lock, Party& party);
  Party* next() const;
  static bool goes_before(const Party& a, const Party& b, int64_t by_us);

  const int seats_;
  const std::function<int64_t()> now_us_;
  std::mutex mutex_;                       // guards all below, and what parties and clients hold
  std::condition_variable changed_;
  bool closed_ = false;
  int taken_ = 0;
  std::map<std::string, std::weak_ptr<Client>> clients_;
  std::set<Party*> present_;
};

}  // namespace lw
