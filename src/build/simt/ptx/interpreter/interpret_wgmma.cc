// wgmma: products of four warps' rows of A with B in shared memory. A warp computes its own 16
// rows, and does so only when it waits: operands are read as late as they may be, and accumulators
// have no value until then.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

#pragma STDC FP_CONTRACT OFF

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

// number: [0] n, [1] type of A, [2] of B, [3] of D. list: D, then A if it is in registers. op: [0]
// A's descriptor (or -1), [1] B's, [2] predicate scale-d. flags:
constexpr uint32_t kNegateA = 1, kNegateB = 2, kTransposeA = 4, kTransposeB = 8, kClamp = 16,
                   kPredicateNegated = 32, kAlways = 64;  // of a constant scale-d: op[2] is -1

int accumulators(const Instruction& in) {
  return static_cast<int>(in.number[0]) / (static_cast<PtxType>(in.number[3]) == kF16 ? 4 : 2);
}
int type_bytes(PtxType type) { return type == kTf32 ? 4 : bytes_of(type); }

template <class T>
T value_of(PtxType type, uint32_t bits) {
  switch (type) {
    case kF16: return static_cast<T>(from_half(static_cast<uint16_t>(bits)));
    case kBf16: return static_cast<T>(from_bfloat(static_cast<uint16_t>(bits)));
    case kTf32: return static_cast<T>(std::bit_cast<float>(bits & ~uint32_t{0x1fff}));
    case kS8: return static_cast<T>(static_cast<int8_t>(bits));
    case kU8: return static_cast<T>(static_cast<uint8_t>(bits));
    case kE5m2: return static_cast<T>(from_half(static_cast<uint16_t>(bits << 8)));
    default: {  // e4m3: no infinities, one NaN
      const uint32_t size = bits & 127, exponent = size >> 3, mantissa = size & 7;
      float x = std::numeric_limits<float>::quiet_NaN();
      if (size != 127) {
        x = exponent == 0 ? static_cast<float>(mantissa) / 512
                          : std::ldexp(1.0f + static_cast<float>(mantissa) / 8,
                                       static_cast<int>(exponent) - 7);
      }
      return static_cast<T>(bits & 128 ? -x : x);
    }
  }
}

// A matrix in shared memory as a descriptor has it. Of element (x along M or N, k):
class SharedMatrix {
 public:
  SharedMatrix(uint64_t descriptor, int bytes, bool transposed)
      : start_(static_cast<int64_t>(descriptor & 0x3fff) << 4),
        leading_(static_cast<int64_t>(descriptor >> 16 & 0x3fff) << 4),
        stride_(static_cast<int64_t>(descriptor >> 32 & 0x3fff) << 4),
        bytes_(bytes),
        transposed_(transposed) {
    const int mode = static_cast<int>(descriptor >> 62);
    bits_ = mode == 0 ? 0 : 4 - mode;  // 1: 128 bytes, 2: 64, 3: 32
  }
  // The address, without the base of shared memory.
  int64_t at(int x, int k) const {
    const int64_t row = int64_t{16} << bits_;
    int64_t linear;
    if (!transposed_) {
      const int64_t along = int64_t{k} * bytes_;
      const int64_t beyond = bits_ == 0 ? along / 16 * leading_ + along % 16 : along;
      linear = x / 8 * stride_ + x % 8 * row + beyond;
    } else {
      const int64_t along = int64_t{x} * bytes_;
      const int64_t atom = along / row * (bits_ == 0 ? stride_ : leading_) + along % row;
      linear = atom + k % 8 * row + k / 8 * (bits_ == 0 ? leading_ : stride_);
    }
    const int64_t address = start_ + linear;
    return address ^ ((address >> 7 & ((1 << bits_) - 1)) << 4);
  }

 private:
  int64_t start_, leading_, stride_;
  int bytes_, bits_ = 0;
  bool transposed_;
};

template <class T>
bool read_element(Warp& w, const Instruction& in, const SharedMatrix& matrix, PtxType type, int x,
                  int k, T* out) {
  const int bytes = type_bytes(type);
  const int64_t offset = matrix.at(x, k) - kSharedBase;
  if (offset < 0 || offset + bytes > w.block->shared_bytes) {
    w.fail(in, -1, concat("an operand reaches out of shared memory, at ", offset + kSharedBase));
    return false;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, w.block->shared + offset, static_cast<size_t>(bytes));
  *out = value_of<T>(type, bits);
  return true;
}

template <class T>
T sum_of(T c, const T* a, const T* b, int k) {
  if constexpr (std::is_same_v<T, float>) {
    for (int i = 0; i < k; ++i) c += a[i] * b[i];
    return canonical(c);
  } else {
    for (int i = 0; i < k; ++i) c += a[i] * b[i];
    return c;
  }
}

// T: float, or int64_t for integers.
template <class T>
void compute_product(Warp& w, const Product& product) {
  const Instruction& in = *product.in;
  const auto type_a = static_cast<PtxType>(in.number[1]),
             type_b = static_cast<PtxType>(in.number[2]);
  const int n = static_cast<int>(in.number[0]), count = accumulators(in);
  const int k = 32 / type_bytes(type_a);
  const bool halves = static_cast<PtxType>(in.number[3]) == kF16;
  T a[16][32];
  std::vector<T> b(static_cast<size_t>(n) * 32);
  if (in.op[0] >= 0) {
    const SharedMatrix matrix(product.a, type_bytes(type_a), in.flags & kTransposeA);
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < k; ++i) {
        if (!read_element(w, in, matrix, type_a, w.index % 4 * 16 + r, i, &a[r][i])) return;
      }
    }
  } else {
    const int per = 4 / type_bytes(type_a);
    for (int l = 0; l < 32; ++l) {
      for (int r = 0; r < 4; ++r) {
        const uint32_t bits = w.get<uint32_t>(in.list[count + r], l);
        for (int e = 0; e < per; ++e) {
          a[l / 4 + 8 * (r % 2)][4 * per * (r / 2) + per * (l % 4) + e] =
              value_of<T>(type_a, bits >> e * type_bytes(type_a) * 8);
        }
      }
    }
  }
  const SharedMatrix matrix(product.b, type_bytes(type_b), in.flags & kTransposeB);
  for (int x = 0; x < n; ++x) {
    for (int i = 0; i < k; ++i) {
      if (!read_element(w, in, matrix, type_b, x, i, &b[static_cast<size_t>(x * 32 + i)])) return;
    }
  }
  const bool negate = ((in.flags & kNegateA) != 0) != ((in.flags & kNegateB) != 0);
  if (negate) {
    for (auto& row : a) {
      for (int i = 0; i < k; ++i) row[i] = -row[i];
    }
  }
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < n / 2; ++r) {  // 4j + i: row g + 8 (i / 2), column 8j + 2t + i % 2
      const int row = l / 4 + 8 * (r / 2 % 2), column = r / 4 * 8 + l % 4 * 2 + r % 2;
      const int32_t slot = in.list[halves ? r / 2 : r];
      T c = 0;
      if (product.accumulate) {
        if (halves)
          c = static_cast<T>(
              from_half(static_cast<uint16_t>(w.get<uint32_t>(slot, l) >> r % 2 * 16)));
        else if constexpr (std::is_same_v<T, float>)
          c = w.get<float>(slot, l);
        else
          c = w.get<int32_t>(slot, l);
      }
      T sum = sum_of<T>(c, a[row], &b[static_cast<size_t>(column) * 32], k);
      if constexpr (std::is_same_v<T, float>) {
        if (halves) {
          const uint32_t other = w.get<uint32_t>(slot, l) & (r % 2 == 0 ? 0xffff0000u : 0xffffu);
          w.set<uint32_t>(slot, l, other | uint32_t{to_half(sum)} << r % 2 * 16);
        } else {
          w.set<float>(slot, l, sum);
        }
      } else {
        if (in.flags & kClamp) sum = saturated(sum);
        w.set<uint32_t>(slot, l, static_cast<uint32_t>(sum));
      }
    }
  }
}

void finish_product(Warp& w) {
  const Product product = w.products.front();
  w.products.pop_front();
  const Instruction& in = *product.in;
  if (static_cast<PtxType>(in.number[3]) == kS32)
    compute_product<int64_t>(w, product);
  else
    compute_product<float>(w, product);
  for (int i = 0; i < accumulators(in); ++i) {
    if (--w.in_flight[in.list[i]] == 0) w.written[in.list[i]] = kAllLanes;
  }
}

void run_product(Warp& w, const Instruction& in, uint32_t mask) {
  Product product;
  product.in = &in;
  const auto uniform = [&](int32_t slot) {
    const uint64_t value = w.get<uint64_t>(slot, 0);
    for (int l = 1; l < 32; ++l) {
      if (w.get<uint64_t>(slot, l) != value) w.fail(in, l, "lanes give different descriptors");
    }
    return value;
  };
  if (in.op[0] >= 0) product.a = uniform(in.op[0]);
  product.b = uniform(in.op[1]);
  for (const uint64_t descriptor : {product.a, product.b}) {
    if ((descriptor >> 49 & 7) != 0) return w.fail(in, -1, "base offsets are not known");
  }
  uint32_t scale = in.flags & kAlways ? kAllLanes : 0;
  if (in.op[2] >= 0) scale = in.flags & kPredicateNegated ? ~w.bits[in.op[2]] : w.bits[in.op[2]];
  if (scale != 0 && scale != kAllLanes) return w.fail(in, -1, "lanes differ in scale-d");
  product.accumulate = scale != 0;
  // All four warps of a warpgroup must issue the same.
  std::vector<Product>& log = w.block->product_log[w.index / 4];
  if (w.product_count < log.size() && !(log[w.product_count] == product)) {
    return w.fail(in, -1,
                  concat("another warp of the warpgroup issued line ",
                         log[w.product_count].in->line, " with other operands, or another"));
  }
  if (w.product_count == log.size()) log.push_back(product);
  ++w.product_count;
  for (int i = 0; i < accumulators(in); ++i) {
    const int32_t slot = in.list[i];
    if (product.accumulate && w.in_flight[slot] == 0 && w.written[slot] != kAllLanes) {
      return w.fail(in, __builtin_ctz(~w.written[slot]),
                    concat("accumulates to ", w.machine->function->slots[slot].name,
                           ", which was never written"));
    }
    w.written[slot] = 0;
    ++w.in_flight[slot];
  }
  w.products.push_back(product);
  if (w.machine->options.deliver_early) finish_product(w);
}

void run_product_commit(Warp& w, const Instruction&, uint32_t) {
  ++w.product_groups;
  for (Product& p : w.products) {
    if (p.group == 0) p.group = w.product_groups;
  }
}

void run_product_wait(Warp& w, const Instruction& in, uint32_t) {
  while (!w.failed && !w.products.empty() && w.products.front().group != 0 &&
         w.products.front().group <= w.product_groups - in.number[0]) {
    finish_product(w);
  }
}

}  // namespace

absl::Status check_products(const Block& block) {
  for (const auto& warp : block.warps) {
    const auto found = block.product_log.find(warp->index / 4);
    if (found == block.product_log.end() || warp->product_count == found->second.size()) continue;
    return absl::InternalError(concat(block.name(), ": warp ", warp->index, " issued ",
                                      warp->product_count, " wgmma, and another of its warpgroup ",
                                      found->second.size()));
  }
  return absl::OkStatus();
}

void decode_wgmma(Decoder& d) {
  if (d.target_at_least(91)) return d.unknown();
  const std::string_view what = d.must_take({"fence", "commit_group", "wait_group", "mma_async"});
  if (!d.take("sync") || !d.take("aligned")) return d.unknown();
  d.in.flow = Flow::kWhole;
  if (what != "mma_async") {
    const bool wait = what == "wait_group";
    d.expect_operands(wait ? 1 : 0);
    if (wait) d.in.number[0] = d.integer(0, 0, 7);
    d.in.run = wait ? run_product_wait : what == "fence" ? run_nothing : run_product_commit;
    return;
  }
  const std::string shape(d.peek());  // m64n128k16
  d.skip();
  int n = 0, k = 0;
  if (shape.substr(0, 4) == "m64n") {
    const size_t mark = shape.find('k');
    n = std::atoi(shape.c_str() + 4);
    if (mark != std::string::npos) k = std::atoi(shape.c_str() + mark + 1);
  }
  if (n < 8 || n > 256 || n % 8 != 0 || shape != concat("m64n", n, "k", k)) return d.unknown();
  const bool clamp = d.take("satfinite");
  const PtxType sum = d.take_type({kF32, kF16, kS32});
  const PtxType a = d.take_type({kF16, kBf16, kTf32, kS8, kU8, kE4m3, kE5m2});
  const PtxType b = d.take_type({kF16, kBf16, kTf32, kS8, kU8, kE4m3, kE5m2});
  if (!d.ok()) return;
  const bool integers = a == kS8 || a == kU8, bytes = a == kE4m3 || a == kE5m2;
  bool known = k == 32 / type_bytes(a);
  if (integers)
    known &= (b == kS8 || b == kU8) && sum == kS32 && (n <= 32 || n % 16 == 0);
  else if (bytes)
    known &= (b == kE4m3 || b == kE5m2) && sum != kS32;
  else
    known &= b == a && (sum == kF32 || (sum == kF16 && a == kF16));
  if (!known || (clamp && !integers)) return d.unknown();
  if (integers && a != b && !d.version_at_least(84)) return d.fail("mixed types are of PTX 8.4");
  d.in.number[0] = n;
  d.in.number[1] = static_cast<int64_t>(a);
  d.in.number[2] = static_cast<int64_t>(b);
  d.in.number[3] = static_cast<int64_t>(sum);
  const bool wide = type_bytes(a) == 2;  // which alone may be transposed
  const bool registers = d.is_vector(1);
  const int scales = integers ? 0 : 2, turns = wide ? registers ? 1 : 2 : 0;
  d.expect_operands(4 + scales + turns);
  if (!d.ok()) return;
  d.destinations(0, sum == kF16 ? kF16x2 : sum, accumulators(d.in));
  d.in.writes.clear();  // only when they are computed
  if (registers)
    d.sources(1, kF16x2, 4);
  else
    d.in.op[0] = d.source(1, kB64);
  d.in.op[1] = d.source(2, kB64);
  bool negated = false;
  const bool constant = d.operand(3).kind == Operand::Kind::kInteger;
  if (!constant) d.in.op[2] = d.predicate(3, &negated);
  uint32_t flags = (constant && d.integer(3, 0, 1) == 1 ? kAlways : 0) | (clamp ? kClamp : 0) |
                   (negated ? kPredicateNegated : 0);
  for (int i = 0; i < scales; ++i) {
    const int64_t scale = d.integer(4 + i, -1, 1);
    if (scale == 0) d.fail("a scale is 1 or -1");
    if (scale < 0) flags |= i == 0 ? kNegateA : kNegateB;
  }
  for (int i = 0; i < turns; ++i) {
    const bool of_b = registers || i == 1;
    if (d.integer(4 + scales + i, 0, 1) != 0) flags |= of_b ? kTransposeB : kTransposeA;
  }
  d.in.flags = flags;
  d.in.run = run_product;
}

}  // namespace lw::ptx_interpreter
