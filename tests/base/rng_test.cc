// Seeds name streams: the same one the same, different ones unrelated, however near.
#include "src/base/rng.h"

#include <set>

#include "gtest/gtest.h"

namespace lw {
namespace {

constexpr int kDraws = 1000;

TEST(Rng, ASeedNamesAStream) {
  Rng a(7), b(7);
  for (int i = 0; i < kDraws; ++i) EXPECT_EQ(a.next(), b.next());
}

TEST(Rng, StreamsOfNearSeedsShareNoDraws) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    for (int i = 0; i < kDraws; ++i) seen.insert(rng.next());
  }
  EXPECT_EQ(seen.size(), 100u * kDraws);
}

TEST(Rng, SplitStreamsShareNoDraws) {
  const Rng parent(7);
  std::set<uint64_t> seen;
  for (uint64_t slot = 0; slot < 100; ++slot) {
    Rng rng = parent.split(slot);
    for (int i = 0; i < kDraws; ++i) seen.insert(rng.next());
  }
  EXPECT_EQ(seen.size(), 100u * kDraws);
}

TEST(Rng, BelowCoversItsRangeEvenly) {
  Rng rng(1);
  int counts[10] = {};
  for (int i = 0; i < 10 * kDraws; ++i) ++counts[rng.below(10)];
  for (int count : counts) EXPECT_NEAR(count, kDraws, 150);   // five standard deviations
}

}  // namespace
}  // namespace lw
