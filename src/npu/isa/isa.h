// The instruction set: what an instruction says, each described once by its fields, of which the
// encoding (encode.h), the text (text.h) and the checks (check.h) are made. Adding an instruction
// is a struct here, its line in `Body` and `kOps`, its check, its time and its meaning.
//
// Addresses: `dram` bytes; in SPM bytes; in ACC 32-bit words. Strides and lengths that name a
// memory are in its units. Values; functions are pure and thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "src/npu/config.h"

namespace lw::npu {

enum class Engine : uint8_t { kLd, kMx, kVe, kSt };
inline constexpr int kEngines = 4;
enum class Space : uint8_t { kSpm, kAcc };
// widen: i8 to i32, bf16 to f32, on the way to ACC.
enum class Convert : uint8_t { kNone, kWiden };
// What of src1 stands for all of an operation: nothing, its first row, its first column, or `imm`.
enum class Broadcast : uint8_t { kNone, kRow, kColumn, kImm };
enum class BinaryFn : uint8_t { kAdd, kSub, kMul, kMax, kMin, kShr, kCmp };
enum class UnaryFn : uint8_t { kCopy, kRelu, kExp, kRecip, kRsqrt, kTanh, kSigm, kGelu, kAbs };
enum class ReduceFn : uint8_t { kSum, kMax };

std::string_view name_of(Engine engine);
std::string_view name_of(Space space);
std::string_view name_of(Convert convert);
std::string_view name_of(Broadcast broadcast);
std::string_view name_of(BinaryFn fn);
std::string_view name_of(UnaryFn fn);
std::string_view name_of(ReduceFn fn);
bool parse_name(std::string_view name, Space* space);
bool parse_name(std::string_view name, Convert* convert);
bool parse_name(std::string_view name, Broadcast* broadcast);
bool parse_name(std::string_view name, BinaryFn* fn);
bool parse_name(std::string_view name, UnaryFn* fn);
bool parse_name(std::string_view name, ReduceFn* fn);
// How many there are: a decoder refuses other numbers.
template <class Enum>
inline constexpr int kCount = 2;
template <>
inline constexpr int kCount<Broadcast> = 4;
template <>
inline constexpr int kCount<BinaryFn> = 7;
template <>
inline constexpr int kCount<UnaryFn> = 9;

// A field of an instruction: how many bits, in the word or in its extension, as an address or not.
struct BitField {
  const char* name;
  int bits;
  bool extension = false;
  bool address = false;                    // printed in hexadecimal
};
inline constexpr bool kExtension = true, kAddress = true;

// A copy of n2 x n1 runs of n0 bytes; `dstr1`, `dstr2` between runs in DRAM, `lstr1`, `lstr2` in
// SPM or ACC. LD can surround them with rows (`top`, `bottom`, of n2) and columns (`left`, `right`,
// of n1) of `value`; `loc` is then that of the whole.
struct Copy {
  uint64_t dram = 0;
  uint32_t loc = 0, dstr1 = 0, dstr2 = 0, lstr1 = 0, lstr2 = 0;
  uint16_t n0 = 0, n1 = 1, n2 = 1;
  uint8_t top = 0, bottom = 0, left = 0, right = 0;
  int8_t value = 0;
  Space space = Space::kSpm;
  Convert convert = Convert::kNone;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"dram", 40, false, kAddress}, self.dram);
    visit(BitField{"loc", 24, false, kAddress}, self.loc);
    visit(BitField{"space", 1}, self.space);
    visit(BitField{"n0", 16}, self.n0);
    visit(BitField{"n1", 12}, self.n1);
    visit(BitField{"n2", 12}, self.n2);
    visit(BitField{"dstr1", 32, kExtension}, self.dstr1);
    visit(BitField{"dstr2", 32, kExtension}, self.dstr2);
    visit(BitField{"lstr1", 20, kExtension}, self.lstr1);
    visit(BitField{"lstr2", 20, kExtension}, self.lstr2);
    visit(BitField{"top", 4, kExtension}, self.top);
    visit(BitField{"bottom", 4, kExtension}, self.bottom);
    visit(BitField{"left", 4, kExtension}, self.left);
    visit(BitField{"right", 4, kExtension}, self.right);
    visit(BitField{"padval", 8, kExtension}, self.value);
    visit(BitField{"cvt", 2, kExtension}, self.convert);
  }
};
struct Ld : Copy {};
struct St : Copy {};

// Weights, k x n (trans: n x k), `wstr` bytes a row, into the shadow set.
struct MxLdw {
  uint32_t w = 0, wstr = 0;
  uint8_t k = 0, n = 0;
  bool trans = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"w", 24, false, kAddress}, self.w);
    visit(BitField{"k", 8}, self.k);
    visit(BitField{"n", 8}, self.n);
    visit(BitField{"wstr", 20}, self.wstr);
    visit(BitField{"trans", 1}, self.trans);
  }
};

// ACC[m2, m, n] (+)= A[m2, m, k] . W: rows of A at astr1 within, astr2 between the m2 blocks; of
// ACC at accstr, accstr2. `swap` makes the shadow set active first.
struct MxMm {
  uint32_t a = 0, astr1 = 0, astr2 = 0, acc = 0, accstr2 = 0;
  uint16_t m = 0, accstr = 0;
  uint8_t m2 = 1, k = 0, n = 0;
  bool accumulate = false, swap = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"a", 24, false, kAddress}, self.a);
    visit(BitField{"m", 16}, self.m);
    visit(BitField{"m2", 8, kExtension}, self.m2);
    visit(BitField{"astr1", 20, kExtension}, self.astr1);
    visit(BitField{"astr2", 20, kExtension}, self.astr2);
    visit(BitField{"acc", 20, false, kAddress}, self.acc);
    visit(BitField{"accstr", 12}, self.accstr);
    visit(BitField{"accstr2", 20}, self.accstr2);
    visit(BitField{"k", 8}, self.k);
    visit(BitField{"n", 8}, self.n);
    visit(BitField{"accumulate", 1}, self.accumulate);
    visit(BitField{"swap", 1}, self.swap);
  }
};

// ACC[m, n] (+)= A[m, k] . B[k, n], sums held in the array while the reduction streams.
struct MxMmos {
  uint32_t a = 0, b = 0, astr = 0, bstr = 0, acc = 0;
  uint16_t k = 0, accstr = 0;
  uint8_t m = 0, n = 0;
  bool accumulate = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"a", 24, false, kAddress}, self.a);
    visit(BitField{"b", 24, false, kAddress}, self.b);
    visit(BitField{"m", 8}, self.m);
    visit(BitField{"n", 8}, self.n);
    visit(BitField{"k", 16}, self.k);
    visit(BitField{"astr", 20}, self.astr);
    visit(BitField{"bstr", 20}, self.bstr);
    visit(BitField{"acc", 20, false, kAddress}, self.acc);
    visit(BitField{"accstr", 12}, self.accstr);
    visit(BitField{"accumulate", 1}, self.accumulate);
  }
};

// Windows as rows: for each of m outputs kh x kw x c elements, from `a` on in steps of `step` pixels
// of astr1 bytes, rows of the window astr2 apart, to rows of dstr bytes.
struct MxCol {
  uint32_t a = 0, dst = 0, astr1 = 0, astr2 = 0, dstr = 0;
  uint16_t m = 0;
  uint8_t kw = 1, kh = 1, c = 0, step = 1;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"a", 24, false, kAddress}, self.a);
    visit(BitField{"kw", 4}, self.kw);
    visit(BitField{"kh", 4}, self.kh);
    visit(BitField{"c", 8}, self.c);
    visit(BitField{"m", 16}, self.m);
    visit(BitField{"step", 4}, self.step);
    visit(BitField{"astr1", 20}, self.astr1);
    visit(BitField{"astr2", 20}, self.astr2);
    visit(BitField{"dst", 24, false, kAddress}, self.dst);
    visit(BitField{"dstr", 20}, self.dstr);
  }
};

// i32 to i8: sat(zp + round_half_even(float(acc + bias[c]) . scale[c])), then into [lo, hi]; f32 to
// bf16 with dtype bf16. `scale` and `bias` are rows of 32-bit values in SPM.
struct VeReq {
  uint32_t acc = 0, dst = 0, scale = 0, bias = 0, dstr = 0;
  uint16_t rows = 0, accstr = 0;
  uint8_t n = 0;
  int8_t zp = 0, lo = 0, hi = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"acc", 20, false, kAddress}, self.acc);
    visit(BitField{"dst", 24, false, kAddress}, self.dst);
    visit(BitField{"rows", 12}, self.rows);
    visit(BitField{"n", 8}, self.n);
    visit(BitField{"scale", 24, false, kAddress}, self.scale);
    visit(BitField{"bias", 24, false, kAddress}, self.bias);
    visit(BitField{"zp", 8}, self.zp);
    visit(BitField{"lo", 8}, self.lo);
    visit(BitField{"hi", 8}, self.hi);
    visit(BitField{"accstr", 12}, self.accstr);
    visit(BitField{"dstr", 20}, self.dstr);
  }
};

// n1 rows of n0 elements: i32 and f32 in ACC, i8 and bf16 in SPM.
struct VeBin {
  uint32_t src0 = 0, src1 = 0, dst = 0, imm = 0, sstr0 = 0, sstr1 = 0, dstr = 0;
  uint16_t n0 = 0, n1 = 1;
  BinaryFn fn = BinaryFn::kAdd;
  Broadcast broadcast = Broadcast::kNone;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"fn", 5}, self.fn);
    visit(BitField{"src0", 24, false, kAddress}, self.src0);
    visit(BitField{"src1", 24, false, kAddress}, self.src1);
    visit(BitField{"dst", 24, false, kAddress}, self.dst);
    visit(BitField{"n0", 12}, self.n0);
    visit(BitField{"n1", 12}, self.n1);
    visit(BitField{"sstr0", 20, kExtension}, self.sstr0);
    visit(BitField{"sstr1", 20, kExtension}, self.sstr1);
    visit(BitField{"dstr", 20, kExtension}, self.dstr);
    visit(BitField{"bcast", 2}, self.broadcast);
    visit(BitField{"imm", 32}, self.imm);
  }
};
struct VeUn {
  uint32_t src0 = 0, dst = 0, imm = 0, sstr0 = 0, dstr = 0;
  uint16_t n0 = 0, n1 = 1;
  UnaryFn fn = UnaryFn::kCopy;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"fn", 5}, self.fn);
    visit(BitField{"src0", 24, false, kAddress}, self.src0);
    visit(BitField{"dst", 24, false, kAddress}, self.dst);
    visit(BitField{"n0", 12}, self.n0);
    visit(BitField{"n1", 12}, self.n1);
    visit(BitField{"sstr0", 20}, self.sstr0);
    visit(BitField{"dstr", 20}, self.dstr);
    visit(BitField{"imm", 32}, self.imm);
  }
};

// n1 rows of n0 elements to n1 elements, `dstr` apart.
struct VeRed {
  uint32_t src0 = 0, dst = 0, sstr0 = 0, dstr = 0;
  uint16_t n0 = 0, n1 = 1;
  ReduceFn fn = ReduceFn::kSum;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"fn", 5}, self.fn);
    visit(BitField{"src0", 24, false, kAddress}, self.src0);
    visit(BitField{"dst", 24, false, kAddress}, self.dst);
    visit(BitField{"n0", 12}, self.n0);
    visit(BitField{"n1", 12}, self.n1);
    visit(BitField{"sstr0", 20}, self.sstr0);
    visit(BitField{"dstr", 20}, self.dstr);
  }
};

// A row of m outputs of a depthwise convolution of c channels, windows as in MX.COL; w is kh x kw x
// c.
struct VeDw {
  uint32_t a = 0, w = 0, acc = 0, astr1 = 0, astr2 = 0;
  uint16_t m = 0, accstr = 0;
  uint8_t c = 0, kw = 1, kh = 1, step = 1;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"a", 24, false, kAddress}, self.a);
    visit(BitField{"w", 24, false, kAddress}, self.w);
    visit(BitField{"acc", 20, false, kAddress}, self.acc);
    visit(BitField{"c", 8}, self.c);
    visit(BitField{"m", 12}, self.m);
    visit(BitField{"kh", 4}, self.kh);
    visit(BitField{"kw", 4}, self.kw);
    visit(BitField{"step", 4}, self.step);
    visit(BitField{"astr1", 20}, self.astr1);
    visit(BitField{"astr2", 20}, self.astr2);
    visit(BitField{"accstr", 12}, self.accstr);
  }
};

// Of the dispatcher: wait until the engines of `mask` (bit e: Engine e) are idle; note the time
// under an id; end.
struct Sync {
  uint8_t mask = 15;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"mask", 4}, self.mask);
  }
};
struct Stamp {
  uint16_t id = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(BitField{"id", 16}, self.id);
  }
};
struct Halt {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
};

// In the order of `kOps`.
using Body = std::variant<Ld, St, MxLdw, MxMm, MxMmos, MxCol, VeReq, VeBin, VeUn, VeRed, VeDw, Sync,
                          Stamp, Halt>;

// Part of the stored format: codes never change. `engine` of the last three: none.
struct OpRow {
  std::string_view name;
  uint8_t code;
  Engine engine;
  bool dispatcher = false;                 // executes it; it takes no tokens
};
inline constexpr OpRow kOps[] = {
    {"ld", 1, Engine::kLd},      {"st", 2, Engine::kSt},      {"mx.ldw", 8, Engine::kMx},
    {"mx.mm", 9, Engine::kMx},   {"mx.mmos", 10, Engine::kMx}, {"mx.col", 11, Engine::kMx},
    {"ve.req", 16, Engine::kVe}, {"ve.bin", 17, Engine::kVe}, {"ve.un", 18, Engine::kVe},
    {"ve.red", 19, Engine::kVe}, {"ve.dw", 20, Engine::kVe},  {"sync", 32, Engine::kLd, true},
    {"stamp", 33, Engine::kLd, true}, {"halt", 34, Engine::kLd, true}};
static_assert(std::size(kOps) == std::variant_size_v<Body>);

// The body, of defaults, of the first instruction whose row `is` the one that a reader means; false,
// and `body` as it was: there is none.
template <size_t I = 0, class Is>
bool make_body(const Is& is, Body* body) {
  if constexpr (I < std::variant_size_v<Body>) {
    if (!is(kOps[I])) return make_body<I + 1>(is, body);
    *body = std::variant_alternative_t<I, Body>();
    return true;
  }
  return false;
}

inline constexpr uint8_t kNoToken = 0xFF;

// Waits for one of each of its `wait` semaphores, and adds one to each of `signal`. Of two places the
// first is taken first.
struct Instruction {
  Body body;
  std::array<uint8_t, 2> wait = {kNoToken, kNoToken}, signal = {kNoToken, kNoToken};
  Dtype dtype = Dtype::kI8;

  const OpRow& op() const { return kOps[body.index()]; }
};
static_assert(sizeof(Instruction) <= 64, "a line of the cache");

// In the order of dispatch. Ends at `halt` or after its last instruction.
using Program = std::vector<Instruction>;

}  // namespace lw::npu
