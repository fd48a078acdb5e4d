// Machines by name, those that drivers of this one have too. Thread-safe.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"

namespace lw {

// As find_target(), and "opencl:0", "opencl:NAME", "cuda:0". Defined by lw_measure, or by lw_embedded
// for who links no drivers: those names are then kUnimplemented.
absl::StatusOr<Target> named_machine(std::string_view name);

}  // namespace lw
