// Gate V9: bf16 as IEEE 754 would have it, whatever mode the processor is in, and products of it in
// the order that product.h promises, near those of oneDNN. LW_NPU_FLOATS: how many random f32
// (10,000,000 is the long form); LW_NPU_SHAPES: how many products beside oneDNN.
#ifdef LW_ONEDNN
#include "oneapi/dnnl/dnnl.hpp"
#endif
#include "src/npu/function/numbers.h"
#include "tests/npu/function_programs.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lw::npu {
namespace {

// The nearer of the two neighbours, by exact differences of doubles; the even one of equals.
uint16_t nearest(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7FC0;
  const uint16_t down = bits >> 16, above = down + 1;            // in magnitude
  if ((bits & 0xFFFF) == 0) return down;
  const auto exact = [](uint16_t half) {
    const int exponent = half >> 7 & 0xFF, mantissa = half & 0x7F;
    return exponent == 0 ? std::ldexp(mantissa, -133) : std::ldexp(128 + mantissa, exponent - 134);
  };
  const int exponent = bits >> 23 & 0xFF, mantissa = bits & 0x7FFFFF;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -149)
                                         : std::ldexp(0x800000 + mantissa, exponent - 150);
  const double to_down = magnitude - exact(down), to_above = exact(above) - magnitude;
  if (to_down != to_above) return to_down < to_above ? down : above;
  return down % 2 == 0 ? down : above;
}

TEST(Bf16Gate, EveryValueSurvivesTheWayThroughF32) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const bool nan = (half & 0x7FFF) > 0x7F80;
    ASSERT_EQ(to_bf16(from_bf16(static_cast<uint16_t>(half))), nan ? 0x7FC0 : half) << half;
  }
}

void expect_nearest(int64_t count, uint64_t seed) {
  Rng rng(seed);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = static_cast<uint32_t>(rng.next());
    if (i % 4 == 0) bits = (bits & 0xFFFF0000) | 0x8000;         // a tie
    if (i % 8 == 1) bits &= 0x807FFFFF;                          // subnormal
    const float value = std::bit_cast<float>(bits);
    ASSERT_EQ(to_bf16(value), nearest(value)) << std::hex << bits;
  }
}

TEST(Bf16Gate, RandomFloatsRoundToTheNearest) {
  expect_nearest(setting("LW_NPU_FLOATS", 1000000), 91);
}

#if defined(__x86_64__)
struct FlushToZero {                       // subnormals are zeros, in and out
  FlushToZero() : before(_mm_getcsr()) { _mm_setcsr(before | 0x8040); }
  ~FlushToZero() { _mm_setcsr(before); }
  const unsigned before;
};
#endif

struct Bf16Product {
  Case c;
  std::vector<uint8_t> exact;              // of the order that is promised
  std::vector<double> value, magnitude;    // in double; sums of absolute products
};

float number(const std::vector<uint8_t>& bytes, int64_t at) {
  return from_bf16(static_cast<uint16_t>(bytes[2 * at] | bytes[2 * at + 1] << 8));
}

Bf16Product product(const Config& config, const GemmPlan& plan, int exponents, Rng* rng) {
  Bf16Product p;
  absl::StatusOr<Program> program = make_gemm(config, plan);
  if (!program.ok()) return p;
  p.c = {config, *std::move(program), {}};
  const int64_t counts[] = {plan.m * plan.k, plan.n * plan.k, plan.m * plan.n};
  uint64_t address = 0;
  for (const int64_t count : counts) {
    Placed tensor = {address, std::vector<uint8_t>(2 * count), p.c.tensors.size() == 2};
    for (int64_t i = 0; i < count; ++i) {
      const int exponent = static_cast<int>(rng->below(8)) + exponents;
      const double value = std::ldexp(rng->uniform() - 0.5, exponent);
      const uint16_t half = to_bf16(static_cast<float>(value));
      tensor.bytes[2 * i] = static_cast<uint8_t>(half);
      tensor.bytes[2 * i + 1] = static_cast<uint8_t>(half >> 8);
    }
    p.c.tensors.push_back(tensor);
    address += up(2 * count, 4096);
  }
  p.exact.resize(2 * counts[2]);
  const int64_t fold = plan.output_stationary ? plan.tile_k : config.mx.rows;
  for (int64_t m = 0; m < plan.m; ++m) {
    for (int64_t n = 0; n < plan.n; ++n) {
      float acc = 0;
      bool first = true;
      double value = 0, magnitude = 0;
      for (int64_t tile = 0; tile < plan.k; tile += plan.tile_k) {
        const int64_t tile_end = std::min(plan.k, tile + plan.tile_k);
        for (int64_t k0 = tile; k0 < tile_end; k0 += fold) {
          volatile float chain = 0;        // volatile: each step is rounded, none is fused
          for (int64_t k = k0; k < std::min(tile_end, k0 + fold); ++k) {
            const float a = number(p.c.tensors[0].bytes, m * plan.k + k);
            const float b = number(p.c.tensors[1].bytes,
                                   plan.output_stationary ? k * plan.n + n : n * plan.k + k);
            volatile float term = a * b;
            chain = chain + term;
            value += double(a) * double(b);
            magnitude += std::abs(double(a) * double(b));
          }
          acc = first ? chain : acc + chain;
          first = false;
        }
      }
      const uint16_t half = to_bf16(acc);
      p.exact[2 * (m * plan.n + n)] = static_cast<uint8_t>(half);
      p.exact[2 * (m * plan.n + n) + 1] = static_cast<uint8_t>(half >> 8);
      p.value.push_back(value);
      p.magnitude.push_back(magnitude);
    }
  }
  return p;
}

void expect_products(int64_t shapes, int exponents, bool flush) {
  int64_t ran = 0;
  for (int64_t i = 0; i < shapes; ++i) {
    Rng rng = Rng(92).split(i);
    const Config config = machine(i % 2 == 0 ? "big128" : "edge16");
    const GemmPlan drawn = random_plan(config, 1 + rng.below(150), 40, &rng);
    GemmPlan plan = drawn;
    plan.dtype = Dtype::kBf16;
    Bf16Product p = product(config, plan, exponents, &rng);
    if (p.c.program.empty()) continue;
    ++ran;
    absl::StatusOr<FunctionReport> report = absl::UnknownError("");
    {
#if defined(__x86_64__)
      std::unique_ptr<FlushToZero> mode;
      if (flush) mode = std::make_unique<FlushToZero>();
#endif
      report = run(&p.c);
    }
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, FunctionStatus::kOk) << report->errors[0];
    ASSERT_EQ(p.c.result(), p.exact) << "shape " << i;
    for (size_t at = 0; at < p.value.size(); ++at) {
      const double bound = std::abs(p.value[at]) * 0x1p-8 +
                           plan.k * 0x1p-24 * p.magnitude[at] + 0x1p-133;
      ASSERT_LE(std::abs(number(p.c.result(), at) - p.value[at]), bound) << "shape " << i;
    }
  }
  EXPECT_GT(ran, shapes / 2);
}

TEST(Bf16Gate, ProductsHaveTheirOrderAndItsErrorBound) { expect_products(60, -4, false); }

// Sums whose values are subnormal.
TEST(Bf16Gate, SubnormalsSurviveTheCallersMode) { expect_products(20, -68, true); }

#ifdef LW_ONEDNN
// As f32, whose sums are oneDNN's own, in its own order. From operands of bf16, or of f32 that have
// the same values (their products are exact in f32 either way); empty: oneDNN has no such product
// on this processor.
std::vector<float> onednn_product(const Bf16Product& p, const GemmPlan& plan, bool widened) {
  using dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = widened ? memory::data_type::f32 : memory::data_type::bf16;
  const memory::desc a_desc({plan.m, plan.k}, type, memory::format_tag::ab);
  const memory::desc b_desc({plan.k, plan.n}, type,
                            plan.output_stationary ? memory::format_tag::ab
                                                   : memory::format_tag::ba);
  const memory::desc c_desc({plan.m, plan.n}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc desc(engine, a_desc, b_desc, c_desc, {}, /*allow_empty=*/true);
  if (!desc) return {};
  std::vector<uint8_t> halves[] = {p.c.tensors[0].bytes, p.c.tensors[1].bytes};
  std::vector<float> floats[2];
  for (int i = 0; i < 2; ++i) {
    for (size_t at = 0; at < halves[i].size() / 2; ++at) floats[i].push_back(number(halves[i], at));
  }
  const auto operand = [&](const memory::desc& of, int i) {
    return memory(of, engine, widened ? static_cast<void*>(floats[i].data()) : halves[i].data());
  };
  std::vector<float> result(plan.m * plan.n);
  dnnl::matmul(desc).execute(stream, {{DNNL_ARG_SRC, operand(a_desc, 0)},
                                      {DNNL_ARG_WEIGHTS, operand(b_desc, 1)},
                                      {DNNL_ARG_DST, memory(c_desc, engine, result.data())}});
  stream.wait();
  return result;
}

TEST(Bf16Gate, ProductsAreNearThoseOfOneDnn) {
  const int64_t shapes = setting("LW_NPU_SHAPES", 60);
  int64_t compared = 0;
  for (int64_t i = 0; i < shapes; ++i) {
    Rng rng = Rng(93).split(i);
    const Config config = machine(i % 2 == 0 ? "big128" : "edge16");
    GemmPlan plan = random_plan(config, 1 + rng.below(600), 60, &rng);
    plan.dtype = Dtype::kBf16;
    Bf16Product p = product(config, plan, -4, &rng);
    if (p.c.program.empty()) continue;
    const absl::StatusOr<FunctionReport> report = run(&p.c);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, FunctionStatus::kOk) << report->errors[0];
    for (const bool widened : {true, false}) {
      const std::vector<float> theirs = onednn_product(p, plan, widened);
      ASSERT_TRUE(!widened || !theirs.empty()) << "oneDNN has no product of f32";
      for (size_t at = 0; at < theirs.size(); ++at) {
        const double bound =
            std::abs(double(theirs[at])) * 0x1p-8 + plan.k * 0x1p-24 * p.magnitude[at];
        ASSERT_LE(std::abs(double(number(p.c.result(), at)) - theirs[at]), bound)
            << config.name << ", shape " << i << ", " << plan.m << "x" << plan.n << "x" << plan.k;
      }
      compared += !theirs.empty();
    }
  }
  EXPECT_GT(compared, shapes / 2);
}
#endif

}  // namespace
}  // namespace lw::npu
