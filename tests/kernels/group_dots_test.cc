// Products of bytes that are added four at a time, on schedules drawn from a space that has them
// over the library's operators and fused programs: right and without a race on the emulator, and
// right on the driver that is here, by its instructions where it has these. LW_SHAPES: programs of
// each operator; LW_DRAWS: schedules of each; LW_SEED; LW_DEVICE: the number of another device.
#include <cstdio>

#include "src/kernel/groups.h"
#include "tests/kernels/opencl_device.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr double kMostDotFlops = 2e5;      // the emulator is slow

// Schedules with dot products, every second one of groups if there are such.
class DotSpace {
 public:
  DotSpace(const HeldProgram& held, std::shared_ptr<const Target> target)
      : start_(make_nest(held.program, std::move(target), 1)) {
    for (Sketch& sketch : make_space(start_)) {
      if (sketch.name.find("dot products") == std::string::npos) continue;
      const bool groups = sketch.name.find("groups") != std::string::npos;
      (groups ? grouped_ : alone_).push_back(std::move(sketch));
    }
  }
  bool empty() const { return alone_.empty() && grouped_.empty(); }
  std::optional<Scheduled> draw(bool grouped, Rng& rng) const {
    const std::vector<Sketch>& sketches =
        alone_.empty() || (grouped && !grouped_.empty()) ? grouped_ : alone_;
    for (int n = 0; n < 20; ++n) {
      std::optional<Scheduled> drawn = draw_kernel(start_, sketches, rng, 1);
      if (drawn && has_op(drawn->kernel.body, Op::kDot)) return drawn;
    }
    return std::nullopt;
  }

 private:
  Nest start_;
  std::vector<Sketch> alone_, grouped_;
};

// Without sub-groups, which the driver here need not have.
std::shared_ptr<const Target> with_dots() {
  Target target = *find_target("opencl_intel_gpu");
  SimtTarget part = simt(target);
  part.sub_group = 1;
  set_simt(&target, std::move(part));
  return std::make_shared<const Target>(std::move(target));
}

TEST(GroupDots, AreRightHereAndOnTheEmulator) {
  const std::shared_ptr<const Target> target = with_dots();
  OnDevice device = open_device(concat(setting("LW_DEVICE", 0)));
  if (device.session == nullptr) GTEST_SKIP() << device.lacks;
  const int64_t shapes = setting("LW_SHAPES", 2), draws = setting("LW_DRAWS", 2);
  int programs = 0, kernels = 0, groups = 0;
  const std::vector<OpDefinition> ops = library_and_fused_ops();
  for (size_t o = 0; o < ops.size(); ++o) {
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(o);
    for (int64_t n = 0; n < shapes; ++n) {
      const int shape = static_cast<int>(n % 2 == 0 ? ShapeKind::kAny : ShapeKind::kPrimes);
      const std::optional<HeldProgram> held = held_operator(ops[o], shape, kMostDotFlops, rng);
      if (!held || !takes(*target, *held->program)) continue;
      const DotSpace space(*held, target);
      if (space.empty()) continue;
      SCOPED_TRACE(held->name);
      ++programs;
      const std::vector<int64_t> sizes = result_bytes(*held->program);
      for (int64_t k = 0; k < draws; ++k) {
        const std::optional<Scheduled> drawn = space.draw(k % 2 == 1, rng);
        if (!drawn) continue;
        ++kernels;
        groups += has_groups(drawn->kernel);
        ASSERT_EQ(emulated_wrong(drawn->kernel, *held, ItemOrder::Kind::kShuffled), "")
            << drawn->schedule;
        const absl::StatusOr<std::vector<Data>> got =
            run_on(device, drawn->kernel, sizes, held->in);
        ASSERT_TRUE(got.ok()) << got.status() << "\n" << drawn->schedule;
        ASSERT_EQ(wrong_result(*held, *got), "") << drawn->schedule << print(drawn->kernel);
      }
    }
  }
  std::printf("%d programs, %d kernels, %d of groups\n", programs, kernels, groups);
  EXPECT_GT(kernels, 10);
  EXPECT_GT(groups, 2);
}

}  // namespace
}  // namespace lw
