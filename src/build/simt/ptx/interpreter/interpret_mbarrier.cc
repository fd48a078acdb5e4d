// mbarriers, and what clusters and warpgroups need besides: mapa, elect, setmaxnreg, the barrier of
// a cluster. An mbarrier's state lies beside shared memory, not in it.
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_lanes.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {

Block* owner_of(Machine* machine, const std::byte* place) {
  for (const auto& block : machine->blocks) {
    if (place >= block->shared && place < block->shared + block->shared_bytes) return block.get();
  }
  return nullptr;
}

Mbarrier* mbarrier_at(Warp& warp, const Instruction& in, int lane, Space space, uint64_t address) {
  const std::byte* place = warp.at(in, lane, space, address, 8, true);
  if (place == nullptr) return nullptr;
  Block* owner = owner_of(warp.machine, place);
  const auto found = owner->mbarriers.find(place - owner->shared);
  if (found == owner->mbarriers.end()) {
    warp.fail(in, lane, concat("no mbarrier was initialized at ", address));
    return nullptr;
  }
  return &found->second;
}

namespace {

void end_phase(Mbarrier* b) {
  if (b->pending != 0 || b->bytes != 0) return;
  ++b->phase;
  b->pending = b->count;
}

}  // namespace

void complete_bytes(Mbarrier* barrier, int64_t bytes) {
  barrier->bytes -= bytes;
  end_phase(barrier);
}

std::string waited_for(const Warp& warp, const Instruction& in, uint32_t mask) {
  const int lane = __builtin_ctz(mask);
  if (in.op[1] < 0) return " (the cluster's barrier)";
  const int64_t offset =
      static_cast<int64_t>(warp.get<uint64_t>(in.op[1], lane)) + in.number[0] - kSharedBase;
  const auto found = warp.block->mbarriers.find(offset);
  if (found == warp.block->mbarriers.end()) return "";
  const Mbarrier& b = found->second;
  return concat(" (mbarrier at shared+", offset, ": phase ", b.phase, ", ", b.pending, " of ",
                b.count, " arrivals and ", b.bytes, " bytes are missing)");
}

namespace {

using enum PtxType;

uint64_t barrier_address(const Warp& w, const Instruction& in, int lane) {
  return w.get<uint64_t>(in.op[1], lane) + static_cast<uint64_t>(in.number[0]);
}

// op: [1] address, [2] count.
void run_init(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    const std::byte* place = w.at(in, l, in.space, barrier_address(w, in, l), 8, true);
    if (place == nullptr) return;
    const int64_t count = w.get<uint32_t>(in.op[2], l);
    if (count < 1 || count >= 1 << 20) return w.fail(in, l, concat("a count of ", count));
    Block* owner = owner_of(w.machine, place);
    const auto [found, added] =
        owner->mbarriers.try_emplace(place - owner->shared, Mbarrier{count, count, 0, 0});
    if (!added) w.fail(in, l, "there is an mbarrier already");
  });
}

void run_invalidate(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    if (w.failed || mbarrier_at(w, in, l, in.space, barrier_address(w, in, l)) == nullptr) return;
    const std::byte* place = w.at(in, l, in.space, barrier_address(w, in, l), 8, true);
    Block* owner = owner_of(w.machine, place);
    owner->mbarriers.erase(place - owner->shared);
  });
}

// op: [0] state (or -1), [1] address, [2] arrivals or bytes (or -1: one arrival). flags 1: expects
// bytes; 2: arrives.
void run_arrive(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    Mbarrier* b = mbarrier_at(w, in, l, in.space, barrier_address(w, in, l));
    if (b == nullptr) return;
    const int64_t value = in.op[2] < 0 ? 1 : int64_t{w.get<uint32_t>(in.op[2], l)};
    if (in.op[0] >= 0) w.set<uint64_t>(in.op[0], l, b->phase);
    if (in.flags & 1) b->bytes += value;
    if (b->bytes >= 1 << 20) return w.fail(in, l, "more bytes are expected than can be counted");
    if (in.flags & 2) {
      b->pending -= in.flags & 1 ? 1 : value;
      if (b->pending < 0) {
        return w.fail(in, l, concat("more than ", b->count, " arrivals in a phase"));
      }
    }
    end_phase(b);
  });
}

// op: [0] predicate, [1] address, [2] parity.
void run_wait_parity(Warp& w, const Instruction& in, uint32_t mask) {
  bool over = true;
  each_lane(mask, [&](int l) {
    if (w.failed) return;
    const Mbarrier* b = mbarrier_at(w, in, l, in.space, barrier_address(w, in, l));
    if (b == nullptr) return;
    const uint32_t parity = w.get<uint32_t>(in.op[2], l);
    if (parity > 1) return w.fail(in, l, concat("a parity of ", parity));
    if ((b->phase & 1) == parity) over = false;
  });
  if (w.failed) return;
  if (over) {
    w.gave_up = false;
    w.set_bits(in.op[0], mask, mask);
  } else if (w.machine->options.seed != 0 && !w.gave_up) {
    w.gave_up = true;
    w.set_bits(in.op[0], mask, 0);
  } else {
    w.poll_again = true;
  }
}

void decode_mbarrier_wait(Decoder& d, bool hint) {
  // Either may say that it is not over, which it does once, so that whoever takes it for a wait is
  // seen; then both wait here.
  if (!d.take("parity")) return d.unknown();
  d.take_any({"acquire", "relaxed"});
  take_scope(d);
  if (!take_shared(d)) return d.unknown();
  d.take_type({kB64});
  d.expect_operands(3, hint ? 4 : 3);
  d.in.op[0] = d.destination(0, kPred);
  d.address(1, 1, Space::kShared);
  d.in.op[2] = d.source(2, kU32);
  if (d.operands() == 4) d.source(3, kU32);
  d.in.flow = Flow::kPoll;
  d.in.run = run_wait_parity;
}

// op: [1] -1, for reports. flags 1: arrives.
void run_cluster_barrier(Warp& w, const Instruction& in, uint32_t mask) {
  Machine& m = *w.machine;
  if (in.flags & 1) {
    if ((w.cluster_arrived & mask) != 0) {
      return w.fail(in, __builtin_ctz(mask), "arrives twice at the cluster's barrier");
    }
    w.cluster_arrived |= mask;
    each_lane(mask, [&](int l) { w.cluster_phase[l] = m.cluster_phase + 1; });
  }
  bool all = true;
  for (const auto& block : m.blocks) {
    for (const auto& warp : block->warps) all &= (warp->alive & ~warp->cluster_arrived) == 0;
  }
  if (all) {
    ++m.cluster_phase;
    for (const auto& block : m.blocks) {
      for (const auto& warp : block->warps) warp->cluster_arrived = 0;
    }
  }
  if (in.flags & 1) return;
  each_lane(mask, [&](int l) {
    if (w.cluster_phase[l] == 0) w.fail(in, l, "waits before it has arrived");
    if (m.cluster_phase < w.cluster_phase[l]) w.poll_again = true;
  });
}

// op: d, a, rank. A peer's address: its rank, from 1, above the offset.
void run_map(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    const uint32_t rank = w.get<uint32_t>(in.op[2], l);
    if (rank >= w.machine->blocks.size()) w.fail(in, l, concat("the cluster has no block ", rank));
    w.set<uint32_t>(in.op[0], l, (rank + 1) << 24 | w.get<uint32_t>(in.op[1], l));
  });
}

// op: d (or -1), p.
void run_elect(Warp& w, const Instruction& in, uint32_t mask) {
  each_lane(mask, [&](int l) {
    const uint32_t leader = __builtin_ctz(w.get<uint32_t>(in.member_slot, l));
    w.set<uint32_t>(in.op[0], l, leader);
    w.set_bits(in.op[1], 1u << l, leader == static_cast<uint32_t>(l) ? 1u << l : 0);
  });
}

}  // namespace

void decode_mbarrier(Decoder& d) {
  const std::string_view what =
      d.must_take({"init", "inval", "arrive", "expect_tx", "try_wait", "test_wait"});
  if (!d.ok()) return;
  if (what == "try_wait" || what == "test_wait") {
    return decode_mbarrier_wait(d, what == "try_wait");
  }
  const bool initial = what == "init" || what == "inval";
  const bool expect = what == "expect_tx" || (what == "arrive" && d.take("expect_tx"));
  if (!initial) {
    d.take_any({"release", "relaxed"});
    take_scope(d);
  }
  const bool remote = !initial && d.take("shared::cluster");
  if (!remote && !take_shared(d)) return d.unknown();
  d.take_type({kB64});
  const Space space = remote ? Space::kCluster : Space::kShared;
  if (initial) {
    d.expect_operands(what == "init" ? 2 : 1);
    d.address(0, 1, space);
    if (what == "init") d.in.op[2] = d.source(1, kU32);
    d.in.run = what == "init" ? run_init : run_invalidate;
    return;
  }
  const bool arrive = what == "arrive";
  int at = 0;
  d.expect_operands(arrive ? expect ? 3 : 2 : 2, arrive ? 3 : 2);
  if (!d.ok()) return;
  if (arrive) {
    const bool sink = d.operand(0).kind == Operand::Kind::kSink;
    if (remote && !sink) return d.fail("a remote barrier gives no state");
    if (!sink) d.in.op[0] = d.destination(0, kB64);
    ++at;
  }
  d.address(at++, 1, space);
  if (d.operands() > at) d.in.op[2] = d.source(at, kU32);
  d.in.flags = (expect ? 1 : 0) | (arrive ? 2 : 0);
  d.in.run = run_arrive;
}

void decode_cluster(Decoder& d) {
  const std::string_view root = d.root();
  if (root == "barrier") {  // .cluster was taken
    const std::string_view what = d.must_take({"arrive", "wait"});
    if (what == "arrive")
      d.take_any({"release", "relaxed"});
    else
      d.take("acquire");
    d.in.aligned = d.take("aligned");
    d.expect_operands(0);
    d.in.flags = what == "arrive" ? 1 : 0;
    d.in.flow = Flow::kPoll;
    d.in.run = run_cluster_barrier;
    return;
  }
  if (root == "mapa") {
    if (!d.take("shared::cluster")) return d.unknown();
    d.take_type({kU32});
    d.expect_operands(3);
    d.in.op[0] = d.destination(0, kU32);
    d.in.op[1] = d.source_or_symbol(1, kU32);
    d.in.op[2] = d.source(2, kU32);
    d.in.run = run_map;
    return;
  }
  if (root == "elect") {
    d.must_take({"sync"});
    d.expect_operands(2);
    if (!d.ok()) return;
    const auto [leader, p] = d.operand(0).halves();
    d.in.op[0] = d.destination(leader, kB32);
    d.in.op[1] = d.destination(p, kPred);
    d.in.flow = Flow::kMembers;
    d.in.member_slot = d.source(1, kB32);
    d.in.run = run_elect;
    return;
  }
  // setmaxnreg
  d.must_take({"inc", "dec"});
  if (!d.take("sync") || !d.take("aligned")) return d.unknown();
  d.take_type({kU32});
  d.expect_operands(1);
  if (d.integer(0, 24, 256) % 8 != 0) d.fail("the number of registers is no multiple of 8");
  d.in.flow = Flow::kWhole;
  d.in.run = run_nothing;
}

}  // namespace lw::ptx_interpreter
