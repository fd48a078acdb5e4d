// `db clock`: see db/clock.cc.
#pragma once

#include "absl/status/statusor.h"
#include "src/cli/common.h"

namespace lw {

struct ClockOptions {
  bool reset = false, force = false;
};

absl::StatusOr<int> db_clock(const DatabaseFlags& database, const ClockOptions& options,
                             const Output& output);

}  // namespace lw
