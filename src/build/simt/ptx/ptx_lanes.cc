#include "src/build/simt/ptx/ptx_lanes.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "src/base/message.h"
#include "src/build/simt/ptx/ptx_values.h"
#include "src/expr/scalar.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

bool is_packed(const Register& r) {
  return r.lanes > 1 && r.type != Type::kBool && size_of(r.type) < 4;
}

// Lanes of a word.
int packed_lanes(Type type) { return 4 / size_of(type); }

bool packs_signed(Type type) { return !is_float(type) && is_signed(type); }

}  // namespace

std::string ptx_number(double value, bool single) {
  if (single) return absl::StrFormat("0f%08x", std::bit_cast<uint32_t>(static_cast<float>(value)));
  return absl::StrFormat("0d%016x", std::bit_cast<uint64_t>(value));
}

int ptx_bits(Type type) { return type == Type::kBool ? 1 : size_of(type) == 8 ? 64 : 32; }

std::string ptx_register(PtxCode& code, Type type) {
  switch (ptx_bits(type)) {
    case 1: return code.flag();
    case 64: return code.wide();
    default: return code.word();
  }
}

void ptx_move(PtxCode& code, Type type, const std::string& to, const std::string& from) {
  if (to == from) return;
  const char* word = type == Type::kBool ? "pred" : ptx_bits(type) == 64 ? "b64" : "b32";
  code.line("mov.", word, " ", to, ", ", from);
}

const std::vector<std::string>& PtxLanes::words(int reg) {
  std::vector<std::string>& words = words_[reg];
  if (!words.empty()) return words;
  const Register& r = kernel_.registers[reg];
  const int per_word = is_packed(r) ? packed_lanes(r.type) : 1;
  for (int l = 0; l < r.lanes; l += per_word) {
    words.push_back(is_packed(r) ? code_.word() : ptx_register(code_, r.type));
  }
  return words;
}

std::string PtxLanes::get(int reg, int lane) {
  const Register& r = kernel_.registers[reg];
  if (!is_packed(r)) return words(reg)[lane];
  const int per_word = packed_lanes(r.type), bits = 8 * size_of(r.type);
  const std::string &word = words(reg)[lane / per_word], result = code_.word();
  code_.line(packs_signed(r.type) ? "bfe.s32 " : "bfe.u32 ", result, ", ", word, ", ",
             lane % per_word * bits, ", ", bits);
  return result;
}

std::vector<std::string> PtxLanes::all(int reg) {
  std::vector<std::string> lanes;
  for (int l = 0; l < kernel_.registers[reg].lanes; ++l) lanes.push_back(get(reg, l));
  return lanes;
}

void PtxLanes::set(int reg, std::vector<std::string> lanes) {
  const Register& r = kernel_.registers[reg];
  const std::vector<std::string>& mine = words(reg);
  const auto join = [&](const std::string& low, const std::string& high, const char* bytes) {
    const std::string joined = code_.word();
    code_.line("prmt.b32 ", joined, ", ", low, ", ", high, ", ", bytes);
    return joined;
  };
  if (is_packed(r)) {
    const int per_word = packed_lanes(r.type);
    for (int l = 0; l < r.lanes; l += per_word) {
      const auto lane = [&](int i) { return lanes[std::min(l + i, r.lanes - 1)]; };
      const std::string word = per_word == 2 ? join(lane(0), lane(1), "0x5410")
                                             : join(join(lane(0), lane(1), "0x0040"),
                                                    join(lane(2), lane(3), "0x0040"), "0x5410");
      code_.line("mov.b32 ", mine[l / per_word], ", ", word);
    }
    return;
  }
  // What is read after it is written is read before.
  for (size_t l = 0; l < lanes.size(); ++l) {
    const auto own = std::find(mine.begin(), mine.end(), lanes[l]);
    if (own == mine.end() || own - mine.begin() >= static_cast<std::ptrdiff_t>(l)) continue;
    const std::string copy = ptx_register(code_, r.type);
    ptx_move(code_, r.type, copy, lanes[l]);
    lanes[l] = copy;
  }
  for (size_t l = 0; l < lanes.size(); ++l) ptx_move(code_, r.type, mine[l], lanes[l]);
}

void ptx_transpose(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s) {
  const size_t n = s.many.size() / 2;
  const Type type = kernel.registers[s.many[0]].type;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < n; ++i) {
    rows.push_back(lanes.all(s.many[i]));
    for (std::string& lane : rows.back()) {
      const std::string copy = ptx_register(code, type);
      ptx_move(code, type, copy, lane);
      lane = copy;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    std::vector<std::string> column;
    for (const std::vector<std::string>& row : rows) column.push_back(row[i]);
    lanes.set(s.many[n + i], std::move(column));
  }
}

namespace {

// Of an operation, what it makes of lanes.
class LaneOperation {
 public:
  LaneOperation(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const std::string& index,
                int64_t sub_group)
      : code_(code), lanes_(lanes), kernel_(kernel), index_(index), sub_group_(sub_group) {}

  // Of dst, lane by lane.
  std::vector<std::string> values(const Stmt& s) {
    const Register& dst = kernel_.registers[s.dst];
    std::vector<std::string> a, b, c, result;
    const bool packed = s.op == Op::kDot;  // as they lie
    if (s.srcs[0] >= 0 && !packed) a = lanes_.all(s.srcs[0]);
    if (s.srcs[1] >= 0 && !packed) b = lanes_.all(s.srcs[1]);
    if (s.srcs[2] >= 0) c = lanes_.all(s.srcs[2]);
    const Type from = s.srcs[0] >= 0 ? kernel_.registers[s.srcs[0]].type : dst.type;
    const size_t count = static_cast<size_t>(dst.lanes);
    const auto each = [&](const auto& value) {
      for (size_t l = 0; l < count; ++l) {
        result.push_back(value(l));
        if (result.back().empty()) fail(concat("no words for ", word_of(s)));
      }
    };
    switch (s.op) {
      case Op::kImmediate: {
        const std::string one = ptx_constant(code_, dst.type, s.number, s.integer);
        each([&](size_t) { return one; });
        break;
      }
      case Op::kMove: return a;
      case Op::kBroadcast: each([&](size_t l) { return a[l % a.size()]; }); break;
      case Op::kUnary:
        each([&](size_t l) { return ptx_unary(code_, s.expr_op, from, a[l]); });
        break;
      case Op::kBinary:
        each([&](size_t l) { return ptx_binary(code_, s.expr_op, from, a[l], b[l]); });
        break;
      case Op::kFma:
        each([&](size_t l) { return ptx_fma(code_, dst.type, a[l], b[l], c[l]); });
        break;
      case Op::kSelect:
        each([&](size_t l) { return ptx_select(code_, dst.type, a[l], b[l], c[l]); });
        break;
      case Op::kCast: each([&](size_t l) { return ptx_cast(code_, dst.type, from, a[l]); }); break;
      case Op::kIota:
        each([&](size_t l) {
          const int64_t more = static_cast<int64_t>(l) * s.stride;
          return ptx_cast(code_, dst.type, Type::kI32, l == 0 ? index_ : added(more));
        });
        break;
      case Op::kLaneMask:
        each([&](size_t l) {
          const std::string flag = code_.flag();
          code_.line("setp.ge.s32 ", flag, ", ", index_, ", ", -static_cast<int64_t>(l) * s.stride);
          return flag;
        });
        break;
      case Op::kHorizontal: return {combined(s.reduce, from, std::move(a))};
      case Op::kAcross: each([&](size_t l) { return across(s, dst.type, a[l]); }); break;
      case Op::kDot: return dots(s, c);
      case Op::kInterleave: {
        std::vector<std::vector<std::string>> sources;
        for (const int source : s.many) sources.push_back(lanes_.all(source));
        each([&](size_t l) { return sources[l % sources.size()][l / sources.size()]; });
        break;
      }
      case Op::kSlide:
        each([&](size_t l) {
          const size_t at = l + static_cast<size_t>(s.integer);
          return at < count ? a[at] : b[at - count];
        });
        break;
      default: fail(concat("no words for ", word_of(s)));
    }
    return result;
  }

  const std::string& refusal() const { return refusal_; }

 private:
  // In halves, as every back-end does.
  std::string combined(Reduce reduce, Type type, std::vector<std::string> lanes) {
    const ExprOp op = combining_op(reduce, type);
    for (size_t count = lanes.size() / 2; count >= 1; count /= 2) {
      for (size_t i = 0; i < count; ++i) {
        lanes[i] = ptx_binary(code_, op, type, lanes[i], lanes[count + i]);
      }
    }
    return lanes[0];
  }

  // Each of a sub-group's items ends with the same bits: in every round both of a pair combine
  // alike.
  std::string across(const Stmt& s, Type type, std::string value) {
    if (s.integer != 1 && s.integer != sub_group_) {
      fail(concat("sub-groups of ", s.integer, " items: the device's have ", sub_group_));
      return value;
    }
    const ExprOp op = combining_op(s.reduce, type);
    for (int64_t apart = s.integer / 2; apart >= 1; apart /= 2) {
      value = ptx_binary(code_, op, type, value, ptx_exchanged(code_, type, value, apart));
    }
    return value;
  }

  // Four bytes by four, which lie packed.
  std::vector<std::string> dots(const Stmt& s, const std::vector<std::string>& sums) {
    const Register &dst = kernel_.registers[s.dst], &a = kernel_.registers[s.srcs[0]],
                   &b = kernel_.registers[s.srcs[1]];
    const bool bytes = size_of(a.type) == 1 && size_of(b.type) == 1;
    if (dst.type != Type::kI32 || !bytes || a.lanes != 4 * dst.lanes) {
      fail("a dot product of other than four bytes");
      return {};
    }
    std::vector<std::string> result;
    for (int l = 0; l < dst.lanes; ++l) {
      result.push_back(ptx_dot(code_, a.type, b.type, lanes_.words(s.srcs[0])[l],
                               lanes_.words(s.srcs[1])[l], sums[l]));
    }
    return result;
  }

  void fail(std::string_view what) {
    if (refusal_.empty()) refusal_ = what;
  }
  std::string added(int64_t more) {
    const std::string sum = code_.word();
    code_.line("add.s32 ", sum, ", ", index_, ", ", more);
    return sum;
  }

  PtxCode& code_;
  PtxLanes& lanes_;
  const Kernel& kernel_;
  const std::string index_;
  const int64_t sub_group_;
  std::string refusal_;
};

}  // namespace

std::string ptx_operation(PtxCode& code, PtxLanes& lanes, const Kernel& kernel, const Stmt& s,
                          const std::string& index, int64_t sub_group) {
  LaneOperation operation(code, lanes, kernel, index, sub_group);
  std::vector<std::string> values = operation.values(s);
  if (operation.refusal().empty()) lanes.set(s.dst, std::move(values));
  return operation.refusal();
}

}  // namespace lw
