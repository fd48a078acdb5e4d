// Results that functions are applied to, in turn. Of straight code ptxas computes as much as it can
// before the first store: of a function of each of a tile's results several values are then there
// for each at once, more than there are registers. So a result waits here for one that has been
// made a few before: by a dependence that ptxas does not see through, and which changes nothing.
// Internal to src/build/simt/ptx.
#pragma once

#include <string>
#include <vector>

#include "src/build/simt/ptx/ptx_code.h"
#include "src/build/simt/ptx/ptx_lanes.h"
#include "src/kernel/kernel.h"

namespace lw {

// Of one list of statements, while it is printed. All that is given outlives it.
class PtxTurns {
 public:
  PtxTurns(const Kernel& kernel, PtxCode* code, PtxLanes* lanes, const std::vector<Stmt>& list);

  // Ahead of the i-th statement's text, and behind it.
  void before(size_t i);
  void after(size_t i);

 private:
  struct Made {
    std::string word;                      // of what is stored
    int lanes;                             // made before it, with its own
  };

  void wait(int reg);

  const Kernel& kernel_;
  PtxCode& code_;
  PtxLanes& lanes_;
  const std::vector<Stmt>& list_;
  std::vector<std::vector<int>> waiting_;  // by statement; empty: nothing waits in the list
  std::vector<Made> made_;
  size_t next_ = 0;                        // of them: what is to be waited for
  std::string zero_;                       // "": none yet
};

}  // namespace lw
