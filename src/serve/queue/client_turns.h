// Which client a device works for next.
//
// Start-time fair queueing (Goyal, Vin and Cheng 1996) of each queue's devices, in their seconds divided
// by the client's weight: a client's job begins where its last one ended, but no earlier than where the
// job began that was given out last, so that being away saves nothing up; whose next job would begin
// first is next. A job ends where it is expected to when it is given out, and where it really did once
// its result is there: several devices may ask meanwhile.
//
// Not thread-safe. In memory: after a restart all begin anew as equals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace lw {

class ClientTurns {
 public:
  // Where the client's next job would begin, in weighted seconds of the queue's devices.
  double begin(const std::string& queue, const std::string& client) const;
  // It is given out as this epoch of a job, and expected to take so many seconds, each of which counts
  // `cost`. Once, however often it is said (transactions may run again).
  void give(const std::string& queue, const std::string& client, std::pair<int64_t, int64_t> job,
            double seconds, double cost, int64_t now_ms);
  // It took so long, it is said; no longer than since it was given out. Nothing, for a job that was not
  // given out here, or has ended.
  void settle(std::pair<int64_t, int64_t> job, double seconds, int64_t now_ms);
  // What the client took without a job of its own.
  void charge(const std::string& queue, const std::string& client, double weighted_s);

 private:
  struct Turn {
    double end = 0;                        // of its last job
    int64_t seen_ms = 0;
  };
  struct Queue {
    double now = 0;                        // where the job began that was given out last
    std::map<std::string, Turn> clients;
  };
  struct Given {
    std::string queue, client;
    double seconds = 0, cost = 1;
    int64_t given_ms = 0;
  };
  std::map<std::string, Queue> queues_;
  std::map<std::pair<int64_t, int64_t>, Given> given_;  // by job and epoch
  int64_t forgot_ms_ = 0;                  // when it was last looked for what is over
};

}  // namespace lw
