// The parent's end of one worker: asks, waits, and knows what it means when no answer comes.
#pragma once

#include <string>
#include <string_view>

#include "src/measure/workbench.h"
#include "src/measure/zygote.h"
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
  WorkerLink(Zygote* zygote, const Workbench* bench, WorkerRole role)
      : zygote_(zygote), bench_(bench), role_(role) {}
  ~WorkerLink() { stop(); }
  WorkerLink(const WorkerLink&) = delete;

  // Starts the worker if there is none. A worker that dies or does not answer within `timeout_s` is
  // buried; the next request starts another. `doing` names the work in messages.
  Answer ask(MessageType type, std::string_view payload, double timeout_s, std::string_view doing);
  void stop();

 private:
  Answer refused(std::string_view payload) const;
  Answer died(std::string_view doing);

  Zygote* zygote_;
  const Workbench* bench_;
  WorkerRole role_;
  Child child_;
};

}  // namespace lw
