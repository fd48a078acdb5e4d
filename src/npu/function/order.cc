#include "src/npu/function/order.h"

#include <algorithm>

#include "src/base/check.h"

namespace lw::npu {
namespace {

constexpr int index_of(Chain chain) { return static_cast<int>(chain); }

void join(const Clock& from, Clock* clock) {
  for (int c = 0; c < kChains; ++c) (*clock)[c] = std::max((*clock)[c], from[c]);
}

}  // namespace

Chain chain_of(const Instruction& instruction) {
  const OpRow& op = instruction.op();
  CHECK(!op.dispatcher);
  switch (op.engine) {
    case Engine::kLd: return Chain::kLd;
    case Engine::kVe: return Chain::kVe;
    case Engine::kSt: return Chain::kSt;
    case Engine::kMx: break;
  }
  if (std::holds_alternative<MxLdw>(instruction.body)) return Chain::kLdw;
  if (std::holds_alternative<MxMm>(instruction.body)) return Chain::kMm;
  if (std::holds_alternative<MxMmos>(instruction.body)) return Chain::kMmos;
  return Chain::kCol;
}

Engine engine_of(Chain chain) {
  switch (chain) {
    case Chain::kLd: return Engine::kLd;
    case Chain::kVe: return Engine::kVe;
    case Chain::kSt: return Engine::kSt;
    default: return Engine::kMx;
  }
}

Order::Order(const Program& program)
    : program_(program), clocks_(program.size()), barriers_before_(program.size()) {
  done_.fill(-1);
  std::array<int64_t, kChains> last;
  last.fill(-1);
  for (size_t i = 0; i < program.size(); ++i) {
    const Instruction& one = program[i];
    barriers_before_[i] = static_cast<uint32_t>(barriers_.size());
    if (const Sync* const sync = std::get_if<Sync>(&one.body)) {
      Barrier barrier;
      for (int c = 0; c < kChains; ++c) {
        const int engine = static_cast<int>(engine_of(static_cast<Chain>(c)));
        barrier.last[c] = (sync->mask >> engine & 1) != 0 ? last[c] : -1;
      }
      barriers_.push_back(barrier);
    }
    if (one.op().dispatcher) continue;
    const int chain = index_of(chain_of(one));
    last[chain] = static_cast<int64_t>(i);
    for (const uint8_t id : one.signal) {
      if (id == kNoToken) continue;
      ++semaphores_[id].total[chain];
      ++semaphores_[id].all;
    }
  }
}

void Order::join(int64_t done, Clock* clock) const {
  if (done >= 0) npu::join(clocks_[done], clock);
}

// Whoever begins behind a SYNC shows that what it waited for is done.
const Clock& Order::passed(size_t barrier) {
  Barrier& one = barriers_[barrier];
  if (!one.passed) {
    one.passed = true;
    for (const int64_t last : one.last) join(last, &one.clock);
    if (barrier > 0) npu::join(passed(barrier - 1), &one.clock);
  }
  return one.clock;
}

const Clock& Order::begin(uint32_t index) {
  const Instruction& one = program_[index];
  const Chain chain = chain_of(one);
  Clock& clock = begun_[static_cast<int>(one.op().engine)];
  if (barriers_before_[index] > 0) npu::join(passed(barriers_before_[index] - 1), &clock);
  for (const uint8_t id : one.wait) {
    if (id == kNoToken) continue;
    Signals& signals = semaphores_[id];
    ++signals.taken;
    for (int c = 0; c < kChains; ++c) {
      const int64_t certain = signals.taken - (signals.all - signals.total[c]);
      if (certain > 0 && certain <= static_cast<int64_t>(signals.given[c].size())) {
        join(signals.given[c][certain - 1], &clock);
      }
    }
  }
  if (chain == Chain::kVe) join(done_[index_of(Chain::kVe)], &clock);
  if (one.op().engine == Engine::kMx && chain != Chain::kLdw) {
    join(done_[index_of(Chain::kCol)], &clock);
    const MxMm* const mm = std::get_if<MxMm>(&one.body);
    if (mm != nullptr && mm->swap) join(done_[index_of(Chain::kLdw)], &clock);
  }
  return clocks_[index] = clock;
}

void Order::done(uint32_t index) {
  const int chain = index_of(chain_of(program_[index]));
  Clock& clock = clocks_[index];
  join(done_[chain], &clock);
  clock[chain] = std::max(clock[chain], index + 1);
  done_[chain] = index;
  for (const uint8_t id : program_[index].signal) {
    if (id != kNoToken) semaphores_[id].given[chain].push_back(index);
  }
}

}  // namespace lw::npu
