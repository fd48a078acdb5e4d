// A kernel's blocks, unrolled: instructions without tokens, in the kernel's order, each with what
// it touches. Internal to src/build/npu.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "src/build/npu/encode.h"

namespace lw::npu_build {

// Memories by number: those of schedules/targets/npu/machine.h, and DRAM.
inline constexpr int kDram = 2, kPlaces = 3;

// Bytes (words of ACC): all between the first and the last that is touched.
struct Touch {
  int place = kDram;
  bool write = false;
  int64_t begin = 0, end = 0;
};

struct Operation {
  npu::Instruction instruction;
  absl::InlinedVector<Touch, 3> touches;
  bool fills = false;  // SPM: may stand earlier

  npu::Engine engine() const { return instruction.op().engine; }
};

absl::StatusOr<std::vector<Operation>> unroll(const Kernel& kernel, const npu::Config& config,
                                              int64_t most);

// The same operations with what fills SPM as early as it can be.
std::vector<Operation> fill_early(std::vector<Operation> operations);

// The program of them, with tokens.
absl::StatusOr<npu::Program> add_tokens(std::vector<Operation> operations,
                                        const npu::Config& config);

}  // namespace lw::npu_build
