// Set n is of mbarrier n mod `ring`, in whose phase n / ring only the first item arrives, which has
// said before how many bytes its copies bring. A set whose mbarrier nobody has used yet counts as
// landed: the phase before the first is over.
#include "src/build/simt/ptx/ptx_sets.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_join.h"
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

void PtxSets::meet() {
  if (!cluster_) return code_.line("bar.sync 0");
  code_.line("barrier.cluster.arrive.release.aligned");
  code_.line("barrier.cluster.wait.acquire.aligned");
}

void PtxSets::begin(const std::string& ring, bool cluster) {
  start_ = ring;
  cluster_ = cluster;
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
  meet();
  code_.line("mov.b32 ", count_, ", 0");
  find_open();
  if (!cluster_) return;
  rank_ = code_.word();
  code_.line("mov.u32 ", rank_, ", %cluster_ctarank");
}

// a + rank * factor.
std::string PtxSets::with_rank(const std::string& a, int64_t factor) {
  std::string sum = code_.word();
  code_.line("mad.lo.s32 ", sum, ", ", rank_, ", ", factor, ", ", a);
  return sum;
}

void PtxSets::copy(const PtxBuffers::Box& box, const Block& block,
                   std::vector<std::string> coordinates) {
  std::string place = box.place.base, to_all, mask;
  if (box.place.bytes != 0) {
    place = code_.word();
    code_.line("add.s32 ", place, ", ", box.place.base, ", ", box.place.bytes);
  }
  if (box.slices > 1) {                    // one's own slice, for all
    std::string& first = coordinates[static_cast<size_t>(box.dim)];
    first = with_rank(first, block.extents[box.dim] / box.slices);
    place = with_rank(place, box.bytes / box.slices);
    const std::string groups = code_.half();
    code_.line("mov.b16 ", groups, ", ", (1 << box.slices) - 1);
    to_all = ".multicast::cluster";
    mask = ", " + groups;
  }
  std::reverse(coordinates.begin(), coordinates.end());  // the innermost first
  code_.line("@", first_, " mbarrier.expect_tx.relaxed.cta.shared.b64 [", open_, "], ", box.bytes);
  code_.line("@", first_, " cp.async.bulk.tensor.", uint64_t{coordinates.size()},
             "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", to_all, " [", place,
             "], [", box.map, ", {", absl::StrJoin(coordinates, ", "), "}], [", open_, "]", mask);
}

void PtxSets::find_open() {
  const std::string number = code_.word();
  code_.line("and.b32 ", number, ", ", count_, ", ", ring_ - 1);
  code_.line("mad.lo.s32 ", open_, ", ", number, ", 8, ", start_);
}

void PtxSets::commit() {
  code_.line("@", first_, " mbarrier.arrive.shared.b64 _, [", open_, "]");
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
