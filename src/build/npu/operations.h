// A kernel's blocks, unrolled: instructions without tokens, in the kernel's order, each with what
// it touches. Internal to src/build/npu.
#pragma once

#include <cstdint>
#include <span>
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

// One, while it is made.
struct Operation {
  npu::Instruction instruction;
  absl::InlinedVector<Touch, 4> touches;
  bool fills = false;  // a managed memory, of DRAM or zeros: may stand earlier
};

// All of a kernel's, by number. There may be millions: nothing is allocated for one alone.
class Operations {
 public:
  void reserve(int64_t count) {
    const size_t size = static_cast<size_t>(count);
    instructions_.reserve(size);
    fills_.reserve(size);
    touches_.reserve(2 * size);
    ends_.reserve(size);
  }
  void add(const Operation& operation) {
    instructions_.push_back(operation.instruction);
    fills_.push_back(operation.fills);
    for (const Touch& touch : operation.touches) touches_.push_back(touch);
    ends_.push_back(static_cast<uint32_t>(touches_.size()));
  }
  int32_t count() const { return static_cast<int32_t>(instructions_.size()); }
  const npu::Instruction& instruction(int32_t i) const { return instructions_[index(i)]; }
  int engine(int32_t i) const { return static_cast<int>(instruction(i).op().engine); }
  bool fills(int32_t i) const { return fills_[index(i)]; }
  std::span<const Touch> touches(int32_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends_[index(i - 1)];
    return {touches_.data() + begin, ends_[index(i)] - begin};
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  npu::Program instructions_;
  std::vector<bool> fills_;
  std::vector<Touch> touches_;  // of one after the other
  std::vector<uint32_t> ends_;  // of each one's
};

absl::StatusOr<Operations> unroll(const Kernel& kernel, const npu::Config& config, int64_t most);

// The numbers of all in an order in which what fills SPM and ACC comes as early as it can.
std::vector<int32_t> fill_early(const Operations& operations);

// The program of them in that order, with tokens.
absl::StatusOr<npu::Program> add_tokens(const Operations& operations,
                                        const std::vector<int32_t>& order,
                                        const npu::Config& config);

}  // namespace lw::npu_build
