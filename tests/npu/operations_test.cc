// Each instruction on values, alone, beside a loop that says what it means.
#include <functional>

#include "src/npu/function/numbers.h"
#include "src/npu/function/tables.h"
#include "tests/npu/function_programs.h"

namespace lw::npu {
namespace {

class OperationTest : public ::testing::Test {
 protected:
  OperationTest() : config(machine("mid32")), dram(1 << 16), rng(71) {
    for (uint8_t& byte : dram) byte = static_cast<uint8_t>(rng.next());
    memory = *make_memory(config, {{0, dram, true}}, 7);
  }
  void run(Body body, Dtype dtype = Dtype::kI8) {
    Instruction one = {std::move(body)};
    one.dtype = dtype;
    run_all({one});
  }
  void run_all(const Program& program) {
    const absl::StatusOr<FunctionReport> report = execute(config, program, &memory);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(report->status, FunctionStatus::kOk) << report->errors[0];
    overflows = report->overflows;
  }
  int spm(int64_t at) const { return static_cast<int8_t>(memory.spm[at]); }
  int32_t acc(int64_t at) const { return static_cast<int32_t>(memory.acc[at]); }
  float real(int64_t at) const { return std::bit_cast<float>(memory.acc[at]); }
  void put(int64_t at, float value) { memory.acc[at] = std::bit_cast<uint32_t>(value); }
  float half(int64_t at) const {
    return from_bf16(static_cast<uint16_t>(memory.spm[at] | memory.spm[at + 1] << 8));
  }

  Config config;
  std::vector<uint8_t> dram;
  Rng rng;
  Memory memory;
  int64_t overflows = 0;
};

TEST_F(OperationTest, LdCopiesAndPads) {
  Ld ld;
  ld.dram = 77;
  ld.n0 = 5;
  ld.n1 = 3;
  ld.n2 = 4;
  ld.dstr1 = 11;
  ld.dstr2 = 101;
  ld.loc = 256;
  ld.lstr1 = 32;
  ld.lstr2 = 256;
  ld.top = 1;
  ld.bottom = 2;
  ld.left = 2;
  ld.right = 1;
  ld.value = -9;
  const std::vector<uint8_t> before = memory.spm;
  run(ld);
  std::vector<uint8_t> expected = before;
  for (int y = 0; y < 7; ++y) {
    for (int x = 0; x < 6; ++x) {
      for (int i = 0; i < 5; ++i) {
        const bool inside = y >= 1 && y < 5 && x >= 2 && x < 5;
        expected[256 + y * 256 + x * 32 + i] =
            inside ? dram[77 + (y - 1) * 101 + (x - 2) * 11 + i] : static_cast<uint8_t>(-9);
      }
    }
  }
  EXPECT_EQ(memory.spm, expected);
}

TEST_F(OperationTest, LdWidensAndPadsAcc) {
  Ld ld;
  ld.space = Space::kAcc;
  ld.convert = Convert::kWiden;
  ld.dram = 3;
  ld.n0 = 6;
  ld.n1 = 2;
  ld.dstr1 = 40;
  ld.lstr1 = 32;
  ld.left = 1;
  ld.value = 5;
  run(ld);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(acc(i), 5);
    EXPECT_EQ(acc(32 + i), static_cast<int8_t>(dram[3 + i]));
    EXPECT_EQ(acc(64 + i), static_cast<int8_t>(dram[43 + i]));
  }
  run(ld, Dtype::kBf16);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(real(i), 5);
    const uint16_t bits = static_cast<uint16_t>(dram[3 + 2 * i] | dram[4 + 2 * i] << 8);
    EXPECT_EQ(memory.acc[32 + i], to_word(from_bf16(bits)));
  }
}

TEST_F(OperationTest, StStoresBytesAndWords) {
  St st;
  st.dram = 1001;
  st.loc = 64;
  st.n0 = 3;
  st.n1 = 4;
  st.dstr1 = 10;
  st.lstr1 = 32;
  run(st);
  for (int y = 0; y < 4; ++y) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(dram[1001 + y * 10 + i], memory.spm[64 + y * 32 + i]);
  }
  st.space = Space::kAcc;
  st.n0 = 8;
  run(st);
  for (int y = 0; y < 4; ++y) {
    uint32_t words[2];
    std::memcpy(words, dram.data() + 1001 + y * 10, 8);
    if (y == 3) EXPECT_EQ(words[1], memory.acc[64 + y * 32 + 1]);
    uint16_t low;
    std::memcpy(&low, dram.data() + 1001 + y * 10, 2);
    EXPECT_EQ(low, memory.acc[64 + y * 32] & 0xFFFF);
  }
}

TEST_F(OperationTest, MmAccumulatesCountsOverflowsAndExchangesWeights) {
  MxLdw one, two;
  one.w = 0;
  two.w = 4096;
  one.k = two.k = one.n = two.n = 32;
  one.wstr = two.wstr = 64;
  two.trans = true;
  MxMm mm;
  mm.a = 8192;
  mm.astr1 = 64;
  mm.astr2 = 1024;
  mm.m = 3;
  mm.m2 = 2;
  mm.k = mm.n = 32;
  mm.accstr = 64;
  mm.accstr2 = 512;
  mm.accumulate = mm.swap = true;
  memory.acc[64 + 7] = 0x7FFFFFFF;
  memory.acc[512 + 9] = 0x80000000;
  const std::vector<uint32_t> before = memory.acc;
  MxMm again = mm;
  again.acc = 4096;
  again.accumulate = false;
  run_all({{one}, {mm}, {two}, {again}});
  int64_t wrapped = 0;
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 3; ++x) {
      for (int n = 0; n < 32; ++n) {
        int64_t first = 0, second = 0;
        for (int k = 0; k < 32; ++k) {
          const int a = spm(8192 + y * 1024 + x * 64 + k);
          first += a * spm(k * 64 + n);
          second += a * spm(4096 + n * 64 + k);
        }
        const int64_t at = y * 512 + x * 64 + n;
        const int64_t sum = static_cast<int32_t>(before[at]) + first;
        wrapped += sum > INT32_MAX || sum < INT32_MIN;
        ASSERT_EQ(acc(at), static_cast<int32_t>(static_cast<uint32_t>(sum)));
        ASSERT_EQ(acc(4096 + at), second);
      }
    }
  }
  EXPECT_EQ(overflows, wrapped);
  EXPECT_GE(wrapped, 1);
}

TEST_F(OperationTest, WeightsThatWereNotLoadedAreZero) {
  MxMm mm;
  mm.m = 1;
  mm.k = mm.n = 32;
  run(mm);
  for (int n = 0; n < 32; ++n) EXPECT_EQ(acc(n), 0);
}

TEST_F(OperationTest, MmosStreamsItsReduction) {
  MxMmos mm;
  mm.a = 0;
  mm.astr = 512;
  mm.b = 32768;
  mm.bstr = 64;
  mm.m = 5;
  mm.n = 32;
  mm.k = 480;
  mm.acc = 128;
  mm.accstr = 32;
  mm.accumulate = true;
  const std::vector<uint32_t> before = memory.acc;
  run(mm);
  for (int m = 0; m < 5; ++m) {
    for (int n = 0; n < 32; ++n) {
      uint32_t sum = before[128 + m * 32 + n];
      for (int k = 0; k < 480; ++k) sum += spm(m * 512 + k) * spm(32768 + k * 64 + n);
      ASSERT_EQ(memory.acc[128 + m * 32 + n], sum);
    }
  }
}

TEST_F(OperationTest, ColPacksWindows) {
  for (const int step : {1, 2, 5}) {
    MxCol col;
    col.a = 3;
    col.kw = 3;
    col.kh = 2;
    col.c = 3;
    col.m = 6;
    col.step = step;
    col.astr1 = 3;
    col.astr2 = 200;
    col.dst = 8192;
    col.dstr = 64;
    run(col);
    for (int m = 0; m < 6; ++m) {
      for (int i = 0; i < 18; ++i) {
        const int c = i % 3, x = i / 3 % 3, y = i / 9;
        ASSERT_EQ(memory.spm[8192 + m * 64 + i], memory.spm[3 + (m * step + x) * 3 + y * 200 + c]);
      }
    }
  }
}

TEST_F(OperationTest, DepthwiseSumsWindowsOfEachChannel) {
  VeDw dw;
  dw.a = 0;
  dw.w = 16384;
  dw.c = 32;
  dw.kw = dw.kh = 3;
  dw.m = 7;
  dw.step = 2;
  dw.astr1 = 32;
  dw.astr2 = 1024;
  dw.accstr = 32;
  run(dw);
  for (int m = 0; m < 7; ++m) {
    for (int c = 0; c < 32; ++c) {
      int sum = 0;
      for (int i = 0; i < 9; ++i) {
        sum += spm((m * 2 + i % 3) * 32 + i / 3 * 1024 + c) * spm(16384 + i * 32 + c);
      }
      ASSERT_EQ(acc(m * 32 + c), sum);
    }
  }
}

TEST_F(OperationTest, ReqScalesEachColumn) {
  Epilogue epilogue = random_epilogue(32, 1 << 20, &rng);
  epilogue.lo = -100;
  std::memcpy(memory.spm.data() + 1024, epilogue.scale.data(), 128);
  std::memcpy(memory.spm.data() + 2048, epilogue.bias.data(), 128);
  for (int i = 0; i < 9 * 64; ++i) {
    memory.acc[i] = static_cast<uint32_t>(rng.below(400000) - 200000);
  }
  VeReq req;
  req.accstr = 64;
  req.dst = 4096;
  req.dstr = 96;
  req.rows = 9;
  req.n = 32;
  req.scale = 1024;
  req.bias = 2048;
  req.zp = epilogue.zero_point;
  req.lo = epilogue.lo;
  req.hi = epilogue.hi;
  run(req);
  for (int r = 0; r < 9; ++r) {
    for (int n = 0; n < 32; ++n) {
      ASSERT_EQ(spm(4096 + r * 96 + n),
                requantised(acc(r * 64 + n), epilogue.scale[n], epilogue.bias[n], epilogue));
    }
  }
  put(3, std::nanf(""));
  put(1, 0.3f);
  run(req, Dtype::kBf16);
  EXPECT_EQ(memory.spm[4096 + 6] | memory.spm[4096 + 7] << 8, 0x7FC0);
  EXPECT_EQ(half(4096 + 2), from_bf16(0x3E9A));          // 0.30078125
}

// Of int64, and saturated or wrapped afterwards; of double, and rounded.
int64_t whole_result(BinaryFn fn, int64_t a, int64_t b) {
  switch (fn) {
    case BinaryFn::kAdd: return a + b;
    case BinaryFn::kSub: return a - b;
    case BinaryFn::kMul: return a * b;
    case BinaryFn::kMax: return std::max(a, b);
    case BinaryFn::kMin: return std::min(a, b);
    case BinaryFn::kShr:
      return static_cast<int64_t>(std::floor(double(a) / double(int64_t{1} << (b & 31))));
    case BinaryFn::kCmp: return a > b ? 1 : 0;
  }
  return 0;
}
double exact(BinaryFn fn, double a, double b) {
  switch (fn) {
    case BinaryFn::kAdd: return a + b;
    case BinaryFn::kSub: return a - b;
    case BinaryFn::kMul: return a * b;
    case BinaryFn::kMax: return std::max(a, b);
    case BinaryFn::kMin: return std::min(a, b);
    case BinaryFn::kShr: return a * std::pow(2.0, -std::trunc(b));
    case BinaryFn::kCmp: return a > b ? 1 : 0;
  }
  return 0;
}

TEST_F(OperationTest, BinaryFunctionsOfEveryTypeAndBroadcast) {
  for (int fn = 0; fn < kCount<BinaryFn>; ++fn) {
    for (int broadcast = 0; broadcast < kCount<Broadcast>; ++broadcast) {
      for (const Dtype dtype : {Dtype::kI8, Dtype::kI32, Dtype::kBf16, Dtype::kF32}) {
        const bool in_acc = dtype == Dtype::kI32 || dtype == Dtype::kF32;
        const bool floats = dtype == Dtype::kF32 || dtype == Dtype::kBf16;
        const int64_t element = dtype == Dtype::kBf16 ? 2 : 1;
        VeBin bin;
        bin.fn = static_cast<BinaryFn>(fn);
        bin.broadcast = static_cast<Broadcast>(broadcast);
        bin.src0 = 0;
        bin.src1 = 2048;
        bin.dst = 4096;
        bin.n0 = 32;
        bin.n1 = 5;
        bin.sstr0 = 64;
        bin.sstr1 = 128;
        bin.dstr = 192;
        bin.imm = floats ? std::bit_cast<uint32_t>(1.5f) : 3;
        for (int64_t i = 0; i < 8192; ++i) {
          const int exponent = static_cast<int>(rng.below(6));
          const float value = static_cast<float>(std::ldexp(rng.uniform() - 0.5, exponent));
          if (floats && in_acc) {
            put(i, value);
          } else if (!floats && in_acc) {
            memory.acc[i] = static_cast<uint32_t>(rng.next());
          } else if (floats && i % 2 == 0) {
            const uint16_t bits = to_bf16(value);
            std::memcpy(memory.spm.data() + i, &bits, 2);
          } else if (!floats) {
            memory.spm[i] = static_cast<uint8_t>(rng.next());
          }
        }
        run(bin, dtype);
        for (int r = 0; r < 5; ++r) {
          for (int i = 0; i < 32; ++i) {
            const int64_t x = r * 64 + i * element, z = 4096 + r * 192 + i * element;
            const bool row = bin.broadcast == Broadcast::kRow;
            const bool column = bin.broadcast == Broadcast::kColumn;
            const int64_t y = 2048 + (row ? 0 : r * 128) + (column ? 0 : i * element);
            const bool imm = bin.broadcast == Broadcast::kImm;
            if (floats) {
              const auto at = [&](int64_t place) { return in_acc ? real(place) : half(place); };
              float expected = static_cast<float>(exact(bin.fn, at(x), imm ? 1.5 : at(y)));
              if (!in_acc) expected = from_bf16(to_bf16(expected));
              ASSERT_EQ(at(z), expected) << fn << " " << broadcast;
            } else if (in_acc) {
              const int64_t expected = whole_result(bin.fn, acc(x), imm ? 3 : acc(y));
              ASSERT_EQ(acc(z), static_cast<int32_t>(static_cast<uint32_t>(expected)));
            } else {
              const int64_t expected = whole_result(bin.fn, spm(x), imm ? 3 : spm(y));
              ASSERT_EQ(spm(z), std::clamp<int64_t>(expected, -128, 127)) << fn << " " << broadcast;
            }
          }
        }
      }
    }
  }
}

TEST_F(OperationTest, UnaryFunctionsAreNearTheirs) {
  const std::function<double(double)> functions[] = {
      [](double x) { return x; },
      [](double x) { return std::max(x, 0.0); },
      [](double x) { return std::exp(x); },
      [](double x) { return 1 / x; },
      [](double x) { return 1 / std::sqrt(x); },
      [](double x) { return std::tanh(x); },
      [](double x) { return 1 / (1 + std::exp(-x)); },
      [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); },
      [](double x) { return std::abs(x); }};
  for (int fn = 0; fn < kCount<UnaryFn>; ++fn) {
    const bool positive = static_cast<UnaryFn>(fn) == UnaryFn::kRsqrt;
    for (int i = 0; i < 32 * 100; ++i) {
      const double value = (rng.uniform() - (positive ? 0 : 0.5)) * 40 + (positive ? 0.01 : 0);
      put(i, static_cast<float>(value));
    }
    VeUn un;
    un.fn = static_cast<UnaryFn>(fn);
    un.dst = 4096;
    un.n0 = 32;
    un.n1 = 100;
    un.sstr0 = un.dstr = 32;
    run(un, Dtype::kF32);
    for (int i = 0; i < 32 * 100; ++i) {
      const double expected = functions[fn](real(i));
      const bool table = static_cast<UnaryFn>(fn) == UnaryFn::kTanh ||
                         static_cast<UnaryFn>(fn) == UnaryFn::kSigm ||
                         static_cast<UnaryFn>(fn) == UnaryFn::kGelu;
      const double bound = table ? 1e-4 : std::abs(expected) * 3e-6;
      ASSERT_NEAR(real(4096 + i), expected, bound) << fn << " of " << real(i);
    }
  }
}

TEST_F(OperationTest, TablesHaveTheirEntriesAndEnds) {
  const IeeeArithmetic arithmetic;
  EXPECT_EQ(look_up(UnaryFn::kExp, 0), 1);
  EXPECT_EQ(look_up(UnaryFn::kExp, -200), 0);
  EXPECT_TRUE(std::isinf(look_up(UnaryFn::kExp, 100)));
  EXPECT_GT(look_up(UnaryFn::kExp, -100), 0);          // subnormal
  EXPECT_EQ(look_up(UnaryFn::kTanh, 0), 0);
  EXPECT_EQ(look_up(UnaryFn::kTanh, 50), 1);
  EXPECT_EQ(look_up(UnaryFn::kSigm, 0), 0.5f);
  EXPECT_EQ(look_up(UnaryFn::kGelu, 9), 9);
  EXPECT_EQ(look_up(UnaryFn::kGelu, -9), 0);
  for (const UnaryFn fn : {UnaryFn::kExp, UnaryFn::kTanh, UnaryFn::kSigm, UnaryFn::kGelu}) {
    EXPECT_TRUE(std::isnan(look_up(fn, std::nanf(""))));
  }
  for (int i = 0; i < 1024; ++i) {                     // entries themselves are rounded once
    const double x = -8 + i / 64.0;
    const float entry = look_up(UnaryFn::kTanh, static_cast<float>(x));
    ASSERT_EQ(entry, static_cast<float>(std::tanh(x))) << x;
  }
}

TEST_F(OperationTest, ReductionsOfEveryType) {
  VeRed red;
  red.src0 = 0;
  red.dst = 8192;
  red.n0 = 96;
  red.n1 = 20;
  red.sstr0 = 128;
  red.dstr = 32;
  run(red);
  for (int r = 0; r < 20; ++r) {
    int sum = 0;
    for (int i = 0; i < 96; ++i) sum += spm(r * 128 + i);
    ASSERT_EQ(spm(8192 + r * 32), std::clamp(sum, -128, 127));
  }
  red.fn = ReduceFn::kMax;
  run(red, Dtype::kI32);
  for (int r = 0; r < 20; ++r) {
    int32_t most = INT32_MIN;
    for (int i = 0; i < 96; ++i) most = std::max(most, acc(r * 128 + i));
    ASSERT_EQ(acc(8192 + r * 32), most);
  }
  red.fn = ReduceFn::kSum;
  for (int i = 0; i < 20 * 128; ++i) put(i, static_cast<float>(rng.uniform() - 0.5));
  run(red, Dtype::kF32);
  for (int r = 0; r < 20; ++r) {
    float lanes[32];
    for (int l = 0; l < 32; ++l) {
      lanes[l] = real(r * 128 + l) + real(r * 128 + 32 + l);
      lanes[l] = lanes[l] + real(r * 128 + 64 + l);
    }
    for (int width = 16; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) lanes[l] = lanes[l] + lanes[l + width];
    }
    ASSERT_EQ(real(8192 + r * 32), lanes[0]);
  }
}

}  // namespace
}  // namespace lw::npu
