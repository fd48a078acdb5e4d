// A process that a driver may crash, keep for ever or fill.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lw {

// Runs `work` in a process of its own, which is gone when this returns, with all that the driver
// has started; what it says there is given to `take` here, also where it does not come to its end.
// Errors are those of `work`, but for kDeadlineExceeded: it took longer than `limit_s`;
// kUnavailable: its process has ended, the message says how; kResourceExhausted: there is none to
// be had.
using Say = std::function<void(std::string_view)>;
absl::Status in_driver_process(double limit_s, const std::function<absl::Status(const Say&)>& work,
                               const Say& take);

}  // namespace lw
