// Products of four sub-groups: their text, what the verifier and the emulator say of those that are not
// waited for or whose operands are written meanwhile, and the PTX of those that are right.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/kernel/ops.h"
#include "src/lower/simt/barriers.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/lower/group_kernels.h"
#include "tests/ptx/printed_program.h"
#include "tests/ptx/wide_kernels.h"
#include "tests/support/kernel_text.h"
#include "tests/support/program.h"

namespace lw {
namespace {

// C[64, 16] = the sum over five blocks of A[64, 64] B[16, 64], of three slots: one is multiplied, one
// may still be, one is fetched.
const char* const kWide =
    R"(kernel wide arguments=3 variables=12 workspace=0 private=0 packed=0 managed=30720
buffer A bf16 20480 argument 0
buffer B bf16 5120 argument 1
buffer C f32 1024 argument 2 written
buffer s bf16 12288 managed 0 0 swizzled
buffer t bf16 3072 managed 0 24576 swizzled
registers bf16x8 4
registers f32x2 4
body {
  for v0 < 1 parallel items 128 {
    int v1 = item
    int v2 = div v1, 32
    int v3 = mod v1, 32
    int v4 = div v3, 4
    int v5 = mod v3, 4
    r4 = const 0
    r5 = const 0
    r6 = const 0
    r7 = const 0
    for v6 < 4 {
      r0 = load A[8*v1 + 1024*v6] stride 1
      store s[8*v1 + 1024*v6] = r0 stride 1 async
    }
    r1 = load B[8*v1] stride 1
    store t[8*v1] = r1 stride 1 async
    commit
    for v7 < 5 {
      landed 0
      if -v7 + 3 >= 0 {
        int v8 = mod v7 + 1, 3
        int v9 = min v7 + 1, 4
        for v10 < 4 {
          r2 = load A[8*v1 + 4096*v9 + 1024*v10] stride 1
          store s[8*v1 + 4096*v8 + 1024*v10] = r2 stride 1 async
        }
        r3 = load B[8*v1 + 1024*v9] stride 1
        store t[8*v1 + 1024*v8] = r3 stride 1 async
      }
      commit
      int v11 = mod v7, 3
      widemul r4, r5, r6, r7 += s[1024*v2 + 4096*v11] (64, 0, 0, 1), t[1024*v11] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r4, r5, r6, r7 += s[1024*v2 + 4096*v11 + 16] (64, 0, 0, 1), t[1024*v11 + 16] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r4, r5, r6, r7 += s[1024*v2 + 4096*v11 + 32] (64, 0, 0, 1), t[1024*v11 + 32] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r4, r5, r6, r7 += s[1024*v2 + 4096*v11 + 48] (64, 0, 0, 1), t[1024*v11 + 48] (0, 0, 64, 1) over 16, 1, 16, 16
      multiplied 1
    }
    multiplied 0
    store C[256*v2 + 16*v4 + 2*v5] = r4 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 128] = r5 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 8] = r6 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 136] = r7 stride 1
  }
}
)";

// The same product, of two slots, whose items have A in registers: for each 16 along k its rows g and
// g + 8, from 2 t and from 2 t + 8 on.
const char* const kMade =
    R"(kernel made arguments=3 variables=10 workspace=0 private=0 packed=0 managed=4096
buffer A bf16 20480 argument 0
buffer B bf16 5120 argument 1
buffer C f32 1024 argument 2 written
buffer t bf16 2048 managed 0 0 swizzled
registers bf16x8 1
registers f32x2 4
registers bf16x2 16
body {
  for v0 < 1 parallel items 128 {
    int v1 = item
    int v2 = div v1, 32
    int v3 = mod v1, 32
    int v4 = div v3, 4
    int v5 = mod v3, 4
    r1 = const 0
    r2 = const 0
    r3 = const 0
    r4 = const 0
    r0 = load B[8*v1] stride 1
    store t[8*v1] = r0 stride 1 async
    commit
    for v6 < 5 {
      landed 0
      if -v6 + 3 >= 0 {
        int v7 = mod v6 + 1, 2
        int v8 = min v6 + 1, 4
        r0 = load B[8*v1 + 1024*v8] stride 1
        store t[8*v1 + 1024*v7] = r0 stride 1 async
      }
      commit
      int v9 = mod v6, 2
      r5 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6] stride 1
      r6 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 512] stride 1
      r7 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 8] stride 1
      r8 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 520] stride 1
      r9 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 16] stride 1
      r10 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 528] stride 1
      r11 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 24] stride 1
      r12 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 536] stride 1
      r13 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 32] stride 1
      r14 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 544] stride 1
      r15 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 40] stride 1
      r16 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 552] stride 1
      r17 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 48] stride 1
      r18 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 560] stride 1
      r19 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 56] stride 1
      r20 = load A[1024*v2 + 64*v4 + 2*v5 + 4096*v6 + 568] stride 1
      widemul r1, r2, r3, r4 += r5, r6, r7, r8, t[1024*v9] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r1, r2, r3, r4 += r9, r10, r11, r12, t[1024*v9 + 16] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r1, r2, r3, r4 += r13, r14, r15, r16, t[1024*v9 + 32] (0, 0, 64, 1) over 16, 1, 16, 16
      widemul r1, r2, r3, r4 += r17, r18, r19, r20, t[1024*v9 + 48] (0, 0, 64, 1) over 16, 1, 16, 16
      multiplied 0
    }
    store C[256*v2 + 16*v4 + 2*v5] = r1 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 128] = r2 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 8] = r3 stride 1
    store C[256*v2 + 16*v4 + 2*v5 + 136] = r4 stride 1
  }
}
)";

constexpr int kBlocks = 5;

ProductArguments wide_arguments() {
  return product_arguments(
      64, 16, 64 * kBlocks,
      [](size_t i, size_t k) { return 4096 * (k / 64) + 64 * i + k % 64; },
      [](size_t j, size_t k) { return 1024 * (k / 64) + 64 * j + k % 64; });
}

std::string told_of_wide(const std::string& text, ItemOrder::Kind order = ItemOrder::Kind::kShuffled) {
  return emulated_product(text, wide_arguments(), order);
}

void expect_printed_is_right(const std::string& text) {
  const absl::StatusOr<SimtProgram> program =
      ptx_program(parse_kernel(text).value(), *find_target("nvidia_sm90a"));
  ASSERT_TRUE(program.ok()) << program.status();
  for (const bool early : {false, true}) {
    ProductArguments arguments = wide_arguments();
    PtxOptions options;
    options.seed = 5;
    options.deliver_early = early;
    const absl::Status ran = run_printed(*program, arguments.pointers().data(), options);
    ASSERT_TRUE(ran.ok()) << ran << program->source;
    EXPECT_EQ(arguments.c, arguments.want);
  }
}

TEST(WideProducts, WhatIsRight) {
  const Kernel kernel = parse_kernel(kWide).value();
  EXPECT_EQ(print(kernel), kWide);
  expect_text_says_all(kernel, "wide");
  for (const auto& [from, to] : {std::pair("multiplied 1", "multiplied 2"),
                                 std::pair("managed 0 0 swizzled", "managed 0 0"),
                                 std::pair("(64, 0, 0, 1)", "(1, 0, 0, 64)"),
                                 std::pair("t[1024*v11 + 16]", "t[1024*v11 + 32]")}) {
    EXPECT_NE(hash(parse_kernel(altered(kWide, from, to)).value()), hash(kernel)) << to;
  }
  for (const auto order : {ItemOrder::Kind::kAscending, ItemOrder::Kind::kDescending,
                           ItemOrder::Kind::kShuffled}) {
    EXPECT_EQ(told_of_wide(kWide, order), "");
  }
  // No further barrier is needed, and none is placed.
  Kernel placed = kernel;
  ASSERT_TRUE(lowering::place_barriers(placed).ok());
  EXPECT_EQ(print(placed), kWide);

  const absl::StatusOr<SimtProgram> program = ptx_program(kernel, *find_target("nvidia_sm90a"));
  ASSERT_TRUE(program.ok()) << program.status();
  for (const char* part : {"wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;",
                           "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {",
                           "wgmma.wait_group.sync.aligned 1;", "fence.proxy.async;",
                           "cp.async.cg.shared.global ["}) {
    EXPECT_NE(program->source.find(part), std::string::npos) << part << program->source;
  }
  expect_printed_is_right(kWide);
}

TEST(WideProducts, WhatComesTooEarlyIsSeen) {
  struct Case { const char *from, *to, *says; };
  const Case cases[] = {
      // Slots are filled while a product reads them; results are stored before they are there.
      {"      multiplied 1\n", "", "while a product reads it"},
      {"      multiplied 1\n", "      multiplied 2\n", "while a product reads it"},
      {"    multiplied 0\n", "", "multiplies is on its way where group 0 ends"},
      {"    multiplied 0\n    store C[256*v2 + 16*v4 + 2*v5] = r4 stride 1\n",
       "    store C[256*v2 + 16*v4 + 2*v5] = r4 stride 1\n    multiplied 0\n", "wrong"},
      {"    multiplied 0\n", "    multiplied 1\n", "is on its way where group 0 ends"},
      {"mod v7 + 1, 3", "mod v7 + 2, 3", ""},
      // Copies that are not there yet, or that nobody waits for together.
      {"landed 0", "landed 1", "while it is on its way"},
      {"      landed 0\n", "", "while it is on its way"},
      // Rows that do not follow those of the sub-group before.
      {"s[1024*v2 + 4096*v11 + 16]", "s[4096*v11 + 16]", "part at"},
      {"t[1024*v11 + 16]", "t[16*v2 + 16]", "part at"},
  };
  for (const Case& c : cases) {
    const std::string said = told_of_wide(altered(kWide, c.from, c.to));
    EXPECT_NE(said, "") << c.from << " -> " << c.to;
    EXPECT_NE(said.find(c.says), said.npos) << said << "\nafter " << c.from << " -> " << c.to;
  }
}

TEST(WideProducts, WhatIsRefused) {
  struct Case { const char *from, *to, *says; };
  const Case cases[] = {
      {"items 128", "items 64", "64 items make no sub-groups of 128"},
      {"managed 0 0 swizzled", "managed 0 0", "swizzled memory of a group"},
      {"managed 0 24576 swizzled", "managed 0 24640 swizzled", "a multiple of 1024"},
      {"A bf16 20480 argument 0", "A bf16 20480 argument 0 swizzled", "is a group's"},
      {"over 16, 1, 16, 16", "over 16, 1, 8, 16", "registers and box differ"},
      {"over 16, 1, 16, 16", "over 16, 1, 16", "registers and box differ"},
      {"(64, 0, 0, 1)", "(64, 0, 1)", "a stride for each extent"},
      {"(64, 0, 0, 1)", "(64, 0, -1, 1)", "strides reach out of its buffer"},
      {"(64, 0, 0, 1)", "(64, 0, 9223372036854775807, 1)", "strides reach out of its buffer"},
      {"over 16, 1, 16, 16", "over 16, 4611686018427387904, 4, 16", "registers and box differ"},
      {"widemul r4, r5, r6, r7", "widemul r4, r5, r6, r6", "no product of matrices"},
      {"widemul r4, r5, r6, r7", "widemul r4, r5, r6, r0", "no product of matrices"},
      {"s[1024*v2 + 4096*v11]", "s[1024*v2 + 4096*v11 + 8192]", "may reach element"},
      {"multiplied 1", "multiplied 65", "sets that cannot be"},
      {"      multiplied 1\n", "      if -v1 + 3 >= 0 {\nmultiplied 1\n}\n", "items may part"},
  };
  for (const Case& c : cases) expect_verifier_says(altered(kWide, c.from, c.to), c.says);
  for (const char* to : {"widemul r4, r5, r6, r7 += s[0] (64, 0, 0, 1)", "widemul += s[0] (1)"}) {
    const std::string text = altered(kWide, "widemul r4, r5, r6, r7", to);
    EXPECT_FALSE(parse_kernel(text).ok()) << to;
  }
}

// Layouts that the interpreter of kernels takes and the instruction does not.
TEST(WideProducts, LayoutsThatTheInstructionHasNot) {
  const std::string rows = altered(kWide, "(64, 0, 0, 1)", "(32, 0, 0, 2)");
  for (const char* target : {"nvidia_sm90a"}) {
    const absl::StatusOr<SimtProgram> program =
        ptx_program(parse_kernel(rows).value(), *find_target(target));
    ASSERT_FALSE(program.ok());
    EXPECT_NE(program.status().message().find("no rows of 128 bytes"), std::string::npos)
        << program.status();
  }
}

TEST(WideProducts, FactorsInRegisters) {
  const Kernel kernel = parse_kernel(kMade).value();
  EXPECT_EQ(print(kernel), kMade);
  expect_text_says_all(kernel, "made");
  EXPECT_NE(hash(parse_kernel(altered(kMade, "+= r5, r6, r7", "+= r6, r5, r7")).value()),
            hash(kernel));
  for (const auto order : {ItemOrder::Kind::kAscending, ItemOrder::Kind::kDescending,
                           ItemOrder::Kind::kShuffled}) {
    EXPECT_EQ(told_of_wide(kMade, order), "");
  }
  expect_printed_is_right(kMade);

  struct Case { const char *from, *to, *says; };
  const Case wrong[] = {
      // Registers are read until products are done, and slots.
      {"      multiplied 0\n", "      r5 = move r6\n      multiplied 0\n", "wrong"},
      {"      multiplied 0\n", "      multiplied 1\n", "while a product reads it"},
      {"      multiplied 0\n", "", "while a product reads it"},
      {"r5, r6, r7, r8, t", "r5, r7, r6, r8, t", "wrong"},
      {"r5, r6, r7, r8, t[1024*v9]", "r5, r6, r7, r8, t[1024*v9 + 16*v2]", "part at"},
  };
  for (const Case& c : wrong) {
    const std::string said = told_of_wide(altered(kMade, c.from, c.to));
    EXPECT_NE(said.find(c.says), said.npos) << said << "\nafter " << c.from << " -> " << c.to;
  }
  const Case refused[] = {
      {"r5, r6, r7, r8, t", "r5, r6, r7, r0, t", "no product of matrices"},
      {"r5, r6, r7, r8, t", "r5, r6, r7, r4, t", "no product of matrices"},
      {"managed 0 0 swizzled", "managed 0 0", "swizzled memory of a group"},
      {"over 16, 1, 16, 16", "over 16, 1, 8, 16", "registers and box differ"},
      {"(0, 0, 64, 1)", "(0, 0, 64)", "a stride for each extent"},
  };
  for (const Case& c : refused) expect_verifier_says(altered(kMade, c.from, c.to), c.says);
  for (const char* to : {"r5, r6, r7, t", "r5, r6, r7, r8", "r5, r6, r7, r8, r9, t"}) {
    EXPECT_FALSE(parse_kernel(altered(kMade, "r5, r6, r7, r8, t", to)).ok()) << to;
  }
}

enum class Wrong { kTakenOut, kOneMore };

// Of the statements that say when products are done, the `place`th (from 0). False: there is none.
bool spoil(std::vector<Stmt>& list, Wrong how, int* place) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (spoil(list[i].body, how, place) || spoil(list[i].otherwise, how, place)) return true;
    if (!is_op(list[i], Op::kMultiplied) || (*place)-- > 0) continue;
    if (how == Wrong::kTakenOut) list.erase(list.begin() + static_cast<int64_t>(i));
    else ++list[i].integer;
    return true;
  }
  return false;
}

void expect_no_spoiled_passes(const char* text) {
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 22)));
  Program program = parse_program(text, "").value();
  std::vector<Data> in = fitting_inputs(program, rng);
  const std::optional<HeldProgram> held =
      held_program("rows", std::move(program), std::move(in), 3e7);
  ASSERT_TRUE(held.has_value());
  const auto target = std::make_shared<const Target>(*find_target("nvidia_sm90a"));
  const DrawnSpace space(held->program, target, "four sub-groups");
  int kernels = 0, spoiled = 0;
  for (int n = 0; n < 200 && kernels < setting("LW_SPOILED", 6); ++n) {
    const std::optional<Scheduled> drawn = space.draw(true, rng);
    if (!drawn) continue;
    ++kernels;
    ASSERT_EQ(emulated_wrong(drawn->kernel, *held, ItemOrder::Kind::kShuffled), "");
    for (const Wrong how : {Wrong::kTakenOut, Wrong::kOneMore}) {
      for (int place = 0; place < 8; ++place) {
        Kernel wrong = drawn->kernel;
        int left = place;
        if (!spoil(wrong.body, how, &left)) continue;
        ++spoiled;
        EXPECT_NE(emulated_wrong(wrong, *held, ItemOrder::Kind::kShuffled), "")
            << static_cast<int>(how) << " at " << place << "\n" << drawn->schedule << print(wrong);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  std::printf("%d kernels, %d spoiled\n", kernels, spoiled);
  EXPECT_GT(spoiled, kernels);
}

// Every one of them, in kernels that are drawn, of more blocks than there are slots.
TEST(WideProducts, NoSpoiledKernelPasses) {
  expect_no_spoiled_passes(R"(op rows() {
    in A: bf16[64, 320]
    in B: bf16[16, 320]
    out C[i: 64, j: 16] = sum[k: 320](cast(f32, A[i, k]) * cast(f32, B[j, k]))
  })");
  expect_no_spoiled_passes(R"(op made_rows() {
    in A: i8[64, 320]
    in B: bf16[16, 320]
    out C[i: 64, j: 16] = sum[k: 320](cast(f32, cast(bf16, A[i, k])) * cast(f32, B[j, k]))
  })");
}

}  // namespace
}  // namespace lw
