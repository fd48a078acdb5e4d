// Whether a device may take work, as far as no operator and no failure has closed it: its agent is
// admitted with its target, and its program knows what this one's jobs are written in.
//
// Admission is of an agent with a target, since a target decides whose programs a device gets and
// which keys it measures for. Where new devices wait (`serve --config`, "admission": "pending"), a
// pair that no admin has admitted is `pending`; what was open when that was configured stays so.
#pragma once

#include <string_view>

#include "src/serve/rows/rows.h"

namespace lw {

// The admission and its reason, from now on: pending and unsupported devices open by themselves
// when what they waited for has come. `is_another`: new, or of another agent or target than it was.
// The row itself is not written.
absl::Status review_admission(Transaction& tx, bool new_devices_wait, bool is_another,
                              DeviceRow* device);

// An admin lets the agent in with this target, for good.
absl::Status admit(WriteTransaction& tx, std::string_view agent, std::string_view target,
                   int64_t now_ms);

}  // namespace lw
