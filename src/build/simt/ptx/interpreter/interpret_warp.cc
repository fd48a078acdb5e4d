// What lanes of a warp tell each other: shfl, vote, redux, activemask.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

// op: d, a, b, c, p (or -1). number[0]: 0 up, 1 down, 2 bfly, 3 idx.
void run_shuffle(Warp& w, const Instruction& in, uint32_t mask) {
  uint32_t values[32], out[32] = {}, in_range = 0;
  for (int l = 0; l < 32; ++l) values[l] = w.get<uint32_t>(in.op[1], l);
  each_lane(mask, [&](int l) {
    const int b = static_cast<int>(w.get<uint32_t>(in.op[2], l) & 31);
    const uint32_t c = w.get<uint32_t>(in.op[3], l);
    const int segment = static_cast<int>(c >> 8 & 31), clamp = static_cast<int>(c & 31);
    const int most = (l & segment) | (clamp & ~segment), least = l & segment;
    int j = 0;
    bool inside = false;
    switch (in.number[0]) {
      case 0:
        j = l - b;
        inside = j >= most;
        break;
      case 1:
        j = l + b;
        inside = j <= most;
        break;
      case 2:
        j = l ^ b;
        inside = j <= most;
        break;
      default:
        j = least | (b & ~segment);
        inside = j <= most;
        break;
    }
    if (!inside)
      j = l;
    else
      in_range |= 1u << l;
    const uint32_t members = w.get<uint32_t>(in.member_slot, l);
    if (!(members >> j & 1)) {
      w.fail(in, l, concat("takes the value of lane ", j, ", which is not among the members"));
      return;
    }
    out[l] = values[j];
  });
  each_lane(mask, [&](int l) { w.set<uint32_t>(in.op[0], l, out[l]); });
  if (in.op[4] >= 0) w.set_bits(in.op[4], mask, in_range);
}

// op: d, a. number[0]: 0 all, 1 any, 2 uni, 3 ballot. flags 1: a is negated.
void run_vote(Warp& w, const Instruction& in, uint32_t mask) {
  const uint32_t a = in.flags & 1 ? ~w.bits[in.op[1]] : w.bits[in.op[1]];
  uint32_t out = 0;
  each_lane(mask, [&](int l) {
    const uint32_t members = w.get<uint32_t>(in.member_slot, l);
    const uint32_t yes = a & members;
    if (in.number[0] == 3) w.set<uint32_t>(in.op[0], l, yes);
    const bool result = in.number[0] == 0   ? yes == members
                        : in.number[0] == 1 ? yes != 0
                                            : yes == members || yes == 0;
    if (result) out |= 1u << l;
  });
  if (in.number[0] != 3) w.set_bits(in.op[0], mask, out);
}

// op: d, a. number[0]: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor.
template <class T>
void run_reduce(Warp& w, const Instruction& in, uint32_t mask) {
  uint32_t out[32] = {};
  each_lane(mask, [&](int l) {
    const uint32_t members = w.get<uint32_t>(in.member_slot, l);
    T sum = w.get<T>(in.op[1], l);
    each_lane(members & ~(1u << l), [&](int j) {
      const T x = w.get<T>(in.op[1], j);
      switch (in.number[0]) {
        case 0: sum = static_cast<T>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(x)); break;
        case 1: sum = std::min(sum, x); break;
        case 2: sum = std::max(sum, x); break;
        case 3: sum &= x; break;
        case 4: sum |= x; break;
        default: sum ^= x;
      }
    });
    out[l] = static_cast<uint32_t>(sum);
  });
  each_lane(mask, [&](int l) { w.set<uint32_t>(in.op[0], l, out[l]); });
}

void run_active(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) { w.set<uint32_t>(in.op[0], l, mask); });
}

void decode_shuffle(Decoder& d) {
  d.must_take({"sync"});
  const std::string_view mode = d.must_take({"up", "down", "bfly", "idx"});
  d.take_type({kB32});
  d.expect_operands(5);
  if (!d.ok()) return;
  const auto [value, p] = d.operand(0).halves();
  d.in.op[0] = d.destination(value, kB32);
  if (!p.name.empty()) d.in.op[4] = d.destination(p, kPred);
  d.in.op[1] = d.source(1, kB32);
  d.in.op[2] = d.source(2, kB32);
  d.in.op[3] = d.source(3, kB32);
  d.in.member_slot = d.source(4, kB32);
  d.in.number[0] = mode == "up" ? 0 : mode == "down" ? 1 : mode == "bfly" ? 2 : 3;
  d.in.run = run_shuffle;
}

void decode_vote(Decoder& d) {
  d.must_take({"sync"});
  const std::string_view mode = d.must_take({"all", "any", "uni", "ballot"});
  const bool ballot = mode == "ballot";
  d.take_type({ballot ? kB32 : kPred});
  d.expect_operands(3);
  d.in.op[0] = d.destination(0, ballot ? kB32 : kPred);
  bool negated = false;
  d.in.op[1] = d.predicate(1, &negated);
  d.in.flags = negated ? 1 : 0;
  d.in.member_slot = d.source(2, kB32);
  d.in.number[0] = mode == "all" ? 0 : mode == "any" ? 1 : mode == "uni" ? 2 : 3;
  d.in.run = run_vote;
}

void decode_reduce(Decoder& d) {
  d.must_take({"sync"});
  const std::string_view what = d.must_take({"add", "min", "max", "and", "or", "xor"});
  const bool number = what == "add" || what == "min" || what == "max";
  const PtxType type = number ? d.take_type({kU32, kS32}) : d.take_type({kB32});
  d.expect_operands(3);
  d.in.op[0] = d.destination(0, type);
  d.in.op[1] = d.source(1, type);
  d.in.member_slot = d.source(2, kB32);
  constexpr std::string_view kNames[] = {"add", "min", "max", "and", "or", "xor"};
  d.in.number[0] = std::find(kNames, kNames + 6, what) - kNames;
  d.in.run = type == kS32 ? run_reduce<int32_t> : run_reduce<uint32_t>;
}

}  // namespace

void decode_warp(Decoder& d) {
  if (d.root() == "activemask") {
    d.take_type({kB32});
    d.expect_operands(1);
    d.in.op[0] = d.destination(0, kB32);
    d.in.run = run_active;
    return;
  }
  d.in.flow = Flow::kMembers;
  if (d.root() == "shfl") return decode_shuffle(d);
  if (d.root() == "vote") return decode_vote(d);
  decode_reduce(d);
}

}  // namespace lw::ptx_interpreter
