// That what spaces offer can be lowered: draws that steps let pass, and which items then part in, or
// whose operands lie as no instruction reads them.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "schedules/steps.h"
#include "schedules/targets/simt/simt_target.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

// Of so many draws of the sketches with such a step, all that are none, and why.
std::string refused(const std::string& words, const std::string& target_name,
                    std::string_view step, int draws) {
  const std::vector<std::string> split = absl::StrSplit(words, ' ');
  const Nest start =
      make_nest(std::make_shared<const Program>(load_workload(split).value()),
                std::make_shared<const Target>(find_target(target_name).value()), 1);
  const std::vector<Sketch> space = sketches_with(make_space(start), step);
  EXPECT_FALSE(space.empty());
  std::string all;
  Rng rng(5);
  for (int n = 0; n < draws; ++n) {
    const Sketch& sketch = space[rng.below(static_cast<int64_t>(space.size()))];
    const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
    const absl::Status status = drawn.ok() ? lower(drawn->nest).status() : drawn.status();
    if (status.ok()) continue;
    all += concat(std::string(status.message()), "\n", drawn.ok() ? to_text(drawn->trace) : "");
  }
  return all;
}

// Items have windows of their own at the ends, and meet where they fetch the filter of a tap.
TEST(FeasibleDraws, ItemsThatMeetDoNotPartAtTheEnds) {
  EXPECT_EQ(refused("conv1d L=64 CI=16 CO=32", "nvidia_sm80", "register_tile", 60), "");
}

// Rows of two fours and more come from several panels of 128 bytes, 16 of them to a sub-group.
TEST(FeasibleDraws, PanelsOfSeveralFours) {
  EXPECT_EQ(refused("matmul M=16 N=512 K=256 T=bf16", "nvidia_sm90a", "wide_tile", 30), "");
}

// Of rows along one axis and along two.
TEST(FeasibleDraws, RowsOfSmallImages) {
  EXPECT_EQ(refused("conv2d N=16 H=14 W=14 CI=256 CO=256 T=bf16", "nvidia_sm90a", "wide_tile", 40),
            "");
}

// Several stages of attention read copies of the scores: each step is of its own stage's.
TEST(FeasibleDraws, CopiesOfOneTensorForSeveralReaders) {
  EXPECT_EQ(refused("attention type=bf16", "nvidia_sm80", "matrix_tile", 40), "");
}

// 10 sub-groups are 3 of one of the four parts of the registers, as 12 are.
TEST(FeasibleDraws, RegistersOfPartsOfAUnit) {
  const Target target = find_target("nvidia_sm80").value();
  EXPECT_EQ(register_items(simt(target), 320), 384);
  EXPECT_EQ(register_items(simt(target), 32), 128);
  EXPECT_EQ(register_items(simt(target), 256), 256);
}

}  // namespace
}  // namespace lw
