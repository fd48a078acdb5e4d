// Lanes that lie together are moved by vectors of up to 16 bytes where addresses are aligned,
// others one by one.
#include "src/build/simt/ptx/ptx_memory.h"

#include <algorithm>

#include "src/kernel/ops.h"

namespace lw {
namespace {

constexpr int64_t kWidestAccess = 16;

int64_t bytes_of_lanes(const Register& r) { return int64_t{r.lanes} * size_of(r.type); }

// Whether a lane is its own words in memory as it is in registers.
bool lies_alike(const Register& r) {
  return r.type != Type::kBool && (r.lanes > 1 || size_of(r.type) >= 4) &&
         bytes_of_lanes(r) % 4 == 0;
}

// Bytes moved at once, of what can be moved by words: 0 if it cannot.
int64_t vector_bytes_of(const Register& r, const PtxAccess& a) {
  const int64_t word = size_of(r.type) == 8 ? 8 : 4;
  if (!lies_alike(r) || a.stride != 1 || !a.offsets.empty() || a.alignment < word) return 0;
  int64_t bytes = word;
  while (2 * bytes <= std::min({kWidestAccess, a.alignment, bytes_of_lanes(r)})) bytes *= 2;
  return bytes;
}

// "{%r1, %r2}", or the one.
std::string group_of(const std::vector<std::string>& words, size_t from, size_t count) {
  if (count == 1) return words[from];
  std::string text = "{";
  for (size_t i = 0; i < count; ++i) text += concat(i == 0 ? "" : ", ", words[from + i]);
  return text + "}";
}

void move_words(PtxCode& code, const char* op, const std::vector<std::string>& words, int word,
                int64_t vector, const PtxAccess& a, const std::string& predicate) {
  const size_t count = static_cast<size_t>(vector / word);
  const std::string many = count == 1 ? "" : concat(".v", count);
  for (size_t i = 0; i < words.size(); i += count) {
    const std::string at = a.place.text(static_cast<int64_t>(i) * word);
    const std::string group = group_of(words, i, count);
    const bool loads = op[0] == 'l';
    code.line(predicate, op, ".", a.space, many, word == 8 ? ".b64 " : ".b32 ",
              loads ? group : at, ", ", loads ? at : group);
  }
}

// All lanes' predicates in one.
std::string all_of(PtxCode& code, const std::vector<std::string>& mask) {
  std::string all = mask[0];
  for (size_t l = 1; l < mask.size(); ++l) {
    const std::string both = code.flag();
    code.line("and.pred ", both, ", ", all, ", ", mask[l]);
    all = both;
  }
  return all;
}

// Where a lane lies, as an operand.
std::string element_at(PtxCode& code, const Register& r, const PtxAccess& a, int lane) {
  const int64_t size = size_of(r.type);
  if (a.offsets.empty()) return a.place.text(lane * a.stride * size);
  if (a.space == kPtxSharedSpace) {        // whose addresses are words
    const std::string offset = code.word(), address = code.word();
    code.line("cvt.u32.u64 ", offset, ", ", a.offsets[lane]);
    code.line("mad.lo.s32 ", address, ", ", offset, ", ", size, ", ", a.place.base);
    return PtxPlace{address, a.place.bytes}.text();
  }
  const std::string address = code.wide();
  code.line("mad.lo.s64 ", address, ", ", a.offsets[lane], ", ", size, ", ", a.place.base);
  return PtxPlace{address, a.place.bytes}.text();
}

const char* element_type(Type type) {
  switch (type) {
    case Type::kI8: return ".s8 ";
    case Type::kU8: case Type::kBool: return ".u8 ";
    case Type::kI16: return ".s16 ";
    case Type::kF16: case Type::kBF16: return ".u16 ";
    default: return size_of(type) == 8 ? ".b64 " : ".b32 ";
  }
}

std::string load_lane(PtxCode& code, const Register& r, const PtxAccess& a, int lane) {
  const bool boolean = r.type == Type::kBool;
  const std::string value = ptx_register(code, boolean ? Type::kI32 : r.type);
  std::string predicate;
  if (!a.mask.empty()) {
    code.line(ptx_bits(r.type) == 64 ? "mov.b64 " : "mov.b32 ", value, ", 0");
    predicate = concat("@", a.mask[lane], " ");
  }
  const std::string at = element_at(code, r, a, lane);
  code.line(predicate, "ld.", a.space, element_type(r.type), value, ", ", at);
  if (!boolean) return value;
  const std::string flag = code.flag();
  code.line("setp.ne.s32 ", flag, ", ", value, ", 0");
  return flag;
}

void load_lanes_apart(PtxCode& code, PtxLanes& lanes, int reg, const Register& r,
                      const PtxAccess& a) {
  std::vector<std::string> values;
  for (int l = 0; l < r.lanes; ++l) {
    const bool again = a.stride == 0 && a.offsets.empty() && a.mask.empty() && l > 0;
    values.push_back(again ? values[0] : load_lane(code, r, a, l));
  }
  lanes.set(reg, std::move(values));
}

void store_lanes_apart(PtxCode& code, PtxLanes& lanes, int reg, const Register& r,
                       const PtxAccess& a) {
  for (int l = 0; l < r.lanes; ++l) {
    std::string value = lanes.get(reg, l);
    if (r.type == Type::kBool) {
      const std::string number = code.word();
      code.line("selp.b32 ", number, ", 1, 0, ", value);
      value = number;
    }
    const std::string predicate = a.mask.empty() ? "" : concat("@", a.mask[l], " ");
    const std::string at = element_at(code, r, a, l);
    code.line(predicate, "st.", a.space, element_type(r.type), at, ", ", value);
  }
}

// `whole` where the mask has all lanes on, else `apart`.
void by_mask(PtxCode& code, const PtxAccess& a, const auto& whole, const auto& apart) {
  const std::string all = all_of(code, a.mask), some = code.label(), end = code.label();
  code.line("@!", all, " bra ", some);
  whole();
  code.line("bra ", end);
  code.place(some);
  apart();
  code.place(end);
}

}  // namespace

void ptx_load(PtxCode& code, PtxLanes& lanes, int reg, const Register& r, const PtxAccess& a) {
  const int64_t vector = vector_bytes_of(r, a);
  const int word = size_of(r.type) == 8 ? 8 : 4;
  const auto whole = [&] { move_words(code, "ld", lanes.words(reg), word, vector, a, ""); };
  const auto apart = [&] { load_lanes_apart(code, lanes, reg, r, a); };
  if (vector == 0) return apart();
  if (a.mask.empty()) return whole();
  lanes.words(reg);
  by_mask(code, a, whole, apart);
}

void ptx_store(PtxCode& code, PtxLanes& lanes, int reg, const Register& r, const PtxAccess& a) {
  const int64_t vector = vector_bytes_of(r, a);
  const int word = size_of(r.type) == 8 ? 8 : 4;
  const auto whole = [&] { move_words(code, "st", lanes.words(reg), word, vector, a, ""); };
  const auto apart = [&] { store_lanes_apart(code, lanes, reg, r, a); };
  if (vector == 0) return apart();
  if (a.mask.empty()) return whole();
  by_mask(code, a, whole, apart);
}

void ptx_copy(PtxCode& code, const PtxPlace& to, const PtxPlace& from, int64_t bytes) {
  // Of 16 bytes they need not be kept in L1.
  code.line("cp.async.", bytes == 16 ? "cg" : "ca", ".shared.global ", to.text(), ", ", from.text(),
            ", ", bytes);
}

int64_t ptx_at_once(const Kernel& kernel, const Stmt& loop) {
  constexpr int64_t kMost = 4, kMostBytes = 64;
  constexpr size_t kFew = 8;
  int64_t bytes = 0;
  for (const Stmt& s : loop.body) {
    const bool moves = is_op(s, Op::kLoad) || is_op(s, Op::kStore);
    const bool plain = s.kind == Stmt::Kind::kInt || is_op(s, Op::kCast) || (moves && s.mask < 0);
    if (!plain || loop.body.size() > kFew) return 1;
    if (!is_op(s, Op::kLoad)) continue;
    const Register& r = kernel.registers[s.dst];
    bytes += r.lanes * std::max<int64_t>(4, size_of(r.type));
  }
  int64_t count = std::clamp<int64_t>(kMostBytes / std::max<int64_t>(1, bytes), 1, kMost);
  while (loop.count % count != 0) --count;
  return bytes > 0 ? count : 1;
}

}  // namespace lw
