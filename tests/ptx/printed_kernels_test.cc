// Kernels for NVIDIA's GPUs without one: schedules that are drawn from the spaces of sm_80 and
// sm_90a, of the library's operators and programs that fuse, at extents that are drawn, are right
// and without a race on the emulator of many threads, their PTX is right on its interpreter, in
// other orders of warps too, and the assembler takes it.
//
// LW_SHAPES: programs of each operator; LW_PRINTED: schedules of each; LW_SEED; LW_ASSEMBLED: of
// how many kernels one is assembled.
#include <cstdio>

#include "absl/types/span.h"
#include "src/build/simt/ptx/assembler/assemble.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/kernel/groups.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/ptx/printed_program.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr double kMostPrintedFlops = 3e4;  // emulator and interpreter are slow

// Products of matrices, whose operands are what instructions take.
constexpr std::string_view kMatrices = R"(
op bf16_matmul(M = 64, N = 64, K = 64) {
  in A: bf16[M, K]
  in B: bf16[K, N]
  out C[i: M, j: N] = sum[k: K](cast(f32, A[i, k]) * cast(f32, B[k, j]))
}
op f16_matmul_gelu(M = 64, N = 64, K = 64) {
  in A: f16[M, K]
  in B: f16[N, K]
  in b: f32[N]
  C[i: M, j: N] = sum[k: K](cast(f32, A[i, k]) * cast(f32, B[j, k]))
  out D[i: M, j: N] = cast(f16, max(C[i, j] + b[j], 0.0))
}
op bf16_batch(B = 3, M = 24, N = 40, K = 48) {
  in X: bf16[B, M, K]
  in Y: bf16[B, K, N]
  out C[b: B, i: M, j: N] = sum[k: K](cast(f32, X[b, i, k]) * cast(f32, Y[b, k, j]))
}
op i8_matmul(M = 64, N = 64, K = 64) {
  in A: i8[M, K]
  in B: i8[N, K]
  out C[i: M, j: N] = sum[k: K](cast(i32, A[i, k]) * cast(i32, B[j, k]))
}
op u8_matmul(M = 64, N = 64, K = 64) {
  in A: u8[M, K]
  in B: i8[K, N]
  out C[i: M, j: N] = sum[k: K](cast(i32, A[i, k]) * cast(i32, B[k, j]))
}
op f64_matmul(M = 32, N = 32, K = 32) {
  in A: f64[M, K]
  in B: f64[K, N]
  out C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])
}
op bf16_products_of_quotients(M = 32, N = 32, K = 40) {
  in A: bf16[M, K]
  in B: bf16[K, N]
  out C[i: M, j: N] = sum[k: K](
      cast(f32, A[i, k]) * cast(f32, cast(bf16, 1.0 / (cast(f32, B[k, j]) + 2.0))))
}
op bf16_windows(M = 24, N = 24, K = 24) {
  in A: bf16[M + K]
  in B: bf16[N + K]
  out C[i: M, j: N] = sum[k: K](cast(f32, A[i + k]) * cast(f32, B[j + k]))
}
op bf16_padded_conv(N = 1, H = 8, W = 32, CI = 16, CO = 16) {
  in X: bf16[N, H, W, CI]
  in F: bf16[3, 3, CI, CO] const
  out Y[n: N, y: H, x: W, o: CO] = sum[r: 3, s: 3, c: CI](
      cast(f32, pad(X[n, y + r - 1, x + s - 1, c], 0)) * cast(f32, F[r, s, c, o]))
}
op bf16_conv(N = 1, H = 8, W = 8, CI = 16, CO = 16) {
  in X: bf16[N, H + 2, W + 2, CI]
  in F: bf16[3, 3, CI, CO] const
  out Y[n: N, y: H, x: W, o: CO] = sum[r: 3, s: 3, c: CI](
      cast(f32, X[n, y + r, x + s, c]) * cast(f32, F[r, s, c, o]))
}
)";

// Of such extents that no matrix is cut, from which items read whole rows, along k and across it.
constexpr const char* kWholeMatrices[] = {
    R"(op rows() {
      in A: bf16[32, 32]
      in B: bf16[32, 32]
      out C[i: 32, j: 32] = sum[k: 32](cast(f32, A[i, k]) * cast(f32, B[k, j]))
    })",
    R"(op columns() {
      in A: f16[32, 32]
      in B: f16[32, 32]
      out C[i: 32, j: 32] = sum[k: 32](cast(f32, A[k, i]) * cast(f32, B[j, k]))
    })",
    R"(op bytes() {
      in A: i8[32, 32]
      in B: u8[32, 32]
      out C[i: 32, j: 32] = sum[k: 32](cast(i32, A[i, k]) * cast(i32, B[j, k]))
    })",
    R"(op windows() {
      in X: bf16[4, 18, 16]
      in F: bf16[3, 3, 16, 16]
      out Y[y: 2, x: 16, o: 16] = sum[r: 3, s: 3, c: 16](
          cast(f32, X[y + r, x + s, c]) * cast(f32, F[r, s, c, o]))
    })"};

// Whose operands four sub-groups may read where they lie: rows along k, panels of columns, both.
constexpr const char* kWideProducts[] = {
    R"(op panels() {
      in A: bf16[64, 192]
      in B: bf16[192, 128]
      out C[i: 64, j: 128] = sum[k: 192](cast(f32, A[i, k]) * cast(f32, B[k, j]))
    })",
    R"(op columns() {
      in A: f16[192, 128]
      in B: f16[24, 192]
      in b: f32[24]
      C[i: 128, j: 24] = sum[k: 192](cast(f32, A[k, i]) * cast(f32, B[j, k]))
      out D[i: 128, j: 24] = cast(f16, max(C[i, j] + b[j], 0.0))
    })",
    R"(op bytes() {
      in A: i8[2, 64, 256]
      in B: i8[48, 256]
      out C[b: 2, i: 64, j: 48] = sum[k: 256](cast(i32, A[b, i, k]) * cast(i32, B[j, k]))
    })",
    R"(op few_rows() {
      in X: bf16[16, 256]
      in W: bf16[128, 256]
      C[i: 16, j: 128] = sum[k: 256](cast(f32, X[i, k]) * cast(f32, W[j, k]))
      out Y[i: 16, j: 128] = cast(bf16, C[i, j])
    })",
    R"(op many_groups() {
      in A: bf16[256, 192]
      in B: bf16[16, 192]
      out C[i: 256, j: 16] = sum[k: 192](cast(f32, A[i, k]) * cast(f32, B[j, k]))
    })",
    R"(op rows_by_rows() {
      in A: bf16[128, 192]
      out C[i: 128, j: 128] = sum[k: 192](cast(f32, A[i, k]) * cast(f32, A[j, k]))
    })",
    R"(op windows() {
      in X: bf16[66, 128]
      in F: bf16[3, 128, 64] const
      out Y[x: 64, o: 64] = sum[s: 3, c: 128](cast(f32, X[x + s, c]) * cast(f32, F[s, c, o]))
    })",
    // Of whose factors one is made by items, along either side.
    R"(op made() {
      in A: bf16[128, 192]
      in s: bf16[128]
      in B: bf16[192, 64]
      out C[i: 128, j: 64] = sum[k: 192](
          cast(f32, cast(bf16, max(cast(f32, A[i, k]) - cast(f32, s[i]), 0.0))) *
          cast(f32, B[k, j]))
    })",
    R"(op weights_of_bytes() {
      in X: bf16[24, 256]
      in W: i8[128, 256]
      in s: f32[128]
      C[i: 24, j: 128] = sum[k: 256](cast(f32, X[i, k]) * cast(f32, cast(bf16, W[j, k])))
      out Y[i: 24, j: 128] = cast(bf16, C[i, j] * s[j])
    })",
    R"(op made_across() {
      in A: bf16[2, 128, 100]
      in B: bf16[2, 128, 72]
      out C[b: 2, i: 100, j: 72] = sum[k: 128](
          cast(f32, cast(bf16, max(cast(f32, A[b, k, i]), 0.0))) * cast(f32, B[b, k, j]))
    })",
    // Whose tiles reach beyond ends.
    R"(op ends() {
      in A: bf16[100, 136]
      in B: bf16[136, 72]
      out C[i: 100, j: 72] = sum[k: 136](cast(f32, A[i, k]) * cast(f32, B[k, j]))
    })",
    R"(op odd_rows() {
      in A: f16[3, 65, 128]
      in B: f16[19, 128]
      in b: f32[19]
      C[n: 3, i: 65, j: 19] = sum[k: 128](cast(f32, A[n, i, k]) * cast(f32, B[j, k]))
      out D[n: 3, i: 65, j: 19] = cast(f16, max(C[n, i, j] + b[j], 0.0))
    })",
    R"(op bytes_that_end() {
      in A: u8[70, 208]
      in B: u8[48, 208]
      out C[i: 70, j: 48] = sum[k: 208](cast(i32, A[i, k]) * cast(i32, B[j, k]))
    })",
    R"(op windows_that_end() {
      in X: bf16[101, 72]
      in F: bf16[3, 72, 72]
      out Y[x: 99, o: 72] = sum[s: 3, c: 72](cast(f32, X[x + s, c]) * cast(f32, F[s, c, o]))
    })",
    // Around whose tensors there are zeros.
    R"(op images() {
      in X: bf16[2, 16, 64]
      in F: bf16[3, 3, 64, 64] const
      out Y[y: 2, x: 16, o: 64] = sum[r: 3, s: 3, c: 64](
          cast(f32, pad(X[y + r - 1, x + s - 1, c], 0)) * cast(f32, F[r, s, c, o]))
    })",
    R"(op lines() {
      in X: f16[2, 35, 72]
      in F: f16[5, 72, 72]
      out Y[n: 2, x: 35, o: 72] = sum[s: 5, c: 72](
          cast(f32, pad(X[n, x + s - 3, c], 0)) * cast(f32, F[s, c, o]))
    })"};

// Of which two axes together have rows for four sub-groups: 2 to 32 points of the inner one, tiles
// that fill extents and that reach beyond one or both, of images and of volumes.
constexpr const char* kRowsOfTwoAxes[] = {
    R"(op whole() {
      in X: bf16[8, 16, 128]
      in F: bf16[128, 64]
      in b: f32[64]
      C[y: 8, x: 16, o: 64] = sum[c: 128](cast(f32, X[y, x, c]) * cast(f32, F[c, o]))
      out Y[y: 8, x: 16, o: 64] = cast(bf16, max(C[y, x, o] + b[o], 0.0))
    })",
    R"(op small_images() {
      in X: f16[2, 10, 12, 72]
      in F: f16[3, 3, 24, 72] const
      out Y[n: 2, y: 10, x: 12, o: 24] = sum[r: 3, s: 3, c: 72](
          cast(f32, pad(X[n, y + r - 1, x + s - 1, c], 0)) * cast(f32, F[r, s, o, c]))
    })",
    R"(op many_images() {
      in X: bf16[35, 2, 5, 128]
      in F: bf16[3, 40, 128]
      out Y[n: 35, y: 2, x: 5, o: 40] = sum[s: 3, c: 128](
          cast(f32, pad(X[n, y, x + s - 1, c], 0)) * cast(f32, F[s, o, c]))
    })",
    R"(op long_lines() {
      in X: bf16[5, 36, 64]
      in F: bf16[2, 64, 72]
      out Y[y: 4, x: 35, o: 72] = sum[r: 2, c: 64](
          cast(f32, X[y + r, x + r, c]) * cast(f32, F[r, c, o]))
    })",
    R"(op bytes_of_batches() {
      in A: i8[9, 18, 144]
      in B: i8[48, 144]
      out C[b: 9, i: 18, j: 48] = sum[k: 144](cast(i32, A[b, i, k]) * cast(i32, B[j, k]))
    })",
    R"(op volumes() {
      in X: bf16[2, 4, 8, 9, 64]
      in F: bf16[3, 16, 64]
      out Y[n: 2, z: 4, y: 8, x: 9, o: 16] = sum[r: 3, c: 64](
          cast(f32, pad(X[n, z + r - 1, y, x, c], 0)) * cast(f32, F[r, o, c]))
    })"};

// Of few results, long sums, which parts of are computed side by side.
constexpr const char* kLongProducts[] = {
    R"(op long_sums() {
      in A: bf16[64, 1024]
      in B: bf16[1024, 64]
      in b: f32[64]
      C[i: 64, j: 64] = sum[k: 1024](cast(f32, A[i, k]) * cast(f32, B[k, j]))
      out D[i: 64, j: 64] = cast(bf16, max(C[i, j] + b[j], 0.0))
    })",
    R"(op long_bytes() {
      in A: i8[2, 64, 1024]
      in B: u8[16, 1024]
      out C[b: 2, i: 64, j: 16] = sum[k: 1024](cast(i32, A[b, i, k]) * cast(i32, B[j, k]))
    })"};

struct PrintedTally {
  int programs = 0, kernels = 0, groups = 0, matrices = 0, rows = 0, rings = 0, wide = 0;
  int boxes = 0, clusters = 0, producers = 0, ends = 0;
  int assembled = 0, spilled = 0;
  ~PrintedTally() {
    std::printf("%d programs, %d kernels, %d of groups, %d with products of matrices, "
                "%d of them of four sub-groups, %d of rows, %d of copies on their way, %d of boxes, "
                "%d of clusters, %d with producers, %d of tiles that end early, "
                "%d assembled, %d of them spill\n",
                programs, kernels, groups, matrices, wide, rows, rings, boxes, clusters,
                producers, ends, assembled, spilled);
  }
};

class Printed {
 public:
  // `word`: of the sketches that are drawn from.
  explicit Printed(std::string_view word = "") : word_(word) {}

  void hold(const HeldProgram& held, std::shared_ptr<const Target> target, Rng& rng) {
    SCOPED_TRACE(held.name + " on " + target->name);
    const DrawnSpace space(held.program, target, word_);
    ++tally_.programs;
    const int64_t draws = setting("LW_PRINTED", 2);
    for (int64_t k = 0; k < draws; ++k) {
      const std::optional<Scheduled> drawn = space.draw(k % 2 == 0, rng);
      if (!drawn) continue;
      ++tally_.kernels;
      tally_.groups += has_groups(drawn->kernel);
      const bool wide = has_op(drawn->kernel.body, Op::kWideProduct);
      tally_.wide += wide;
      tally_.matrices += wide || has_op(drawn->kernel.body, Op::kMatrixProduct);
      tally_.rows += has_op(drawn->kernel.body, Op::kMatrixParts);
      tally_.rings += has_op(drawn->kernel.body, Op::kLanded);
      const std::string text = print(drawn->kernel);
      tally_.producers += text.find(" producer {") != std::string::npos;
      tally_.ends += wide && text.find(" lanemask ") != std::string::npos;
      tally_.boxes += has_op(drawn->kernel.body, Op::kBoxCopy);
      hold_kernel(held, *target, *drawn);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  const PrintedTally& tally() const { return tally_; }

 private:
  void hold_kernel(const HeldProgram& held, const Target& target, const Scheduled& drawn) {
    ASSERT_EQ(emulated_wrong(drawn.kernel, held, ItemOrder::Kind::kShuffled), "")
        << drawn.schedule << print(drawn.kernel);
    const absl::StatusOr<SimtProgram> program = ptx_program(drawn.kernel, target);
    ASSERT_TRUE(program.ok()) << program.status() << drawn.schedule;
    for (const uint64_t seed : {uint64_t{0}, uint64_t{7}}) {
      CallMemory memory(held.in, result_bytes(*held.program));
      PtxOptions options;
      options.seed = seed;
      options.deliver_early = seed != 0;
      const absl::Status ran = run_printed(*program, memory.pointers.data(), options);
      ASSERT_TRUE(ran.ok()) << ran << "\n" << drawn.schedule << program->source;
      ASSERT_EQ(wrong_result(held, memory.results()), "")
          << drawn.schedule << print(drawn.kernel) << program->source;
    }
    tally_.clusters += program->source.find(".multicast::cluster") != std::string::npos;
    if (ptxas_version().empty() || tally_.kernels % setting("LW_ASSEMBLED", 8) != 0) return;
    const absl::StatusOr<Assembled> assembled = assemble(program->source, program->options);
    ASSERT_TRUE(assembled.ok()) << assembled.status() << drawn.schedule << program->source;
    ++tally_.assembled;
    for (const Assembled::Facts& facts : assembled->facts) {
      if (facts.spill_store_bytes + facts.spill_load_bytes == 0) continue;
      ++tally_.spilled;
      break;
    }
  }

  const std::string word_;
  PrintedTally tally_;
};

HeldProgram held_text(const char* text, Rng& rng, double most_operations) {
  Program program = parse_program(text, "").value();
  std::vector<Data> in = fitting_inputs(program, rng);
  return held_program(text, std::move(program), std::move(in), most_operations).value();
}

std::shared_ptr<const Target> either_gpu(Rng& rng) {
  return std::make_shared<const Target>(
      *find_target(rng.below(2) == 0 ? "nvidia_sm80" : "nvidia_sm90a"));
}

TEST(PrintedKernels, AreRightAndAssemble) {
  Printed printed;
  for_each_held(library_and_fused_ops(), 1, kMostPrintedFlops, either_gpu,
                [&](const HeldProgram& held, std::shared_ptr<const Target> target, Rng& rng) {
                  printed.hold(held, std::move(target), rng);
                });
  EXPECT_GT(printed.tally().groups, 20);
}

TEST(PrintedKernels, MultiplyMatrices) {
  Printed printed("matrices");
  const std::vector<OpDefinition> ops =
      parse_module(std::string(kMatrices), "matrices").value().ops;
  for_each_held(ops, 4, 20 * kMostPrintedFlops, either_gpu,
                [&](const HeldProgram& held, std::shared_ptr<const Target> target, Rng& rng) {
                  printed.hold(held, std::move(target), rng);
                });
  // All that is drawn, however much is asked for.
  EXPECT_GE(printed.tally().programs, 5);
  EXPECT_EQ(printed.tally().matrices, printed.tally().programs * setting("LW_PRINTED", 2));
  EXPECT_TRUE(ptxas_version().empty() || printed.tally().assembled > 0);
}

TEST(PrintedKernels, ReadRowsForEachOther) {
  Printed printed("matrices");
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 22)));
  for (const char* text : kWholeMatrices) {
    const HeldProgram held = held_text(text, rng, 2e6);
    for (int n = 0; n < 4; ++n) printed.hold(held, either_gpu(rng), rng);
  }
  EXPECT_GT(printed.tally().rows, 0);
  EXPECT_GT(printed.tally().rings, 0);
}

// In so many rounds of each text all kernels are of four sub-groups.
void hold_wide(Printed& printed, absl::Span<const char* const> texts, double most_operations,
               int rounds) {
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 22)));
  const auto target = std::make_shared<const Target>(*find_target("nvidia_sm90a"));
  for (const char* text : texts) {
    const HeldProgram held = held_text(text, rng, most_operations);
    for (int n = 0; n < rounds; ++n) printed.hold(held, target, rng);
  }
  EXPECT_GT(printed.tally().wide, 0);
  EXPECT_EQ(printed.tally().wide, printed.tally().kernels);
  EXPECT_GT(printed.tally().boxes, 0);
  EXPECT_GT(printed.tally().ends, 0);
  EXPECT_GT(printed.tally().rings, 0);
}

TEST(PrintedKernels, MultiplyByFourSubGroups) {
  Printed printed("four sub-groups");
  hold_wide(printed, kWideProducts, 3e7, 5);
  EXPECT_GT(printed.tally().clusters, 0);
  EXPECT_GT(printed.tally().producers, 0);
}

TEST(PrintedKernels, MultiplyRowsOfTwoAxes) {
  Printed printed("rows along");
  hold_wide(printed, kRowsOfTwoAxes, 1e8, 4);
}

TEST(PrintedKernels, MultiplyInParts) {
  Printed printed(" parts");
  Rng rng(static_cast<uint64_t>(setting("LW_SEED", 22)));
  for (const char* text : kLongProducts) {
    const HeldProgram held = held_text(text, rng, 1e8);
    for (int n = 0; n < 2; ++n) {
      for (const char* name : {"nvidia_sm80", "nvidia_sm90a"}) {
        printed.hold(held, std::make_shared<const Target>(*find_target(name)), rng);
      }
    }
  }
  EXPECT_EQ(printed.tally().matrices, printed.tally().kernels);
  EXPECT_GT(printed.tally().wide, 0);
  EXPECT_LT(printed.tally().wide, printed.tally().kernels);
}

}  // namespace
}  // namespace lw
