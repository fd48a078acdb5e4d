// The admissible error (src/expr/reference/rounding.h): kernels that keep the promise are right
// whatever they rearrange, and kernels that are really wrong are not.
#include "src/expr/reference/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/scalar.h"
#include "src/measure/judge/verify.h"

namespace lw {
namespace {

using V = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Program parse(const std::string& body) {
  absl::StatusOr<Module> module = parse_module("op p() {\n" + body + "\n}\n", "test.te");
  CHECK(module.ok());
  absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  CHECK(program.ok());
  return *program;
}

Data data_of(Type type, const V& values) {
  Data data;
  data.bytes.resize(values.size() * static_cast<size_t>(size_of(type)));
  for (size_t i = 0; i < values.size(); ++i)
    store_element(type, data.bytes.data(), static_cast<int64_t>(i), values[i]);
  return data;
}

// A program on natural inputs, and what a kernel made of them.
struct Trial {
  explicit Trial(const std::string& body, uint64_t seed = 7)
      : program(parse(body)), sources(inputs(program)) {
    for (int t : sources) in.push_back(random_input(program, t, seed, false));
    for (int t : outputs(program)) {
      out.emplace_back();
      out.back().bytes.resize(static_cast<size_t>(bytes(program.tensors[t])));
    }
  }
  double a(int input, int64_t i) const {
    return load_element(program.tensors[sources[input]].type, in[input].bytes.data(), i);
  }
  float f(int input, int64_t i) const { return static_cast<float>(a(input, i)); }
  Check check(const std::function<double(int64_t)>& kernel) {
    const Tensor& tensor = program.tensors[outputs(program)[0]];
    std::vector<Point> points;
    for (int64_t i = 0; i < elements(tensor); ++i) {
      store_element(tensor.type, out[0].bytes.data(), i, kernel(i));
      points.push_back({0, i});
    }
    std::vector<const std::byte*> data;
    for (const Data& d : in) data.push_back(d.bytes.data());
    std::vector<PointValue> values(points.size());
    evaluate_points(program, data, points, 0, static_cast<int64_t>(points.size()), 1e18,
                    values.data());
    return check_points(program, {out[0].bytes.data()}, points, values.data());
  }
  Program program;
  std::vector<int> sources;                // its inputs
  std::vector<Data> in, out;
};

float dot(const Trial& t, int64_t i, int64_t j, int n, int terms) {
  float sum = 0;
  for (int k = 0; k < terms; ++k) sum += t.f(0, i * terms + k) * t.f(1, k * n + j);
  return sum;
}

TEST(Rounding, OfACastInsideABodyIsAdmissible) {
  for (uint64_t seed = 1; seed < 8; ++seed) {
    Trial t(
        "in A: f32[64, 64]\nin B: f32[64, 64]\n"
        "out Y[i: 64, j: 64] = cast(f32, cast(f16, sum[k: 64](A[i, k] * B[k, j])))",
        seed);
    const Check check =
        t.check([&](int64_t at) { return round_to(Type::kF16, dot(t, at / 64, at % 64, 64, 64)); });
    EXPECT_TRUE(check.ok) << seed << ": " << check.detail;
    // Two units of f16 are not, nor is the sum without the cast.
    EXPECT_FALSE(t.check([&](int64_t at) {
      return round_to(Type::kF16, dot(t, at / 64, at % 64, 64, 64)) * (1 + 2.5 * 0x1p-11);
    }).ok);
    EXPECT_FALSE(t.check([&](int64_t at) { return dot(t, at / 64, at % 64, 64, 64); }).ok);
  }
}

TEST(Rounding, OfAHalfTypeIsThatOfF32) {
  Trial t("in A: f64[8]\nout Y[i: 8] = cast(f64, exp(cast(f16, A[i])))");
  const auto half = [&](int64_t i) { return static_cast<float>(round_to(Type::kF16, t.a(0, i))); };
  const Check check = t.check([&](int64_t i) { return std::exp(half(i)); });
  EXPECT_TRUE(check.ok) << check.detail;
  const auto rounded = [&](int64_t i) { return round_to(Type::kF16, std::exp(half(i))); };
  EXPECT_FALSE(t.check([&](int64_t i) { return rounded(i) * 1.001; }).ok);
}

TEST(Rounding, OfTwoFactorsThatCancelIsTheProductOfTheirErrors) {
  // 2^-25 off 0, twice.
  Trial t(
      "in A: f32[40, 3]\nT[i: 40] = sum[k: 3](A[i, k])\n"
      "out Y[i: 40] = where(i < 27, T[i], 0) * T[0] * T[i]");
  float* a = reinterpret_cast<float*>(t.in[0].bytes.data());
  a[8 * 3] = 0.7f;
  a[8 * 3 + 1] = 0.1f;
  a[8 * 3 + 2] = -(0.7f + 0.1f);
  const auto sum = [&](int64_t i) { return (a[i * 3] + a[i * 3 + 1]) + a[i * 3 + 2]; };
  const auto other = [&](int64_t i) { return (a[i * 3 + 2] + a[i * 3]) + a[i * 3 + 1]; };
  const auto kernel = [&](const auto& s) {
    return t.check([&](int64_t i) { return (i < 27 ? s(i) : 0.0f) * s(0) * s(i); });
  };
  EXPECT_TRUE(kernel(sum).ok) << kernel(sum).detail;
  EXPECT_TRUE(kernel(other).ok) << kernel(other).detail;
  EXPECT_FALSE(t.check([&](int64_t i) { return sum(i) * sum(0) * sum(i); }).ok) << "no mask";
}

constexpr char kProduct[] =
    "in A: f32[16, 512]\nin B: f32[512, 16]\n"
    "out Y[i: 16, j: 16] = sum[k: 512](A[i, k] * B[k, j])";

TEST(Rounding, DoesNotExcuseAWrongKernel) {
  Trial t(kProduct);
  const auto right = [&](int64_t at) { return dot(t, at / 16, at % 16, 16, 512); };
  EXPECT_TRUE(t.check(right).ok);
  EXPECT_LT(t.check(right).worst, 0.5);
  // One element without its last term; two lanes swapped; all sums in f16.
  EXPECT_FALSE(t.check([&](int64_t at) {
    return right(at) - (at == 77 ? t.f(0, 4 * 512 + 511) * t.f(1, 511 * 16 + 13) : 0);
  }).ok);
  EXPECT_FALSE(t.check([&](int64_t at) { return right(at == 8 ? 9 : at == 9 ? 8 : at); }).ok);
  EXPECT_FALSE(t.check([&](int64_t at) {
    double sum = 0;
    for (int k = 0; k < 512; ++k)
      sum = round_to(Type::kF16, sum + t.a(0, at / 16 * 512 + k) * t.a(1, k * 16 + at % 16));
    return sum;
  }).ok);
}

TEST(Rounding, DoesNotExcuseAMaskThatIsOffByOne) {
  Trial t("in A: f32[9, 9]\nout Y[i: 9] = sum[j: 9](where(j <= i, exp(A[i, j]), 0))");
  const auto kernel = [&](int more) {
    return t.check([&](int64_t i) {
      float sum = 0;
      for (int64_t j = 0; j < std::min<int64_t>(i + 1 + more, 9); ++j)
        sum += std::exp(t.f(0, i * 9 + j));
      return sum;
    });
  };
  EXPECT_TRUE(kernel(0).ok) << kernel(0).detail;
  EXPECT_FALSE(kernel(1).ok);
  EXPECT_FALSE(kernel(-1).ok);
}

TEST(Rounding, AdmitsBothSidesOfAJumpAndOnlyThere) {
  Trial t(
      "in A: f32[64, 2]\nD[i: 64] = A[i, 0] * A[i, 1] - A[i, 1] * A[i, 0]\n"
      "out Y[i: 64] = where(D[i] > 0, 1, -1) + floor(D[i]) + where(A[i, 0] > 0, 16, 0)");
  const auto kernel = [&](bool above, double error) {
    return t.check([&](int64_t i) {
      return (above ? 1.0 : -2.0) + (t.a(0, i * 2) > 0 ? 16 : 0) + error;
    });
  };
  EXPECT_TRUE(kernel(true, 0).ok) << kernel(true, 0).detail;
  EXPECT_TRUE(kernel(false, 0).ok) << kernel(false, 0).detail;
  EXPECT_FALSE(kernel(true, 8).ok) << "a comparison of inputs is certain";
}

// The value of an elementwise body at one operand, and the admissible error.
PointOracle::Value at(const std::string& body, double x, const std::string& type = "f32") {
  const Program program = parse(absl::StrCat("in X: ", type, "[1]\nout Z[i: 1] = ", body));
  Type parsed = Type::kF32;
  CHECK(parse_type(type, &parsed));
  const Data data = data_of(parsed, {x});
  return PointOracle(program, {data.bytes.data()}).at(1, {0});
}

TEST(Rounding, WhatIsDefinedAtTheEdgesIsExact) {
  const auto exactly = [](const std::string& body, double x, double want) {
    const PointOracle::Value got = at(body, x);
    EXPECT_TRUE(got.value == want || (std::isnan(got.value) && std::isnan(want)))
        << body << " of " << x << " is " << got.value;
    EXPECT_LE(got.error, 2e-6 * std::fabs(std::isfinite(want) ? want : 0) + 1e-43)
        << body << " of " << x;
  };
  exactly("exp(X[i])", 100, kInf);
  exactly("exp(X[i])", -kInf, 0);
  exactly("sigmoid(X[i])", kInf, 1);
  exactly("sigmoid(X[i])", -kInf, 0);
  exactly("X[i] / (1 + exp(-X[i]))", 100, 100);
  exactly("X[i] / (1 + exp(-X[i]))", -100, 0);
  exactly("tanh(X[i])", -kInf, -1);
  exactly("log(X[i])", 0, -kInf);
  exactly("log(X[i])", -1, kNaN);
  exactly("sqrt(X[i])", -1, kNaN);
  exactly("rsqrt(X[i])", kInf, 0);
  exactly("3 / X[i]", kInf, 0);
  exactly("X[i] / X[i]", 0, kNaN);
  exactly("X[i] * 1e30", 1e30, kInf);
  exactly("X[i] - X[i]", kInf, kNaN);
  exactly("where(X[i] > 0, 7, exp(X[i] / 0))", 1, 7);
  exactly("cast(f32, cast(i8, X[i]))", kInf, 127);
  exactly("cast(f32, cast(u8, X[i]))", -kInf, 0);
  exactly("cast(f32, cast(i32, X[i]))", kNaN, 0);
  exactly("max(X[i], -3)", -kInf, -3);
}

TEST(Rounding, WhatIsLeftOpenIsNotJudged) {
  for (const char* body : {"max(X[i], 1)", "min(1, X[i])"})
    EXPECT_EQ(at(body, kNaN).error, kInf) << body;
  EXPECT_EQ(at("1 / X[i]", 0).error, kInf) << "which infinity";
  EXPECT_EQ(at("rsqrt(X[i])", 0).error, kInf);
  EXPECT_EQ(at("X[i] / 1e-42", 1e-42).error, kInf) << "by a reciprocal";
  EXPECT_EQ(at("X[i] * 2.0", 2.5e38).error, kInf) << "close to the largest number";
  EXPECT_EQ(at("X[i] * X[i] - X[i] * X[i]", 1e30).error, kInf) << "contracted";
}

// Whether partial sums pass the largest number is a matter of their order; infinite terms are not.
TEST(Rounding, OfASumThatOverflowsIsOpen) {
  for (const char* type : {"f64", "f32"}) {
    const Program program =
        parse(absl::StrCat("in X: ", type, "[3]\nout Z[] = sum[k: 3](X[k])"));
    Type parsed = Type::kF32;
    CHECK(parse_type(type, &parsed));
    const double large = parsed == Type::kF64 ? 1.5e308 : 3e38;
    const auto error = [&](const V& x) {
      const Data data = data_of(parsed, x);
      return PointOracle(program, {data.bytes.data()}).at(1, {}).error;
    };
    EXPECT_EQ(error({large, large, -large}), kInf) << type;
    EXPECT_EQ(error({large, 1, kInf}), 0) << type;
    EXPECT_EQ(error({-kInf, 1, kInf}), 0) << type << ": NaN";
  }
}

// A kernel need not multiply by the zero of a border, whatever the product is wrapped in.
TEST(Rounding, OfAProductWithPaddingsZeroIsOpen) {
  for (const char* term : {"pad(X[k - 1], 0) * X[k]", "-(X[k] * pad(X[k - 1], 0))",
                           "where(k < 2, pad(X[k - 1], 0) * X[k], 0)"}) {
    const Program program =
        parse(absl::StrCat("in X: f64[3]\nout Z[] = sum[k: 3](", term, ")"));
    const Data data = data_of(Type::kF64, {kInf, 1, 1});
    EXPECT_EQ(PointOracle(program, {data.bytes.data()}).at(1, {}).error, kInf) << term;
  }
}

// The nearest number being whole does not make a result exact: 6 / 3 by a multiplication.
TEST(Rounding, OfAnInexactProductIsThere) {
  EXPECT_GT(at("X[i] * 0.3333333333333333", 6, "f64").error, 0);
  EXPECT_GT(at("X[i] + 0.7", 0.3, "f64").error, 0);
  EXPECT_EQ(at("X[i] * 7.0", 6, "f64").error, 0);
}

TEST(Rounding, OfSubnormalsIsOneOfThem) {
  for (const char* type : {"f64", "f32", "f16"}) {
    const double least = std::string(type) == "f64" ? 0x1p-1074
                         : std::string(type) == "f32" ? 0x1p-149
                                                      : 0x1p-24;
    const PointOracle::Value half = at("X[i] * 0.75", 5 * least, type);
    EXPECT_EQ(half.value, 4 * least) << type;
    EXPECT_LE(half.error, 2 * least) << type;
    const PointOracle::Value copy = at("X[i] * 1", 5 * least, type);
    EXPECT_EQ(copy.value, 5 * least) << type;
    EXPECT_EQ(copy.error, 0) << type;
  }
  EXPECT_GE(at("X[i] * 0.5", 0x1p-126, "bf16").error, 0x1p-127) << "may be zero";
  EXPECT_GE(at("cast(f32, cast(bf16, X[i]))", 0x1p-127, "f32").error, 0x1p-127) << "may be zero";
}

// Chains in which an error is multiplied at every step stay between excuse and false alarm.
TEST(Rounding, FollowsChains) {
  std::string newton = "in X: f32[64]\nin S: f32[64]\nY0[i: 64] = S[i]\n";
  std::string residual = "in X: f32[64]\nY0[i: 64] = X[i]\n";
  for (int step = 0; step < 8; ++step) {
    absl::StrAppend(&newton, "Y", step + 1, "[i: 64] = Y", step, "[i] * (3 - X[i] * Y", step,
                    "[i] * Y", step, "[i]) / 2\n");
    absl::StrAppend(&residual, "Y", step + 1, "[i: 64] = Y", step, "[i] + 0.1 * tanh(Y", step,
                    "[i])\n");
  }
  newton += "out Z[i: 64] = Y8[i]";
  residual += "out Z[i: 64] = Y8[i]";
  const auto check = [](Trial& t, const auto& step, float error) {
    return t.check([&](int64_t i) {
      float y = t.f(static_cast<int>(t.in.size()) - 1, i);
      for (int n = 0; n < 8; ++n) y = step(t.f(0, i), y);
      return y * (1 + error);
    });
  };
  Trial n(newton), r(residual);
  const auto newton_step = [](float x, float y) { return y * (3 - x * y * y) / 2; };
  const auto residual_step = [](float, float y) { return y + 0.1f * std::tanh(y); };
  EXPECT_TRUE(check(n, newton_step, 0).ok) << check(n, newton_step, 0).detail;
  EXPECT_TRUE(check(r, residual_step, 0).ok) << check(r, residual_step, 0).detail;
  EXPECT_FALSE(check(n, newton_step, 1e-3f).ok);
  EXPECT_FALSE(check(r, residual_step, 1e-4f).ok);
}

}  // namespace
}  // namespace lw
