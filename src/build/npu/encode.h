// From a kernel of blocks to a program of the NPU: loops unrolled, each block the instructions that
// do it, in an order that keeps the engines busy, with the tokens that this order needs and no
// others.
//
// Order: as the kernel has it, but that what fills SPM and ACC (LD, and zeros for padding) stands
// right after the last instruction that needs what lies there, so that with two slots the next tile is on
// its way while one computes, also from one turn of an outer loop to the next.
//
// Tokens: an instruction waits for another engine's where they touch the same bytes, one of them
// writing, unless that is certain already: from what the engine has waited for, and from what those
// had waited for that it waited for (a clock of the engines, as in function/order.h). One semaphore
// for each pair of engines: what is waited for comes in the order in which it is signalled.
// Output-stationary products and the packing of windows, which may overtake others of their engine,
// signal semaphores of their own; packing also waits for older products of what it overwrites. What
// an instruction would wait for as the third, one that it waits for does: a second semaphore for
// each pair. Where tokens have no place at all, `sync` waits for the whole engine.
// Pure; thread-safe.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "src/kernel/kernel.h"
#include "src/npu/isa/isa.h"

namespace lw {

// Where a kernel's tensors lie in the NPU's DRAM: arguments by slot, then the workspace.
struct NpuLayout {
  std::vector<int64_t> arguments;
  int64_t workspace = 0, bytes = 0;
};
NpuLayout npu_layout(const Kernel& kernel);

// kInvalidArgument: a statement that this machine has no instruction for, or numbers that none of
// its fields or memories hold; more instructions than `most`. What it gives check_program accepts.
// REQUIRES: verify(kernel) is OK.
absl::StatusOr<npu::Program> encode_npu(const Kernel& kernel, const npu::Config& config,
                                        int64_t most = 2'000'000);

}  // namespace lw
