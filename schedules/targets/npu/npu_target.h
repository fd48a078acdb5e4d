// What a target says of a simulated NPU: the simulator's whole configuration (src/npu/config.h),
// which is the part of the family `npu` (family.cc), read by the code of that family alone
// (tests/base/families_test.cc). Thread-safe.
#pragma once

#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/npu/config.h"

namespace lw {

extern const TargetFamily kNpuFamily;

// REQUIRES: target is of the family. The reference is good until the target is changed.
inline const npu::Config& npu_config(const Target& target) {
  CHECK(target.part.family() == &kNpuFamily);
  return *static_cast<const npu::Config*>(target.part.value());
}

// The target that has the configuration: "npu_" and its name. What all targets say follows from it.
Target npu_target(npu::Config config);

}  // namespace lw
