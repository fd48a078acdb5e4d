// Which instructions are certain to be done before another begins, whatever anything takes: vector
// clocks over what program order and tokens guarantee. Not thread-safe.
//
// An engine begins its instructions in order, and mostly ends them so; but on MX an LDW, a COL or a
// short MM may be done before an older fold of another kind, so that there are more queues of
// things done (`Chain`) than engines. Then
//   begun(j)  follows begun of the one before on its engine, and done of every signal that its
//             waits must have taken: the n-th token taken from a semaphore is, of each chain that
//             signals it, at least the (n - those of other chains)-th one signalled;
//             VE: done of the VE before; MX.MM, MX.MMOS, MX.COL: done of MX.COL's before;
//             MX.MM with swap: done of the MX.LDW before; all behind a SYNC: done of its engines
//   done(j)   follows begun(j) and done of the one before in its chain
// How many descriptors or queue entries there are is no guarantee: it is the machine's, not the
// program's.
#pragma once

#include <array>
#include <vector>

#include "src/npu/isa/isa.h"

namespace lw::npu {

enum class Chain : uint8_t { kLd, kLdw, kMm, kMmos, kCol, kVe, kSt };
inline constexpr int kChains = 7;
// REQUIRES: not of the dispatcher.
Chain chain_of(const Instruction& instruction);
Engine engine_of(Chain chain);

// Of each chain, 1 + the last instruction that is done.
using Clock = std::array<uint32_t, kChains>;

class Order {
 public:
  explicit Order(const Program& program);

  // REQUIRES: called for what a simulation did, in the order of its time: every begin and every
  // done. Returns what is done by then.
  const Clock& begin(uint32_t index);
  void done(uint32_t index);

 private:
  struct Signals {                         // of a semaphore
    std::array<std::vector<uint32_t>, kChains> given;  // by whom, in order
    std::array<int64_t, kChains> total = {};           // of the whole program
    int64_t all = 0, taken = 0;
  };
  struct Barrier {                         // a SYNC
    std::array<int64_t, kChains> last;     // of each chain it waits for, before it; -1: none
    Clock clock = {};
    bool passed = false;                   // `clock` is known
  };

  void join(int64_t done, Clock* clock) const;         // -1: nothing
  const Clock& passed(size_t barrier);

  const Program& program_;
  std::vector<Clock> clocks_;                          // by instruction: begun, then done
  std::vector<uint32_t> barriers_before_;              // by instruction
  std::vector<Barrier> barriers_;
  std::array<Signals, 64> semaphores_;
  std::array<Clock, kEngines> begun_ = {};             // of the last begun of an engine
  std::array<int64_t, kChains> done_;                  // the last done of a chain; -1: none
};

}  // namespace lw::npu
