// Loads, stores, atomic operations, and conversions of addresses.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

uint64_t address_at(const Warp& w, const Instruction& in, int32_t slot, int lane) {
  return w.get<uint64_t>(slot, lane) + static_cast<uint64_t>(in.number[0]);
}

// list: registers; op[0]: the address' base. number[1]: bytes of an element, [2]: 1: its sign
// extends, [3]: bytes of a register.
void run_load(Warp& w, const Instruction& in, uint32_t mask) {
  const int64_t bytes = in.number[1];
  const auto count = static_cast<int64_t>(in.list.size());
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    const std::byte* from =
        w.at(in, l, in.space, address_at(w, in, in.op[0], l), bytes * count, false);
    if (from == nullptr) return;
    for (int64_t i = 0; i < count; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, from + i * bytes, static_cast<size_t>(bytes));
      if (in.number[2] != 0 && bytes < in.number[3]) {
        const int64_t shift = 64 - bytes * 8;
        value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
        if (in.number[3] < 8) value &= (uint64_t{1} << in.number[3] * 8) - 1;
      }
      w.set<uint64_t>(in.list[i], l, value);
    }
  });
}

void run_store(Warp& w, const Instruction& in, uint32_t mask) {
  const int64_t bytes = in.number[1];
  const auto count = static_cast<int64_t>(in.list.size());
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    std::byte* to = w.at(in, l, in.space, address_at(w, in, in.op[0], l), bytes * count, true);
    if (to == nullptr) return;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t value = w.get<uint64_t>(in.list[i], l);
      std::memcpy(to + i * bytes, &value, static_cast<size_t>(bytes));
    }
  });
}

// Modifiers of caches, which change no value. True: a policy is the last operand.
bool take_cache_modifiers(Decoder& d) {
  bool hint = false;
  while (d.ok()) {
    if (d.take("L2::cache_hint")) {
      hint = true;
      continue;
    }
    if (d.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L1::evict_normal",
                    "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
                    "L2::64B", "L2::128B", "L2::256B"})
            .empty()) {
      break;
    }
  }
  return hint;
}

Space take_space(Decoder& d) {
  if (d.take("global")) return Space::kGlobal;
  if (take_shared(d)) return Space::kShared;
  if (d.version_at_least(78) && d.take("shared::cluster")) return Space::kCluster;
  if (d.take("local")) return Space::kLocal;
  if (d.take("param")) return Space::kParam;
  return Space::kGeneric;
}

void decode_access(Decoder& d, bool load) {
  const std::string_view order = load ? d.take_any({"weak", "volatile", "relaxed", "acquire"})
                                      : d.take_any({"weak", "volatile", "relaxed", "release"});
  const bool strong = order == "relaxed" || order == "acquire" || order == "release";
  if (strong && !take_scope(d)) d.fail("a scope is missing");
  const Space space = take_space(d);
  const bool hint = take_cache_modifiers(d);
  const std::string_view vector = d.take_any({"v2", "v4"});
  const int count = vector == "v2" ? 2 : vector == "v4" ? 4 : 1;
  const PtxType type = d.take_type(
      {kB8, kB16, kB32, kB64, kU8, kU16, kU32, kU64, kS8, kS16, kS32, kS64, kF32, kF64});
  d.expect_operands(2, hint ? 3 : 2);
  if (!d.ok()) return;
  if (hint) d.source(2, kB64);
  if (bytes_of(type) * count > 16) d.fail("an access has at most 16 bytes");
  if (space == Space::kParam && !load) return d.unknown();
  const int registers = load ? 0 : 1, place = load ? 1 : 0;
  const Operand& values = d.operand(registers);
  const bool is_vector = values.kind == Operand::Kind::kVector;
  if (is_vector != (count > 1) || (is_vector && static_cast<int>(values.items.size()) != count)) {
    return d.fail("the number of registers is not that of the access");
  }
  for (int i = 0; i < count; ++i) {
    const Operand& value = is_vector ? values.items[i] : values;
    d.in.list.push_back(load ? d.wide_destination(value, type) : d.wide_source(value, type));
  }
  d.address(place, 0, space);
  if (!d.ok()) return;
  d.in.number[1] = bytes_of(type);
  d.in.number[2] = is_signed(type) ? 1 : 0;
  d.in.number[3] = bytes_of(d.type_of(d.in.list[0]));
  d.in.run = load ? run_load : run_store;
}

enum class Change : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompare, kInc, kDec };

template <class T>
T changed(Change change, T old, T b, T c) {
  switch (change) {
    case Change::kMin: return std::min(old, b);
    case Change::kMax: return std::max(old, b);
    case Change::kExchange: return b;
    case Change::kCompare: return old == b ? c : old;
    case Change::kInc: return old >= b ? T{0} : static_cast<T>(old + 1);
    case Change::kDec: return old == 0 || old > b ? b : static_cast<T>(old - 1);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (change) {
      case Change::kAdd:
        return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(b));
      case Change::kAnd: return old & b;
      case Change::kOr: return old | b;
      case Change::kXor: return old ^ b;
      default: return old;
    }
  } else {
    return canonical(old + b);
  }
}

// op: address, b, c (or -1), d (or -1). number[1]: Change. list: b's of a vector, or empty.
template <class T>
void run_atomic(Warp& w, const Instruction& in, uint32_t mask) {
  const auto change = static_cast<Change>(in.number[1]);
  const size_t count = in.list.empty() ? 1 : in.list.size();
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    std::byte* place = w.at(in, l, in.space, address_at(w, in, in.op[0], l),
                            static_cast<int64_t>(sizeof(T) * count), true);
    if (place == nullptr) return;
    for (size_t i = 0; i < count; ++i) {
      T old;
      std::memcpy(&old, place + i * sizeof(T), sizeof(T));
      const T b = w.get<T>(in.list.empty() ? in.op[1] : in.list[i], l);
      const T c = in.op[2] < 0 ? T{0} : w.get<T>(in.op[2], l);
      T now = changed<T>(change, old, b, c);
      if constexpr (std::is_same_v<T, float>) {
        // Global memory's additions flush; shared memory's do not.
        if (in.space == Space::kGlobal)
          now = flushed(changed<T>(change, flushed(old), flushed(b), c));
      }
      std::memcpy(place + i * sizeof(T), &now, sizeof(T));
      if (in.op[3] >= 0) w.set<T>(in.op[3], l, old);
    }
  });
}

// flags 1: to the generic space (adds the window), else from it. number[1]: Space.
void run_window(Warp& w, const Instruction& in, uint32_t mask) {
  const auto space = static_cast<Space>(in.number[1]);
  uint64_t base = 0;
  if (space == Space::kShared) base = reinterpret_cast<uint64_t>(w.block->shared) - kSharedBase;
  if (space == Space::kParam) base = reinterpret_cast<uint64_t>(w.machine->parameters);
  each_lane(mask, [&](int l) {
    const uint64_t value = w.get<uint64_t>(in.op[1], l);
    w.set<uint64_t>(in.op[0], l, in.flags & 1 ? value + base : value - base);
  });
}

void run_zero(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) { w.set<uint64_t>(in.op[0], l, 0); });
}

}  // namespace

void decode_load(Decoder& d) { decode_access(d, true); }
void decode_store(Decoder& d) { decode_access(d, false); }

void decode_atomic(Decoder& d) {
  const bool result = d.root() == "atom";
  if (result)
    d.take_any({"relaxed", "acquire", "release", "acq_rel"});
  else
    d.take_any({"relaxed", "release"});
  take_scope(d);
  const Space space = take_space(d);
  if (space == Space::kLocal || space == Space::kParam) return d.unknown();
  const std::string_view name =
      d.must_take({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  if (!d.ok()) return;
  const bool hint = d.take("L2::cache_hint");
  PtxType type = kNone;
  Change change = Change::kAdd;
  int vector = 1;
  if (name == "add") {
    const std::string_view parts = result ? "" : d.take_any({"v2", "v4"});
    vector = parts == "v2" ? 2 : parts == "v4" ? 4 : 1;
    type = vector > 1 ? d.take_type({kF32}) : d.take_type({kU32, kS32, kU64, kF32, kF64});
    if (vector > 1 &&
        (!d.target_at_least(90) || !d.version_at_least(81) || space != Space::kGlobal)) {
      return d.fail("vectors are for global memory, from sm_90 and PTX 8.1 on");
    }
  } else if (name == "min" || name == "max") {
    type = d.take_type({kU32, kS32, kU64, kS64});
    change = name == "min" ? Change::kMin : Change::kMax;
  } else if (name == "inc" || name == "dec") {
    type = d.take_type({kU32});
    change = name == "inc" ? Change::kInc : Change::kDec;
  } else {
    type = d.take_type({kB32, kB64});
    change = name == "and"    ? Change::kAnd
             : name == "or"   ? Change::kOr
             : name == "xor"  ? Change::kXor
             : name == "exch" ? Change::kExchange
                              : Change::kCompare;
  }
  const bool exchange = change == Change::kExchange || change == Change::kCompare;
  if (exchange && !result) return d.unknown();
  int i = result ? 1 : 0;
  const int count = i + 2 + (change == Change::kCompare ? 1 : 0) + (hint ? 1 : 0);
  d.expect_operands(count);
  if (!d.ok()) return;
  if (result) d.in.op[3] = d.destination(0, type);
  d.address(i++, 0, space);
  if (vector > 1)
    d.sources(i++, type, vector);
  else
    d.in.op[1] = d.source(i++, type);
  if (change == Change::kCompare) d.in.op[2] = d.source(i++, type);
  if (hint) d.source(i, kB64);
  d.in.number[1] = static_cast<int64_t>(change);
  if (type == kF32)
    d.in.run = run_atomic<float>;
  else if (type == kF64)
    d.in.run = run_atomic<double>;
  else if (is_bits(type))
    d.in.run = type == kB32 ? run_atomic<uint32_t> : run_atomic<uint64_t>;
  else
    d.in.run = by_integer(type, []<class T>() -> Handler { return run_atomic<T>; });
}

void decode_address(Decoder& d) {
  const std::string_view root = d.root();
  if (root == "prefetch") {
    if (d.target_at_least(90) && d.take("tensormap")) {
      d.expect_operands(1);
      d.address(0, 0, Space::kGeneric);
      d.in.run = run_nothing;
      return;
    }
    const Space space = take_space(d);
    if (space != Space::kGlobal && space != Space::kGeneric) return d.unknown();
    d.must_take({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
    d.expect_operands(1);
    d.address(0, 0, space);
    d.in.run = run_nothing;
    return;
  }
  if (root == "createpolicy") {
    if (!d.take("fractional")) return d.unknown();
    d.must_take({"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"});
    d.take_any({"L2::evict_first", "L2::evict_unchanged"});
    d.take_type({kB64});
    d.expect_operands(1, 2);
    d.in.op[0] = d.destination(0, kB64);
    if (d.operands() == 2) d.source(1, kF32);
    d.in.run = run_zero;
    return;
  }
  // cvta
  const bool from_generic = d.take("to");
  const Space space = take_space(d);
  if (space != Space::kGlobal && space != Space::kShared && space != Space::kParam) {
    return d.unknown();
  }
  if (space == Space::kParam && !d.version_at_least(77)) {
    return d.fail("parameters have addresses from PTX 7.7 on");
  }
  d.take_type({kU64});
  d.expect_operands(2);
  d.in.op[0] = d.destination(0, kU64);
  d.in.op[1] = from_generic ? d.source(1, kU64) : d.source_or_symbol(1, kU64);
  d.in.number[1] = static_cast<int64_t>(space);
  d.in.flags = from_generic ? 0 : 1;
  d.in.run = run_window;
}

}  // namespace lw::ptx_interpreter
