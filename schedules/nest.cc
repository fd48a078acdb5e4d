#include "schedules/nest.h"

#include <algorithm>

#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {

Nest make_nest(std::shared_ptr<const Program> program, std::shared_ptr<const Target> target,
               int threads) {
  Nest nest;
  nest.program = std::move(program);
  nest.target = std::move(target);
  const TargetFamily* family = nest.target->part.family();
  const bool has_units = family != nullptr && family->units != nullptr;
  nest.threads = has_units ? family->units(*nest.target) : threads;
  const std::vector<Tensor>& tensors = nest.program->tensors;
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
    if (tensors[t].role != Role::kInput) nest.stages.push_back(make_stage(*nest.program, t));
  }
  return nest;
}

bool has_fused_axes(const Stage& stage) {
  bool fused = false;
  for (const Expr& value : stage.axis_value) {
    visit(value, [&](const ExprNode& node) {
      fused = fused || node.op == ExprOp::kDiv || node.op == ExprOp::kMod;
    });
  }
  return fused;
}

bool begins_anywhere(const Stage& stage) { return !stage.slide && !stage.non_temporal; }

bool runs_along(const Stage& stage, size_t d) {
  return stage.axis_value.empty() || (stage.axis_value[d]->op == ExprOp::kAxis &&
                                      stage.axis_value[d]->index == static_cast<int>(d));
}

Stage make_stage(const Program& program, int tensor) {
  const Tensor& computed = program.tensors[tensor];
  Stage stage;
  stage.tensor = tensor;
  stage.name = computed.name;
  stage.body = make_body(computed.body);
  for (const Axis& axis : computed.axes) stage.axes.push_back({axis.name, axis.extent, false});
  for (const Axis& axis : computed.reduce_axes)
    stage.axes.push_back({axis.name, axis.extent, true});
  for (int a = 0; a < static_cast<int>(stage.axes.size()); ++a) {
    // The language lets a reduction shadow a spatial axis only in split-off tensors; loops are
    // addressed by name, so the later of two equal names gets a number.
    NestAxis& axis = stage.axes[a];
    const std::string base = axis.name;
    for (int n = 2; find_loop(stage, axis.name) >= 0; ++n) axis.name = concat(base, "_", n);
    stage.loops.push_back({axis.name, {{a, 1}}, LoopKind::kSerial, Tail::kCompose});
  }
  return stage;
}

void insert_stage(Nest& nest, int position, Stage stage) {
  const auto shift = [&](int& index) { index += index >= position; };
  for (Stage& other : nest.stages) {
    shift(other.host);
    for (int& index : other.epilogue) shift(index);
    for (Stage::Copy& copy : other.copies) shift(copy.stage);
  }
  nest.stages.insert(nest.stages.begin() + position, std::move(stage));
}

void insert_tensor(Nest& nest, int position, Tensor tensor) {
  auto program = std::make_shared<Program>(*nest.program);
  std::vector<int> moved;
  for (int t = 0; t < static_cast<int>(program->tensors.size()); ++t)
    moved.push_back(t + (t >= position));
  for (Tensor& later : program->tensors) {
    const std::vector<int> reads = reads_of(later);
    const auto moves = [&](int read) { return read >= position; };
    if (std::any_of(reads.begin(), reads.end(), moves))
      later.body = renumber_reads(later.body, moved);
  }
  program->tensors.insert(program->tensors.begin() + position, std::move(tensor));
  nest.program = std::move(program);
  const auto shift = [&](int& index) { index += index >= position; };
  for (Stage& stage : nest.stages) {
    shift(stage.tensor);
    shift(stage.copy_of);
    for (Stage::Copy& copy : stage.copies) shift(copy.tensor);
    for (Stage::Prefetch& prefetch : stage.prefetches) shift(prefetch.tensor);
    if (stage.body == nullptr) continue;
    const Expr value = renumber_reads(stage.body->value, moved);
    if (value != stage.body->value) stage.body = make_body(value);
  }
}

void insert_partials(Nest& nest, int tensor, Tensor partial) {
  const Axis parts = partial.axes[0];
  insert_tensor(nest, tensor, std::move(partial));
  auto program = std::make_shared<Program>(*nest.program);
  Tensor& whole = program->tensors[tensor + 1];
  const int rank = static_cast<int>(whole.axes.size());
  std::vector<Expr> indices = {make_axis(rank)};
  for (int a = 0; a < rank; ++a) indices.push_back(make_axis(a));
  whole.reduce_axes = {parts};
  whole.body = make_read(tensor, whole.type, std::move(indices));
  nest.program = std::move(program);
}

void insert_combining_stage(Nest& nest, int stage) {
  insert_stage(nest, stage + 1, make_stage(*nest.program, nest.stages[stage].tensor + 1));
  Stage &partial = nest.stages[stage], &whole = nest.stages[stage + 1];
  whole.place = partial.place;
  whole.host = partial.host;
  whole.loop = partial.loop;
  std::swap(partial.epilogue, whole.epilogue);
  std::swap(partial.non_temporal, whole.non_temporal);
  for (int e : whole.epilogue) nest.stages[e].host = stage + 1;
}

int find_stage(const Nest& nest, std::string_view name) {
  for (size_t s = 0; s < nest.stages.size(); ++s) {
    if (nest.stages[s].name == name) return static_cast<int>(s);
  }
  return -1;
}

int find_loop(const Stage& stage, std::string_view name) {
  for (size_t l = 0; l < stage.loops.size(); ++l) {
    if (stage.loops[l].name == name) return static_cast<int>(l);
  }
  return -1;
}

int find_tensor(const Program& program, std::string_view name) {
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].name == name) return static_cast<int>(t);
  }
  return -1;
}

int stage_of_tensor(const Nest& nest, int tensor) {
  for (size_t s = 0; s < nest.stages.size(); ++s) {
    if (nest.stages[s].tensor == tensor && nest.stages[s].copy_of < 0) return static_cast<int>(s);
  }
  return -1;
}

int dealt_axis(const Nest& nest, const Stage& stage) {
  const Stage& host = nest.stages[stage.host];
  return host.loops[find_loop(host, stage.loop)].parts[0].axis;
}

bool is_factored(const Stage& stage, const LoopPart& part) {
  return part.axis == stage.factored_axis && part.tile == stage.factored_tile;
}

bool has_tail(const Stage& stage, Tail tail) {
  return std::any_of(stage.loops.begin(), stage.loops.end(),
                     [tail](const Loop& loop) { return loop.tail == tail; });
}

bool is_reduction(const Stage& stage, const Loop& loop) {
  return std::any_of(loop.parts.begin(), loop.parts.end(), [&](const LoopPart& part) {
    return stage.axes[part.axis].reduction && !is_factored(stage, part);
  });
}

int64_t range_of(const Stage& stage, int loop, int part) {
  const int axis = stage.loops[loop].parts[part].axis;
  int64_t range = stage.axes[axis].extent;
  for (int outer = 0; outer < loop; ++outer) {
    for (const LoopPart& candidate : stage.loops[outer].parts) {
      if (candidate.axis == axis) range = std::min(range, candidate.tile);
    }
  }
  return range;
}

int64_t trips(const Stage& stage, int loop) {
  int64_t product = 1;
  const auto& parts = stage.loops[loop].parts;
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t range = range_of(stage, loop, static_cast<int>(p));
    product *= (range + parts[p].tile - 1) / parts[p].tile;
  }
  return product;
}

int tile_begin(const Stage& stage) {
  int begin = static_cast<int>(stage.loops.size());
  while (begin > 0 && (stage.loops[begin - 1].kind == LoopKind::kUnroll ||
                       stage.loops[begin - 1].kind == LoopKind::kVector)) {
    --begin;
  }
  return begin;
}

int run_begin(const Stage& stage) {
  int begin = tile_begin(stage);
  while (begin > 0 && is_reduction(stage, stage.loops[begin - 1])) --begin;
  return begin;
}

std::vector<int64_t> inner_extents(const Stage& stage, int loop) {
  std::vector<int64_t> extents(stage.axes.size());
  for (size_t a = 0; a < extents.size(); ++a) extents[a] = stage.axes[a].extent;
  for (int outer = 0; outer < loop; ++outer) {
    for (const LoopPart& part : stage.loops[outer].parts) {
      extents[part.axis] = std::min(extents[part.axis], part.tile);
      if (is_factored(stage, part)) extents[0] = 1;
    }
  }
  return extents;
}

absl::Status infeasible(std::string_view why) {
  return absl::FailedPreconditionError(concat("infeasible: ", why));
}

}  // namespace lw
