// What groups do by sketches of their own, on schedules drawn from these over the library's
// operators and fused programs: right and without a race on the emulator, and right on the driver
// that is here.
//
//   products of bytes that are added four at a time, by its instructions where it has these
//   reductions at the root, whose parts a group combines in local memory; of the programs below too
//
// LW_SHAPES: programs of each operator; LW_DRAWS: schedules of each; LW_SEED; LW_DEVICE: the number
// of another device.
#include <cstdio>
#include <functional>

#include "src/kernel/groups.h"
#include "tests/kernels/opencl_device.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr double kMostSketchFlops = 2e5;   // the emulator is slow

constexpr std::string_view kReductions = R"(
op full_sum(N = 65536) {
  in X: f32[N]
  out Y[] = sum[i: N](X[i])
}
op full_max(N = 256, M = 256) {
  in X: f32[N, M]
  out Y[] = max[i: N, j: M](X[i, j])
}
op matrix_vector(M = 256, K = 512) {
  in A: f32[M, K]
  in x: f32[K]
  out y[i: M] = sum[k: K](A[i, k] * x[k])
}
op vector_matrix(N = 256, K = 512) {
  in B: f32[K, N]
  in x: f32[K]
  out y[j: N] = sum[k: K](x[k] * B[k, j])
}
op column_means(M = 1024, N = 64) {
  in X: f32[M, N]
  S[j: N] = sum[i: M](X[i, j])
  out y[j: N] = S[j] / cast(f32, M)
}
op batched_dots(B = 64, K = 1024) {
  in X: f32[B, K]
  in Z: f32[B, K]
  out y[b: B] = sum[k: K](X[b, k] * Z[b, k])
}
op pooled(N = 2, C = 16, H = 28, W = 28) {
  in X: f32[N, C, H, W]
  S[n: N, c: C] = sum[h: H, w: W](X[n, c, h, w])
  out y[n: N, c: C] = S[n, c] / cast(f32, H * W)
}
op channels_last(N = 2, H = 28, W = 28, C = 16) {
  in X: f32[N, H, W, C]
  out y[n: N, c: C] = min[h: H, w: W](X[n, h, w, c])
}
op counted(M = 32, K = 2048) {
  in X: i8[M, K]
  out y[i: M] = sum[k: K](cast(i32, X[i, k]))
}
)";

// Of few items in step and few units, for which small programs are large.
std::shared_ptr<const Target> small_gpu(Rng& rng) {
  Target target = *find_target("opencl_gpu");
  SimtTarget part = simt(target);
  part.simd = 1 << (2 + rng.below(3));
  part.units = 1 + static_cast<int>(rng.below(8));
  set_simt(&target, std::move(part));
  return std::make_shared<const Target>(std::move(target));
}

// The sketches of a program with a word in their names, those of groups apart.
class SketchSpace {
 public:
  SketchSpace(const HeldProgram& held, std::shared_ptr<const Target> target, std::string_view word)
      : start_(make_nest(held.program, std::move(target), 1)) {
    for (Sketch& sketch : make_space(start_)) {
      if (sketch.name.find(word) == std::string::npos) continue;
      const bool groups = sketch.name.find("groups") != std::string::npos;
      (groups ? grouped_ : alone_).push_back(std::move(sketch));
    }
  }
  bool empty() const { return alone_.empty() && grouped_.empty(); }
  // One that the kernel shows; nullopt: in vain.
  std::optional<Scheduled> draw(bool grouped, Rng& rng, bool (*shows)(const Kernel&)) const {
    const std::vector<Sketch>& sketches =
        alone_.empty() || (grouped && !grouped_.empty()) ? grouped_ : alone_;
    for (int n = 0; n < 20; ++n) {
      std::optional<Scheduled> drawn = draw_kernel(start_, sketches, rng, 1);
      if (drawn && shows(drawn->kernel)) return drawn;
    }
    return std::nullopt;
  }

 private:
  Nest start_;
  std::vector<Sketch> alone_, grouped_;
};

struct SketchTally {
  int programs = 0, kernels = 0, groups = 0, meet = 0;
  ~SketchTally() {
    std::printf("%d programs, %d kernels, %d of groups, %d with barriers\n", programs, kernels,
                groups, meet);
  }
};

void expect_right_by(std::string_view word, const std::vector<OpDefinition>& ops,
                     const std::function<std::shared_ptr<const Target>(Rng&)>& target_of,
                     bool (*shows)(const Kernel&), OnDevice& device, SketchTally* tally) {
  const int64_t draws = setting("LW_DRAWS", 2);
  const auto visit = [&](const HeldProgram& held, std::shared_ptr<const Target> target, Rng& rng) {
    const SketchSpace space(held, std::move(target), word);
    if (space.empty()) return;
    SCOPED_TRACE(held.name);
    ++tally->programs;
    const std::vector<int64_t> sizes = result_bytes(*held.program);
    for (int64_t k = 0; k < draws; ++k) {
      const std::optional<Scheduled> drawn = space.draw(k % 2 == 1, rng, shows);
      if (!drawn) continue;
      ++tally->kernels;
      tally->groups += has_groups(drawn->kernel);
      tally->meet += has_op(drawn->kernel.body, Op::kBarrier);
      for (const ItemOrder::Kind order : {ItemOrder::Kind::kShuffled,
                                          ItemOrder::Kind::kDescending}) {
        ASSERT_EQ(emulated_wrong(drawn->kernel, held, order), "")
            << drawn->schedule << print(drawn->kernel);
      }
      const absl::StatusOr<std::vector<Data>> got = run_on(device, drawn->kernel, sizes, held.in);
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << drawn->schedule;
      ASSERT_EQ(wrong_result(held, *got), "") << drawn->schedule << print(drawn->kernel);
    }
  };
  for_each_held(ops, 2, kMostSketchFlops, target_of, visit);
}

// Without sub-groups, which the driver here need not have.
std::shared_ptr<const Target> with_dots() {
  Target target = *find_target("opencl_intel_gpu");
  SimtTarget part = simt(target);
  part.sub_group = 1;
  set_simt(&target, std::move(part));
  return std::make_shared<const Target>(std::move(target));
}

TEST(GroupSketches, OfProductsOfBytesAreRight) {
  OnDevice device = open_device(concat(setting("LW_DEVICE", 0)));
  if (device.session == nullptr) GTEST_SKIP() << device.lacks;
  SketchTally tally;
  const std::shared_ptr<const Target> target = with_dots();
  expect_right_by(
      "dot products", library_and_fused_ops(), [&](Rng&) { return target; },
      [](const Kernel& kernel) { return has_op(kernel.body, Op::kDot); }, device, &tally);
  EXPECT_GT(tally.kernels, 10);
  EXPECT_GT(tally.groups, 2);
}

TEST(GroupSketches, OfReductionsAreRight) {
  OnDevice device = open_device(concat(setting("LW_DEVICE", 0)));
  if (device.session == nullptr) GTEST_SKIP() << device.lacks;
  SketchTally tally;
  expect_right_by("reductions by groups", library_and_fused_ops(kReductions), small_gpu, has_groups, device, &tally);
  EXPECT_GT(tally.kernels, 40);
  EXPECT_GT(tally.meet, tally.kernels / 2);
}

}  // namespace
}  // namespace lw
