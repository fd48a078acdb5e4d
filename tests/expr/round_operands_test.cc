// Products of rounded operands: which, how they are written, and how far off they are.
#include "src/expr/round_operands.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "tests/support/parsed_program.h"

namespace lw {
namespace {

std::string rounded(const std::string& text) {
  const absl::StatusOr<Program> program = round_operands(parsed(text));
  if (!program.ok()) return std::string(program.status().message());
  const std::string printed = print(*program);
  return printed.substr(printed.find('\n') + 1);
}

constexpr char kProduct[] = "in A: f32[8, 5]\n in B: f32[5, 6] const\n"
                            "out C[i: 8, j: 6] = sum[k: 5](A[i, k] * B[k, j])";

TEST(RoundOperands, ArgumentsStayAndWhatIsReadIsRounded) {
  EXPECT_EQ(rounded(kProduct),
            "  in A: f32[8, 5]\n"
            "  in B: f32[5, 6] const\n"
            "  A_bf16[a0: 8, a1: 5] = cast(bf16, A[a0, a1])\n"
            "  B_bf16[a0: 5, a1: 6] = cast(bf16, B[a0, a1])\n"
            "  out C[i: 8, j: 6] = sum[k: 5](cast(f32, A_bf16[i, k]) * cast(f32, B_bf16[k, j]))\n"
            "}\n");
}

TEST(RoundOperands, PaddingStays) {
  EXPECT_EQ(rounded("in X: f32[9, 4]\n in F: f32[3, 4, 7]\n"
                    "out Y[x: 9, co: 7] = "
                    "sum[r: 3, ci: 4](pad(X[x + r - 1, ci], 0) * F[r, ci, co])"),
            "  in X: f32[9, 4]\n"
            "  in F: f32[3, 4, 7]\n"
            "  X_bf16[a0: 9, a1: 4] = cast(bf16, X[a0, a1])\n"
            "  F_bf16[a0: 3, a1: 4, a2: 7] = cast(bf16, F[a0, a1, a2])\n"
            "  out Y[x: 9, co: 7] = sum[r: 3, ci: 4]("
            "cast(f32, pad(X_bf16[x + r - 1, ci], 0)) * cast(f32, F_bf16[r, ci, co]))\n"
            "}\n");
}

TEST(RoundOperands, WhatIsChosenStaysChosen) {
  EXPECT_EQ(rounded("in A: f32[4, 5]\n in B: f32[5, 6]\n out C[i: 4, j: 6] = "
                    "sum[k: 5](where(k <= j, where(i < k, A[i, k] * B[k, j], 0), 0))"),
            "  in A: f32[4, 5]\n"
            "  in B: f32[5, 6]\n"
            "  A_bf16[a0: 4, a1: 5] = cast(bf16, A[a0, a1])\n"
            "  B_bf16[a0: 5, a1: 6] = cast(bf16, B[a0, a1])\n"
            "  out C[i: 4, j: 6] = sum[k: 5](where(k <= j, where(i < k, "
            "cast(f32, A_bf16[i, k]) * cast(f32, B_bf16[k, j]), 0), 0))\n"
            "}\n");
}

// P's operand is rounded once for both products, and where it is computed; names are nobody else's.
TEST(RoundOperands, WhatSeveralReadIsRoundedOnce) {
  EXPECT_EQ(rounded("in A: f32[4, 4]\n in A_bf16: f32[4, 4]\n"
                    "E[i: 4, j: 4] = exp(A[i, j])\n"
                    "P[i: 4, j: 4] = sum[k: 4](E[i, k] * E[k, j])\n"
                    "Q[i: 4, j: 4] = sum[k: 4](E[i, k] * A[k, j])\n"
                    "out Y[i: 4, j: 4] = P[i, j] + Q[i, j] * E[i, j] * A_bf16[i, j]"),
            "  in A: f32[4, 4]\n"
            "  in A_bf16: f32[4, 4]\n"
            "  E[i: 4, j: 4] = exp(A[i, j])\n"
            "  E_bf16[a0: 4, a1: 4] = cast(bf16, E[a0, a1])\n"
            "  P[i: 4, j: 4] = sum[k: 4](cast(f32, E_bf16[i, k]) * cast(f32, E_bf16[k, j]))\n"
            "  A_bf16_[a0: 4, a1: 4] = cast(bf16, A[a0, a1])\n"
            "  Q[i: 4, j: 4] = sum[k: 4](cast(f32, E_bf16[i, k]) * cast(f32, A_bf16_[k, j]))\n"
            "  out Y[i: 4, j: 4] = P[i, j] + Q[i, j] * E[i, j] * A_bf16[i, j]\n"
            "}\n");
}

// A product in groups is for an array; one operand that each result has for itself is not.
TEST(RoundOperands, OnlyWhatAnArrayIsFor) {
  const auto is_rounded = [](const std::string& words) {
    const Program program = *load_workload({words});
    const Program after = *load_workload({words, "allow=bf16"});
    EXPECT_EQ(workload_id(after), workload_id(*round_operands(program)));
    EXPECT_EQ(workload_id(after), workload_id(*round_operands(after)));
    const absl::StatusOr<Program> read = parse_program(print(after), "printed");
    EXPECT_TRUE(read.ok() && workload_id(*read) == workload_id(after)) << read.status();
    return workload_id(after) != workload_id(program);
  };
  for (const char* const words : {"matmul", "dense_bias", "conv2d", "conv2d_grouped", "attention"}) {
    EXPECT_TRUE(is_rounded(words)) << words;
  }
  for (const char* const words : {"matmul T=bf16", "matmul T=i8", "matmul N=1", "conv2d_depthwise",
                                  "softmax", "add"}) {
    EXPECT_FALSE(is_rounded(words)) << words;
  }
}

TEST(RoundOperands, OtherWordsAreRefused) {
  const absl::StatusOr<Program> other = load_workload({"matmul", "allow=f16"});
  EXPECT_EQ(other.status().message(), "allow=f16: bf16 is what a workload may allow");
  EXPECT_FALSE(load_workload({"matmul", "allow=bf16", "allow=bf16"}).ok());
}

// Of natural size, as long as the sum may be.
TEST(RoundOperands, InputsAreThoseOfTheProgram) {
  const Program program = *load_workload({"dense_bias M=5 N=6 K=700"});
  const Program rounded = *round_operands(program);
  for (const int input : inputs(program)) {
    EXPECT_EQ(random_input(program, input, 3, false).bytes,
              random_input(rounded, input, 3, false).bytes);
  }
}

std::vector<float> results(const Program& program, const std::vector<Data>& in) {
  const std::vector<Data> out = *interpret(program, in);
  std::vector<float> values(out[0].bytes.size() / sizeof(float));
  std::memcpy(values.data(), out[0].bytes.data(), out[0].bytes.size());
  return values;
}

// Two factors of half a unit in the last place of eight bits each.
TEST(RoundOperands, ResultsAreOffByWhatTwoRoundingsAre) {
  const Program exact = parsed("in A: f32[20, 30]\n in B: f32[30, 20]\n"
                               "out C[i: 20, j: 20] = sum[k: 30](A[i, k] * B[k, j])");
  const Program absolute = parsed("in A: f32[20, 30]\n in B: f32[30, 20]\n"
                                  "out C[i: 20, j: 20] = sum[k: 30](abs(A[i, k]) * abs(B[k, j]))");
  const std::vector<Data> in = {random_input(exact, 0, 7, false), random_input(exact, 1, 7, false)};
  const std::vector<float> is = results(*round_operands(exact), in), should = results(exact, in),
                           sizes = results(absolute, in);
  const double most = std::pow(1 + std::ldexp(1, -9), 2) - 1;
  double worst = 0;
  for (size_t i = 0; i < is.size(); ++i) {
    worst = std::max(worst, std::abs(double{is[i]} - should[i]) / sizes[i]);
  }
  EXPECT_LE(worst, most);
  EXPECT_GE(worst, most / 30);
}

}  // namespace
}  // namespace lw
