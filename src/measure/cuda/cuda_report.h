// What `doctor` says of an NVIDIA GPU.
#pragma once

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/measure/run/driven.h"

namespace lw {

// What its driver, the driver's management library and the assembler say; nothing is measured. Errors
// as cuda_device_of. REQUIRES: a target of the family.
absl::StatusOr<DrivenReport> report_cuda(const Target& target);

}  // namespace lw
