// Nests as text, for people and golden tests:
//   C[i: 100, j: 64, k: 32 sum]
//     parallel i.0: 13 of 8, mask
//       k.0: 8 of 4
//         unroll k.1: 4
// One loop a line: kind unless serial, name, trips, tile unless 1, tail unless irrelevant.
#include "schedules/nest.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr std::string_view kKindWords[] = {"", "unroll ", "vector ", "parallel ", "item "};
constexpr std::string_view kTailWords[] = {"compose", "mask", "shift"};
constexpr std::string_view kReduceWords[] = {"", "sum", "prod", "max", "min"};

std::string axes_text(const Nest& nest, const Stage& stage) {
  const Reduce reduce =
      stage.copy_of >= 0 ? Reduce::kNone : nest.program->tensors[stage.tensor].reduce;
  std::string text = "[";
  for (const NestAxis& axis : stage.axes) {
    if (text.size() > 1) text += ", ";
    text += concat(axis.name, ": ", axis.extent);
    if (axis.reduction) text += concat(" ", kReduceWords[static_cast<int>(reduce)]);
  }
  return text + "]";
}

std::string place_text(const Nest& nest, const Stage& stage) {
  switch (stage.place) {
    case Place::kRoot: return "";
    case Place::kAt: return concat(stage.along >= 0 ? " with " : " at ",
                                   nest.stages[stage.host].name, " ", stage.loop);
    case Place::kInlined:
      return stage.host < 0 ? " inlined" : concat(" inlined in ", nest.stages[stage.host].name);
    case Place::kEpilogue: return concat(" epilogue of ", nest.stages[stage.host].name);
    case Place::kPrepack: return " prepacked";
  }
  return "";
}

std::string loop_text(const Stage& stage, int position) {
  const Loop& loop = stage.loops[position];
  std::string text =
      concat(kKindWords[static_cast<int>(loop.kind)], loop.name, ": ", trips(stage, position));
  bool partial = false, tiled = false;
  std::string tiles;
  for (size_t p = 0; p < loop.parts.size(); ++p) {
    tiles += concat(p ? " x " : " of ", loop.parts[p].tile);
    tiled = tiled || loop.parts[p].tile != 1;
    partial = partial || range_of(stage, position, static_cast<int>(p)) % loop.parts[p].tile != 0;
  }
  if (tiled) text += tiles;
  if (partial || loop.tail != Tail::kCompose)
    text += concat(", ", kTailWords[static_cast<int>(loop.tail)]);
  return text;
}

}  // namespace

std::string print(const Nest& nest) {
  std::string text;
  for (const Stage& stage : nest.stages) {
    text += concat(stage.name, axes_text(nest, stage), place_text(nest, stage));
    if (stage.copy_of >= 0) text += concat(", copies ", nest.program->tensors[stage.copy_of].name);
    if (stage.block > 0) text += concat(", blocks of ", stage.block, " along d", stage.block_dim);
    if (stage.group > 0) text += concat(", groups of ", stage.group, " along d", stage.group_dim);
    if (stage.wide) text += ", as f32";
    if (stage.pad > 0) text += concat(", padded by ", stage.pad);
    if (stage.swizzled) text += ", swizzled";
    if (stage.boxed) text += ", as boxes";
    if (stage.variant >= 0) {
      text += concat(", by instruction ", stage.variant, ", held ",
                     stage.held.empty() ? "whole" : concat("at ", stage.held));
    }
    if (stage.items > stage.sub_group) text += concat(", by groups of ", stage.items);
    if (stage.sub_group > 0) text += concat(", by sub-groups of ", stage.sub_group);
    if (stage.cluster > 1) text += concat(", in clusters of ", stage.cluster);
    if (stage.producer) text += ", with a producer";
    if (stage.memory >= 0) text += concat(" in memory ", stage.memory);
    if (stage.slots > 1) text += concat(" x", stage.slots);
    if (stage.dot_axis >= 0) {
      text += concat(", dot products of ", stage.dot_group, " along ",
                     stage.axes[stage.dot_axis].name);
    }
    if (stage.matrix >= 0) {
      const std::string over =
          stage.rows_over < 0 ? "" : concat(stage.axes[stage.rows_over].name, "*");
      text += concat(", products of matrices by ", nest.target->atoms[stage.matrix].name, " along ",
                     over, stage.axes[stage.matrix_axes[0]].name, ", ",
                     stage.axes[stage.matrix_axes[1]].name, ", ",
                     stage.axes[stage.matrix_axes[2]].name, stage.made ? ", a made by items" : "");
    }
    if (stage.factored_axis >= 0) {
      text += concat(", partial over ", stage.axes[stage.factored_axis].name, " by ",
                     stage.factored_tile);
    }
    for (const Stage::Copy& copy : stage.copies) {
      text += concat(", ", nest.program->tensors[copy.tensor].name, " from ",
                     nest.stages[copy.stage].name);
    }
    for (const Stage::Prefetch& prefetch : stage.prefetches) {
      text += concat(", prefetches ", nest.program->tensors[prefetch.tensor].name, " by ",
                     prefetch.distance, prefetch.loop > 0 ? " blocks" : "");
    }
    if (stage.non_temporal) text += ", non-temporal";
    if (stage.slide) text += ", slides vectors";
    text += "\n";
    if (stage.place == Place::kInlined || stage.place == Place::kEpilogue) continue;
    std::string indent = "  ";
    for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l, indent += "  ") {
      text += concat(indent, loop_text(stage, l), "\n");
    }
  }
  return text;
}

}  // namespace lw
