// Set n is of mbarrier n mod `ring`, in whose phase n / ring only who copies arrives, which has
// said before how many bytes its copies bring. A set whose mbarrier nobody has used yet counts as
// landed: the phase before the first is over.
//
// A producer's kLanded m is of mbarrier m mod `meetings` of the second ring, where each sub-group
// of all groups into whose memory it copies arrives once. Parities tell two phases apart: so items may
// not come to kLanded m + meetings before the producer has left m. They wait there for all but n
// of the sets that are committed before, of which there is one at least between two kLandeds: with more
// than n + 1 mbarriers one is missing that comes after m. Where no set is committed between two
// kLandeds, all meet.
#include "src/build/simt/ptx/ptx_sets.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_join.h"
#include "schedules/targets/matrix_shape.h"
#include "src/kernel/groups.h"
#include "src/kernel/ops.h"

namespace lw {
namespace {

int64_t ring_of(int64_t size) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, size))));
}

}  // namespace

bool PtxSets::find(const std::vector<Stmt>& body, bool producer, const Shared& shared) {
  producer_ = producer;
  if (!has_op(body, Op::kBoxCopy)) return false;
  (void)flow(body, {}, shared);
  ring_ = ring_of(most_);
  if (!producer_) return true;
  int64_t newest = 0;
  for (const auto& [landed, before] : before_) newest = std::max(newest, landed->integer);
  meetings_ = ring_of(newest + 2);
  return true;
}

void PtxSets::land(const Stmt& landed, Flow* now) {
  int64_t& before = before_[&landed];
  before = std::max(before, now->waited);
  const bool all = !producer_ || !now->committed || all_meet_.contains(&landed);
  if (all) all_meet_.insert(&landed);
  if (!all && now->stored) items_meet_.insert(&landed);
  now->begun = now->waited;                // who has come here has yet to wait
  now->waited = std::min(now->waited, landed.integer);
  if (all) now->begun = now->waited;
  now->committed = all;
  now->stored = false;
}

PtxSets::Flow PtxSets::flow(const std::vector<Stmt>& list, Flow now, const Shared& shared) {
  const auto either = [](const Flow& a, const Flow& b) {
    return Flow{std::max(a.waited, b.waited), std::max(a.begun, b.begun),
                a.committed && b.committed, a.stored || b.stored};
  };
  for (const Stmt& s : list) {
    if (is_op(s, Op::kCommit)) {
      ++now.waited, ++now.begun;
      now.committed = true;
      most_ = std::max(most_, now.begun);
    } else if (is_op(s, Op::kLanded)) {
      land(s, &now);
    } else if (is_op(s, Op::kBarrier)) {
      now = {now.waited, now.waited};
    } else if (is_op(s, Op::kStore)) {
      now.stored = now.stored || shared(s.buffer);
    } else if (s.kind == Stmt::Kind::kFor) {
      Flow first = now;
      for (bool more = true; more && most_ <= kMostOnTheirWay;) {
        now = flow(s.body, first, shared);
        const Flow again = either(first, now);
        more = !(again == first);
        first = again;
      }
    } else if (s.kind == Stmt::Kind::kIf) {
      now = either(flow(s.body, now, shared), flow(s.otherwise, now, shared));
    }
  }
  return now;
}

void PtxSets::meet() {
  if (cluster_ == 1) return code_.line("bar.sync 0");
  code_.line("barrier.cluster.arrive.release.aligned");
  code_.line("barrier.cluster.wait.acquire.aligned");
}

std::string PtxSets::produces() {
  const std::string item = code_.word(), beyond = code_.flag();
  code_.line("mov.u32 ", item, ", %tid.x");
  code_.line("setp.ge.u32 ", beyond, ", ", item, ", ", items_);
  return beyond;
}

void PtxSets::begin(const std::string& rings, int64_t items, int64_t cluster) {
  start_ = rings;
  items_ = items;
  cluster_ = cluster;
  first_ = code_.flag();
  count_ = code_.word();
  open_ = code_.word();
  const std::string item = code_.word();
  code_.line("mov.u32 ", item, ", %tid.x");
  code_.line("setp.eq.u32 ", first_, ", ", item, ", ", producer_ ? items : 0);
  for (int64_t i = 0; i < ring_ + meetings_; ++i) {
    const int64_t arrivals = i < ring_ ? 1 : items / kMatrixItems * cluster;
    code_.line("@", first_, " mbarrier.init.shared.b64 [", start_, "+", 8 * i, "], ", arrivals);
  }
  code_.line("fence.mbarrier_init.release.cluster");
  code_.line("fence.proxy.async");         // the engine sees them too
  meet();
  code_.line("mov.b32 ", count_, ", 0");
  find_open();
  if (cluster_ > 1) {
    rank_ = code_.word();
    code_.line("mov.u32 ", rank_, ", %cluster_ctarank");
  }
  if (!producer_) return;
  // Of a sub-group item i arrives in the cluster's group i.
  const std::string lane = code_.word();
  met_ = code_.word();
  arrives_ = code_.flag();
  arrivals_ = code_.word();
  code_.line("mov.b32 ", met_, ", 0");
  code_.line("mov.u32 ", lane, ", %laneid");
  code_.line("setp.lt.u32 ", arrives_, ", ", lane, ", ", cluster_);
  code_.line("add.s32 ", arrivals_, ", ", start_, ", ", 8 * ring_);
  if (cluster_ == 1) return;
  const std::string group = code_.word(), there = code_.word();
  code_.line("min.u32 ", group, ", ", lane, ", ", cluster_ - 1);
  code_.line("mapa.shared::cluster.u32 ", there, ", ", arrivals_, ", ", group);
  arrivals_ = there;
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
  if (role_ != Role::kItems) code_.line("@", first_, " mbarrier.arrive.shared.b64 _, [", open_, "]");
  code_.line("add.s32 ", count_, ", ", count_, ", 1");
  if (role_ != Role::kItems) find_open();
}

PtxSets::Phase PtxSets::phase(const std::string& number, const std::string& ring, int64_t size) {
  const std::string slot = code_.word();
  Phase found = {code_.word(), code_.word()};
  code_.line("and.b32 ", slot, ", ", number, ", ", size - 1);
  code_.line("mad.lo.s32 ", found.at, ", ", slot, ", 8, ", ring);
  code_.line("shr.u32 ", found.parity, ", ", number, ", ",
             std::countr_zero(static_cast<uint64_t>(size)));
  code_.line("and.b32 ", found.parity, ", ", found.parity, ", 1");
  return found;
}

void PtxSets::wait_for(const Phase& phase, std::string_view order) {
  const std::string again = code_.label(), over = code_.flag();
  code_.place(again);
  code_.line("mbarrier.try_wait.parity", order, ".shared.b64 ", over, ", [", phase.at, "], ",
             phase.parity);
  code_.line("@!", over, " bra ", again);
}

void PtxSets::wait(const Stmt& landed) {
  const auto before = before_.find(&landed);
  const int64_t most = before == before_.end() ? 0 : before->second;
  for (int64_t ago = most; ago > landed.integer; --ago) {
    const std::string set = code_.word();
    code_.line("sub.s32 ", set, ", ", count_, ", ", ago);
    wait_for(phase(set, start_, ring_), "");
  }
}

// All items of the sub-group have done what comes before.
void PtxSets::arrive() {
  const std::string slot = code_.word(), at = code_.word();
  code_.line("and.b32 ", slot, ", ", met_, ", ", meetings_ - 1);
  code_.line("mad.lo.s32 ", at, ", ", slot, ", 8, ", arrivals_);
  code_.line("bar.warp.sync -1");
  const char* const there = cluster_ > 1 ? ".release.cluster.shared::cluster" : ".shared";
  code_.line("@", arrives_, " mbarrier.arrive", there, ".b64 _, [", at, "]");
  code_.line("add.s32 ", met_, ", ", met_, ", 1");
}

void PtxSets::landed(const Stmt& landed) {
  const bool all = all_meet_.contains(&landed);
  if (role_ == Role::kProducer) {
    if (all) return meet();
    const std::string ring = code_.word();
    code_.line("add.s32 ", ring, ", ", start_, ", ", 8 * ring_);
    wait_for(phase(met_, ring, meetings_), cluster_ > 1 ? ".acquire.cluster" : "");
    return code_.line("add.s32 ", met_, ", ", met_, ", 1");
  }
  if (!all) arrive();
  wait(landed);
  if (all) return meet();
  if (items_meet_.contains(&landed)) code_.line("bar.sync 1, ", items_);
}

}  // namespace lw
