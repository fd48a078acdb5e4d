// What both kinds of exec devices are checked by: checks in order, each of which passes, fails or does
// not apply.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/measure/exec/conformance.h"

namespace lw {

class DeviceChecks {
 protected:
  static constexpr double kQuiet = 0.2;    // seconds in which nothing unasked may come

  // `body`: OK: it passed, having seen `seen_`. kCancelled: it does not apply, and why. Where the first
  // fails, which asks for a greeting, the rest are skipped.
  template <class Body>
  void add(const char* name, const char* asks, const Body& body) {
    DeviceCheck one{name, asks, CheckEnd::kSkipped, "it does not greet"};
    if (checks_.empty() || checks_.front().end == CheckEnd::kPassed) {
      seen_.clear();
      const absl::Status status = body();
      one.end = status.ok()                 ? CheckEnd::kPassed
                : absl::IsCancelled(status) ? CheckEnd::kSkipped
                                            : CheckEnd::kFailed;
      one.detail = status.ok() ? seen_ : std::string(status.message());
    }
    checks_.push_back(std::move(one));
  }
  static absl::Status wrong(std::string what) { return absl::UnknownError(std::move(what)); }
  std::vector<DeviceCheck> take() { return std::move(checks_); }

  std::string seen_;

 private:
  std::vector<DeviceCheck> checks_;
};

// Of a processor's lw_runner; as check_exec_device.
absl::StatusOr<std::vector<DeviceCheck>> check_board(const std::string& command,
                                                     const Target& target, double limit_s);

}  // namespace lw
