// What a program reads and writes. DRAM is whatever buffers the caller has: those between which
// nothing lies, no program may touch. Values; not thread-safe while a program runs on them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "src/npu/function/access.h"

namespace lw::npu {

struct Buffer {
  uint64_t address = 0;                    // of its first byte, in DRAM
  std::span<uint8_t> bytes;                // the caller's; must outlive the run
  bool writable = true;
};

struct Memory {
  std::vector<Buffer> dram;                // by address, disjoint
  std::vector<uint8_t> spm;
  std::vector<uint32_t> acc;               // words: int32 or the bits of an f32
};

// SPM and ACC as large as the machine's, filled with bytes that no program should depend on (a
// poison that follows from `seed`; 0: zeros). kInvalidArgument: buffers overlap, or go beyond 2^40.
absl::StatusOr<Memory> make_memory(const Config& config, std::vector<Buffer> dram,
                                   uint64_t seed = 1);

// Where the bytes [address, address + length) of DRAM lie; nullptr: in no single buffer, or one
// that must not be written.
uint8_t* find_bytes(const Memory& memory, uint64_t address, int64_t length, bool write);

}  // namespace lw::npu
