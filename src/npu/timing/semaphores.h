// Counting semaphores whose tokens know when they arrive. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "src/npu/timing/ticks.h"

namespace lw::npu {

class Semaphores {
 public:
  static constexpr int kMost = 255;        // tokens of one semaphore

  Semaphores() : tokens_(new Ticks[kCount * kRing]) {}

  // When the earliest token is there; kNever: none is on its way.
  Ticks earliest(int id) const {
    return count_[id] > 0 ? tokens_[id * kRing + first_[id]] : kNever;
  }
  // REQUIRES: there is one.
  void take(int id) {
    ++first_[id];
    --count_[id];
  }
  // False: it is full. Tokens mostly come in order: the sorted place is near the end.
  bool add(int id, Ticks time) {
    if (count_[id] == kMost) return false;
    Ticks* const ring = &tokens_[id * kRing];
    uint8_t at = static_cast<uint8_t>(first_[id] + count_[id]++);
    for (int left = count_[id] - 1; left > 0; --left) {
      const uint8_t before = static_cast<uint8_t>(at - 1);
      if (ring[before] <= time) break;
      ring[at] = ring[before];
      at = before;
    }
    ring[at] = time;
    return true;
  }

 private:
  static constexpr int kCount = 64, kRing = 256;
  std::unique_ptr<Ticks[]> tokens_;        // rings, indices wrap as uint8_t does
  std::array<uint8_t, kCount> first_ = {};
  std::array<int, kCount> count_ = {};
};

}  // namespace lw::npu
