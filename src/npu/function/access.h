// Which bytes of which memory an instruction reads and writes, exactly: what bounds, races and
// (where they are wanted) lifetimes are made of. Pure; thread-safe.
#pragma once

#include <array>
#include <string_view>

#include "src/npu/isa/isa.h"

namespace lw::npu {

enum class Place : uint8_t { kDram, kSpm, kAcc };
inline constexpr int kPlaces = 3;
std::string_view name_of(Place place);

// Runs of `length` from `base` on, along three loops; bytes, in ACC words.
struct Access {
  Place place = Place::kSpm;
  bool write = false;
  int64_t base = 0, length = 0;
  std::array<int64_t, 3> count = {1, 1, 1}, stride = {0, 0, 0};

  int64_t end() const {
    int64_t last = base + length;
    for (int d = 0; d < 3; ++d) last += (count[d] - 1) * stride[d];
    return last;
  }
  // visit(begin, end) of every run, outermost loop first.
  template <class Visit>
  void each_run(Visit&& visit) const {
    for (int64_t x = 0; x < count[2]; ++x) {
      for (int64_t y = 0; y < count[1]; ++y) {
        int64_t at = base + x * stride[2] + y * stride[1];
        for (int64_t z = 0; z < count[0]; ++z, at += stride[0]) visit(at, at + length);
      }
    }
  }
};

struct Accesses {
  std::array<Access, 5> list;
  int count = 0;

  const Access* begin() const { return list.data(); }
  const Access* end() const { return list.data() + count; }
};

// Runs that touch are one. What an instruction both reads and writes (ACC of an accumulating MX.MM)
// is a write. REQUIRES: check_instruction accepts it.
Accesses accesses_of(const Instruction& instruction);

}  // namespace lw::npu
