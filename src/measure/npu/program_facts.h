// What is known of a program for an NPU whoever runs it. Pure.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "src/build/build.h"

namespace lw {

struct NpuProgramFacts {
  double clock_mhz = 0;
  // No machine of the configuration takes fewer: its multipliers and its DRAM, each at its peak.
  double least_cycles = 0;
  std::string_view set_by;                 // "mac", "dma"
};
// kInvalidArgument: the artifact is no module.
absl::StatusOr<NpuProgramFacts> npu_program_facts(const Artifact& artifact);

}  // namespace lw
