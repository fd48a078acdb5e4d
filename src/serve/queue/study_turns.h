// Which of a client's studies a device works for next.
//
// Start-time fair queueing in seconds of the device: a study is charged for what devices have done for
// it; the one that was charged least goes first, and who is new begins where the one furthest behind
// stands, so that being away saves up nothing. What a study takes counts more, up to ten times, the
// longer its candidates take beside the others': cheap ones first lets most studies end soonest, and
// keeps none from ending that has to wait for the others' anyhow. So equals share equally, and one
// whose candidates are expensive costs the others about a tenth of their time.
//
// A study has no job for moments only: while its search thinks. It keeps its place then (claims.h).
//
// Not thread-safe. In memory: after a restart all begin anew as equals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lw {

class StudyTurns {
 public:
  struct Contender {
    std::string study;
    double busy_s = 0;                     // of devices, for it, so far; never falls
    double candidate_s = 0;                // of it for one candidate; 0: not known yet
    bool is_awaited = false;               // has no job now
  };

  // The places of those who have jobs in a `queue` (a client's for a target) or are about to, in the
  // order in which they are to be asked for one; equals by place. `prepared`: the study that the device
  // is ready for goes on a little longer, since another costs it time; so does who is not known yet.
  std::vector<size_t> order(const std::string& queue, const std::vector<Contender>& contenders,
                            const std::string& prepared, int64_t now_ms);

  // Whether what a candidate of `one` costs is out of proportion to one of the `awaited`.
  static bool is_dear(const Contender& one, const Contender& awaited);
  // What the study took without a job.
  void charge(const std::string& queue, const std::string& study, double seconds);

 private:
  struct Turn {
    double charged_s = 0, busy_s = 0;      // for so much of it
    int64_t seen_ms = 0;
    bool is_away = false;
  };
  struct Queue {
    double now_s = 0;                      // what the one furthest behind was charged
    std::map<std::string, Turn> turns;     // by study
  };
  std::map<std::string, Queue> queues_;
};

}  // namespace lw
