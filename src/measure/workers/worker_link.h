// The parent's end of one worker: asks, waits, and knows what it means when no answer comes.
#pragma once

#include <string>
#include <string_view>

#include "src/measure/process/zygote.h"
#include "src/measure/workers/workbench.h"
#include "tuner_db/store.h"

namespace lw {

// What came of a request. Not ok: the verdict on whoever's kernel it was, with the reason.
struct Answer {
  bool ok = false;
  Verdict verdict = Verdict::kWorkerLost;
  std::string detail;
  std::string payload;
};

// Thread-compatible; links of one zygote may be used from different threads.
class WorkerLink {
 public:
  // `zygote` and `bench` outlive the link.
  // `role`: a WorkerRole (kBuilder + i).
  WorkerLink(Zygote* zygote, const Workbench* bench, int role)
      : zygote_(zygote), bench_(bench), role_(role) {}
  ~WorkerLink() { stop(); }
  WorkerLink(const WorkerLink&) = delete;

  // Starts the worker if there is none. A worker that dies or does not answer within `timeout_s` is
  // buried; the next request starts another. `doing` names the work in messages.
  Answer ask(MessageType type, std::string_view payload, double timeout_s, std::string_view doing);
  // A worker that answers to nothing that was asked is buried too: kDeviceUnhealthy.
  void stop();
  pid_t pid() const { return child_.pid; }  // -1: not started
  // Between two candidates: a worker that has worked long enough is replaced.
  void renew();

 private:
  Answer refused(std::string_view payload) const;
  Answer died(std::string_view doing);
  Answer out_of_turn(std::string_view doing);
  ControlPage* page() const;

  Zygote* zygote_;
  const Workbench* bench_;
  int role_;
  Child child_;
  uint64_t tag_ = 0;    // of the last request
  double worked_s_ = 0;  // by this worker
};

}  // namespace lw
