// The reference: what each operation means, on the values where implementations differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

Program program_of(const std::string& statements) {
  absl::StatusOr<Module> module = parse_module("op f() {\n" + statements + "\n}\n", "t.te");
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? *instantiate(module->ops[0], {}) : Program();
}

Data data_of(Type type, const std::vector<double>& values) {
  Data data;
  data.bytes.resize(values.size() * static_cast<size_t>(size_of(type)));
  for (size_t i = 0; i < values.size(); ++i) {
    store_element(type, data.bytes.data(), static_cast<int64_t>(i), values[i]);
  }
  return data;
}

std::vector<double> values_of(const Tensor& tensor, const Data& data) {
  std::vector<double> values;
  for (int64_t i = 0; i < elements(tensor); ++i) {
    values.push_back(load_element(tensor.type, data.bytes.data(), i));
  }
  return values;
}

// The output of `Y[i: N] = expression` on x, of type `type`.
std::vector<double> run(const std::string& type, const std::string& expression,
                        const std::vector<double>& x) {
  const std::string n = std::to_string(x.size());
  Program program =
      program_of("in X: " + type + "[" + n + "]\nout Y[i: " + n + "] = " + expression);
  if (program.tensors.empty()) return {};
  absl::StatusOr<std::vector<Data>> out = interpret(program, {data_of(program.tensors[0].type, x)});
  EXPECT_TRUE(out.ok()) << out.status().message();
  return values_of(program.tensors.back(), (*out)[0]);
}

using V = std::vector<double>;
constexpr double kInf = INFINITY;

TEST(Interpret, IntegersWrap) {
  EXPECT_EQ(run("i8", "X[i] + 1", {127, -128, 5}), (V{-128, -127, 6}));
  EXPECT_EQ(run("u8", "X[i] - 1", {0, 255}), (V{255, 254}));
  EXPECT_EQ(run("i8", "X[i] * X[i]", {100, -128}), (V{16, 0}));
  EXPECT_EQ(run("i8", "-X[i]", {-128, 1}), (V{-128, -1}));
  EXPECT_EQ(run("i8", "abs(X[i])", {-128, -5}), (V{-128, 5}));
  EXPECT_EQ(run("i32", "X[i] * 2", {2147483647, -2147483648.0}), (V{-2, 0}));
}

TEST(Interpret, DivisionAndRemainderFloorAndByZeroGiveZero) {
  EXPECT_EQ(run("i32", "X[i] / 4", {7, -7, -8, 3}), (V{1, -2, -2, 0}));
  EXPECT_EQ(run("i32", "X[i] / -4", {7, -7, -8, 3}), (V{-2, 1, 2, -1}));
  EXPECT_EQ(run("i32", "X[i] % 4", {7, -7, -8, 3}), (V{3, 1, 0, 3}));
  EXPECT_EQ(run("i32", "X[i] % -4", {7, -7, -8, 3}), (V{-1, -3, 0, -1}));
  EXPECT_EQ(run("i32", "7 / X[i] + 7 % X[i]", {0, 2}), (V{0, 4}));
  EXPECT_EQ(run("i8", "X[i] / -1", {-128, 5}), (V{-128, -5}));
  EXPECT_EQ(run("f32", "1 / X[i]", {0, 4, -kInf}), (V{kInf, 0.25, 0}));
}

TEST(Interpret, CastsRoundSaturateAndWrap) {
  EXPECT_EQ(run("f32", "cast(i8, X[i])", {1.9, -1.9, 300, -300, NAN, kInf}),
            (V{1, -1, 127, -128, 0, 127}));
  EXPECT_EQ(run("f32", "cast(u8, X[i])", {-1, 255.9, 256}), (V{0, 255, 255}));
  EXPECT_EQ(run("f32", "cast(i32, X[i])", {3e9, -3e9}), (V{2147483647, -2147483648.0}));
  EXPECT_EQ(run("i32", "cast(i8, X[i])", {300, -129, 128}), (V{44, 127, -128}));
  EXPECT_EQ(run("i32", "cast(f16, X[i])", {2049, 2051, 65519, 65520}),
            (V{2048, 2052, 65504, kInf}));
  EXPECT_EQ(run("i32", "cast(f32, X[i])", {16777217, 16777219}), (V{16777216, 16777220}));
  EXPECT_EQ(run("f64", "cast(bf16, X[i])", {1.00390625, 1.01171875, 3.4e38}),
            (V{1, 1.015625, kInf}));
  EXPECT_EQ(run("f32", "cast(i32, cast(bool, X[i]))", {0, 0.5, -2}), (V{0, 1, 1}));
  EXPECT_EQ(run("i32", "cast(i32, cast(bool, X[i]))", {0, 256}), (V{0, 1}));
}

TEST(Interpret, RoundIsHalfToEven) {
  EXPECT_EQ(run("f32", "round(X[i])", {0.5, 1.5, 2.5, -0.5, -1.5, 2.4999, -2.5001}),
            (V{0, 2, 2, 0, -2, 2, -3}));
  EXPECT_EQ(run("f32", "floor(X[i]) * 10 + ceil(X[i])", {1.5, -1.5, 2}), (V{12, -21, 22}));
}

TEST(Interpret, ElementaryFunctions) {
  const V x = {0.5, 2, 1e-3};
  const auto check = [&](const char* text, double (*f)(double)) {
    const V got = run("f64", text, x);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_DOUBLE_EQ(got[i], f(x[i])) << text;
  };
  check("exp(X[i])", std::exp);
  check("log(X[i])", std::log);
  check("sqrt(X[i])", std::sqrt);
  check("rsqrt(X[i])", [](double v) { return 1 / std::sqrt(v); });
  check("tanh(X[i])", std::tanh);
  check("erf(X[i])", std::erf);
  check("sigmoid(X[i])", [](double v) { return 1 / (1 + std::exp(-v)); });
  check("pow(X[i], 2.5)", [](double v) { return std::pow(v, 2.5); });
  EXPECT_EQ(run("f32", "clamp(X[i], -1, 1)", {-5, 0.5, 5}), (V{-1, 0.5, 1}));
  EXPECT_EQ(run("f32", "exp(X[i])", {-kInf, 1000}), (V{0, kInf}));
}

TEST(Interpret, WhereAndPadEvaluateTheChosenSideOnly) {
  EXPECT_EQ(run("f32", "where(i > 0, X[i - 1], 9)", {1, 2, 3}), (V{9, 1, 2}));
  EXPECT_EQ(run("f32", "pad(X[i + 1], X[i] * 10)", {1, 2, 3}), (V{2, 3, 30}));
  EXPECT_EQ(run("f32", "where(X[i] > 1 && !(X[i] >= 3) || X[i] == 0, 1, X[i])", {0, 1, 2, 3}),
            (V{1, 1, 1, 3}));
  // A gather that is not chosen may be out of range.
  EXPECT_EQ(run("i32", "where(X[i] < 3 && X[i] >= 0, X[X[i]], -1)", {2, 7, -4}), (V{-4, -1, -1}));
  EXPECT_EQ(run("i32", "where(X[i] < 3 && X[i] >= 0, sum[k: 1](X[X[i] + k]), -1)", {2, 7, -4}),
            (V{-4, -1, -1}));
  EXPECT_EQ(run("i32", "pad(X[X[i]], -7)", {2, 7, -4}), (V{-4, -7, -7}));
}

TEST(Interpret, AGatherOutOfRangeIsAnErrorThatNamesIt) {
  Program program = program_of("in T: f32[5]\nin R: i32[2]\nout Y[i: 2] = T[R[i] + 1]");
  absl::StatusOr<std::vector<Data>> out =
      interpret(program, {data_of(Type::kF32, {1, 2, 3, 4, 5}), data_of(Type::kI32, {3, 4})});
  EXPECT_EQ(out.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(out.status().message(), "index 5 of dimension 1 of T is out of range [0, 5) in Y");
}

TEST(Interpret, Reductions) {
  EXPECT_EQ(run("f32", "sum[k: 3](X[k])", {1, 2, 3}), (V{6, 6, 6}));
  EXPECT_EQ(run("f32", "prod[k: 3](X[k])", {2, 3, 4}), (V{24, 24, 24}));
  EXPECT_EQ(run("f32", "max[k: 3](X[k]) - min[k: 3](X[k])", {2, -3, 4}), (V{7, 7, 7}));
  EXPECT_EQ(run("i8", "sum[k: 3](X[k])", {127, 127, 127}), (V{381, 381, 381}));
  EXPECT_EQ(run("i8", "sum[k: 3](X[k] * X[k])", {127, -128, 127}), (V{48642, 48642, 48642}));
  EXPECT_EQ(run("u8", "min[k: 2](X[k])", {9, 4}), (V{4, 4}));
  EXPECT_EQ(run("f16", "sum[k: 3](X[k])", {2048, 1, 1}), (V{2050, 2050, 2050}));  // in f32
  // More than one strip, several points in a strip.
  EXPECT_EQ(run("f32", "sum[j: 300, k: 2](X[k]) + sum[k: 2](X[k] * cast(f32, i))", {1, 2}),
            (V{900, 903}));
}

// Between neighbours to the nearer one, halfway to the even one; beyond the largest to infinity.
TEST(Interpret, NarrowFloatsRoundToNeighbours) {
  for (const TypeRow& row : kTypeRows) {
    if (!is_narrow(row.type)) continue;
    const NarrowFloat narrow(row.type);
    for (uint32_t bits = 0; bits + 1 < narrow.infinity; ++bits) {
      const double low = narrow.value(bits), high = narrow.value(bits + 1);
      const double middle = low + (high - low) / 2, even = bits % 2 == 0 ? low : high;
      for (const double sign : {1.0, -1.0}) {
        EXPECT_EQ(round_to(row.type, sign * middle), sign * even) << row.name << " " << bits;
        EXPECT_EQ(round_to(row.type, sign * std::nextafter(middle, 0)), sign * low);
        EXPECT_EQ(round_to(row.type, sign * std::nextafter(middle, INFINITY)), sign * high);
      }
    }
    EXPECT_EQ(round_to(row.type, -2 * largest_finite(row.type)), -INFINITY);
    EXPECT_TRUE(std::signbit(round_to(row.type, -0.0)));
  }
}

TEST(Interpret, ElementsAreLoadedManyAtOnce) {
  for (const TypeRow& row : kTypeRows) {
    if (row.type == Type::kBool) continue;
    std::vector<std::byte> memory(9 * sizeof(int64_t));
    for (int64_t i = 0; i < 9; ++i) store_element(row.type, memory.data(), i, 3 * i - 7);
    std::vector<double> values(7, -99);
    load_elements(row.type, memory.data() + size_of(row.type), 2, 4, values.data(), 2);
    for (int64_t i = 0; i < 7; ++i) {
      const double expected =
          i % 2 == 1 ? -99 : load_element(row.type, memory.data(), 1 + i);
      EXPECT_EQ(values[i], expected) << row.name << " " << i;
    }
  }
}

TEST(Interpret, NarrowFloatsRoundTrip) {
  for (const TypeRow& row : kTypeRows) {
    if (!is_narrow(row.type)) continue;
    for (int64_t bits = 0; bits < int64_t{1} << row.bits; ++bits) {
      int64_t back = 0;
      std::byte* memory = reinterpret_cast<std::byte*>(&back);
      const double value = load_element(row.type, reinterpret_cast<const std::byte*>(&bits), 0);
      store_element(row.type, memory, 0, value);
      EXPECT_TRUE(std::isnan(value) || back == bits) << row.name << " " << bits;
      EXPECT_EQ(std::isnan(value), std::isnan(load_element(row.type, memory, 0)));
      EXPECT_TRUE(std::isnan(value) || round_to(row.type, value) == value);
    }
  }
  const auto round_f16 = [](double value) { return round_to(Type::kF16, value); };
  EXPECT_EQ(round_f16(1 + 0x1p-11), 1);                    // a tie goes to the even neighbour
  EXPECT_EQ(round_f16(1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);  // through f32 this would be a tie
  EXPECT_EQ(round_f16(0x1p-25), 0);
  EXPECT_EQ(round_f16(0x1.8p-25), 0x1p-24);
  EXPECT_EQ(round_f16(65519.999), 65504);
  EXPECT_EQ(round_f16(-65520), -INFINITY);
}

TEST(Interpret, NaNsKeepTheirPayloadWhereTheTypeIsTheUpperPartOfF32) {
  const uint32_t nan = 0xffd50000;         // quiet, negative
  uint16_t stored = 0;
  store_element(Type::kBF16, reinterpret_cast<std::byte*>(&stored), 0, std::bit_cast<float>(nan));
  EXPECT_EQ(stored, nan >> 16);
  store_element(Type::kF16, reinterpret_cast<std::byte*>(&stored), 0, std::bit_cast<float>(nan));
  EXPECT_EQ(stored, 0xfe00);
}

#ifdef __x86_64__
// A program that links the reference may run with subnormal numbers switched off.
TEST(Interpret, SubnormalsOfF16AreThereInEveryMode) {
  for (uint16_t bits = 1; bits < 0x400; ++bits) {
    const unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode | 0x8040);  // to zero, as results and as operands
    const double value = load_element(Type::kF16, reinterpret_cast<const std::byte*>(&bits), 0);
    uint16_t back = 0;
    store_element(Type::kF16, reinterpret_cast<std::byte*>(&back), 0, value);
    __builtin_ia32_ldmxcsr(mode);
    EXPECT_EQ(value, std::ldexp(bits, -24));
    EXPECT_EQ(back, bits);
  }
}
#endif

TEST(Interpret, EffortIsBounded) {
  Program program = program_of("in X: f32[8]\nout Y[i: 8] = sum[k: 1000000, l: 1000000](X[i])");
  EXPECT_EQ(interpret(program, {data_of(Type::kF32, V(8))}, 1e9).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(interpret(program, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

// The oracle agrees with the reference on every point of every operator of the library, in small.
TEST(PointOracle, AgreesWithTheReference) {
  const std::vector<std::vector<std::string>> workloads = {
      {"matmul M=7 N=9 K=150"},         {"softmax M=5 N=200"},
      {"layer_norm M=4 N=33"},          {"attention S=5 T=6 H=2 D=4"},
      {"causal_attention S=6 H=2 D=4"}, {"conv2d H=6 W=5 CI=3 CO=4 stride=2"},
      {"dense_i8 M=5 N=6 K=7"},         {"conv2d_transpose H=3 W=4 CI=5 CO=6"},
      {"elementwise_chain N=300"},      {"gather_rows M=5 V=9 N=4"},
      {"max_pool2d H=7 W=7 C=3"},       {"row_prod M=6 N=5"},
      {"matmul M=4 N=5 K=6 T=f16"},     {"total_sum M=20 N=30"}};
  for (const std::vector<std::string>& words : workloads) {
    SCOPED_TRACE(words[0]);
    Program program = *load_workload(words);
    std::vector<Data> in;
    std::vector<const std::byte*> pointers;
    for (int input : inputs(program)) in.push_back(random_input(program, input, 3, false));
    for (const Data& data : in) pointers.push_back(data.bytes.data());
    absl::StatusOr<std::vector<Data>> out = interpret(program, in);
    ASSERT_TRUE(out.ok()) << out.status().message();
    PointOracle oracle(program, pointers);
    const int output = outputs(program)[0];
    const Tensor& tensor = program.tensors[static_cast<size_t>(output)];
    const V want = values_of(tensor, (*out)[0]);
    std::vector<int64_t> addresses(want.size());
    std::iota(addresses.begin(), addresses.end(), 0);
    PointOracle together(program, pointers);
    const std::vector<PointOracle::Value> all = together.values(output, addresses);
    for (size_t at = 0; at < want.size(); ++at) ASSERT_EQ(all[at].value, want[at]) << at;
    for (size_t at = want.size(); at-- > 0;) {
      std::vector<int64_t> index(tensor.shape.size());
      int64_t rest = static_cast<int64_t>(at);
      for (size_t d = index.size(); d-- > 0; rest /= tensor.shape[d])
        index[d] = rest % tensor.shape[d];
      PointOracle::Value value = oracle.at(output, index);
      ASSERT_EQ(value.value, want[at]) << at;
      ASSERT_GE(value.error, 0) << at;
      ASSERT_LE(value.error, 2e-3 * std::max(1.0, std::fabs(value.value))) << at;
    }
  }
}

TEST(PointOracle, AnErrorIsThatOfTheSumOfAbsoluteTerms) {
  Program program = *load_workload({"matmul M=1 N=1 K=4"});
  const auto error = [&](double odd) {
    const Data a = data_of(Type::kF32, {1, -2, 3, -4}), b = data_of(Type::kF32, {1, 1, 1, odd});
    PointOracle oracle(program, {a.bytes.data(), b.bytes.data()});
    PointOracle::Value value = oracle.at(2, {0, 0});
    EXPECT_EQ(value.value, 2 - 4 * odd);
    return value.error;
  };
  EXPECT_EQ(error(2), 0);                  // whole numbers are exact in any order
  EXPECT_DOUBLE_EQ(error(0.625), 8 * 0x1p-24 * 2 * 8.5 + 0x1p-149);
}

TEST(Inputs, ComeFromTheRangeTheirUseImplies) {
  Program program = program_of("in T: f32[7, 3]\nin R: i32[50]\nin L: f32[50]\nin B: u8[50]\n"
                          "out Y[i: 50] = T[R[i] - 2, 0] + log(L[i]) + cast(f32, B[i])");
  EXPECT_EQ(input_range(program, 0).lo, -1);
  EXPECT_EQ(input_range(program, 1).lo, 2);
  EXPECT_EQ(input_range(program, 1).hi, 8);
  EXPECT_GT(input_range(program, 2).lo, 0);
  EXPECT_EQ(input_range(program, 3).hi, 255);
  for (bool integers : {false, true}) {
    std::vector<Data> in;
    for (int input : inputs(program)) in.push_back(random_input(program, input, 5, integers));
    EXPECT_TRUE(interpret(program, in).ok());
  }
  const Data once = random_input(program, 0, 5, true), again = random_input(program, 0, 5, true);
  EXPECT_EQ(once.bytes, again.bytes);
  for (int64_t i = 0; i < 21; ++i) {
    const double value = load_element(Type::kF32, once.bytes.data(), i);
    EXPECT_EQ(value, std::floor(value));
  }
}

// The root of the mean square of an output, over natural inputs; NaN and infinities pass through.
double typical(const Program& program, int output = 0) {
  std::vector<Data> in;
  for (int input : inputs(program)) in.push_back(random_input(program, input, 5, false));
  const std::vector<Data> out = *interpret(program, in);
  double squares = 0;
  const Tensor& tensor = program.tensors[static_cast<size_t>(outputs(program)[output])];
  const std::vector<double> values = values_of(tensor, out[static_cast<size_t>(output)]);
  for (double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(Inputs, KeepNaturalMagnitudesAtAnyDepth) {
  std::string layers = "in H0: f32[4, 300]\n", squarings = "in Y0: f32[64]\n";
  for (int i = 0; i < 8; ++i) {
    layers += absl::StrCat("in W", i, ": f32[300, 300] const\nH", i + 1,
                           "[i: 4, j: 300] = sum[k: 300](H", i, "[i, k] * W", i, "[k, j])\n");
  }
  for (int i = 0; i < 20; ++i)
    squarings += absl::StrCat("Y", i + 1, "[i: 64] = Y", i, "[i] * Y", i, "[i]\n");
  for (const std::string& text :
       {layers + "out Z[i: 4, j: 300] = H8[i, j]", squarings + "out Z[i: 64] = Y20[i]",
        std::string("in X: f32[8, 400]\nout Z[i: 8] = prod[j: 400](X[i, j])"),
        std::string("in X: f32[8, 400]\nout Z[i: 8, j: 8] = sum[k: 400](X[i, k] * X[j, k])")}) {
    const double size = typical(program_of(text));
    EXPECT_GT(size, 0.1) << text;
    EXPECT_LT(size, 10) << text;
  }
  // Both branches of a gated layer are at work: neither all 0 nor all open.
  const double gated = typical(program_of(
      "in X: f32[4, 768]\nin W: f32[768, 32] const\nin V: f32[768, 32] const\n"
      "A[i: 4, j: 32] = sum[k: 768](X[i, k] * W[k, j])\n"
      "B[i: 4, j: 32] = sum[k: 768](X[i, k] * V[k, j])\n"
      "out Y[i: 4, j: 32] = A[i, j] / (1 + exp(-A[i, j])) * B[i, j]"));
  EXPECT_GT(gated, 0.05);
  EXPECT_LT(gated, 5);
}

TEST(Inputs, HaveEdges) {
  const Program program = program_of(
      "in X: f32[200, 3]\nin B: bool[200]\nin I: i8[200]\nin R: i32[200]\nin T: f32[7]\n"
      "out Y[i: 200] = sum[k: 3](X[i, k]) + where(B[i], T[R[i]], 0) + cast(f32, I[i])");
  std::vector<Data> in;
  for (int input : inputs(program)) {
    in.push_back(random_input(program, input, 5, false));
    fill_edge_input(program, input, 9, true, in.back().bytes.data());
  }
  EXPECT_TRUE(interpret(program, in).ok()) << "an index left its range";
  const std::vector<double> x = values_of(program.tensors[0], in[0]);
  int zero = 0, equal = 0, subnormal = 0, large = 0, infinite = 0, natural = 0;
  for (size_t i = 0; i < x.size(); i += 3) {
    const double a = std::fabs(x[i]);
    if (x[i] == x[i + 1] && x[i] == x[i + 2]) ++(a == 0 ? zero : std::isinf(a) ? infinite : equal);
    else if (a > 0 && a < 0x1p-126) ++subnormal;
    else if (a > 1e6) ++large;
    else ++natural;
  }
  for (int count : {zero, equal, subnormal, large, infinite}) EXPECT_GT(count, 4);
  EXPECT_GT(natural, 60) << "most are as ever";
  fill_edge_input(program, 0, 9, false, in[0].bytes.data());
  for (double tame : values_of(program.tensors[0], in[0])) {
    EXPECT_TRUE(tame == 0 || std::fabs(tame) >= 0x1p-126) << tame;
  }
  const std::vector<double> ends = values_of(program.tensors[2], in[2]);
  EXPECT_GT(std::count(ends.begin(), ends.end(), -128), 4);
  EXPECT_GT(std::count(ends.begin(), ends.end(), 127), 4);
}

}  // namespace
}  // namespace lw
