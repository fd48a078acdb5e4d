// A stage as an operation over a box of points, in the terms of MLIR's linalg: every operand is read
// at indices that are sums of multiples of the axes, from a tensor that holds just what is read.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/nest.h"
#include "src/export/packing.h"
#include "src/expr/expr.h"

namespace lw {

// What is read of a tensor through one map. Each of its dimensions is first made to begin where the
// operation's first index is and to end at its last: elements are added, with `fill`, or cut off.
struct Operand {
  int tensor;                              // of Nest::program
  int copy = -1;                           // of Nest::stages: read instead, as it lies; -1: none
  bool in_blocks = false;                  // the dimensions are those of Operation::shape
  std::vector<int64_t> from;               // the tensor's shape; two that one index runs through are one
  std::vector<std::vector<int64_t>> factors;  // of each dimension, by axis; none is negative
  std::vector<int64_t> low, high;          // elements added before and after; below 0: cut off
  Expr fill;                               // a constant; null: nothing is added, or nobody sees it
  std::vector<int64_t> shape;              // of what is read
  bool operator==(const Operand& other) const;
};

// Whether elements are added, so that what is read must be made first.
bool has_margin(const Operand& operand);
// A box of what is read.
struct Slab {
  std::vector<int64_t> offsets, shape;
};
// The added elements: before and behind each dimension's others, corners in several. Then what is
// copied.
std::vector<Slab> margin_slabs(const Operand& operand);
Slab inside_slab(const Operand& operand);

// An axis of a stage as one or several of the operation's, outermost first: over blocks of so many
// points, over smaller ones in each, and over the points of these.
struct CutAxis {
  std::vector<int> axes;
  std::vector<int64_t> units;              // points in a step of each; the last is 1
};

struct Operation {
  int stage;                               // of Nest::stages
  std::vector<CutAxis> cuts;               // by axis of the stage
  std::vector<NestAxis> axes;              // the stage's, cut; of partial sums, the own part of it
  Expr value;                              // over these axes
  std::vector<int64_t> shape;              // of the result: the tensor's, cut where axes are
  std::vector<int> result_axes;            // by dimension of the result
  // Of a reduction in lanes: one of the axes, none of the reduction any more. There is a sum for each
  // of its points; these are the last dimension of what is summed, and added up in the end. -1: none.
  int lanes = -1;
  std::vector<Packing> packings;           // of what it reads
  std::vector<Operand> operands;
  // Which of them a kRead or kPad node of `value` is. What is not here is gathered: its indices are
  // computed at each point, and its tensor is read wherever they lead.
  std::map<const ExprNode*, int> operand_of;
  std::vector<int> hidden_axes;            // that no map has as an index of its own
  bool gathers = false;
  // A reduction that no map finishes: its results are copied to where they belong, so that, as
  // others, it is filled and summed in the loops of what comes after it.
  bool copies_out = false;
};

// kFailedPrecondition: "NAME: why" it cannot be one.
absl::StatusOr<Operation> make_operation(const Nest& nest, int stage);

// The copies that the operation reads; of those of all, which are made once. They live as long as
// the operations do.
std::vector<const Packing*> packings_read(const Operation& operation);
std::vector<const Packing*> made_once(const std::vector<Operation>& operations);

}  // namespace lw
