// Arrays: the cache lines and pages of each tensor that the code inside each loop touches.
//
// The storage of a tensor is a row-major box (a blocked copy: blocks outermost, the position within
// one innermost). A sub-box of it is a number of contiguous runs; their length decides lines,
// pages, how well prefetchers follow, and whether the runs crowd into few sets of a cache: rows a
// multiple of a page apart all start in the same one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cost_model/cpu/analysis.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/expr/expr.h"

namespace lw::cost {
namespace {

// The box in memory that holds a tensor for one stage.
struct Storage {
  absl::InlinedVector<double, 6> shape;
  int block_dim = -1;
  double block = 0;
  int group_dim = -1;
  double group = 1;
  double pad = 0;
  double element_bytes = 4;
  bool local = false;
  int from = 0;
};

const StageCost* find_cost(const Analysis& analysis, int stage) {
  for (const StageCost& cost : analysis.stages) {
    if (cost.stage == stage) return &cost;
  }
  return nullptr;
}

// Where stage `s` (a copy, or what computes `tensor`) keeps its result.
Storage storage_of(const Nest& nest, const Analysis& analysis, int s, int tensor) {
  Storage storage;
  const Tensor& t = nest.program->tensors[tensor];
  for (int64_t size : t.shape) storage.shape.push_back(static_cast<double>(size));
  storage.element_bytes = size_of(t.type);
  if (s < 0) return storage;
  const Stage& stage = nest.stages[s];
  if (stage.copy_of >= 0 && stage.block > 0) {
    storage.block_dim = stage.block_dim;
    storage.block = static_cast<double>(stage.block);
  }
  if (stage.copy_of >= 0 && stage.group > 0) {
    storage.group_dim = stage.group_dim;
    storage.group = static_cast<double>(stage.group);
  }
  if (stage.wide) storage.element_bytes = size_of(Type::kF32);
  storage.pad = static_cast<double>(stage.pad);
  const int runs = stage.place == Place::kEpilogue ? stage.host : s;
  const StageCost* cost = find_cost(analysis, runs);
  if (cost == nullptr || nest.stages[runs].place != Place::kAt) return storage;
  if (stage.copy_of < 0 && t.role == Role::kOutput) return storage;
  if (nest.stages[runs].along >= 0) return storage;
  storage.local = true;
  storage.from = cost->depth;
  for (size_t d = 0; d < storage.shape.size() && d < nest.stages[runs].axes.size(); ++d) {
    if (runs_along(nest.stages[runs], d))
      storage.shape[d] = std::min(storage.shape[d], cost->box_at(cost->depth)[d]);
  }
  return storage;
}

Storage storage_read(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                     const Access& access) {
  if (!access.epilogue) {
    for (const Stage::Copy& copy : nest.stages[cost.stage].copies) {
      if (copy.tensor == access.tensor)
        return storage_of(nest, analysis, copy.stage, access.tensor);
    }
  }
  return storage_of(nest, analysis, stage_of_tensor(nest, access.tensor), access.tensor);
}

double stride_in(const Storage& storage, const Access& access, int axis) {
  const double group = storage.group_dim >= 0 ? storage.group : 1;
  const bool blocked = storage.block_dim >= 0;
  double stride = blocked ? group * storage.block + storage.pad : group, sum = 0;
  const int last = static_cast<int>(storage.shape.size()) - 1;
  for (int d = last; d >= 0; --d) {
    const double step = stride_of(access.dims[d], axis);
    if (d == storage.block_dim) {
      sum += step * group;
    } else if (d == storage.group_dim) {
      sum += step;                         // within a group
      stride *= std::ceil(storage.shape[d] / group);
    } else {
      sum += step * stride;
      stride *= storage.shape[d] + (d == last && !blocked ? storage.pad : 0);
    }
  }
  return sum;
}

struct Shape {
  double elements = 1, run = 1, lines = 1, crowded = 1, pages = 1, row_stride = 0;
  bool conflict = false;
};

// Of the sub-box `box` of the storage.
Shape shape_of(const Storage& storage, const double* box, double bytes, const Target& target) {
  const double page = static_cast<double>(cpu(target).page_bytes);
  absl::InlinedVector<std::pair<double, double>, 8> dims;  // (touched, size), outermost first
  const bool blocked = storage.block_dim >= 0;
  if (blocked) {
    dims.push_back({std::ceil(box[storage.block_dim] / storage.block),
                    std::ceil(storage.shape[storage.block_dim] / storage.block)});
  }
  for (int d = 0; d < static_cast<int>(storage.shape.size()); ++d) {
    const double group = d == storage.group_dim ? storage.group : 1;
    if (d != storage.block_dim) {
      dims.push_back({std::ceil(std::min(box[d], storage.shape[d]) / group),
                      std::ceil(storage.shape[d] / group)});
    }
  }
  if (blocked) dims.push_back({std::min(box[storage.block_dim], storage.block), storage.block});
  if (storage.group_dim >= 0)
    dims.push_back({std::min(box[storage.group_dim], storage.group), storage.group});
  Shape shape;
  int d = static_cast<int>(dims.size()) - 1;
  double stride = 1;
  for (bool whole = true; d >= 0 && whole; --d) {
    shape.run *= dims[d].first;
    stride *= dims[d].second;
    whole = dims[d].first >= dims[d].second;
  }
  shape.elements = shape.run;
  const double run_bytes = shape.run * bytes;
  const double set_lines = page / kLineBytes;
  double offsets = std::max(1.0, std::ceil(run_bytes / kLineBytes)), rows = 1;
  shape.row_stride = stride * bytes;
  bool several = false;
  for (; d >= 0; stride *= dims[d--].second) {
    const double count = dims[d].first;
    if (count <= 1) continue;
    const int64_t step = static_cast<int64_t>(stride * bytes);
    if (!several) shape.row_stride = stride * bytes;
    several = true;
    rows *= count;
    const int64_t common = std::gcd(step, static_cast<int64_t>(page));
    shape.conflict = shape.conflict || common == static_cast<int64_t>(page);
    offsets = std::min(
        set_lines, offsets * std::min(count, page / std::max<double>(static_cast<double>(common),
                                                                     kLineBytes)));
  }
  shape.elements *= rows;
  // A run that is no multiple of a line starts anywhere in one.
  const double ragged =
      shape.row_stride > 0 && std::fmod(shape.row_stride, kLineBytes) != 0 && several ? 0.5 : 0;
  double per_row = std::max(run_bytes / kLineBytes, 0.0);
  per_row = std::ceil(per_row) + ragged;
  // Neighbouring short rows share lines.
  if (several && shape.row_stride < kLineBytes) per_row = shape.row_stride / kLineBytes;
  shape.lines = std::max(1.0, rows * per_row);
  if (!several) offsets = set_lines;
  const double excess = std::max(0.0, shape.lines - costs(target).kept_ways * offsets);
  shape.crowded = shape.lines + excess * (set_lines / std::min(offsets, set_lines) - 1);
  const double span =
      several && shape.row_stride < page ? shape.row_stride : std::max(run_bytes, page);
  shape.pages = std::max(
      1.0, rows * (several ? (shape.row_stride < page ? span / page : std::ceil(run_bytes / page))
                           : std::ceil(run_bytes / page)));
  return shape;
}

// By how much the reads of the tensor lie apart in dimension `d`, beyond what each covers: of a
// stencil's, by its width.
double spread(const StageCost& cost, const Access& access, size_t d) {
  int64_t first = access.dims[d].constant, last = first;
  for (const Access& other : cost.body.accesses) {
    if (other.tensor != access.tensor || other.epilogue != access.epilogue) continue;
    first = std::min(first, other.dims[d].constant);
    last = std::max(last, other.dims[d].constant);
  }
  return static_cast<double>(last - first);
}

// Adds what the access touches inside each position.
void fill(const Nest& nest, const StageCost& cost, const Access& access, const Storage& storage,
          Array& array) {
  const std::vector<int64_t>& whole = nest.program->tensors[access.tensor].shape;
  if (array.lines.empty()) {
    const size_t positions = static_cast<size_t>(array.until) + 1;
    array.lines.assign(positions, 0);
    array.crowded.assign(positions, 0);
    array.pages.assign(positions, 0);
    array.run_bytes.assign(positions, HUGE_VAL);
  }
  const size_t rank = storage.shape.size();
  const int axes = cost.axes(), local_from = std::min(storage.from, array.until);
  absl::InlinedVector<double, 6> box(rank, 1.0);
  Shape shape;
  for (int p = 0; p <= array.until; ++p) {
    bool changed = p == 0;
    for (int a = 0; a < axes && !changed; ++a) {
      const bool moves = (access.axes >> (a & 63) & 1) != 0;
      changed = moves && cost.share_at(p)[a] != cost.share_at(p - 1)[a];
    }
    if (changed) {
      for (size_t d = 0; d < rank; ++d) {
        const double size = static_cast<double>(whole[d]);
        const double own = extent(access.dims[d], cost.share_at(p), size);
        box[d] = array.written ? own : std::min(size, own + spread(cost, access, d));
      }
      shape = shape_of(storage, box.data(), array.element_bytes, *nest.target);
    }
    array.run_bytes[p] = std::min(array.run_bytes[p], shape.run * array.element_bytes);
    // A local buffer is the same place in every iteration of the loops around its stage.
    if (p < local_from) continue;
    for (int same = p == local_from ? 0 : p; same <= p; ++same) {
      array.lines[same] = std::max(array.lines[same], shape.lines);
      array.crowded[same] = std::max(array.crowded[same], shape.crowded);
      array.pages[same] = std::max(array.pages[same], shape.pages);
    }
  }
  array.row_stride_bytes = shape.row_stride;
  array.reused_rows_conflict = array.reused_rows_conflict || shape.conflict;
}

void add_store(const Nest& nest, const Analysis& analysis, StageCost& cost, int s, int tensor) {
  const Tensor& t = nest.program->tensors[tensor];
  const Storage storage = storage_of(nest, analysis, s, tensor);
  Array array;
  array.tensor = tensor;
  array.element_bytes = storage.element_bytes;
  array.written = true;
  array.read_back = cost.accumulates_in_memory;
  array.local = storage.local;
  array.from = storage.from;
  array.until = cost.run;
  array.input_or_output = t.role != Role::kTemp && nest.stages[cost.stage].copy_of < 0;
  fill(nest, cost, result_access(nest, cost, tensor), storage, array);
  cost.arrays.push_back(std::move(array));
}

}  // namespace

Access result_access(const Nest& nest, const StageCost& cost, int tensor) {
  const Stage& stage = nest.stages[cost.stage];
  Access access;
  access.tensor = tensor;
  const size_t rank = nest.program->tensors[tensor].shape.size();
  const Tensor& own = nest.program->tensors[stage.tensor];
  const bool shifted =
      stage.factored_axis >= 0 && stage.axes.size() < own.axes.size() + own.reduce_axes.size();
  for (size_t d = 0; d < rank; ++d) {
    IndexForm form;
    if (!stage.axis_value.empty()) {
      // Fused axes: a quotient and a remainder, which a box of the fused axis covers from the
      // inside.
      visit(stage.axis_value[d], [&](const ExprNode& e) {
        if (e.op == ExprOp::kAxis) form.terms.push_back({e.index, 1});
      });
      const Expr& value = stage.axis_value[d];
      if (value->op == ExprOp::kDiv && !form.terms.empty())
        form.terms[0].divisor = value->args[1]->integer;
      if (value->op == ExprOp::kMod && !form.terms.empty())
        form.terms[0].modulus = value->args[1]->integer;
    } else if (shifted && d == 0) {
      form.terms.push_back({stage.factored_axis, 1, 1, stage.factored_tile});
    } else {
      form.terms.push_back({static_cast<int>(d) - shifted, 1});
    }
    access.axes |= axes_of(form);
    access.dims.push_back(std::move(form));
  }
  return access;
}

double storage_stride(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                      const Access& access, int axis) {
  return stride_in(storage_read(nest, analysis, cost, access), access, axis);
}

double result_stride(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                     const Access& result, int axis) {
  const bool copy = nest.stages[cost.stage].copy_of >= 0;
  const int stage = copy ? cost.stage : stage_of_tensor(nest, result.tensor);
  return stride_in(storage_of(nest, analysis, stage, result.tensor), result, axis);
}

void find_arrays(const Nest& nest, Analysis& analysis) {
  for (StageCost& cost : analysis.stages) {
    const Stage& stage = nest.stages[cost.stage];
    cost.arrays.reserve(cost.body.accesses.size() + 1);
    for (const Access& access : cost.body.accesses) {
      const Tensor& t = nest.program->tensors[access.tensor];
      const Storage storage = storage_read(nest, analysis, cost, access);
      auto known = std::find_if(cost.arrays.begin(), cost.arrays.end(), [&](const Array& array) {
        return array.tensor == access.tensor && array.epilogue == access.epilogue;
      });
      if (known == cost.arrays.end()) {
        Array array;
        array.tensor = access.tensor;
        array.element_bytes = storage.element_bytes;
        array.epilogue = access.epilogue;
        array.local = storage.local;
        array.from = storage.from;
        array.input_or_output = t.role != Role::kTemp && !storage.local;
        array.until = access.epilogue ? cost.run : cost.tile;
        cost.arrays.push_back(std::move(array));
        known = cost.arrays.end() - 1;
      }
      fill(nest, cost, access, storage, *known);
    }
    if (stage.copy_of >= 0) {
      add_store(nest, analysis, cost, cost.stage, stage.copy_of);
      continue;
    }
    const bool own =
        stage.epilogue.empty() || nest.program->tensors[stage.tensor].role == Role::kOutput;
    if (own) add_store(nest, analysis, cost, cost.stage, stage.tensor);
    for (int e : stage.epilogue) {
      const bool stored = e == stage.epilogue.back() ||
                          nest.program->tensors[nest.stages[e].tensor].role == Role::kOutput;
      if (stored) add_store(nest, analysis, cost, e, nest.stages[e].tensor);
    }
  }
}

}  // namespace lw::cost
