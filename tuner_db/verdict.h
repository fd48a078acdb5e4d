// How a measurement ended, as one table. A new class is a line of the enum and of the table, and a
// value of Verdict in proto/loopwright/v1/record.proto: whose fault it is does not follow from its
// number. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace lw {

enum class Verdict : uint8_t {             // the numbers are sent: those of v1::Verdict
  kOk = 1,
  kBuildError = 2,
  kCrash = 3,
  kTimeout = 4,
  kWrongResult = 5,
  kDeviceLimit = 6,
  kWorkerLost = 7,
  kDeviceUnhealthy = 8,
  kThrottled = 9,
};

enum class Blame : uint8_t { kNobody, kCandidate, kDevice };

struct VerdictRow {
  Verdict verdict;
  std::string_view name;                   // stored
  Blame blame;                             // of one measurement; the candidate's is charged to it
  bool is_retried;                         // it tells nothing of the candidate: the same one is
                                           // measured again, and this is neither stored nor
                                           // learned from
};

inline constexpr VerdictRow kVerdicts[] = {
    {Verdict::kOk, "ok", Blame::kNobody, false},
    {Verdict::kBuildError, "build_error", Blame::kCandidate, false},
    {Verdict::kCrash, "crash", Blame::kCandidate, false},
    {Verdict::kTimeout, "timeout", Blame::kCandidate, false},
    {Verdict::kWrongResult, "wrong_result", Blame::kCandidate, false},
    {Verdict::kDeviceLimit, "device_limit", Blame::kCandidate, false},
    {Verdict::kWorkerLost, "worker_lost", Blame::kDevice, true},
    {Verdict::kDeviceUnhealthy, "device_unhealthy", Blame::kDevice, true},
    {Verdict::kThrottled, "throttled", Blame::kNobody, true},
};

std::string_view verdict_name(Verdict verdict);
bool parse_verdict(std::string_view name, Verdict* verdict);
bool parse_verdict(int64_t number, Verdict* verdict);
inline int64_t field_number(Verdict verdict) { return static_cast<int64_t>(verdict); }
inline bool parse_field_number(int64_t number, Verdict* verdict) {
  return parse_verdict(number, verdict);
}
Blame blame_of(Verdict verdict);
inline bool is_candidates_fault(Verdict verdict) { return blame_of(verdict) == Blame::kCandidate; }
bool is_retried(Verdict verdict);

}  // namespace lw
