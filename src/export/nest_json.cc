// A stage says only what is particular to it: what it has not, packing or a group of threads, is
// absent, not zero.
#include "src/export/nest_json.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/print.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLoopWords[] = {"serial", "unroll", "vector", "parallel", "item"};
constexpr const char* kTailNames[] = {"compose", "mask", "shift"};
constexpr const char* kReduceNames[] = {"none", "sum", "prod", "max", "min"};
constexpr const char* kRoleNames[] = {"input", "temporary", "output"};
constexpr const char* kPlaceNames[] = {"root", "at", "inlined", "epilogue", "prepack"};

template <class Word, size_t kWords>
const char* word(const char* const (&words)[kWords], Word which) {
  return words[static_cast<size_t>(which)];
}

Json tensors_json(const Program& program) {
  Json all = Json::array();
  for (const Tensor& tensor : program.tensors) {
    Json json = {{"name", tensor.name},
                 {"type", std::string(type_name(tensor.type))},
                 {"shape", tensor.shape},
                 {"role", word(kRoleNames, tensor.role)}};
    if (tensor.is_const) json["const"] = true;
    if (tensor.reduce != Reduce::kNone) json["reduce"] = word(kReduceNames, tensor.reduce);
    all.push_back(std::move(json));
  }
  return all;
}

// Axes by names of which no two are equal, as where all of a reduction was factored.
std::vector<Axis> named_axes(const Stage& stage) {
  std::vector<Axis> axes;
  for (const NestAxis& axis : stage.axes) {
    std::string name = axis.name;
    const auto is_taken = [&](const Axis& other) { return other.name == name; };
    for (int n = 2; std::any_of(axes.begin(), axes.end(), is_taken); ++n)
      name = concat(axis.name, "_", n);
    axes.push_back({name, axis.extent});
  }
  return axes;
}

// What a stage evaluates is over its tensor's axes.
std::vector<Axis> body_axes(const Tensor& tensor) {
  std::vector<Axis> axes = tensor.axes;
  axes.insert(axes.end(), tensor.reduce_axes.begin(), tensor.reduce_axes.end());
  return axes;
}

Json axes_json(const Stage& stage, const std::vector<Axis>& axes) {
  Json all = Json::array();
  for (size_t a = 0; a < axes.size(); ++a) {
    all.push_back({{"name", axes[a].name},
                   {"extent", axes[a].extent},
                   {"reduction", stage.axes[a].reduction}});
  }
  return all;
}

Json part_json(const Stage& stage, const std::vector<Axis>& axes, int loop, int part) {
  const LoopPart& of = stage.loops[loop].parts[part];
  const int64_t range = range_of(stage, loop, part);
  return {{"axis", axes[of.axis].name},
          {"tile", of.tile},
          {"range", range},
          {"trips", (range + of.tile - 1) / of.tile}};
}

Json loops_json(const Stage& stage, const std::vector<Axis>& axes) {
  Json all = Json::array();
  for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l) {
    const Loop& loop = stage.loops[l];
    Json json = {{"name", loop.name},
                 {"kind", word(kLoopWords, loop.kind)},
                 {"trips", trips(stage, l)},
                 {"tail", word(kTailNames, loop.tail)}};
    // A loop over one axis says so in its own fields; a fused one, of each axis, slowest first.
    if (loop.parts.size() == 1) {
      json.update(part_json(stage, axes, l, 0));
    } else {
      json["fused"] = Json::array();
      for (int p = 0; p < static_cast<int>(loop.parts.size()); ++p)
        json["fused"].push_back(part_json(stage, axes, l, p));
    }
    all.push_back(std::move(json));
  }
  return all;
}

Json place_json(const Nest& nest, const Stage& stage, const std::vector<Axis>& axes) {
  Json json = {{"kind", word(kPlaceNames, stage.place)}};
  if (stage.host >= 0) json["host"] = nest.stages[stage.host].name;
  if (!stage.loop.empty()) json["loop"] = stage.loop;
  if (stage.along >= 0) json["along"] = axes[stage.along].name;
  return json;
}

Json copy_json(const Nest& nest, const Stage& stage) {
  // How many of its reader's loops are around it.
  const bool inside = stage.place == Place::kAt;
  const int depth = inside ? find_loop(nest.stages[stage.host], stage.loop) + 1 : 0;
  Json json = {{"of", nest.program->tensors[stage.copy_of].name}, {"depth", depth}};
  if (stage.block > 0) json["block_dim"] = stage.block_dim, json["block"] = stage.block;
  if (stage.group > 0) json["group_dim"] = stage.group_dim, json["group"] = stage.group;
  if (stage.pad > 0) json["pad"] = stage.pad;
  json["wide"] = stage.wide;
  if (stage.swizzled) json["swizzled"] = true;
  if (stage.boxed) json["boxed"] = true;
  return json;
}

Json register_tile_json(const Stage& stage, const std::vector<Axis>& axes) {
  const int begin = tile_begin(stage);
  Json points = Json::object();
  const std::vector<int64_t> extents = inner_extents(stage, begin);
  for (size_t a = 0; a < extents.size(); ++a) points[axes[a].name] = extents[a];
  return {{"loop", begin}, {"accumulate_from_loop", run_begin(stage)}, {"points", points}};
}

// Of machines of many threads and of managed memories.
void add_groups(const Nest& nest, const Stage& stage, const std::vector<Axis>& axes, Json& json) {
  if (stage.items > 0) json["items"] = stage.items;
  if (stage.sub_group > 0) json["sub_group"] = stage.sub_group;
  if (stage.cluster > 1) json["cluster"] = stage.cluster;
  if (stage.producer) json["producer"] = true;
  if (stage.memory >= 0) json["memory"] = stage.memory;
  if (stage.slots > 1) json["slots"] = stage.slots;
  if (stage.variant >= 0) json["instruction"] = {{"variant", stage.variant}, {"held", stage.held}};
  if (stage.matrix < 0) return;
  Json along = Json::array();
  for (int axis : stage.matrix_axes) along.push_back(axes[axis].name);
  json["matrix"] = {{"atom", nest.target->atoms[stage.matrix].name}, {"along", along}};
  if (stage.rows_over >= 0) json["matrix"]["rows_over"] = axes[stage.rows_over].name;
  if (stage.made) json["matrix"]["made"] = true;
}

Json reads_json(const Nest& nest, const Stage& stage) {
  Json all = Json::array();
  for (int tensor : stage.body->reads) {
    Json json = {{"tensor", nest.program->tensors[tensor].name}};
    for (const Stage::Copy& copy : stage.copies) {
      if (copy.tensor == tensor) json["from"] = nest.stages[copy.stage].name;
    }
    for (const Stage::Prefetch& prefetch : stage.prefetches) {
      if (prefetch.tensor != tensor) continue;
      json["prefetch"] = {{"distance", prefetch.distance}, {"blocks", prefetch.loop > 0}};
    }
    all.push_back(std::move(json));
  }
  return all;
}

Json stage_json(const Nest& nest, const Stage& stage) {
  const Program& program = *nest.program;
  const std::vector<Axis> axes = named_axes(stage);
  Json json = {{"name", stage.name},
               {"tensor", program.tensors[stage.tensor].name},
               {"place", place_json(nest, stage, axes)},
               {"axes", axes_json(stage, axes)}};
  if (!stage.axis_value.empty()) {
    json["axis_values"] = Json::array();
    for (const Expr& value : stage.axis_value)
      json["axis_values"].push_back(print_expr(value, program, axes));
  }
  if (stage.factored_axis >= 0) {
    json["partial"] = {{"axis", axes[stage.factored_axis].name}, {"tile", stage.factored_tile}};
  }
  json["loops"] = loops_json(stage, axes);
  json["register_tile"] = register_tile_json(stage, axes);
  if (stage.copy_of >= 0) {
    json["copy"] = copy_json(nest, stage);
  } else {
    const Tensor& tensor = program.tensors[stage.tensor];
    json["body"] = print_expr(stage.body->value, program, body_axes(tensor));
    json["reads"] = reads_json(nest, stage);
  }
  json["epilogues"] = Json::array();
  for (int epilogue : stage.epilogue) json["epilogues"].push_back(nest.stages[epilogue].name);
  if (stage.dot_axis >= 0)
    json["dot"] = {{"axis", axes[stage.dot_axis].name}, {"group", stage.dot_group}};
  json["non_temporal"] = stage.non_temporal;
  if (stage.slide) json["slide"] = true;
  add_groups(nest, stage, axes, json);
  return json;
}

}  // namespace

nlohmann::ordered_json nest_json(const Nest& nest) {
  Json json = {{"version", kNestJsonVersion},
               {"program", nest.program->name},
               {"target", nest.target->name},
               {"threads", nest.threads},
               {"error_growth", nest.error_growth},
               {"tensors", tensors_json(*nest.program)}};
  json["stages"] = Json::array();
  for (const Stage& stage : nest.stages) json["stages"].push_back(stage_json(nest, stage));
  return json;
}

}  // namespace lw
