// The numbers by which nests and kernels name what an NPU has.
#pragma once

namespace lw {

// Managed memories (Stage::memory, Buffer::memory): of operands, and of sums.
inline constexpr int kNpuSpm = 0, kNpuAcc = 1;

// Instructions for a product (Block::variant): weights stand in the array while rows stream, or sums
// do while the reduction streams.
inline constexpr int kNpuWeightStationary = 0, kNpuOutputStationary = 1;

// As the variant of a copy (Block::variant) within SPM: the array's packer puts windows together,
// whose rows, positions of a row and channels are the last three extents.
inline constexpr int kNpuPacker = 1;

// As the variant of a stage: its box is computed by the vector engine's instructions.
inline constexpr int kNpuVector = 2;

}  // namespace lw
