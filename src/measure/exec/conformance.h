// What docs/exec.md asks of an exec device, tried on one: `loopwright device check`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

struct Target;

enum class CheckEnd { kPassed, kFailed, kSkipped };

struct DeviceCheck {
  std::string name;                        // "times"
  std::string asks;                        // what it asks for, in a few words
  CheckEnd end = CheckEnd::kPassed;
  std::string detail;                      // what was seen
};

// All of them, in order, each with a process of its own where what one leaves could reach the next;
// the rest are skipped where it does not even greet. `limit_s`: how long an answer may take.
// kInvalidArgument: nothing can be built for the target.
absl::StatusOr<std::vector<DeviceCheck>> check_exec_device(const std::string& command,
                                                           const Target& target, double limit_s);

}  // namespace lw
