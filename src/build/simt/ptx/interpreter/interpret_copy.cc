// cp.async: copies from global to shared memory that land when they are waited for.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

void land_copies(const std::vector<Copy>& copies) {
  for (const Copy& c : copies) {
    auto* to = reinterpret_cast<std::byte*>(c.to);
    if (c.read_bytes > 0) {
      std::memcpy(to, reinterpret_cast<const std::byte*>(c.from),
                  static_cast<size_t>(c.read_bytes));
    }
    std::memset(to + c.read_bytes, 0, static_cast<size_t>(c.bytes - c.read_bytes));
  }
}

// op: destination, source, bytes that are read (or -1). number: offsets of both; [2] bytes.
void run_copy(Warp& w, const Instruction& in, uint32_t mask) {
  const auto bytes = static_cast<int32_t>(in.number[2]);
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    Copy copy;
    copy.bytes = copy.read_bytes = bytes;
    if (in.op[2] >= 0) {
      const uint32_t some = w.get<uint32_t>(in.op[2], l);
      if (some > static_cast<uint32_t>(bytes)) {
        w.fail(in, l, concat("reads ", some, " bytes of a copy of ", bytes));
        return;
      }
      copy.read_bytes = static_cast<int32_t>(some);
    }
    std::byte* to =
        w.at(in, l, Space::kShared,
             w.get<uint64_t>(in.op[0], l) + static_cast<uint64_t>(in.number[0]), bytes, true);
    if (to == nullptr) return;
    copy.to = reinterpret_cast<uint64_t>(to);
    copy.from = w.get<uint64_t>(in.op[1], l) + static_cast<uint64_t>(in.number[1]);
    if (copy.read_bytes > 0) {
      if (copy.from % static_cast<uint64_t>(bytes) != 0) {
        w.fail(in, l, concat("address ", copy.from, " is not a multiple of ", bytes));
        return;
      }
      if (!may_touch(w, in, l, copy.from, copy.read_bytes, false)) return;
    }
    if (w.machine->options.deliver_early) return land_copies({copy});
    for (int32_t i = 0; i < bytes; i += 4) std::memcpy(to + i, &kPoison, 4);
    w.copies[l].open.push_back(copy);
  });
}

void run_commit(Warp& w, const Instruction&, uint32_t mask) {
  each_lane(mask, [&](int l) {
    w.copies[l].groups.push_back(std::move(w.copies[l].open));
    w.copies[l].open.clear();
  });
}

// number[0]: groups that may stay open; -1: everything lands, committed or not.
void run_wait(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    LaneCopies& copies = w.copies[l];
    const size_t stay = in.number[0] < 0 ? 0 : static_cast<size_t>(in.number[0]);
    while (copies.groups.size() > stay) {
      land_copies(copies.groups.front());
      copies.groups.pop_front();
    }
    if (in.number[0] < 0) {
      land_copies(copies.open);
      copies.open.clear();
    }
  });
}

}  // namespace

void decode_copy(Decoder& d) {
  const bool hopper = d.target_at_least(90) && d.version_at_least(80);
  if (hopper && (d.peek() == "reduce" || d.second() == "bulk")) return decode_bulk(d);
  if (!d.take("async")) return d.unknown();
  if (d.take("commit_group")) {
    d.expect_operands(0);
    d.in.run = run_commit;
    return;
  }
  if (d.take("wait_group")) {
    d.expect_operands(1);
    d.in.number[0] = d.integer(0, 0, 1 << 30);
    d.in.run = run_wait;
    return;
  }
  if (d.take("wait_all")) {
    d.expect_operands(0);
    d.in.number[0] = -1;
    d.in.run = run_wait;
    return;
  }
  const std::string_view cache = d.must_take({"ca", "cg"});
  if (!take_shared(d)) d.unknown();
  d.must_take({"global"});
  bool hint = d.take("L2::cache_hint");
  d.take_any({"L2::64B", "L2::128B", "L2::256B"});
  hint = hint || d.take("L2::cache_hint");
  d.expect_operands(hint ? 4 : 3, hint ? 5 : 4);
  if (!d.ok()) return;
  d.address_of(d.operand(0), 0, 0, Space::kShared);
  d.address_of(d.operand(1), 1, 1, Space::kGlobal);
  const int64_t bytes = d.integer(2, 4, 16);
  if ((bytes & (bytes - 1)) != 0 || (cache == "cg" && bytes != 16)) {
    d.fail("a copy has 4, 8 or 16 bytes; of .cg 16");
  }
  d.in.number[2] = bytes;
  if (d.operands() - (hint ? 1 : 0) == 4) {
    d.in.op[2] = d.source(3, kU32);
    if (d.operand(3).kind == Operand::Kind::kInteger) d.integer(3, 0, bytes);
  }
  if (hint) d.source(d.operands() - 1, kB64);
  d.in.run = run_copy;
}

}  // namespace lw::ptx_interpreter
