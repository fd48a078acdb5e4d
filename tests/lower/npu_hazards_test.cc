// Hazards beside what they stand for: one list of all uses of a memory, looked through for each.
#include "src/build/npu/hazards.h"

#include <gtest/gtest.h>

#include "src/base/rng.h"

namespace lw::npu_build {
namespace {

struct Use {
  int64_t begin, end;
  int32_t number;
  int lane;
  bool write;
};

class PlainHazards {
 public:
  Latest before(std::span<const Touch> touches, int lane) const {
    Latest latest = kNothing;
    for (const Touch& touch : touches) {
      for (const Use& use : uses_[touch.place]) {
        if (!waits(lane, use.lane) || !(touch.write || use.write)) continue;
        if (use.end <= touch.begin || touch.end <= use.begin) continue;
        latest[use.lane] = std::max(latest[use.lane], use.number);
      }
    }
    return latest;
  }

  void note(std::span<const Touch> touches, int lane, int32_t number) {
    for (const Touch& touch : touches) {
      Use one = {touch.begin, touch.end, number, lane, touch.write};
      std::erase_if(uses_[touch.place], [&](const Use& use) {
        if (touch.write) return touch.begin <= use.begin && use.end <= touch.end;
        if (use.write || use.lane != lane) return false;
        if (use.end <= one.begin || one.end <= use.begin) return false;
        one.begin = std::min(one.begin, use.begin);
        one.end = std::max(one.end, use.end);
        return true;
      });
      uses_[touch.place].push_back(one);
    }
  }

 private:
  std::array<std::vector<Use>, kPlaces> uses_;
};

// Short parts and long ones, some of which come again.
std::vector<Touch> random_touches(Rng& rng, int64_t size) {
  std::vector<Touch> touches(1 + rng.below(3));
  for (Touch& touch : touches) {
    touch.place = static_cast<int>(rng.below(kPlaces));
    touch.write = rng.below(3) == 0;
    touch.begin = rng.below(2) == 0 ? rng.below(size) : rng.below(8) * size / 8;
    touch.end = touch.begin + 1 + (rng.below(4) == 0 ? rng.below(size) : rng.below(6));
  }
  return touches;
}

TEST(Hazards, AreThoseOfAPlainList) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const int64_t size = 8 + rng.below(60);
    Hazards hazards;
    PlainHazards plain;
    for (int32_t number = 0; number < 300; ++number) {
      const std::vector<Touch> touches = random_touches(rng, size);
      const int lane = static_cast<int>(rng.below(kLanes));
      const Latest wanted = plain.before(touches, lane);
      ASSERT_EQ(hazards.before(touches, lane), wanted) << "seed " << seed << " at " << number;
      // What is known already is left out.
      const Latest known = {number / 2, number - 3, 0, -1};
      const Latest unknown = hazards.before(touches, lane, known);
      for (size_t e = 0; e < known.size(); ++e) {
        EXPECT_EQ(unknown[e], wanted[e] > known[e] ? wanted[e] : -1);
      }
      hazards.note(touches, lane, number);
      plain.note(touches, lane, number);
    }
  }
}

}  // namespace
}  // namespace lw::npu_build
