// Branches, fences and barriers of a block.
#include <bit>
#include <cstdint>
#include <string_view>

#include "src/base/message.h"
#include "src/build/simt/ptx/interpreter/interpret_code.h"
#include "src/build/simt/ptx/interpreter/interpret_decode.h"
#include "src/build/simt/ptx/interpreter/interpret_machine.h"

namespace lw::ptx_interpreter {
namespace {

using enum PtxType;

// op: barrier, threads (or -1: all). flags 1: does not wait.
void run_barrier(Warp& w, const Instruction& in, uint32_t mask) {
  Block& block = *w.block;
  uint32_t id = 0, count = 0;
  if (!w.same(in, mask, in.op[0], &id)) return;
  if (id >= block.barriers.size()) return w.fail(in, -1, concat("there is no barrier ", id));
  int64_t expected = in.aligned ? (block.threads + 31) / 32 * 32 : block.threads;
  if (in.op[1] >= 0) {
    if (!w.same(in, mask, in.op[1], &count)) return;
    if (count == 0 || count % 32 != 0) {
      return w.fail(in, -1, concat(count, " threads are no multiple of a warp"));
    }
    expected = count;
  }
  Barrier& barrier = block.barriers[id];
  if (barrier.expected != 0 && barrier.expected != expected) {
    return w.fail(in, -1,
                  concat("barrier ", id, " waits for ", barrier.expected, " threads, and here for ",
                         expected));
  }
  barrier.expected = expected;
  // A warp counts whole where all of it arrives.
  barrier.arrived += in.aligned ? 32 : std::popcount(mask);
  if (barrier.arrived > expected) {
    return w.fail(in, -1, concat("more than ", expected, " threads arrive at barrier ", id));
  }
  if (!(in.flags & 1)) w.wait_barrier = static_cast<int>(id);
  if (barrier.arrived == expected) {
    barrier = {};
    w.full_barrier = static_cast<int>(id);
  }
}

}  // namespace

void decode_flow(Decoder& d) {
  const std::string_view root = d.root();
  if (root == "bra") {
    d.take("uni");
    d.expect_operands(1);
    if (d.ok() && d.operand(0).kind != Operand::Kind::kName) d.fail("a label is missing");
    d.in.flow = Flow::kBranch;
    return;
  }
  if (root == "ret" || root == "exit") {
    if (root == "ret") d.take("uni");
    d.expect_operands(0);
    d.in.flow = Flow::kExit;
    return;
  }
  if (root == "trap") {
    d.expect_operands(0);
    d.in.flow = Flow::kTrap;
    return;
  }
  d.in.run = run_nothing;
  if (root == "griddepcontrol") {
    d.must_take({"wait", "launch_dependents"});
    return d.expect_operands(0);
  }
  if (root == "fence" && d.target_at_least(90) && d.take("proxy")) {
    if (!d.take("async")) return d.unknown();
    d.take_any({"global", "shared::cta", "shared::cluster"});
    return d.expect_operands(0);
  }
  if (root == "nanosleep") {
    d.take_type({kU32});
    d.expect_operands(1);
    d.source(0, kU32);
    return;
  }
  if (root == "membar") {
    d.must_take({"cta", "gl", "sys"});
  } else if (!d.target_at_least(90) || !d.take("mbarrier_init")) {
    d.must_take({"sc", "acq_rel"});
    if (!take_scope(d)) d.unknown();
  } else {
    if (!d.take("release") || !d.take("cluster")) return d.unknown();
  }
  d.expect_operands(0);
}

void decode_barrier(Decoder& d) {
  // bar is barrier.aligned, whose other name it is.
  const bool old_name = d.root() == "bar";
  if (!old_name && d.target_at_least(90) && d.version_at_least(78) && d.take("cluster")) {
    return decode_cluster(d);
  }
  if (d.version_at_least(78)) d.take("cta");
  if (old_name && d.take("warp")) {
    if (!d.take("sync")) return d.unknown();
    d.expect_operands(1);
    d.in.flow = Flow::kMembers;
    d.in.member_slot = d.source(0, kB32);
    d.in.run = run_nothing;
    return;
  }
  const std::string_view what = d.must_take({"sync", "arrive"});
  d.in.aligned = d.take("aligned") || old_name;
  const bool arrive = what == "arrive";
  d.expect_operands(arrive ? 2 : 1, 2);
  d.in.flow = Flow::kBarrier;
  d.in.flags = arrive ? 1 : 0;
  d.in.op[0] = d.source(0, kU32);
  if (d.operands() == 2) d.in.op[1] = d.source(1, kU32);
  d.in.run = run_barrier;
}

}  // namespace lw::ptx_interpreter
