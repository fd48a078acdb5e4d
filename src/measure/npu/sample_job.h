// A short program for a machine of the family, with inputs and what it computes of them: to try
// devices out with. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/build/build.h"

namespace lw {

struct Target;

struct NpuSampleJob {
  Artifact artifact;                       // of input A, input B, output D, one after the other
  int64_t bytes[3] = {0, 0, 0};            // of each
  std::string a, b;                        // the inputs
  std::string d;                           // the output
};
// A product of one fold's numbers, whose inputs follow from `seed`. kInvalidArgument: the target is
// of another family, or too small for one fold.
absl::StatusOr<NpuSampleJob> npu_sample_job(const Target& target, uint64_t seed);

}  // namespace lw
