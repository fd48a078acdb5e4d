// The only way in which the search sees building and measuring. Implementations: the local
// processes (src/measure/local.cc), an emulator (src/measure/emulated.cc), the null measurer
// (deterministic analytic time, src/search/null_measurer.cc), later remote agents.
// Thread-compatible: one caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner_db/store.h"

namespace lw {

struct Kernel;

// A candidate, ready to be built: its kernel is already lowered (and deduplicated by hash).
struct Candidate {
  int64_t ticket = 0;                      // chosen by the caller, unique while in flight
  std::shared_ptr<const Kernel> kernel;
  // Racing: a candidate whose first samples are hopelessly behind this is stopped early (0: never).
  double incumbent_us = 0;
  bool race = true;                        // false: measured in full, however far behind
  bool verify = false;                     // run both oracles whatever its time; otherwise verified
                                           // only when it beats incumbent_us
  int effort = 1;                          // 1: racing samples; 2: finalist (more samples)
  double draft_us = 0;                     // the cost model's analytic estimate (0: none), for
                                           // Measurers that can run a kernel but not time it
};

struct Outcome {
  int64_t ticket = 0;
  Verdict verdict = Verdict::kOk;
  std::string detail;
  std::vector<double> samples_us;
  int64_t inner = 1;
  double time_us = 0, ci_low_us = 0, ci_high_us = 0;
  bool verified = false;
  double max_rel_error = 0;                // largest |error| / admissible one, of this element:
  double worst_error = 0, worst_expected = 0;
  std::string worst_element;               // "D[3, 4]"; "": all are equal
  double build_s = 0, measure_s = 0;
  TimeKind time_kind = TimeKind::kMeasured;  // Measurer::time_kind()
  std::string environment;                 // JSON facts that held during this measurement
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  // Takes candidates; returns at once. Outcomes come in any order, each exactly once.
  virtual void submit(std::vector<Candidate> batch) = 0;
  // Waits up to `timeout_s` for at least one outcome; returns what is there (maybe nothing).
  virtual std::vector<Outcome> poll(double timeout_s) = 0;
  // Drops what has not started; their outcomes never come. Running ones finish.
  virtual void cancel() = 0;
  // Measures these interleaved with each other, round by round (finalists, A/B): outcome i for
  // candidate i, samples taken in turn. Blocking.
  virtual std::vector<Outcome> interleave(std::vector<Candidate> batch, int rounds) = 0;
  // Of every time that it gives.
  virtual TimeKind time_kind() const { return TimeKind::kMeasured; }
  // Measuring takes every processor: what the caller computes while candidates are in flight
  // disturbs their times.
  virtual bool wants_quiet() const { return false; }
};

}  // namespace lw
