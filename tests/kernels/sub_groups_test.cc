// Rows that a sub-group's items compute together, by exchanging registers, on schedules drawn from
// the space over the library's operators and fused programs: right, with no race in any order of
// the items, and wrong without any one of the exchanges. LW_SHAPES: programs of each operator;
// LW_DRAWS: schedules of each; LW_SEED.
//
// LW_SUBGROUP_DEVICE=opencl:NAME has them computed by that device too (docs/opencl.md says how that
// can be Intel's, of processors). No driver that Debian has offers sub-groups.
#include <cstdio>
#include <cstdlib>

#include "src/kernel/groups.h"
#include "tests/kernels/opencl_device.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr double kMostFlops = 1e5;         // the emulator is slow
constexpr double kMostDeviceFlops = 1e6;

// Of rows that groups of several sub-groups come out even with: what is drawn is odd, mostly.
constexpr std::string_view kEvenRows = R"(
op even_softmax(M = 16, N = 64) {
  in X: f32[8 * M, N]
  top[i: 8 * M] = max[j: N](X[i, j])
  E[i: 8 * M, j: N] = exp(X[i, j] - top[i])
  total[i: 8 * M] = sum[j: N](E[i, j])
  out Y[i: 8 * M, j: N] = E[i, j] / total[i]
}
op even_norm(B = 2, M = 16, N = 64) {
  in X: f32[B, 4 * M, N]
  in scale: f32[N]
  S[b: B, i: 4 * M] = sum[j: N](X[b, i, j])
  mean[b: B, i: 4 * M] = S[b, i] / cast(f32, N)
  apart[b: B, i: 4 * M, j: N] = X[b, i, j] - mean[b, i]
  V[b: B, i: 4 * M] = sum[j: N](apart[b, i, j] * apart[b, i, j])
  out Y[b: B, i: 4 * M, j: N] =
      apart[b, i, j] * rsqrt(V[b, i] / cast(f32, N) + 1e-3) * scale[j]
}
op even_sums(B = 3, M = 16, N = 64) {
  in X: f32[B, 4 * M, N]
  out Y[b: B, i: 4 * M] = sum[j: N](X[b, i, j])
}
op even_maxima(M = 16, N = 64) {
  in X: i32[2 * M, N]
  top[i: 2 * M] = max[j: N](X[i, j])
  out Y[i: 2 * M, j: N] = top[i] - X[i, j]
}
)";

std::shared_ptr<const Target> with_sub_groups(int items) {
  Target target = *find_target("opencl_intel_gpu");
  SimtTarget part = simt(target);
  part.sub_group = items;
  part.fp64 = true;
  set_simt(&target, std::move(part));
  return std::make_shared<const Target>(std::move(target));
}

// Schedules of a program's space that exchange registers.
class ExchangingSpace {
 public:
  ExchangingSpace(const HeldProgram& held, std::shared_ptr<const Target> target)
      : start_(make_nest(held.program, std::move(target), 1)) {
    for (Sketch& sketch : make_space(start_)) {
      if (sketch.name.find("sub-groups") == std::string::npos) continue;
      const bool several = sketch.name.find("several of a group") != std::string::npos;
      (several ? several_ : sketches_).push_back(std::move(sketch));
    }
  }
  // `several`: of a group, where that is possible. nullopt: none of some attempts was feasible, or
  // there are none.
  std::optional<Scheduled> draw(bool several, Rng& rng) {
    const std::vector<Sketch>& sketches = several && !several_.empty() ? several_ : sketches_;
    for (int n = 0; n < 10 && !sketches.empty(); ++n) {
      ++draws_;
      std::optional<Scheduled> drawn = draw_kernel(start_, sketches, rng, 1);
      if (drawn && has_op(drawn->kernel.body, Op::kAcross)) return drawn;
    }
    return std::nullopt;
  }
  bool empty() const { return sketches_.empty(); }
  int64_t draws() const { return draws_; }

 private:
  Nest start_;
  std::vector<Sketch> sketches_, several_;
  int64_t draws_ = 0;
};

// Makes the `which`th exchange, counted down to -1, leave every item with what it has.
void take_exchange(std::vector<Stmt>& list, int* which) {
  for (Stmt& s : list) {
    if (s.kind == Stmt::Kind::kOp && s.op == Op::kAcross && (*which)-- == 0) s.integer = 1;
    take_exchange(s.body, which);
    take_exchange(s.otherwise, which);
  }
}

struct ExchangeTally {
  int programs = 0, kernels = 0, exchanges = 0, needed = 0, barriers = 0;
  int several = 0;                         // kernels whose groups are several sub-groups
  int mistaken = 0;                        // that the driver compiled wrongly
  int64_t draws = 0;
};

bool has_larger_groups(const Kernel& kernel, int sub_group) {
  return std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Stmt& launch) {
    return launch.items > sub_group && has_op(launch.body, Op::kAcross);
  });
}

void expect_needed(const Kernel& kernel, const HeldProgram& held, ExchangeTally* tally) {
  for (int n = 0;; ++n) {
    Kernel without = kernel;
    int which = n;
    take_exchange(without.body, &which);
    if (which >= 0) return;                // there are not so many
    ++tally->exchanges;
    tally->needed += !emulated_wrong(without, held, ItemOrder::Kind::kAscending).empty();
  }
}

// Calls `check` with schedules of all that has rows, of a sub-group each.
void for_each_drawn(double most_flops, int64_t usual_shapes,
                    const std::function<std::shared_ptr<const Target>(Rng&)>& target,
                    const std::function<void(const HeldProgram&, const Scheduled&)>& check,
                    ExchangeTally* tally) {
  const int64_t draws = setting("LW_DRAWS", 2);
  const auto visit = [&](const HeldProgram& held, std::shared_ptr<const Target> on, Rng& rng) {
    ExchangingSpace space(held, on);
    if (space.empty()) return;
    SCOPED_TRACE(concat(held.name, ", sub-groups of ", simt(*on).sub_group));
    ++tally->programs;
    for (int64_t k = 0; k < draws; ++k) {
      const std::optional<Scheduled> drawn = space.draw(k % 2 == 1, rng);
      if (!drawn) break;
      ++tally->kernels;
      tally->barriers += has_op(drawn->kernel.body, Op::kBarrier);
      tally->several += has_larger_groups(drawn->kernel, simt(*on).sub_group);
      check(held, *drawn);
      if (testing::Test::HasFatalFailure()) return;
    }
    tally->draws += space.draws();
  };
  for_each_held(library_and_fused_ops(kEvenRows), usual_shapes, most_flops, target, visit);
}

TEST(SubGroups, RowsAreRightAndNeedEveryExchange) {
  ExchangeTally tally;
  for_each_drawn(
      kMostFlops, 4, [](Rng& rng) { return with_sub_groups(1 << (1 + rng.below(5))); },
      [&](const HeldProgram& held, const Scheduled& drawn) {
        for (const ItemOrder::Kind order :
             {ItemOrder::Kind::kAscending, ItemOrder::Kind::kDescending,
              ItemOrder::Kind::kShuffled}) {
          ASSERT_EQ(emulated_wrong(drawn.kernel, held, order), "")
              << drawn.schedule << print(drawn.kernel);
        }
        expect_needed(drawn.kernel, held, &tally);
      },
      &tally);
  std::printf("%d programs, %d kernels of %lld draws, %d of several a group, %d with barriers, "
              "%d exchanges, %d needed\n", tally.programs, tally.kernels,
              static_cast<long long>(tally.draws), tally.several, tally.barriers, tally.exchanges,
              tally.needed);
  EXPECT_GT(tally.several, 10);
  EXPECT_GT(tally.kernels, 20);
  // Of products' rows that an edge has too many, nobody keeps what was exchanged.
  EXPECT_GE(tally.needed, 0.85 * tally.exchanges);
}

TEST(SubGroups, ADeviceComputesTheSame) {
  const char* const name = std::getenv("LW_SUBGROUP_DEVICE");
  if (name == nullptr) GTEST_SKIP() << "LW_SUBGROUP_DEVICE names no device with sub-groups";
  ASSERT_EQ(std::string_view(name).substr(0, 7), "opencl:") << "LW_SUBGROUP_DEVICE=opencl:NAME";
  OnDevice device = open_device(name + 7);
  ASSERT_NE(device.session, nullptr) << device.lacks;
  ASSERT_GT(simt(*device.target).sub_group, 1) << simt(*device.target).device << " has none";
  ExchangeTally tally;
  for_each_drawn(
      kMostDeviceFlops, 2, [&](Rng&) { return device.target; },
      [&](const HeldProgram& held, const Scheduled& drawn) {
        const std::vector<int64_t> sizes = result_bytes(*held.program);
        absl::StatusOr<std::vector<Data>> got = run_on(device, drawn.kernel, sizes, held.in);
        const auto source = [&] {
          return opencl_backend().text(drawn.kernel, *device.target, "opencl").value_or("");
        };
        ASSERT_TRUE(got.ok()) << got.status() << "\n" << drawn.schedule << source();
        const std::string wrong = wrong_result(held, *got);
        if (wrong.empty()) return;
        // Intel's 2026.2 compiles some kernels wrongly, sub-groups or not: loads under different
        // masks in both branches of an `if`. Where it optimises nothing it does not.
        got = run_on(device, drawn.kernel, sizes, held.in, " -cl-opt-disable");
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_EQ(wrong_result(held, *got), "") << drawn.schedule << source();
        std::printf("%s: the driver's compiler is mistaken: %s\n", held.name.c_str(), wrong.c_str());
        ++tally.mistaken;
      },
      &tally);
  std::printf("%s, sub-groups of %d: %d programs, %d kernels, %d of several a group, %d with "
              "barriers, %d compiled wrongly\n", simt(*device.target).device.c_str(),
              simt(*device.target).sub_group, tally.programs, tally.kernels, tally.several,
              tally.barriers, tally.mistaken);
  EXPECT_LE(tally.mistaken, 1 + tally.kernels / 20);
  EXPECT_GT(tally.kernels, 20);
}

}  // namespace
}  // namespace lw
