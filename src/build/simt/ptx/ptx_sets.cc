// Set n is of mbarrier n mod `ring`, in whose phase n / ring only the first item arrives, which has
// said before how many bytes its copies bring. A set whose mbarrier nobody has used yet counts as
// landed: the phase before the first is over.
#include "src/build/simt/ptx/ptx_sets.h"

#include <algorithm>
#include <bit>

#include "src/kernel/groups.h"
#include "src/kernel/ops.h"

namespace lw {

bool PtxSets::find(const std::vector<Stmt>& body) {
  if (!has_op(body, Op::kBoxCopy)) return false;
  (void)flow(body, 0);
  ring_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, most_))));
  return true;
}

int64_t PtxSets::flow(const std::vector<Stmt>& list, int64_t sets) {
  for (const Stmt& s : list) {
    if (is_op(s, Op::kCommit)) {
      most_ = std::max(most_, ++sets);
    } else if (is_op(s, Op::kLanded)) {
      int64_t& before = before_[&s];
      before = std::max(before, sets);
      sets = std::min(sets, s.integer);
    } else if (s.kind == Stmt::Kind::kFor) {
      int64_t after = flow(s.body, sets);
      while (after > sets && most_ <= kMostOnTheirWay) {
        sets = after;
        after = flow(s.body, sets);
      }
      sets = after;
    } else {
      sets = std::max(flow(s.body, sets), flow(s.otherwise, sets));
    }
  }
  return sets;
}

void PtxSets::begin(const std::string& ring) {
  start_ = ring;
  first_ = code_.flag();
  count_ = code_.word();
  open_ = code_.word();
  const std::string item = code_.word();
  code_.line("mov.u32 ", item, ", %tid.x");
  code_.line("setp.eq.u32 ", first_, ", ", item, ", 0");
  for (int64_t i = 0; i < ring_; ++i) {
    code_.line("@", first_, " mbarrier.init.shared.b64 [", start_, "+", 8 * i, "], 1");
  }
  code_.line("fence.mbarrier_init.release.cluster");
  code_.line("fence.proxy.async");         // the engine sees them too
  code_.line("bar.sync 0");
  code_.line("mov.b32 ", count_, ", 0");
  find_open();
}

void PtxSets::find_open() {
  const std::string number = code_.word();
  code_.line("and.b32 ", number, ", ", count_, ", ", ring_ - 1);
  code_.line("mad.lo.s32 ", open_, ", ", number, ", 8, ", start_);
}

void PtxSets::commit() {
  code_.line("@", first_, " mbarrier.arrive.shared.b64 _, ", open());
  code_.line("add.s32 ", count_, ", ", count_, ", 1");
  find_open();
}

void PtxSets::wait(const Stmt& landed) {
  const auto before = before_.find(&landed);
  const int64_t most = before == before_.end() ? 0 : before->second;
  const std::string set = code_.word(), number = code_.word(), at = code_.word(),
                    parity = code_.word(), done = code_.flag();
  for (int64_t ago = most; ago > landed.integer; --ago) {
    const std::string again = code_.label();
    code_.line("sub.s32 ", set, ", ", count_, ", ", ago);
    code_.line("and.b32 ", number, ", ", set, ", ", ring_ - 1);
    code_.line("mad.lo.s32 ", at, ", ", number, ", 8, ", start_);
    code_.line("shr.u32 ", parity, ", ", set, ", ", std::countr_zero(static_cast<uint64_t>(ring_)));
    code_.line("and.b32 ", parity, ", ", parity, ", 1");
    code_.place(again);
    code_.line("mbarrier.try_wait.parity.shared.b64 ", done, ", [", at, "], ", parity);
    code_.line("@!", done, " bra ", again);
  }
}

}  // namespace lw
