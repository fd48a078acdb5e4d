// Parts of kernels: which groups some results need, and that these are as the whole kernel makes them.
#include "src/build/emulator/part.h"

#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/program.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/build/emulator/emulate.h"
#include "src/expr/expr.h"
#include "src/expr/reference/interpret.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/support/program.h"

namespace lw {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// w = X, by 4 groups of 2 items, each of which tells Z; then Y = what `read` puts into r0, by 2 groups.
std::string two_loops(const std::string& read) {
  return R"(kernel k arguments=3 variables=4 workspace=64 private=64 packed=0 managed=64
buffer X f32 16 argument 0
buffer Y f32 4 argument 1 written
buffer Z f32 4 argument 2 written
buffer w f32 16 workspace 0
buffer t f32 2 managed 0 0
registers f32x1 2
registers f32x2 1
registers i64x1 1
registers boolx1 1
body {
  for v0 < 4 parallel items 2 {
    int v1 = item
    r2 = load X[4*v0 + 2*v1] stride 1
    r0 = load X[4*v0 + v1] stride 1
    store t[v1] = r0 stride 1
    barrier
    store w[4*v0 + 2*v1] = r2 stride 1
    if -v1 >= 0 {
      r1 = load t[1] stride 1
      store Z[v0] = r1 stride 1
    }
  }
  for v2 < 2 parallel items 2 {
    int v3 = item
)" + read + R"(
    store Y[2*v2 + v3] = r0 stride 1
  }
}
)";
}

struct Memory {
  std::vector<std::byte> bytes[3] = {std::vector<std::byte>(64), std::vector<std::byte>(16),
                                     std::vector<std::byte>(16)};
  void* pointers[3] = {bytes[0].data(), bytes[1].data(), bytes[2].data()};
};

PartOfKernel part_by_hand(const std::string& text, int64_t most) {
  Memory memory;
  const absl::StatusOr<PartOfKernel> part = part_of(*parse_kernel(text), memory.pointers, most);
  EXPECT_TRUE(part.ok()) << part.status();
  return part.ok() ? *part : PartOfKernel();
}

TEST(Part, HasTheGroupsWhoseStoresItReads) {
  // The first loop is the last that stores to Z: one of its groups is there anyhow.
  const PartOfKernel part = part_by_hand(two_loops("r0 = load w[8*v2 + v3] stride 1"), 1);
  EXPECT_THAT(part.groups, ElementsAre(ElementsAre(2, 3), ElementsAre(1)));
  EXPECT_THAT(part.made, ElementsAre(IsEmpty(), ElementsAre(2, 3), ElementsAre(2, 3)));
  const PartOfKernel ends = part_by_hand(two_loops("r0 = load w[15*v3] stride 1"), 1);
  EXPECT_THAT(ends.groups, ElementsAre(ElementsAre(0, 3), ElementsAre(1)));
  const PartOfKernel all = part_by_hand(two_loops("r0 = load w[8*v2 + v3] stride 1"), 2);
  EXPECT_THAT(all.groups, ElementsAre(ElementsAre(0, 2, 3), ElementsAre(0, 1)));
  EXPECT_THAT(all.made[1], SizeIs(4));
}

TEST(Part, FollowsMasks) {
  const PartOfKernel part = part_by_hand(
      two_loops("r4 = lanemask -v3 stride 0\n    r0 = load w[3*v3 + 4] stride 1 mask r4"), 1);
  EXPECT_THAT(part.groups, ElementsAre(ElementsAre(1, 3), ElementsAre(1)));
}

TEST(Part, IsRefusedWherePlacesAreComputed) {
  Memory memory;
  const std::string text = R"(kernel k arguments=3 variables=3 workspace=64 private=0 packed=0
buffer X f32 16 argument 0
buffer Y f32 16 argument 1 written
buffer Z f32 4 argument 2 written
buffer w i64 8 workspace 0
registers f32x1 1
registers i64x1 1
body {
  for v0 < 4 parallel items 1 {
    r0 = load X[v0] stride 1
    r1 = cast r0
    store w[v0] = r1 stride 1
  }
  for v1 < 4 parallel items 1 {
    r1 = load w[v1] stride 1
    int v2 = register r1
    r0 = load X[v1] stride 1
    store Y[v2] = r0 stride 1
  }
}
)";
  const auto part = part_of(*parse_kernel(text), memory.pointers, 1);
  EXPECT_EQ(part.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(part.status().message()), HasSubstr("depends on what it computes"));
}

// One group fewer than the part has: what it would have written is missed.
TEST(Part, HasNoGroupTooFew) {
  const std::string text = two_loops("r0 = load w[8*v2 + 4*v3] stride 1");
  const PartOfKernel part = part_by_hand(text, 1);
  ASSERT_THAT(part.groups[0], ElementsAre(2, 3));
  Memory memory;
  EXPECT_TRUE(emulate(*parse_kernel(text), memory.pointers, {.groups = part.groups}).ok());
  EXPECT_THAT(std::string(emulate(*parse_kernel(text), memory.pointers,
                                  {.groups = {{3}, part.groups[1]}}).message()),
              HasSubstr("w[8], which was never written"));
}

void expect_made_as_whole(const Program& program, const std::vector<Data>& in,
                          const Kernel& kernel, int64_t most) {
  CallMemory whole(in, result_bytes(program)), some(in, result_bytes(program));
  ASSERT_TRUE(emulate(kernel, whole.pointers.data()).ok());
  const absl::StatusOr<PartOfKernel> part = part_of(kernel, some.pointers.data(), most);
  ASSERT_TRUE(part.ok()) << part.status() << print(kernel);
  const absl::Status ran = emulate(kernel, some.pointers.data(), {.groups = part->groups});
  ASSERT_TRUE(ran.ok()) << ran << print(kernel);
  const std::vector<int> tensors = arguments(program);
  for (size_t slot = in.size(); slot < tensors.size(); ++slot) {
    const Tensor& tensor = program.tensors[tensors[slot]];
    EXPECT_THAT(part->made[slot], testing::Not(IsEmpty()));
    const size_t size = static_cast<size_t>(size_of(tensor.type));
    for (const int64_t element : part->made[slot]) {
      const size_t at = static_cast<size_t>(element) * size;
      ASSERT_EQ(std::memcmp(&whole.data[slot].bytes[at], &some.data[slot].bytes[at], size), 0)
          << tensor.name << "[" << element << "]\n" << print(kernel);
    }
  }
}

// LW_DRAWS: schedules of each program; LW_SEED.
TEST(Part, MakesWhatTheWholeKernelMakes) {
  Rng rng(setting("LW_SEED", 1));
  int64_t several = 0;
  for (const char* words : {"softmax M=24 N=80", "layer_norm M=20 N=96", "row_sum M=8 N=3000",
                            "total_sum M=40 N=50", "norm M=24 N=24", "matmul M=24 N=40 K=512 T=bf16",
                            "conv2d H=10 W=10 CI=8 CO=8", "attention H=1 S=24 T=24 D=16"}) {
    const std::vector<std::string> split = absl::StrSplit(words, ' ');
    const auto program = std::make_shared<const Program>(load_workload(split).value());
    std::vector<Data> in;
    for (const int tensor : arguments(*program)) {
      const bool is_input = program->tensors[tensor].role == Role::kInput;
      if (is_input) in.push_back(random_input(*program, tensor, 1, false));
    }
    for (const char* name : {"nvidia_sm80", "nvidia_sm90a"}) {
      const DrawnSpace space(program, std::make_shared<const Target>(*find_target(name)));
      for (int64_t draw = 0; draw < setting("LW_DRAWS", 6); ++draw) {
        const std::optional<Scheduled> drawn = space.draw(rng);
        ASSERT_TRUE(drawn.has_value()) << words;
        SCOPED_TRACE(drawn->schedule);
        several += drawn->kernel.body.size() > 1;
        expect_made_as_whole(*program, in, drawn->kernel, 1 + rng.below(3));
      }
    }
  }
  EXPECT_GT(several, setting("LW_DRAWS", 6));  // loops follow each other in many
}

}  // namespace
}  // namespace lw
