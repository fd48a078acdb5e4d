// A pure map at the root, and what is computed at its rows.
//
// Elementwise over contiguous tensors: all axes become one. Otherwise lanes along the last axis; where an
// operand is contiguous along another axis (transpose), that axis forms the rows of a square register
// tile which is transposed in registers, and the tiles are blocked for the cache.
#include <algorithm>

#include "schedules/rules/sketch.h"

namespace lw::rules {
namespace {

// Every read is at the map's own point, in a tensor of the same shape.
bool elementwise(const Nest& nest, int stage) {
  const Tensor& tensor = nest.program->tensors[nest.stages[stage].tensor];
  if (tensor.axes.size() < 2 || !nest.stages[stage].epilogue.empty()) return false;
  for (int t : body_reads(nest, stage)) {
    if (nest.program->tensors[t].shape != tensor.shape) return false;
    if (!reads_at_prefix(nest, stage, t, static_cast<int>(tensor.axes.size()))) return false;
  }
  return true;
}

bool hosts_others(const Nest& nest, int stage) {
  return std::any_of(nest.stages.begin(), nest.stages.end(),
                     [&](const Stage& s) { return s.place == Place::kAt && s.host == stage; });
}

}  // namespace

void tile_map(Draft& d, int stage) {
  const std::string name = d.nest.stages[stage].name;
  const bool hosts = hosts_others(d.nest, stage);
  const bool attached = d.nest.stages[stage].place == Place::kAt;
  if (d.nest.stages[stage].axes.empty()) return;

  std::vector<std::string> axes;
  for (size_t a = 0; a < d.nest.stages[stage].axes.size(); ++a)
    axes.push_back(loop_of(d.nest.stages[stage], static_cast<int>(a)));
  if (!hosts && !attached && elementwise(d.nest, stage)) {
    while (d.nest.stages[find_stage(d.nest, name)].loops.size() > 1 && !d.failed) {
      const Stage& s = d.nest.stages[find_stage(d.nest, name)];
      fixed(d, "fuse", {name, s.loops[0].name, s.loops[1].name});
    }
    if (d.failed) return;
    axes = {d.nest.stages[find_stage(d.nest, name)].loops[0].name};
  }

  // An operand that is contiguous along another axis than the last: rows along that axis.
  std::string rows;
  if (axes.size() > 1) {
    const int last = static_cast<int>(axes.size()) - 1;
    for (const Access& access : accesses(d.nest, find_stage(d.nest, name))) {
      for (int a = 0; a < last; ++a) {
        if (access.affine && access.stride[a] == 1 && std::abs(access.stride[last]) > 1) rows = axes[a];
      }
    }
  }
  std::vector<std::string> names{name};
  if (!rows.empty()) names.push_back(rows);
  names.push_back(axes.back());
  open(d, "register_tile", names);
  if (d.failed) return;
  if (!rows.empty()) {
    const std::string r = rows + ".0", c = axes.back() + ".0";
    open(d, "split", {name, r}, {1, 0});
    open(d, "split", {name, c}, {1, 0});
    fixed(d, "reorder", {name, r + ".0", c + ".0", r + ".1", c + ".1"}, {0});
    open(d, "reorder", {name, r + ".0", c + ".0"}, {0});
    open(d, "reorder", {name, r + ".1", c + ".1"}, {0});
  } else if (axes.size() == 1 && d.nest.threads > 1) {
    // One long loop: chunks for the threads.
    open(d, "split", {name, axes[0] + ".0"}, {1, 0});
  }
  if (attached) {
    // While a row is computed, the next one can be on its way.
    for (int t : body_reads(d.nest, find_stage(d.nest, name))) {
      const Tensor& tensor = d.nest.program->tensors[t];
      if (tensor.role == Role::kInput && tensor.shape.size() > 1) open(d, "prefetch", {name, tensor.name}, {0});
    }
    return;
  }
  if (d.nest.threads > 1) open(d, "parallel", {name}, {0, 0});
  for (int t : body_reads(d.nest, find_stage(d.nest, name))) {
    const Tensor& tensor = d.nest.program->tensors[t];
    if (!hosts && tensor.role == Role::kInput && elements(tensor) > 4096) {
      open(d, "prefetch", {name, tensor.name}, {0});
    }
  }
  if (d.nest.program->tensors[d.nest.stages[find_stage(d.nest, name)].tensor].role == Role::kOutput) {
    open(d, "non_temporal", {name}, {0});
  }
}

}  // namespace lw::rules
