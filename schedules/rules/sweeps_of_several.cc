// Two reductions over one operand, each element of which each of them reads once, go over it in one
// sweep: the first is computed along an axis of the second's, block by block, and what it has loaded
// is still near when the second comes (A x and y A; means and variances of columns). A sketch of its
// own: what the second adds up in memory, once a block, may cost more than a sweep.
#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

bool sweeps(const Nest& nest, int s) {
  const Stage& stage = nest.stages[s];
  return stage.place == Place::kRoot && stage.copy_of < 0 && stage.factored_axis < 0 &&
         stage.axis_value.empty() && !is_map(nest, s);
}

// Axes of both that move them through a common operand alike, as many points of it; -1: none. Of
// several the one with the longest way: its blocks are whole runs of the operand's rows.
int common_axis(const Nest& nest, int first, int second) {
  const Stage &p = nest.stages[first], &q = nest.stages[second];
  const std::vector<Address> by_second = addresses(nest, second);
  int best = -1;
  int64_t longest = 0;
  for (const Address& a : addresses(nest, first)) {
    if (!a.affine || reused(p, a)) continue;
    for (const Address& b : by_second) {
      if (b.tensor != a.tensor || !b.affine || reused(q, b)) continue;
      for (size_t x = 0; x < p.axes.size(); ++x) {
        for (size_t y = 0; y < q.axes.size(); ++y) {
          const int64_t way = std::abs(a.stride[x]);
          const bool same = !p.axes[x].reduction && a.stride[x] == b.stride[y] &&
                            p.axes[x].extent == q.axes[y].extent && p.axes[x].extent > 1;
          if (same && way > longest) best = static_cast<int>(y), longest = way;
        }
      }
    }
  }
  return best;
}

// The second's loops over blocks of the axis come first, and the first stands there.
void join(Draft& d, const std::string& first, const std::string& second, int axis) {
  const int host = find_stage(d.nest, second);
  const std::string loop = loop_of(d.nest.stages[host], axis);
  open(d, "split", {second, loop}, {1, 0});
  if (d.failed) return;
  std::vector<std::string> order = {second, loop + ".0"};
  for (const Loop& other : d.nest.stages[host].loops) {
    if (other.name != loop + ".0") order.push_back(other.name);
  }
  fixed(d, "reorder", order, {0});
  fixed(d, "compute_with", {first, second}, {1});
}

bool join_any(Draft& d) {
  for (int q = static_cast<int>(d.nest.stages.size()) - 1; q > 0; --q) {
    for (int p = q - 1; p >= 0 && sweeps(d.nest, q); --p) {
      if (!sweeps(d.nest, p)) continue;
      const int axis = common_axis(d.nest, p, q);
      const std::string first = d.nest.stages[p].name, second = d.nest.stages[q].name;
      if (axis >= 0 && attempt(d, [&](Draft& next) { join(next, first, second, axis); })) return true;
    }
  }
  return false;
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  if (draft.maps == Maps::kInlineCheap) {
    Draft one = draft;
    if (join_any(one)) {
      one.suffix += ", one sweep";
      drafts.push_back(std::move(one));
    }
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& sweeps_of_several() {
  static constexpr Rule rule = {"sweeps_of_several", Phase::kAttach, branch, nullptr, nullptr,
                                "cpu"};
  return rule;
}

}  // namespace lw::rules
