// What every implementation of a program must do: the operations it must execute and the bytes it
// must move. Lower counts, as the bound of a kernel's time is made of them.
//
// An operation is required once for every combination of operands that can matter:
//   equal subexpressions of a body are one; one that an axis does not change is done once for all
//   values of that axis; one whose result pads and selects drop (multiply by zero, replace by the
//   reduction's identity) is not done, nor what makes an element that no reader reads, nor what
//   no input changes. Arithmetic on axes alone is addressing, and so are a gather's indices.
// A byte is required once if anything reads it. Of a gather through an input's elements those
// places count that indices drawn at random reach; through computed ones, a single one.
//
// Values; functions are thread-safe and deterministic, linear in the nodes of bodies, and take some
// tenths of a second at most (what is too large to count is sampled, and errs towards less).
#pragma once

#include <vector>

#include "loopwright/bounds.h"
#include "loopwright/type.h"

namespace lw {

struct Program;

Flops count_flops(const Program& program);

// Bytes that every implementation must move: of inputs what is read, each output once.
double compulsory_bytes(const Program& program);

// Instructions of one kind, in lanes. Signs, casts, selects and the logic of masks are left out:
// they can be part of others; of integers all but the steps of reductions and quotients by data, as
// exact algebra merges, narrows and drops them. Subtractions count as add; min, abs, comparisons
// and rounding as max; powers, and quotients by what makes them products, as mul where the right
// operand is constant.
struct OperationCount {
  ExprOp op = ExprOp::kAdd;
  Type type = Type::kF32;                  // of the operands; of products and integers before they
                                           // are widened
  bool adds = false;                       // a kMul whose product is added: one instruction
  double count = 0;
};

struct Work {
  Flops flops;
  std::vector<OperationCount> operations;      // at most one of each kind
  double bytes_read = 0, bytes_written = 0;
  double gathered = 0;                     // elements read one by one, at places that data says
};
Work count_work(const Program& program);

}  // namespace lw
