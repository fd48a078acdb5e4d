// Fusion at rows: what lies between a stage and the results it reads row by row.
//
// The group of a host is grown backwards from it: a stage joins when every reader of its result is
// in the group (or fused onto a member) and reads it at the group's leading axes, the rows. So the
// row loop of the host can hold all of it: for softmax the maximum and the sum; for attention the
// scores, their maximum, the exponentials and their sum, in front of the product with V; for two
// matrix products in a row the first. Nothing is computed twice, and between the stages there are
// only the rows of one iteration.
//
// Readers may also take windows of the rows, as a filter along the columns does of what one along
// the rows made. Those a block shares with its neighbours are computed for each, so that such a
// group stands at blocks only.
//
// A product of matrices in the group needs several rows for its register tile: the host's row loop
// is then cut into blocks, whose size is a decision, and the group stands at a block; likewise
// where the host is such a product itself. Attention of
// 12 heads, 512 rows and keys, 64 deep: 512 KB of scores become 2 KB a row.
#include <algorithm>

#include "schedules/space/draft.h"

namespace lw::rules {
namespace {

bool indexed_by_data(const Nest& nest, int reader, int tensor) {
  bool found = false;
  visit(effective_body(nest, reader), [&](const ExprNode& node) {
    if (node.op != ExprOp::kRead || node.index != tensor) return;
    for (const Expr& index : node.args) {
      visit(index, [&](const ExprNode& e) { found = found || e.op == ExprOp::kRead; });
    }
  });
  return found;
}

int final_tensor(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  return s.epilogue.empty() ? s.tensor : nest.stages[s.epilogue.back()].tensor;
}

struct Group {
  int rows = 0;                            // leading axes shared
  std::vector<int> stages;                 // readers before what they read
  bool complex_out = false;
  bool windows = false;                    // some are read at more rows than one
};

// Whether every read of `tensor` in the stage is at windows over the stage's first `dims` axes, in
// order: at `axis * stride + taps` where the axis has more points than the window has.
bool reads_windows(const Nest& nest, int stage, int tensor, int dims) {
  const std::vector<NestAxis>& axes = nest.stages[stage].axes;
  bool windows = true;
  visit(effective_body(nest, stage), [&](const ExprNode& node) {
    if (node.op != ExprOp::kRead || node.index != tensor) return;
    if (static_cast<int>(node.args.size()) < dims) windows = false;
    for (int d = 0; windows && d < dims; ++d) {
      const IndexForm form = index_form(node.args[d]);
      windows = form.affine && step_of(form, d) > 0;
      int64_t taps = 1;
      for (size_t a = 0; windows && a < axes.size(); ++a) {
        const int64_t step = step_of(form, static_cast<int>(a));
        if (axes[a].reduction) taps += std::abs(step) * (axes[a].extent - 1);
        else if (static_cast<int>(a) != d) windows = step == 0;
      }
      windows = windows && taps < axes[d].extent;
    }
  });
  return windows;
}

// Rows that the readers of the stage's results share with the group; 0: it cannot join. `windows`:
// where asked for, whether windows of them are read.
int shared_rows(const Nest& nest, int stage, int host, const Group& group, bool* windows) {
  const Stage& s = nest.stages[stage];
  std::vector<int> results = {s.tensor};
  for (int e : s.epilogue) results.push_back(nest.stages[e].tensor);
  int rows = group.rows;
  bool read = false;
  for (int tensor : results) {
    for (int user : readers(nest, tensor)) {
      const bool fused = nest.stages[user].place == Place::kEpilogue;
      const int at = fused ? nest.stages[user].host : user;
      if (at == stage) continue;           // its own epilogue
      const bool inside = at == host || std::find(group.stages.begin(), group.stages.end(), at) !=
                                            group.stages.end();
      if (!inside) return 0;
      read = true;
      for (; rows > 0 && !reads_at_prefix(nest, user, tensor, rows); --rows) {
        if (windows == nullptr || !reads_windows(nest, user, tensor, rows)) continue;
        *windows = true;
        break;
      }
    }
  }
  return read ? rows : 0;
}

Group find_group(const Nest& nest, int host, bool complex_out) {
  const Tensor& result = nest.program->tensors[nest.stages[host].tensor];
  Group group;
  // A map's last axis of several points carries its lanes; of a reduction one axis is left for them
  // too. A scalar has none to share.
  group.rows = std::max(0, static_cast<int>(result.axes.size()) - 1);
  while (group.rows > 0 && result.axes[group.rows].extent < 2) --group.rows;
  for (int s = host - 1; s >= 0; --s) {
    const FusionClass kind = fusion_class(nest, s);
    if (kind == FusionClass::kOpaque || nest.stages[s].place != Place::kRoot) continue;
    const bool product = kind == FusionClass::kComplexOut && !is_moment(nest, s, group.rows);
    if (product && !complex_out) continue;
    bool windows = false;
    const int rows = shared_rows(nest, s, host, group, complex_out ? &windows : nullptr);
    if (rows == 0) continue;
    group.windows = group.windows || windows;
    group.rows = rows;
    group.stages.push_back(s);
    group.complex_out = group.complex_out || product;
  }
  return group;
}

}  // namespace

bool is_moment(const Nest& nest, int s, int rows) {
  const Tensor& tensor = nest.program->tensors[nest.stages[s].tensor];
  const int axes = static_cast<int>(tensor.axes.size());
  if (is_map(nest, s) || axes > rows) return false;
  for (const Address& address : addresses(nest, s)) {
    bool reduces = false;
    for (size_t r = 0; r < tensor.reduce_axes.size(); ++r)
      reduces = reduces || uses(address, axes + static_cast<int>(r));
    if (reduces && address.affine && !reused(nest.stages[s], address)) return true;
  }
  return false;
}

FusionClass fusion_class(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const int result = final_tensor(nest, stage);
  const bool asked = nest.program->tensors[result].role == Role::kOutput ||
                     nest.program->tensors[s.tensor].role == Role::kOutput;
  if (asked || s.copy_of >= 0 || s.factored_axis >= 0 || !s.axis_value.empty()) {
    return FusionClass::kOpaque;
  }
  for (int user : readers(nest, result)) {
    if (indexed_by_data(nest, user, result)) return FusionClass::kOpaque;
  }
  if (is_map(nest, stage)) return FusionClass::kInjective;
  return has_reuse(nest, stage) ? FusionClass::kComplexOut : FusionClass::kReduction;
}

bool attach_rows(Draft& d, int host, bool blocks) {
  const Group group = find_group(d.nest, host, blocks);
  if (group.stages.empty() || group.rows == 0) return false;
  std::vector<std::string> names;
  for (int s : group.stages) names.push_back(d.nest.stages[s].name);
  const Stage& h = d.nest.stages[host];
  const std::string host_name = h.name;
  const bool blocked = group.complex_out || group.windows || (blocks && has_reuse(d.nest, host));
  if (blocked) open(d, "split", {host_name, h.loops[group.rows - 1].name}, {1, 0});
  for (const std::string& name : names) fixed(d, "compute_at", {name, host_name}, {group.rows});
  return blocked && !d.failed;
}

bool attach_all(Draft& d, bool blocks) {
  bool any = false;
  for (int s = static_cast<int>(d.nest.stages.size()) - 1; s >= 0 && !is_over(d); --s) {
    if (d.nest.stages[s].place != Place::kRoot || (!blocks && !is_map(d.nest, s))) continue;
    bool stands = false;
    const bool applied = attempt(d, [&](Draft& next) { stands = attach_rows(next, s, blocks); });
    any = any || (applied && stands);
  }
  return any;
}

int loops_around_attached(const Nest& nest, int stage) {
  int loops = 0;
  for (const Stage& other : nest.stages) {
    if (other.place != Place::kAt || other.host != stage || other.copy_of >= 0) continue;
    loops = std::max(loops, find_loop(nest.stages[stage], other.loop) + 1);
  }
  return loops;
}

bool hosts_rows(const Nest& nest, int stage) {
  return nest.stages[stage].place == Place::kRoot && is_map(nest, stage) &&
         loops_around_attached(nest, stage) > 0;
}

bool reduces_rows(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const bool whole = s.place == Place::kRoot && s.copy_of < 0 && s.factored_axis < 0 &&
                     s.axis_value.empty() && loops_around_attached(nest, stage) == 0;
  if (!whole || is_map(nest, stage) || has_reuse(nest, stage) || s.loops.size() < 2) return false;
  const auto reduces = [&](const Loop& loop) { return is_reduction(s, loop); };
  if (std::count_if(s.loops.begin(), s.loops.end(), reduces) != 1) return false;
  const LoopPart& last = s.loops.back().parts[0];
  if (!reduces(s.loops.back()) || last.tile != 1 || s.axes[last.axis].extent < 2) return false;
  const std::vector<Address> read = addresses(nest, stage);
  return std::any_of(read.begin(), read.end(), [&](const Address& address) {
    return address.affine && address.stride[last.axis] == 1;
  });
}

}  // namespace lw::rules
