// What programs must do, beside figures worked out by hand.
#include "src/expr/work/work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "tests/support/parsed_program.h"

namespace lw {
namespace {

Work work_of(const std::string& text) { return count_work(parsed(text)); }

// "3 add f32, 2 mul+add f32": in order of text.
std::string operations(const Work& work) {
  std::vector<std::string> parts;
  for (const OperationCount& o : work.operations) {
    parts.push_back(concat(op_name(o.op), o.adds ? "+add " : " ", type_name(o.type), " ",
                           std::llround(o.count)));
  }
  std::sort(parts.begin(), parts.end());
  return absl::StrJoin(parts, ", ");
}

TEST(Work, EqualSubexpressionsAreOne) {
  const Work work = work_of("in X: f32[10, 30]\n in C: f32[20, 30]\n"
                            "out D[i: 10, c: 20] = sum[d: 30]((X[i, d] - C[c, d])"
                            " * (X[i, d] - C[c, d]))");
  EXPECT_EQ(operations(work), "add f32 6000, mul+add f32 6000");
  EXPECT_EQ(work.flops.useful, 3 * 6000);
  EXPECT_EQ(work.flops.counted, 3 * 6000);
  EXPECT_EQ(work.bytes_read, 4 * (300 + 600));
  EXPECT_EQ(work.bytes_written, 4 * 200);
  const Work squares = work_of("in X: f32[16]\n"
                               "out Y[i: 16] = exp(X[i] + 1) * exp(X[i] + 1) / (X[i] + 1)");
  EXPECT_EQ(operations(squares), "add f32 16, div f32 16, exp f32 16, mul f32 16");
}

TEST(Work, WhatAnAxisDoesNotChangeIsDoneOnce) {
  const Work work = work_of("in A: f32[8]\n in B: f32[8, 50]\n"
                            "out Y[i: 8, j: 50] = exp(A[i]) * B[i, j] + 2 * A[i]");
  // The product with exp is added; 2 A is a product of eight values.
  EXPECT_EQ(operations(work), "exp f32 8, mul f32 8, mul+add f32 400");
  EXPECT_EQ(work.flops.useful, 8 + 8 + 2 * 400);
  EXPECT_EQ(work.flops.counted, 4 * 400);
  // Nothing that is read changes it; a sum of equal terms.
  EXPECT_EQ(work_of("in A: f32[8]\n out Y[i: 8] = A[i] + sqrt(cast(f32, i) + 1)").flops.useful, 8);
  EXPECT_EQ(operations(work_of("in A: f32[8]\n out Y[i: 8] = sum[k: 9](A[i])")), "");
}

TEST(Work, TheFirstTermIsNotAdded) {
  EXPECT_EQ(operations(work_of("in A: f32[8, 9]\n out Y[i: 8] = max[k: 9](A[i, k])")),
            "max f32 64");
  EXPECT_EQ(operations(work_of("in A: f32[8, 9]\n out Y[i: 8] = sum[k: 9](A[i, k])")),
            "add f32 64");
}

TEST(Work, NarrowOperandsCountAsTheyAre) {
  EXPECT_EQ(operations(work_of("in A: u8[8, 64]\n in B: i8[64, 9]\n"
                               "out C[i: 8, j: 9] = sum[k: 64](cast(i32, A[i, k])"
                               " * cast(i32, B[k, j]))")), "mul+add u8 4608");
  EXPECT_EQ(operations(work_of("in A: bf16[8, 64]\n in B: bf16[64, 9]\n out C[i: 8, j: 9] ="
                               " sum[k: 64](cast(f32, A[i, k]) * cast(f32, B[k, j]))")),
            "mul+add bf16 4608");
  EXPECT_EQ(operations(work_of("in A: u8[8, 65]\n out C[i: 8] = sum[k: 65](cast(i32, A[i, k]))")),
            "add u8 512");
}

TEST(Work, CheapFormsCountAsWhatTheyCost) {
  EXPECT_EQ(operations(work_of("in A: f32[8]\n out Y[i: 8] = pow(A[i], 2) / 4")), "mul f32 16");
  EXPECT_EQ(operations(work_of("in A: f32[8]\n out Y[i: 8] = A[i] / 3")), "div f32 8");
  EXPECT_EQ(operations(work_of("in A: f32[8]\n out Y[i: 8] = where(A[i] > 1, -A[i], floor(A[i]))")),
            "max f32 16");
}

// x - 3 - 3 is x - 6, abs of a byte that has no sign the byte.
TEST(Work, AlgebraOnIntegersIsNotRequired) {
  EXPECT_EQ(operations(work_of("in A: u8[8]\n T[i: 8] = abs(A[i]) - 3\n"
                               "out Y[i: 8] = abs(T[i]) - 3")), "");
  EXPECT_EQ(operations(work_of("in A: i32[8]\n out Y[i: 8] = A[i] / 3 % 5 * 7")), "");
  EXPECT_EQ(operations(work_of("in A: i32[8]\n in B: i32[8]\n out Y[i: 8] = A[i] / B[i]")),
            "div i32 8");
}

TEST(Work, WhatNoOneReadsIsNotNeeded) {
  const Work work = work_of("in A: f32[100, 6]\n T[i: 100, c: 6] = exp(A[i, c])\n"
                            "out Y[i: 25, c: 6] = T[i * 4, c]");
  EXPECT_EQ(operations(work), "exp f32 150");
  EXPECT_EQ(work.bytes_read, 4 * 150);
  EXPECT_EQ(work.flops.useful, 150);
  EXPECT_EQ(work.flops.counted, 600);
}

TEST(Work, BytesAreWhatIsRead) {
  const auto read = [](const std::string& text) { return work_of(text).bytes_read; };
  EXPECT_EQ(read("in A: f32[46, 18, 183]\n"
                 "out Y[y: 23, x: 9, c: 183] = A[y * 2, x * 2, c]"), 4 * 23 * 9 * 183);
  EXPECT_EQ(read("in A: f32[40]\n out Y[i: 40] = pad(A[i + 30], 0)"), 4 * 10);
  EXPECT_EQ(read("in A: f32[40]\n out Y[i: 40] = where(i >= 35, A[i], 0)"), 4 * 5);
  // Two halves are a whole, and what is read twice is read once.
  EXPECT_EQ(read("in A: f32[3, 40]\n"
                 "out Y[i: 3, j: 20] = A[i, j] * A[i, j + 20]"), 4 * 120);
  EXPECT_EQ(read("in A: f32[3, 40]\n"
                 "out Y[i: 3, j: 20] = A[i, j] * A[i, j + 10]"), 4 * 3 * 30);
  EXPECT_EQ(read("in A: f32[9, 9]\n out Y[i: 9] = A[i, i] + A[8 - i, i]"), 4 * 17);
  // Every tap of this convolution falls beside the picture.
  const Work beside = work_of("in X: f32[4, 5]\n in W: f32[3, 5]\n"
                              "out Y[y: 4] = sum[r: 3, c: 5](pad(X[y + r + 4, c], 0) * W[r, c])");
  EXPECT_EQ(beside.bytes_read, 0);
  EXPECT_EQ(beside.flops.useful, 0);
  EXPECT_EQ(beside.bytes_written, 16);
}

TEST(Work, GathersReadWhatTheyReach) {
  const Work work = work_of("in A: f64[179, 29, 5]\n in I: i32[3]\n"
                            "out Y[g: 3, b: 29, d: 5] = A[I[g], b, d]");
  const double rows = 179 * (1 - std::pow(178.0 / 179, 3));
  EXPECT_NEAR(work.bytes_read, 8 * rows * 29 * 5 + 4 * 3, 1e-6);
  EXPECT_LE(rows, 3);
  EXPECT_EQ(work.gathered, 0);             // whole rows
  const Work lookup = work_of("in T: f32[256]\n in I: u8[1000]\n out Y[i: 1000] = T[I[i]]");
  EXPECT_NEAR(lookup.bytes_read, 4 * 256 * (1 - std::pow(255.0 / 256, 1000)) + 1000, 1e-6);
  EXPECT_EQ(lookup.gathered, 1000);
  // A row for each of the nine columns; and indices that are computed may all be the same.
  const Work columns = work_of("in A: f32[50, 9]\n in I: i32[9]\n out Y[g: 9] = A[I[g], g]");
  EXPECT_NEAR(columns.bytes_read, 4 * 9 + 4 * 9, 1e-6);
  EXPECT_EQ(work_of("in A: f32[50]\n in I: i32[9]\n"
                    "out Y[g: 9] = A[(I[g] * 3 + 1) % 48]").bytes_read, 4 * 1 + 4 * 9);
}

TEST(Work, SelectsDropWhatTheyDoNotChoose) {
  // Half of a square, with its diagonal; its row sums; exp of columns that some row keeps.
  const Work causal = work_of("in A: f32[20, 20]\n in b: f32[20]\n"
                              "out Y[i: 20] = sum[j: 20](where(j <= i, A[i, j] * b[j], 0))");
  EXPECT_EQ(operations(causal), "mul+add f32 210");
  EXPECT_EQ(causal.bytes_read, 4 * (210 + 20));
  const Work columns = work_of("in A: f32[20, 20]\n in b: f32[20]\n"
                               "out Y[i: 20, j: 20] = where(j < 5, A[i, j] * exp(b[j]), 0)");
  EXPECT_EQ(operations(columns), "exp f32 5, mul f32 100");
  // Under two conditions: at least where the more frequent one holds.
  EXPECT_EQ(operations(work_of("in A: f32[20]\n out Y[i: 20] ="
                               " where(i < 5, exp(A[i]) + 1, exp(A[i]) - 1)")),
            "add f32 20, exp f32 15");
}

// A tree of 2^60 nodes that is a chain as it is shared.
TEST(Work, IsLinearInSharedNodes) {
  Program program = parsed("in A: f32[7]\n out Y[i: 7] = A[i] + 1");
  Expr body = program.tensors[1].body;
  for (int i = 0; i < 60; ++i) body = make_binary(ExprOp::kMul, body, body);
  program.tensors[1].body = body;
  EXPECT_EQ(count_work(program).flops.useful, 61 * 7);
  Expr select = program.tensors[1].body;
  for (int i = 0; i < 60; ++i) {
    const Expr test = make_binary(ExprOp::kLt, make_axis(0), make_int(Type::kI64, i % 7));
    select = make_select(test, select, make_binary(ExprOp::kAdd, select, select));
  }
  program.tensors[1].body = select;
  const Work work = count_work(program);
  EXPECT_GT(work.flops.useful, 0);
  EXPECT_LE(work.flops.useful, work.flops.counted);
}

// Thousands of stencils of a million points each: counted by samples, in fractions of a second.
TEST(Work, OfLargeProgramsIsSampled) {
  Program program = parsed("in A: f32[1000003]\n out Y[i: 1000003] ="
                           " pad(A[i - 1], 0) + A[i] * pad(A[i + 1], 0)");
  const Tensor stencil = program.tensors[1];
  program.tensors[1].role = Role::kTemp;
  while (program.tensors.size() < 3000) {
    Tensor next = stencil;
    next.role = Role::kTemp;
    next.body = renumber_reads(stencil.body, {static_cast<int>(program.tensors.size()) - 1});
    program.tensors.push_back(next);
  }
  program.tensors.back().role = Role::kOutput;
  const Work work = count_work(program);
  EXPECT_LE(work.flops.useful, work.flops.counted);
  EXPECT_GE(work.flops.useful, 0.8 * work.flops.counted);
  EXPECT_EQ(work.bytes_written, 4e6 + 12);
}

// Each larger problem needs at least as much, and no count exceeds what is written down.
TEST(Work, OfTheLibraryGrowsWithItsExtents) {
  for (const OpDefinition& op : builtin_ops()) {
    SCOPED_TRACE(op.name);
    const absl::StatusOr<Program> program = instantiate(op, {});
    ASSERT_TRUE(program.ok()) << program.status();
    const Work work = count_work(*program);
    EXPECT_LE(work.flops.useful, work.flops.counted);
    double arguments = 0;
    for (const Tensor& t : program->tensors)
      if (t.role != Role::kTemp) arguments += static_cast<double>(bytes(t));
    EXPECT_GT(work.bytes_read, 0);
    EXPECT_LE(work.bytes_read + work.bytes_written, arguments);
    for (const OperationCount& o : work.operations) EXPECT_GT(o.count, 0);
    for (const Parameter& parameter : op.parameters) {
      int64_t value = 0;
      if (!absl::SimpleAtoi(parameter.default_text, &value)) continue;
      const absl::StatusOr<Program> larger =
          instantiate(op, {{parameter.name, absl::StrCat(2 * value)}});
      if (!larger.ok()) continue;          // not every parameter may grow alone
      const bool same_rank = larger->tensors.size() == program->tensors.size();
      double points = 0, before = 0;
      for (const Tensor& t : larger->tensors) points += static_cast<double>(elements(t));
      for (const Tensor& t : program->tensors) before += static_cast<double>(elements(t));
      if (!same_rank || points < before) continue;  // a stride, not an extent
      EXPECT_GE(count_work(*larger).flops.counted, work.flops.counted) << parameter.name;
    }
  }
}

}  // namespace
}  // namespace lw
