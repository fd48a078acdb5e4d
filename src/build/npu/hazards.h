// Which operations an operation has to come after: those that touch the same part of a memory, one
// of the two writing. Internal to src/build/npu.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "src/build/npu/operations.h"

namespace lw::npu_build {

// By engine the last operation, by its number, that one has to wait for; -1: none.
using Latest = std::array<int64_t, npu::kEngines>;
inline constexpr Latest kNothing = {-1, -1, -1, -1};

class Hazards {
 public:
  // What operation `number` has to come after, of those that were noted.
  Latest before(const Operation& operation) const {
    Latest latest = kNothing;
    for (const Touch& touch : operation.touches) {
      for (const Use& use : uses_[touch.place]) {
        if (!(touch.write || use.write) || use.end <= touch.begin || touch.end <= use.begin)
          continue;
        int64_t& last = latest[static_cast<int>(use.engine)];
        last = std::max(last, use.number);
      }
    }
    return latest;
  }

  void note(const Operation& operation, int64_t number) {
    for (const Touch& touch : operation.touches) add(touch, operation.engine(), number);
  }

 private:
  struct Use {
    int64_t begin, end, number;
    npu::Engine engine;
    bool write;
  };

  // What a write covers need not be known any longer: whoever comes after that comes after this.
  // An engine's reads of parts that overlap count as one: it is done with them in order.
  void add(const Touch& touch, npu::Engine engine, int64_t number) {
    std::vector<Use>& uses = uses_[touch.place];
    Use one = {touch.begin, touch.end, number, engine, touch.write};
    std::erase_if(uses, [&](const Use& use) {
      if (touch.write) return touch.begin <= use.begin && use.end <= touch.end;
      if (use.write || use.engine != engine) return false;
      if (use.end <= one.begin || one.end <= use.begin) return false;
      one.begin = std::min(one.begin, use.begin);
      one.end = std::max(one.end, use.end);
      return true;
    });
    uses.push_back(one);
  }

  std::array<std::vector<Use>, kPlaces> uses_;
};

}  // namespace lw::npu_build
