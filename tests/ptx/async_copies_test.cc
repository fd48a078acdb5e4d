// Stores that go on their way: their text, what the verifier and the emulator say of those that are
// waited for too late or never, and the PTX of those that are right.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/lower/simt/barriers.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/lower/group_kernels.h"
#include "tests/ptx/printed_program.h"
#include "tests/support/kernel_text.h"
#include "tests/support/program.h"

namespace lw {
namespace {

// Sums along rows of 24 blocks of 128 numbers: in each iteration items read what their neighbours
// fetched two iterations ago into one of three slots.
const char* const kRing = R"(kernel ring arguments=2 variables=8 workspace=0 private=0 packed=0 managed=1536
buffer X f32 3072 argument 0
buffer Y f32 128 argument 1 written
buffer t f32 384 managed 0 0
registers f32x4 6
body {
  for v0 < 1 parallel items 32 {
    int v1 = item
    r5 = const 0
    r0 = load X[4*v1] stride 1
    store t[4*v1] = r0 stride 1 async
    commit
    r1 = load X[4*v1 + 128] stride 1
    store t[4*v1 + 128] = r1 stride 1 async
    commit
    for v2 < 24 {
      landed 1
      if -v2 + 21 >= 0 {
        int v3 = mod v2 + 2, 3
        int v4 = min v2 + 2, 23
        r2 = load X[4*v1 + 128*v4] stride 1
        store t[4*v1 + 128*v3] = r2 stride 1 async
      }
      commit
      int v5 = mod v2, 3
      r3 = load t[-4*v1 + 128*v5 + 124] stride 1
      r5 = add r5, r3
    }
    store Y[-4*v1 + 124] = r5 stride 1
  }
}
)";

std::vector<float> sums(const std::vector<float>& x) {
  std::vector<float> y(128, 0);
  for (size_t i = 0; i < x.size(); ++i) y[i % 128] += x[i];
  return y;
}

std::string reported(const std::string& text, std::vector<float>* result = nullptr) {
  const Kernel kernel = group_kernel(text);
  EXPECT_TRUE(verify(kernel).ok()) << verify(kernel) << text;
  return emulated(kernel, {ItemOrder::Kind::kShuffled, 3}, result);
}

TEST(AsyncCopies, WhatIsRight) {
  const Kernel kernel = parse_kernel(kRing).value();
  EXPECT_EQ(print(kernel), kRing);
  expect_text_says_all(kernel, "ring");
  EXPECT_NE(hash(parse_kernel(altered(kRing, " async", "")).value()), hash(kernel));
  EXPECT_NE(hash(parse_kernel(altered(kRing, "landed 1", "landed 2")).value()), hash(kernel));
  std::vector<float> y;
  EXPECT_EQ(reported(kRing, &y), "");
  EXPECT_EQ(y, sums(GroupArguments(kernel)[0]));
  // No further barrier is needed, and none is placed.
  Kernel placed = kernel;
  ASSERT_TRUE(lowering::place_barriers(placed).ok());
  EXPECT_EQ(print(placed), kRing);

  const absl::StatusOr<SimtProgram> program = ptx_program(kernel, *find_target("nvidia_sm80"));
  ASSERT_TRUE(program.ok()) << program.status();
  for (const char* part : {"cp.async.cg.shared.global [", "cp.async.commit_group;",
                           "cp.async.wait_group 1;"}) {
    EXPECT_NE(program->source.find(part), std::string::npos) << part << program->source;
  }
  EXPECT_EQ(program->source.find("st.shared"), std::string::npos);
  for (const bool early : {false, true}) {
    const GroupArguments arguments(kernel);
    PtxOptions options;
    options.seed = 5;
    options.deliver_early = early;
    const absl::Status ran = run_printed(*program, arguments.pointers(), options);
    ASSERT_TRUE(ran.ok()) << ran << program->source;
    EXPECT_EQ(arguments.result(), sums(arguments[0]));
  }
}

TEST(AsyncCopies, WhatComesTooEarlyIsSeen) {
  const std::string text = kRing;
  struct Case { const char *from, *to, *says; };
  const Case cases[] = {
      // Waits for too few, for none, or only where the others have read.
      {"landed 1", "landed 2", "while it is on its way"},
      {"      landed 1\n", "", "which was never written"},
      {"landed 1", "barrier", "while it is on its way"},
      {"      commit\n      int v5", "      int v5", "while it is on its way"},
      // Fetches into what is still read.
      {"mod v2 + 2, 3", "mod v2, 3", "race for t["},
      {"landed 1\n", "landed 0\nstore t[4*v1] = r0 stride 1\n", "race for t["},
      // Ends before all has come.
      {"-v2 + 21 >= 0", "-v2 + 23 >= 0", "is on its way where group 0 ends"},
  };
  for (const Case& c : cases) {
    const std::string said = reported(altered(text, c.from, c.to));
    EXPECT_NE(said.find(c.says), said.npos) << said << "\nafter " << c.from << " -> " << c.to;
  }
}

TEST(AsyncCopies, WhatIsRefused) {
  const std::string text = kRing;
  struct Case { const char *from, *to, *says; };
  const Case cases[] = {
      {"landed 1", "landed -1", "sets that cannot be"},
      {"landed 1", "if -v1 + 3 >= 0 {\nlanded 1\n}", "items may part"},
      {"    commit\n    r1", "    if -v1 + 3 >= 0 {\ncommit\n}\n    r1", "items may part"},
      {"store Y[-4*v1 + 124] = r5 stride 1", "store Y[-4*v1 + 124] = r5 stride 1 async",
       "whole vectors go on their way, to a group's memory"},
      {"  for v0 < 1", "  commit\n  for v0 < 1", "must stand in a parallel loop"},
  };
  for (const Case& c : cases) expect_verifier_says(altered(text, c.from, c.to), c.says);
}

enum class Wrong { kTakenOut, kBarrierAlone, kOneMore };

// Does that to the `place`th (from 0) of the statements that say when copies have come. False: there
// are not so many, or it is not to be done there.
bool spoil(std::vector<Stmt>& list, Wrong how, int* place) {
  for (size_t i = 0; i < list.size(); ++i) {
    Stmt& s = list[i];
    if (spoil(s.body, how, place) || spoil(s.otherwise, how, place)) return true;
    const bool landed = s.kind == Stmt::Kind::kOp && s.op == Op::kLanded;
    if (!landed && (s.kind != Stmt::Kind::kOp || s.op != Op::kCommit)) continue;
    if ((*place)-- > 0) continue;
    if (how == Wrong::kTakenOut) list.erase(list.begin() + static_cast<int64_t>(i));
    else if (!landed) return false;
    else if (how == Wrong::kBarrierAlone) s.op = Op::kBarrier;
    else ++s.integer;
    return true;
  }
  return false;
}

int64_t rings_in(const std::vector<Stmt>& list) {
  int64_t found = 0;
  for (const Stmt& s : list) {
    found += (s.kind == Stmt::Kind::kOp && s.op == Op::kLanded) + rings_in(s.body) +
             rings_in(s.otherwise);
  }
  return found;
}

// Every one of them, in kernels that are drawn. (Of rings within others, whose sets stand between,
// some waits are for more than they need.)
TEST(AsyncCopies, NoSpoiledKernelPasses) {
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 22)));
  Program program = parse_program(R"(op rows() {
    in A: bf16[32, 96]
    in B: bf16[96, 32]
    out C[i: 32, j: 32] = sum[k: 96](cast(f32, A[i, k]) * cast(f32, B[k, j]))
  })", "").value();
  std::vector<Data> in = fitting_inputs(program, rng);
  const std::optional<HeldProgram> held = held_program("rows", std::move(program), std::move(in));
  ASSERT_TRUE(held.has_value());
  const auto target = std::make_shared<const Target>(*find_target("nvidia_sm90a"));
  const DrawnSpace space(held->program, target, "matrices");
  int64_t kernels = 0, spoiled = 0;
  for (int n = 0; n < 200 && kernels < setting("LW_SPOILED", 6); ++n) {
    const std::optional<Scheduled> drawn = space.draw(true, rng);
    if (!drawn || rings_in(drawn->kernel.body) != 1) continue;
    ++kernels;
    ASSERT_EQ(emulated_wrong(drawn->kernel, *held, ItemOrder::Kind::kShuffled), "");
    for (const Wrong how : {Wrong::kTakenOut, Wrong::kBarrierAlone, Wrong::kOneMore}) {
      for (int place = 0; place < 16; ++place) {
        Kernel wrong = drawn->kernel;
        int left = place;
        if (!spoil(wrong.body, how, &left)) continue;
        ++spoiled;
        EXPECT_NE(emulated_wrong(wrong, *held, ItemOrder::Kind::kShuffled), "")
            << static_cast<int>(how) << " at " << place << "\n" << drawn->schedule << print(wrong);
        if (HasFailure()) return;
      }
    }
  }
  std::printf("%d kernels, %d spoiled\n", static_cast<int>(kernels), static_cast<int>(spoiled));
  EXPECT_GT(spoiled, 5);
}

}  // namespace
}  // namespace lw
