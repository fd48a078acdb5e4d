// Gate V8: i8 products and convolutions are those of int32 loops and of oneDNN, bit for bit: tails,
// pads, strides, saturation. LW_NPU_SHAPES: how many random shapes of each.
#ifdef LW_ONEDNN
#include "oneapi/dnnl/dnnl.hpp"
#endif
#include "src/npu/function/numbers.h"
#include "tests/npu/function_programs.h"

namespace lw::npu {
namespace {

const char* const kMachines[] = {"edge16", "mid32", "big128"};

TEST(ProductsGate, MatrixProductsAreThoseOfLoops) {
  const int64_t shapes = setting("LW_NPU_SHAPES", 200);
  int64_t saturated = 0, total = 0, stationary = 0, refused = 0;
  for (int64_t i = 0; i < shapes; ++i) {
    Rng rng = Rng(81).split(i);
    const Config config = machine(kMachines[i % 3]);
    const int64_t k = 1 + rng.below(200);
    const GemmPlan plan = random_plan(config, k, 90, &rng);
    const Epilogue epilogue = random_epilogue(plan.n, k, &rng);
    absl::StatusOr<Case> c = gemm_case(config, plan, k, epilogue, &rng);
    if (!c.ok()) {
      ++refused;
      continue;
    }
    const absl::StatusOr<FunctionReport> report = run(&*c);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, FunctionStatus::kOk) << report->errors[0];
    ASSERT_EQ(c->result(), gemm_reference(*c, plan, epilogue))
        << config.name << " " << plan.m << "x" << plan.n << "x" << plan.k << " tiles "
        << plan.tile_m << " " << plan.tile_n << " " << plan.tile_k << " fold " << plan.fold_m;
    for (const uint8_t byte : c->result()) saturated += byte == 127 || byte == 128;
    total += static_cast<int64_t>(c->result().size());
    stationary += plan.output_stationary;
  }
  EXPECT_LE(refused, shapes / 10);
  EXPECT_GT(saturated, total / 50);        // the draws reach the ends,
  EXPECT_LT(saturated, total / 2);         // and what lies between
  EXPECT_GT(stationary, shapes / 6);
}

// One tile: the image with its pads in SPM, weights [r][s][n][c], folds over windows without
// im2col.
struct Convolution {
  int64_t h, w, c, n, r, s, stride, top, bottom, left, right;

  int64_t out_h() const { return (h + top + bottom - r) / stride + 1; }
  int64_t out_w() const { return (w + left + right - s) / stride + 1; }
};

Convolution random_convolution(Rng* rng) {
  Convolution v;
  v.r = 1 + rng->below(4);
  v.s = 1 + rng->below(4);
  v.top = rng->below(v.r);
  v.bottom = rng->below(v.r);
  v.left = rng->below(v.s);
  v.right = rng->below(v.s);
  v.h = v.r + rng->below(9);
  v.w = v.s + rng->below(9);
  v.c = 1 + rng->below(40);
  v.n = 1 + rng->below(40);
  v.stride = 1 + rng->below(3);
  return v;
}

Case convolution_case(const Config& config, const Convolution& v, const Epilogue& e, Rng* rng) {
  Case c = {config, {}, {}};
  const int64_t depth = up(v.c, std::max(config.align.k, config.spm.align));
  const int64_t width = up(v.n, config.align.n), columns = v.w + v.left + v.right;
  const int64_t lines = v.h + v.top + v.bottom, windows = v.out_h() * v.out_w();
  const int64_t weights = up(lines * columns * depth, 4096);
  const int64_t results = weights + up(v.r * v.s * width * depth, 4096);
  const int64_t words = up(width, config.acc.align), row = up(width, config.spm.align);
  c.tensors = {{0x100, random_bytes(v.h * v.w * v.c, rng), false},
               {0x20000, std::vector<uint8_t>(v.r * v.s * width * depth), false},
               {0x80000, std::vector<uint8_t>(windows * v.n), true}};
  const std::vector<uint8_t> values = random_bytes(v.r * v.s * v.n * v.c, rng);
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t channel = i % v.c, output = i / v.c % v.n, place = i / v.c / v.n;
    c.tensors[1].bytes[(place * width + output) * depth + channel] = values[i];
  }
  Ld image;                                // channels beyond c stay poison: their weights are 0
  image.dram = c.tensors[0].address;
  image.n0 = v.c;
  image.n1 = v.w;
  image.n2 = v.h;
  image.dstr1 = v.c;
  image.dstr2 = v.w * v.c;
  image.lstr1 = depth;
  image.lstr2 = columns * depth;
  image.top = v.top;
  image.bottom = v.bottom;
  image.left = v.left;
  image.right = v.right;
  Ld filter;
  filter.dram = c.tensors[1].address;
  filter.loc = weights;
  filter.n0 = depth;
  filter.n1 = width;
  filter.n2 = v.r * v.s;
  filter.dstr1 = filter.lstr1 = depth;
  filter.dstr2 = filter.lstr2 = width * depth;
  c.program = {{image}, {filter}};
  c.program[1].signal[0] = 0;
  bool first = true;
  for (int64_t n = 0; n < width; n += config.mx.columns) {
    const int64_t block = std::min(config.mx.columns, width - n);
    bool fresh = true;
    for (int64_t place = 0; place < v.r * v.s; ++place) {
      for (int64_t k = 0; k < depth; k += config.mx.rows) {
        MxLdw ldw;
        ldw.w = weights + (place * width + n) * depth + k;
        ldw.wstr = depth;
        ldw.trans = true;
        ldw.n = block;
        ldw.k = std::min(config.mx.rows, depth - k);
        MxMm mm;
        mm.a = (place / v.s * columns + place % v.s) * depth + k;
        mm.astr1 = v.stride * depth;
        mm.astr2 = v.stride * columns * depth;
        mm.m = v.out_w();
        mm.m2 = v.out_h();
        mm.k = ldw.k;
        mm.n = block;
        mm.acc = n;
        mm.accstr = words;
        mm.accstr2 = v.out_w() * words;
        mm.accumulate = !fresh;
        mm.swap = true;
        fresh = false;
        c.program.push_back({ldw});
        if (first) c.program.back().wait[0] = 0;
        first = false;
        c.program.push_back({mm});
      }
    }
    c.program.back().signal[0] = 1;
    VeReq req;
    req.acc = n;
    req.accstr = words;
    req.rows = windows;
    req.n = block;
    req.dst = results + n;
    req.dstr = row;
    c.program.push_back({req});
    c.program.back().wait[0] = 1;
    if (n + block == width) c.program.back().signal[0] = 2;
  }
  St store;
  store.dram = c.tensors[2].address;
  store.loc = results;
  store.n0 = v.n;
  store.n1 = windows;
  store.dstr1 = v.n;
  store.lstr1 = row;
  c.program.push_back({store});
  c.program.back().wait[0] = 2;
  const absl::Status added = add_epilogue(&c, e, 0x100000, [&](size_t i) {
    return int64_t{std::get<VeReq>(c.program[i].body).acc};
  });
  EXPECT_TRUE(added.ok()) << added;
  return c;
}

std::vector<int32_t> convolution_sums(const Case& c, const Convolution& v) {
  const int64_t depth = up(v.c, std::max(c.config.align.k, c.config.spm.align));
  const int64_t width = up(v.n, c.config.align.n);
  std::vector<int32_t> sums;
  for (int64_t y = 0; y < v.out_h(); ++y) {
    for (int64_t x = 0; x < v.out_w(); ++x) {
      for (int64_t n = 0; n < v.n; ++n) {
        int32_t sum = 0;
        for (int64_t r = 0; r < v.r; ++r) {
          for (int64_t s = 0; s < v.s; ++s) {
            const int64_t row = y * v.stride + r - v.top, column = x * v.stride + s - v.left;
            if (row < 0 || row >= v.h || column < 0 || column >= v.w) continue;
            for (int64_t i = 0; i < v.c; ++i) {
              sum += value_at(c.tensors[0].bytes, (row * v.w + column) * v.c + i) *
                     value_at(c.tensors[1].bytes, ((r * v.s + s) * width + n) * depth + i);
            }
          }
        }
        sums.push_back(sum);
      }
    }
  }
  return sums;
}

TEST(ProductsGate, ConvolutionsAreThoseOfLoops) {
  const int64_t shapes = setting("LW_NPU_SHAPES", 200);
  for (int64_t i = 0; i < shapes; ++i) {
    Rng rng = Rng(82).split(i);
    const Config config = machine(kMachines[i % 3]);
    const Convolution v = random_convolution(&rng);
    const Epilogue epilogue = random_epilogue(v.n, v.r * v.s * v.c, &rng);
    Case c = convolution_case(config, v, epilogue, &rng);
    const absl::StatusOr<FunctionReport> report = run(&c);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, FunctionStatus::kOk) << report->errors[0];
    const std::vector<int32_t> sums = convolution_sums(c, v);
    std::vector<uint8_t> expected;
    for (size_t at = 0; at < sums.size(); ++at) {
      const int64_t n = static_cast<int64_t>(at) % v.n;
      expected.push_back(static_cast<uint8_t>(
          requantised(sums[at], epilogue.scale[n], epilogue.bias[n], epilogue)));
    }
    ASSERT_EQ(c.result(), expected) << config.name << ", shape " << i;
  }
}

// Where sums are near the ends of int32, near halves of a step, and anything between.
TEST(ProductsGate, RequantisationIsExactOverTheEdges) {
  std::vector<int32_t> sums;
  for (int bit = 0; bit < 32; ++bit) {
    for (int64_t d = -3; d <= 3; ++d) {
      sums.push_back(static_cast<int32_t>((int64_t{1} << bit) + d));
      sums.push_back(static_cast<int32_t>(-(int64_t{1} << bit) + d));
    }
  }
  for (int32_t i = -600; i <= 600; ++i) sums.push_back(i);
  Rng rng(83);
  for (int i = 0; i < 2000; ++i) sums.push_back(static_cast<int32_t>(rng.next()));
  Epilogue epilogue;
  for (int i = 0; i < 256; ++i) {
    const int kind = i % 4;
    const float scale = kind == 0 ? std::ldexp(1.0f, i / 4 - 40)
                        : kind == 1 ? std::ldexp(0.5f + float(rng.uniform()), i / 4 - 32)
                        : kind == 2 ? -std::ldexp(0.5f + float(rng.uniform()), i / 4 - 32)
                                    : 0.5f / float(1 + i);
    for (const int32_t sum : sums) {
      ASSERT_EQ(requantise(sum, Scale(scale, Requant::kF32Rne), 3, -128, 127),
                [&] { epilogue.zero_point = 3; return requantised(sum, scale, 0, epilogue); }())
          << sum << " " << scale;
    }
  }
}

// The alternative rounds halves away from zero, twice: within one step of the exact product, and
// exact where the scale is a power of two.
TEST(ProductsGate, TfliteRequantisationIsNearTheExactProduct) {
  Rng rng(84);
  for (int i = 0; i < 200000; ++i) {
    const int32_t sum = static_cast<int32_t>(rng.next()) >> rng.below(31);
    const int exponent = -static_cast<int>(rng.below(20));
    const float scale = static_cast<float>(std::ldexp(0.5 + rng.uniform() / 2, exponent));
    const double exact = double(sum) * scale;
    const int32_t got = Scale(scale, Requant::kTflite).apply(sum);
    ASSERT_LE(std::abs(got - exact), 1.0 + std::abs(exact) * 0x1p-31) << sum << " " << scale;
  }
  for (int32_t sum = -5000; sum <= 5000; ++sum) {
    ASSERT_EQ(Scale(1.0f, Requant::kTflite).apply(sum), sum);
    ASSERT_EQ(Scale(4.0f, Requant::kTflite).apply(sum), 4 * sum);
  }
  EXPECT_EQ(Scale(0.25f, Requant::kTflite).apply(6), 2);     // 1.5
  EXPECT_EQ(Scale(0.25f, Requant::kTflite).apply(-6), -2);
  EXPECT_EQ(Scale(0.25f, Requant::kTflite).apply(5), 2);     // 2.5 to 3, 1.5 to 2
  EXPECT_EQ(Scale(0.25f, Requant::kTflite).apply(4), 1);
  // 1 is 2^30 / 2^31 . 2: what shifts beyond int32 saturates first.
  EXPECT_EQ(Scale(1.0f, Requant::kTflite).apply(INT32_MAX), 1 << 30);
}

#ifdef LW_ONEDNN
// Without VNNI oneDNN sums pairs in 16 bits that saturate: weights of seven bits.
void halve(std::vector<uint8_t>* weights) {
  for (uint8_t& byte : *weights) byte = static_cast<uint8_t>(static_cast<int8_t>(byte) / 2);
}

// Scales alone: oneDNN adds zero point and bias to the scaled f32.
Epilogue plain(Epilogue e) {
  std::fill(e.bias.begin(), e.bias.end(), 0);
  return {e.scale, e.bias, 0, -128, 127};
}

std::vector<uint8_t> onednn_matmul(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b,
                                   const GemmPlan& plan, const Epilogue& e) {
  using dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = memory::data_type::s8;
  const memory::desc a_desc({plan.m, plan.k}, type, memory::format_tag::ab);
  const memory::desc b_desc({plan.k, plan.n}, type,
                            plan.output_stationary ? memory::format_tag::ab
                                                   : memory::format_tag::ba);
  const memory::desc c_desc({plan.m, plan.n}, type, memory::format_tag::ab);
  const memory::desc s_desc({plan.n}, memory::data_type::f32, memory::format_tag::a);
  dnnl::primitive_attr attributes;
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, 1 << 1);
  const dnnl::matmul::primitive_desc desc(engine, a_desc, b_desc, c_desc, attributes);
  std::vector<uint8_t> result(plan.m * plan.n);
  memory a_memory(a_desc, engine, const_cast<uint8_t*>(a.data()));
  memory b_memory(b_desc, engine, const_cast<uint8_t*>(b.data()));
  memory c_memory(c_desc, engine, result.data());
  memory s_memory(s_desc, engine, const_cast<float*>(e.scale.data()));
  dnnl::matmul(desc).execute(stream, {{DNNL_ARG_SRC, a_memory},
                                      {DNNL_ARG_WEIGHTS, b_memory},
                                      {DNNL_ARG_DST, c_memory},
                                      {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, s_memory}});
  stream.wait();
  return result;
}

TEST(ProductsGate, MatrixProductsAreThoseOfOneDnn) {
  const int64_t shapes = setting("LW_NPU_SHAPES", 200);
  for (int64_t i = 0; i < shapes; ++i) {
    Rng rng = Rng(85).split(i);
    const Config config = machine(kMachines[i % 3]);
    const int64_t k = 1 + rng.below(200);
    const GemmPlan plan = random_plan(config, k, 60, &rng);
    const Epilogue epilogue = plain(random_epilogue(plan.n, k, &rng));
    absl::StatusOr<Case> c = gemm_case(config, plan, k, epilogue, &rng);
    if (!c.ok()) continue;
    halve(&c->tensors[1].bytes);
    const absl::StatusOr<FunctionReport> report = run(&*c);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, FunctionStatus::kOk) << report->errors[0];
    ASSERT_EQ(c->result(),
              onednn_matmul(c->tensors[0].bytes, c->tensors[1].bytes, plan, epilogue))
        << "shape " << i;
  }
}
std::vector<uint8_t> onednn_convolution(const Case& c, const Convolution& v, const Epilogue& e) {
  using dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = memory::data_type::s8;
  const int64_t depth = up(v.c, std::max(c.config.align.k, c.config.spm.align));
  const int64_t width = up(v.n, c.config.align.n);
  const memory::desc a_desc({1, v.c, v.h, v.w}, type, memory::format_tag::nhwc);
  const memory::desc b_desc({v.n, v.c, v.r, v.s}, type,
                            memory::dims{depth, 1, v.s * width * depth, width * depth});
  const memory::desc c_desc({1, v.n, v.out_h(), v.out_w()}, type, memory::format_tag::nhwc);
  const memory::desc s_desc({v.n}, memory::data_type::f32, memory::format_tag::a);
  dnnl::primitive_attr attributes;
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, 1 << 0);
  const dnnl::convolution_forward::primitive_desc desc(
      engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, a_desc,
      b_desc, c_desc, {v.stride, v.stride}, {v.top, v.left}, {v.bottom, v.right}, attributes);
  std::vector<uint8_t> result(c.tensors[2].bytes.size());
  memory a_memory(a_desc, engine, const_cast<uint8_t*>(c.tensors[0].bytes.data()));
  memory b_memory(b_desc, engine, const_cast<uint8_t*>(c.tensors[1].bytes.data()));
  memory c_memory(c_desc, engine, result.data());
  memory s_memory(s_desc, engine, const_cast<float*>(e.scale.data()));
  dnnl::convolution_forward(desc).execute(stream,
                                          {{DNNL_ARG_SRC, a_memory},
                                           {DNNL_ARG_WEIGHTS, b_memory},
                                           {DNNL_ARG_DST, c_memory},
                                           {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, s_memory}});
  stream.wait();
  return result;
}

TEST(ProductsGate, ConvolutionsAreThoseOfOneDnn) {
  const int64_t shapes = setting("LW_NPU_SHAPES", 200);
  for (int64_t i = 0; i < shapes; ++i) {
    Rng rng = Rng(86).split(i);
    const Config config = machine(kMachines[i % 3]);
    const Convolution v = random_convolution(&rng);
    const Epilogue epilogue = plain(random_epilogue(v.n, v.r * v.s * v.c, &rng));
    Case c = convolution_case(config, v, epilogue, &rng);
    halve(&c.tensors[1].bytes);
    const absl::StatusOr<FunctionReport> report = run(&c);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, FunctionStatus::kOk) << report->errors[0];
    ASSERT_EQ(c.result(), onednn_convolution(c, v, epilogue)) << "shape " << i;
  }
}
#endif

}  // namespace
}  // namespace lw::npu
