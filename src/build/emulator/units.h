// Which of a kernel's buffers lie in one memory, and which of that memory's units elements are: units
// are as small as the smallest element that any of its buffers has. Internal to src/build/emulator.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/kernel/kernel.h"

namespace lw {

class MemoryUnits {
 public:
  explicit MemoryUnits(const Kernel& kernel) {
    std::vector<int> shifts;               // by memory: of a byte's number to its unit's
    for (const Buffer& b : kernel.buffers) {
      const size_t memory = memory_of(b);
      shifts.resize(std::max(shifts.size(), memory + 1), kMostShift);
      shifts[memory] = std::min(shifts[memory], shift_of(b));
      buffers_.push_back({memory, 0, 0});
    }
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const Buffer& b = kernel.buffers[i];
      const int shift = shifts[buffers_[i].memory];
      if (b.scope != Scope::kArgument) buffers_[i].first = b.offset >> shift;
      buffers_[i].shift = shift_of(b) - shift;
    }
  }

  size_t memories() const { return numbered_.size(); }

  struct Range {
    size_t memory;
    int64_t begin, end;
    int shift;                             // of an element's number to that of its first unit
  };
  // Of elements that follow each other.
  Range of(int buffer, int64_t element, int64_t count) const {
    const Place& p = buffers_[static_cast<size_t>(buffer)];
    return {p.memory, p.first + (element << p.shift), p.first + ((element + count) << p.shift),
            p.shift};
  }

 private:
  static constexpr int kMostShift = 3;
  struct Place {
    size_t memory;
    int64_t first;                         // unit of its first element
    int shift;
  };

  static int shift_of(const Buffer& b) {
    return std::countr_zero(static_cast<uint64_t>(size_of(b.type)));
  }
  // Each argument and each managed memory is one, and each other scope.
  size_t memory_of(const Buffer& b) {
    const int number = b.scope == Scope::kArgument ? b.slot
                       : b.scope == Scope::kManaged ? b.memory : 0;
    return numbered_.try_emplace(std::pair(static_cast<int>(b.scope), number), numbered_.size())
        .first->second;
  }

  absl::flat_hash_map<std::pair<int, int>, size_t> numbered_;
  std::vector<Place> buffers_;
};

}  // namespace lw
