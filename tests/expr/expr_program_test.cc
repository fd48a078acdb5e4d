// Programs: types, splitting, bounds, printing, identity, and the builder that makes the same ones.
#include <gtest/gtest.h>

#include "loopwright/builder.h"
#include "src/expr/bounds.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

Program op_of(std::string_view text, const std::map<std::string, std::string>& overrides = {}) {
  absl::StatusOr<Module> module = parse_module(text, "t.te");
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return {};
  absl::StatusOr<Program> program = instantiate(module->ops[0], overrides);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return program.ok() ? *program : Program();
}

std::string printed(std::string_view statements) {
  const std::string text = print(op_of("op f() {\n" + std::string(statements) + "\n}\n"));
  EXPECT_EQ(print(op_of(text)), text);  // what is printed reads back as it was
  return text.substr(text.find('\n') + 1);
}

TEST(Types, ReductionsAccumulateInTheAccumulatorsType) {
  EXPECT_EQ(printed("in A: f16[4, 8]\nin B: f16[8]\nout Y[i: 4] = sum[k: 8](A[i, k] * B[k])"),
            "  in A: f16[4, 8]\n  in B: f16[8]\n"
            "  out Y[i: 4] = sum[k: 8](cast(f32, A[i, k]) * cast(f32, B[k]))\n}\n");
  EXPECT_EQ(op_of("op f() {\nin A: bf16[8]\nout Y[] = max[k: 8](A[k])\n}").tensors[1].type,
            Type::kBF16);
  EXPECT_EQ(op_of("op f() {\nin A: i8[8]\nout Y[] = prod[k: 8](A[k])\n}").tensors[1].type,
            Type::kI32);
  EXPECT_EQ(op_of("op f() {\nin A: u8[8]\nout Y[] = min[k: 8](A[k])\n}").tensors[1].type,
            Type::kU8);
  EXPECT_EQ(op_of("op f() {\nin A: i64[8]\nout Y[] = sum[k: 8](A[k])\n}").tensors[1].type,
            Type::kI64);
  EXPECT_EQ(op_of("op f() {\nin A: f64[8]\nout Y[] = sum[k: 8](A[k])\n}").tensors[1].type,
            Type::kF64);
}

TEST(Types, WideIsTheTypeThatSumsAreEvaluatedIn) {
  const std::string text =
      "op f(T = f32) {\nin X: T[8]\nin b: wide(T)[8]\n"
      "out Y[i: 8] = cast(T, cast(wide(T), X[i]) + b[i])\n}";
  EXPECT_EQ(print(op_of(text)), "op f() {\n  in X: f32[8]\n  in b: f32[8]\n"
                                "  out Y[i: 8] = X[i] + b[i]\n}\n");
  EXPECT_EQ(print(op_of(text, {{"T", "f16"}})),
            "op f() {\n  in X: f16[8]\n  in b: f32[8]\n"
            "  out Y[i: 8] = cast(f16, cast(f32, X[i]) + b[i])\n}\n");
  const char* wide[][2] = {{"bf16", "f32"}, {"f64", "f64"}, {"i8", "i32"}, {"u8", "i32"},
                           {"i16", "i32"},  {"i32", "i32"}, {"i64", "i64"}};
  for (const auto& [type, sums] : wide)
    EXPECT_EQ(type_name(op_of(text, {{"T", type}}).tensors[1].type), sums) << type;
  EXPECT_EQ(print(op_of("op f(wide = f16) {\nin X: wide[8]\nout Y[i: 8] = cast(wide, X[i])\n}")),
            "op f() {\n  in X: f16[8]\n  out Y[i: 8] = X[i]\n}\n");
}

TEST(Types, PadAndNestedMaxStayInTheirOwnTypeUnderAWiderSum) {
  EXPECT_EQ(printed("in A: i8[8]\nout Y[i: 9] = sum[k: 2](pad(A[i + k - 1], 3))"),
            "  in A: i8[8]\n  out Y[i: 9] = sum[k: 2](cast(i32, pad(A[i + k - 1], 3)))\n}\n");
  EXPECT_EQ(printed("in A: f16[4, 8]\nout Y[] = sum[i: 4](max[k: 8](A[i, k]) * A[i, 0])"),
            "  in A: f16[4, 8]\n  Y_max[i: 4] = max[k: 8](A[i, k])\n"
            "  out Y[] = sum[i: 4](cast(f32, Y_max[i]) * cast(f32, A[i, 0]))\n}\n");
}

TEST(Types, LiteralsFoldInF64AndTakeTheOtherType) {
  EXPECT_EQ(printed("in X: f32[4]\nout Y[i: 4] = X[i] * (1 / 4) + 2 * 3"),
            "  in X: f32[4]\n  out Y[i: 4] = X[i] * 0.25 + 6\n}\n");
  EXPECT_EQ(printed("in X: i32[4]\nout Y[i: 4] = X[i] + floor(7 / 2) + X[7 / 2]"),
            "  in X: i32[4]\n  out Y[i: 4] = X[i] + 3 + X[3]\n}\n");
  EXPECT_EQ(printed("in X: i64[4]\nout Y[i: 4] = X[i] + 9007199254740993"),
            "  in X: i64[4]\n  out Y[i: 4] = X[i] + 9007199254740993\n}\n");
  EXPECT_EQ(printed("in X: f32[4]\nout Y[i: 4] = where(X[i] > 0, 1, 0) * X[i]"),
            "  in X: f32[4]\n  out Y[i: 4] = where(X[i] > 0, cast(f32, 1), 0) * X[i]\n}\n");
  EXPECT_EQ(printed("in X: f32[4]\nout Y[i: 4] = max(X[i], -inf) + 0.1"),
            "  in X: f32[4]\n  out Y[i: 4] = max(X[i], -inf) + 0.1\n}\n");
  EXPECT_EQ(printed("in X: f16[4]\nout Y[i: 4] = X[i] + 0.1"),
            "  in X: f16[4]\n  out Y[i: 4] = X[i] + 0.099975586\n}\n");
}

TEST(Types, AnAxisAsAValueIsAnI32) {
  EXPECT_EQ(printed("in X: f32[4]\nout Y[i: 4] = X[i] * cast(f32, i * 2)\nout Z[i: 4] = i"),
            "  in X: f32[4]\n  out Y[i: 4] = X[i] * cast(f32, cast(i32, i * 2))\n"
            "  out Z[i: 4] = cast(i32, i)\n}\n");
}

TEST(Types, WhereIsFoldedWhenItsConditionIsLiteral) {
  EXPECT_EQ(
      print(op_of(
          "op f(relu = true) {\nin X: f32[4]\nout Y[i: 4] = where(relu, max(X[i], 0), X[i])\n}",
          {{"relu", "false"}})),
      "op f() {\n  in X: f32[4]\n  out Y[i: 4] = X[i]\n}\n");
}

TEST(Split, ReductionsBecomeTensorsOverTheAxesTheyUse) {
  EXPECT_EQ(printed("in X: f32[4, 8]\n"
                    "out Y[i: 4, j: 8] = exp(X[i, j] - max[k: 8](X[i, k])) /\n"
                    "  sum[k: 8](exp(X[i, k] - max[l: 8](X[i, l])))"),
            "  in X: f32[4, 8]\n  Y_max[i: 4] = max[k: 8](X[i, k])\n"
            "  Y_sum[i: 4] = sum[k: 8](exp(X[i, k] - Y_max[i]))\n"
            "  out Y[i: 4, j: 8] = exp(X[i, j] - Y_max[i]) / Y_sum[i]\n}\n");
  EXPECT_EQ(printed("in X: f32[8]\nout Y[i: 4] = sum[k: 8](X[k]) + cast(f32, i)"),
            "  in X: f32[8]\n  Y_sum[] = sum[k: 8](X[k])\n"
            "  out Y[i: 4] = Y_sum[] + cast(f32, cast(i32, i))\n}\n");
}

TEST(Split, GuardsAReductionWhoseReadsNeedTheCondition) {
  EXPECT_EQ(printed("in X: f32[4, 8]\nout Y[i: 4] = where(i > 0, sum[k: 8](X[i - 1, k]), 0)"),
            "  in X: f32[4, 8]\n"
            "  Y_sum[i: 4] = sum[k: 8](where(i > 0, X[i - 1, k], 0))\n"
            "  out Y[i: 4] = where(i > 0, Y_sum[i], 0)\n}\n");
}

TEST(Split, KeepsConditionsNestedAsTheyProtectEachOther) {
  EXPECT_EQ(printed("in X: f32[4]\nout Y[i: 4] =\n"
                    "where(i > 0, where(X[i - 1] > 0, sum[k: 1](X[i - 1 + k]), 1), 0)"),
            "  in X: f32[4]\n"
            "  Y_sum[i: 4] = sum[k: 1](where(i > 0, where(X[i - 1] > 0, X[i - 1 + k], 0), 0))\n"
            "  out Y[i: 4] = where(i > 0, where(X[i - 1] > 0, Y_sum[i], 1), 0)\n}\n");
}

TEST(Types, NoConstantIsNaN) {
  EXPECT_EQ(printed("in X: f32[4]\nout Y[i: 4] = X[i] + (cast(f32, inf) - cast(f32, inf))"),
            "  in X: f32[4]\n  out Y[i: 4] = X[i] + (cast(f32, inf) - inf)\n}\n");
}

TEST(Split, NamesAvoidTheOpsOwn) {
  EXPECT_EQ(printed("in Y_sum: f32[4]\nout Y[] = 1 + sum[Y_sum2: 4](Y_sum[Y_sum2])"),
            "  in Y_sum: f32[4]\n  Y_sum3[] = sum[Y_sum2: 4](Y_sum[Y_sum2])\n"
            "  out Y[] = 1 + Y_sum3[]\n}\n");
}

TEST(Program, InputsComeFirstAndUnreadTensorsGo) {
  Program program = op_of("op f() {\nin X: f32[4]\nT[i: 4] = X[i]\nU[i: 4] = T[i]\nin Z: f32[4]\n"
                          "out Y[i: 4] = T[i] + Z[i]\n}");
  ASSERT_EQ(program.tensors.size(), 4u);
  EXPECT_EQ(program.tensors[1].name, "Z");
  EXPECT_EQ(arguments(program), (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(reads_of(program.tensors[3]), (std::vector<int>{2, 1}));
}

TEST(Bounds, ConditionsAndPadProtect) {
  for (const char* read : {
           "where(j <= i, X[i - j], 0)", "where(i >= j, X[i - j], 0)",
           "where(j > i, 0, X[i - j])", "where(!(j > i), X[i - j], 0)",
           "where(i - j >= 0 && i - j < 8, X[i - j], 0)", "where(i > j, 0, X[j - i])",
           "where((i + j) % 2 == 0 && i + j < 16, X[(i + j) / 2], 0)",
           "where(i + 3 * j < 8, X[i + j * 3], 0)", "where(i + j == 5, X[i + j], 0)",
           "where(2 * i - 1 >= 0 && 2 * i <= 8, X[2 * i - 1], 0)", "where(i > 0, X[i - 1], 0)",
           "pad(X[i - j], 0)", "pad(X[3 * i - 2 * j], 1)", "X[(i + j) % 8]", "X[(i * 8 + j) / 8]",
           "X[i + j - i]", "where(i > 3, where(j > 3, X[i + j - 8], 1), X[i + 4])",
           // Never evaluated: as of a triangle's mask where there is one row.
           "where(i > 7, X[j], 0)", "where(i > 7, X[j + 5] + X[i], 0)",
           "where(i >= 0, X[i], X[i + 9])", "where(i > j + 7, X[j], 0)",
           "sum[k: 1](where(k > i, X[k], 0))", "sum[k: 1](where(k > i, X[k + j], 0))"}) {
    absl::StatusOr<Module> module = parse_module(
        std::string("op f() {\nin X: f32[8]\nout Y[i: 8, j: 8] = ") + read + "\n}\n", "t.te");
    EXPECT_TRUE(module.ok()) << module.status().message();
  }
  for (const char* read : {
           "X[i + j]", "where(j < i, 0, X[i - j])", "where(j <= i + 1, X[i - j], 0)",
           "where(j <= i || i < 3, X[i - j], 0)", "pad(X[i], X[i + 1])", "X[(i + j) / 2 + 1]",
           "X[(i - 1) % 9]", "where(X[i - 1] > 0, 1, X[i])"}) {
    absl::StatusOr<Module> module = parse_module(
        std::string("op f() {\nin X: f32[8]\nout Y[i: 8, j: 8] = ") + read + "\n}\n", "t.te");
    EXPECT_FALSE(module.ok()) << read;
  }
}

TEST(Bounds, AffineIntervalsAreExact) {
  const Expr i = make_axis(0), j = make_axis(1);
  auto c = [](int64_t value) { return make_int(Type::kI64, value); };
  const std::vector<Interval> ranges = {{0, 7}, {-2, 3}};
  auto check = [&](const Expr& e, int64_t lo, int64_t hi) {
    Interval range = bounds(e, ranges);
    EXPECT_EQ(range.lo, lo);
    EXPECT_EQ(range.hi, hi);
  };
  check(make_binary(ExprOp::kSub, make_binary(ExprOp::kAdd, i, j), i), -2, 3);
  check(make_binary(ExprOp::kSub, make_binary(ExprOp::kMul, i, c(3)), j), -3, 23);
  check(make_binary(ExprOp::kDiv, j, c(2)), -1, 1);
  check(make_binary(ExprOp::kMod, j, c(2)), 0, 1);
  check(make_binary(ExprOp::kMod, make_binary(ExprOp::kAdd, j, c(14)), c(10)), 2, 7);
  check(make_binary(ExprOp::kMul, i, c(INT64_MAX)), INT64_MIN, INT64_MAX);  // may wrap
}

TEST(Identity, IgnoresNamesCommentsFormattingAndOrderOfCommutativeOperands) {
  const std::string id = workload_id(op_of(
      "op f(M = 4, K = 8) {\n in A: f32[M, K]\n in B: f32[K]\n"
      " C[i: M] = sum[k: K](A[i, k] * B[k])\n out D[i: M] = max(C[i] + 1, 0)\n}"));
  EXPECT_EQ(id.size(), 64u);
  EXPECT_EQ(id, workload_id(op_of(
      "# other\nop g(S = 8) {\n let Q = S / 2  # half\n in x: f32[Q, S]\n in y: f32[S]\n"
      " out r[a: Q] = max(0, 2 - 1 + sum[b: S](y[b] * x[0 + a * 1, b + 0]))\n}")));
}

TEST(Identity, IndicesAreCompared) {
  auto id = [](const char* index) {
    return workload_id(
        op_of(std::string("op f() {\n in A: f32[99]\n out D[i: 4, j: 4] = A[") + index + "]\n}"));
  };
  EXPECT_EQ(id("i * 2 + j + 3 - 1"), id("2 + j + i + i"));
  EXPECT_NE(id("i * 2 + j"), id("i + j * 2"));
  EXPECT_NE(id("i"), id("i + 1"));
}

TEST(Identity, ExtentsTypesConstAndRolesCount) {
  auto id = [](const char* text) { return workload_id(op_of(text)); };
  const std::string base = id("op f() {\nin A: f32[4]\nout D[i: 4] = A[i] - 1\n}");
  EXPECT_NE(base, id("op f() {\nin A: f32[5]\nout D[i: 4] = A[i] - 1\n}"));
  EXPECT_NE(base, id("op f() {\nin A: f64[4]\nout D[i: 4] = A[i] - 1\n}"));
  EXPECT_NE(base, id("op f() {\nin A: f32[4] const\nout D[i: 4] = A[i] - 1\n}"));
  EXPECT_NE(base, id("op f() {\nin A: f32[4]\nout D[i: 4] = 1 - A[i]\n}"));
  EXPECT_NE(base, id("op f() {\nin A: f32[4]\nout D[i: 4] = A[i] - 2\n}"));
  EXPECT_EQ(id("op f() {\nin A: f32[4]\nout D[i: 4] = where(A[i] > 1, 1, A[i])\n}"),
            id("op f() {\nin A: f32[4]\nout D[i: 4] = where(1 < A[i], 1, A[i])\n}"));
}

TEST(Identity, IsTheSameEverywhere) {  // a change of this value is a change of the language
  EXPECT_EQ(canonical_text(
                op_of("op f() {\nin A: bf16[2, 3]\nin B: i32[2] const\n"
                      "out Y[i: 2] = sum[k: 3](A[i, k] * 0.5)\nout Z[i: 2] = B[1 - i] / 2\n}")),
            "loopwright expression 1\nt0 in bf16[2,3]\nt1 in i32[2] const\n"
            "t2 out f32[2] = sum[3] (mul (cast f32 (read t0 a0 r0)) f32:0.5)\n"
            "t3 out i32[2] = (div (read t1 a0*-1+1) i32:2)\n");
  EXPECT_EQ(workload_id(*load_workload({"matmul"})),
            "08d78bd61dd0764bfdcf7bc51ffd0d511d0c12a40b769560c2703c601fa84c5f");
}

TEST(Verify, RefusesWhatTheFrontEndWould) {
  Program good = op_of("op f() {\nin A: f32[4]\nout D[i: 4] = A[i]\n}");
  EXPECT_TRUE(verify(good).ok());
  auto refused = [&](auto change) {
    Program program = good;
    change(&program);
    return !verify(program).ok();
  };
  EXPECT_TRUE(refused([](Program* p) { p->tensors[0].shape = {3}; }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[0].shape = {0}; }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[0].type = Type::kF64; }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[0].shape = {4, 4}; }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[1].role = Role::kTemp; }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[1].axes.clear(); }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[1].body = nullptr; }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[1].reduce = Reduce::kSum; }));
  EXPECT_TRUE(
      refused([](Program* p) { p->tensors[1].body = make_read(1, Type::kF32, {make_axis(0)}); }));
  EXPECT_TRUE(refused([](Program* p) { p->tensors[1].shape = {int64_t{1} << 41}; }));
}

TEST(Nodes, ConstructorsFold) {
  const Expr x = make_axis(0);
  auto c = [](int64_t value) { return make_int(Type::kI64, value); };
  EXPECT_EQ(make_binary(ExprOp::kAdd, x, c(0)), x);
  EXPECT_EQ(make_binary(ExprOp::kMul, c(1), x), x);
  EXPECT_EQ(make_binary(ExprOp::kMul, x, c(0))->integer, 0);
  EXPECT_EQ(make_binary(ExprOp::kDiv, x, c(1)), x);
  EXPECT_EQ(make_binary(ExprOp::kMod, x, c(1))->op, ExprOp::kConst);
  EXPECT_EQ(make_binary(ExprOp::kDiv, c(-7), c(2))->integer, -4);
  EXPECT_EQ(make_binary(ExprOp::kDiv, c(7), c(0))->integer, 0);
  EXPECT_EQ(make_cast(Type::kI64, x), x);
  EXPECT_EQ(make_cast(Type::kI8, c(300))->integer, 44);
  EXPECT_EQ(make_cast(Type::kI8, make_const(Type::kF32, 300))->integer, 127);
  EXPECT_EQ(substitute(make_binary(ExprOp::kAdd, x, c(3)), {c(4)})->integer, 7);
  // 0 + j leaves j's replacement, which is no axis to be replaced again.
  const Expr sum = make_binary(ExprOp::kAdd, x, make_axis(2));
  EXPECT_EQ(substitute(sum, {c(0), make_axis(5), make_axis(1)})->index, 1);
  EXPECT_EQ(make_unary(ExprOp::kRound, make_const(Type::kF32, 2.5))->number, 2);
}

TEST(Builder, MakesTheParsedProgram) {
  const int64_t M = 6, N = 5, K = 7;
  OpBuilder b("dense_relu");
  TensorRef A = b.input("A", Type::kF32, {M, K}), B = b.constant("B", Type::kF32, {K, N});
  TensorRef bias = b.input("bias", Type::kF32, {N});
  TensorRef C = b.compute("C", {{"i", M}, {"j", N}}, [&](const Values& x) {
    ReduceAxis k = b.reduce_axis("k", K);
    return b.sum({k}, A(x[0], k) * B(k, x[1]));
  });
  b.output("D", {{"i", M}, {"j", N}},
           [&](const Values& x) { return max(C(x[0], x[1]) + bias(x[1]), 0); });
  absl::StatusOr<Program> built = b.build();
  ASSERT_TRUE(built.ok()) << built.status().message();
  absl::StatusOr<Program> parsed = load_workload({"dense_relu", "M=6", "N=5", "K=7"});
  EXPECT_EQ(print(*built), print(*parsed));
  EXPECT_EQ(workload_id(*built), workload_id(*parsed));
}

TEST(Builder, SplitsSharesAndPadsAsTheLanguageDoes) {
  OpBuilder b("f");
  TensorRef X = b.input("X", Type::kF16, {4, 8});
  b.output("Y", {{"i", 4}}, [&](const Values& x) {
    ReduceAxis k = b.reduce_axis("k", 8);
    Value term = cast(Type::kF32, pad(X(x[0], k - 1), 0.5));
    return where(x[0] % 2 == 0, b.sum({k}, term) / 8, -b.max({k}, term * term));
  });
  absl::StatusOr<Program> built = b.build();
  ASSERT_TRUE(built.ok()) << built.status().message();
  EXPECT_EQ(print(*built), print(op_of(
      "op f() {\nin X: f16[4, 8]\nout Y[i: 4] = where(i % 2 == 0,\n"
      "sum[k: 8](cast(f32, pad(X[i, k - 1], 0.5))) / 8,\n"
      "-max[k: 8](cast(f32, pad(X[i, k - 1], 0.5)) * cast(f32, pad(X[i, k - 1], 0.5))))\n}")));
}

TEST(Builder, ReturnsAllErrorsByName) {
  OpBuilder b("f");
  TensorRef X = b.input("X", Type::kF32, {4});
  b.compute("T", {{"i", 4}}, [&](const Values& x) { return X(x[0] + 1); });
  b.output("Y", {{"i", 4}}, [&](const Values& x) { return X(x[0]) + x[0]; });
  const std::string error(b.build().status().message());
  EXPECT_NE(error.find("op f, T: error: index 1 of 'X', i + 1, ranges over [1, 4]"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("op f, Y: error: operands of types f32 and i32 do not mix"),
            std::string::npos)
      << error;
  OpBuilder c("g");
  c.output("out", {{"i", 4}}, [&](const Values&) { return cast(Type::kF32, 1); });
  EXPECT_NE(c.build().status().message().find("'out' cannot name a tensor"), std::string::npos);
  OpBuilder d("h");
  TensorRef Z = d.input("Z", Type::kF32, {4});
  ReduceAxis k = d.reduce_axis("k", 4);
  d.output("Y", {}, [&](const Values&) { return d.sum({k}, Z(k)) + Z(k); });
  EXPECT_FALSE(d.build().ok());
}

TEST(Builder, RefusesASharedTreeThatIsExponential) {
  OpBuilder b("f");
  TensorRef X = b.input("X", Type::kF32, {4});
  b.output("Y", {{"i", 4}}, [&](const Values& x) {
    Value value = X(x[0]);
    for (int i = 0; i < 200; ++i) value = value + value;
    return value;
  });
  EXPECT_NE(b.build().status().message().find("too large"), std::string::npos);
}

}  // namespace
}  // namespace lw
