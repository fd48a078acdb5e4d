#include "src/export/packing.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "schedules/access.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// Whether the axis can be cut into such blocks.
bool divides(const Nest& nest, int reader, int axis, int64_t block) {
  const Stage& stage = nest.stages[reader];
  return stage.axis_value.empty() && stage.factored_axis < 0 && cuts_at_blocks(stage, axis, block);
}

// Adds to the blocks of an axis, or does not, where some would lie across others.
bool add_block(std::vector<int64_t>& blocks, int64_t block) {
  for (int64_t other : blocks) {
    if (std::max(other, block) % std::min(other, block) != 0) return false;
  }
  if (std::find(blocks.begin(), blocks.end(), block) != blocks.end()) return true;
  blocks.insert(std::upper_bound(blocks.begin(), blocks.end(), block, std::greater<>()), block);
  return true;
}

// By quotients and remainders of axes in its body: groups of channels.
std::vector<std::vector<int64_t>> divided_axes(const Nest& nest, int stage) {
  std::vector<std::vector<int64_t>> blocks(nest.stages[stage].axes.size());
  visit(effective_body(nest, stage), [&](const ExprNode& e) {
    if (!is_part_of_axis(e)) return;
    const int axis = e.args[0]->index;
    const int64_t block = e.args[1]->integer;
    if (divides(nest, stage, axis, block)) add_block(blocks[axis], block);
  });
  return blocks;
}

// Why a copy in blocks is not made; "": it is.
std::string why_not(const Nest& nest, int reader, const Stage& copy, const Packing& packing) {
  const int64_t extent = nest.program->tensors[packing.tensor].shape[packing.dim];
  if (packing.axis < 0) return "its blocks are not along one axis";
  if (packing.block < copy.block && packing.block % stage_lanes(nest, reader) != 0)
    return "its last block is less than the others, and has a part of a vector";
  if (nest.stages[reader].axes[packing.axis].extent != extent ||
      !divides(nest, reader, packing.axis, packing.block))
    return "loops cut across its blocks";
  return "";
}

// What is known without its reader's other copies.
Packing packing_of(const Nest& nest, int reader, const Stage::Copy& served) {
  const Stage& copy = nest.stages[served.stage];
  const Tensor& tensor = nest.program->tensors[served.tensor];
  Packing packing{served.stage, served.tensor};
  packing.once = copy.place == Place::kPrepack && tensor.role == Role::kInput;
  packing.shape = tensor.shape;
  if (copy.place == Place::kAt && copy.host == reader) {
    packing.depth = find_loop(nest.stages[reader], copy.loop) + 1;
  } else if (copy.place == Place::kAt) {
    packing.fidelity = {Grade::kApproximate, "all of it is copied, before the loops"};
  }
  if (copy.group > 0) packing.fidelity = {Grade::kLost, "groups for dot products are not made"};
  if (copy.wide)
    packing.fidelity = {Grade::kLost, "16-bit floats are widened where they are read"};
  if (copy.block == 0 || !is_made(packing)) return packing;
  packing.dim = copy.block_dim;
  packing.block = std::gcd(copy.block, tensor.shape[packing.dim]);
  packing.axis = index_axis(nest, reader, served.tensor, packing.dim);
  if (packing.block < copy.block) {
    packing.fidelity = {Grade::kApproximate,
                        concat("in blocks of ", packing.block, ": others do not divide it")};
  }
  if (const std::string why = why_not(nest, reader, copy, packing); !why.empty())
    packing.fidelity = {Grade::kLost, why};
  packing.shape.erase(packing.shape.begin() + packing.dim);
  packing.shape.insert(packing.shape.begin(), tensor.shape[packing.dim] / packing.block);
  packing.shape.push_back(packing.block);
  return packing;
}

}  // namespace

bool cuts_at_blocks(const Stage& stage, int axis, int64_t block) {
  int64_t range = stage.axes[axis].extent;
  if (range % block != 0) return false;
  for (const Loop& loop : stage.loops) {
    for (const LoopPart& part : loop.parts) {
      if (part.axis != axis) continue;
      const int64_t larger = std::max(part.tile, block);
      if (range > block && larger % std::min(part.tile, block) != 0) return false;
      range = part.tile;
    }
  }
  return true;
}

bool is_part_of_axis(const ExprNode& e) {
  return (e.op == ExprOp::kDiv || e.op == ExprOp::kMod) && e.type == Type::kI64 &&
         e.args[0]->op == ExprOp::kAxis && is_const(e.args[1]) && e.args[1]->integer > 1;
}

std::vector<Packing> packings_of(const Nest& nest, int stage) {
  std::vector<Packing> packings;
  if (nest.stages[stage].copies.empty()) return packings;
  std::vector<std::vector<int64_t>> blocks = divided_axes(nest, stage);
  for (const Stage::Copy& served : nest.stages[stage].copies) {
    Packing packing = packing_of(nest, stage, served);
    if (packing.block > 0 && is_made(packing) && !add_block(blocks[packing.axis], packing.block))
      packing.fidelity = {Grade::kLost, "its blocks lie across others"};
    packings.push_back(std::move(packing));
  }
  return packings;
}

std::vector<std::vector<int64_t>> axis_blocks(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.place == Place::kEpilogue) {
    std::vector<std::vector<int64_t>> blocks = axis_blocks(nest, s.host);
    blocks.resize(s.axes.size());          // the host's reductions come last
    return blocks;
  }
  std::vector<std::vector<int64_t>> blocks = divided_axes(nest, stage);
  for (const Packing& packing : packings_of(nest, stage)) {
    if (packing.block > 0 && is_made(packing)) add_block(blocks[packing.axis], packing.block);
  }
  return blocks;
}

}  // namespace lw
