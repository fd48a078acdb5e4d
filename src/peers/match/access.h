// How a body reads tensors, in the terms that a library's interface has: strides per axis, and
// values as functions of values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "src/expr/expr.h"

namespace lw {

// A read of `tensor`, its strides in elements per axis of the reader. `offset` is the element that
// all axes at zero read; axes are Tensor::axes followed by Tensor::reduce_axes. Null when an index is
// not linear.
struct LinearRead {
  int tensor = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides;
};
std::optional<LinearRead> linear_read(const Program& program, const ExprNode& read, int axis_count);

// The axis that each index of the read is, -1 where an index is anything but a bare axis.
std::vector<int> bare_axes(const ExprNode& read);

// Strides of a tensor whose last dimension is contiguous.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape);

// Number of the tensor among the program's arguments; -1: it is none.
int argument_of(const Program& program, int tensor);

// The value of `expr` in f64 when every read of tensor t is `value(t)`; NaN for what is not a
// function of reads and constants alone (axes, pads) or not a float.
double evaluate(const Expr& expr, const std::function<double(int tensor)>& value);

// The product of two reads (through casts, in any order) that `expr` is, else nulls.
struct Product {
  Expr left, right;                        // kRead, kPad or kSelect nodes
  Expr condition;                          // where it counts; elsewhere it is zero. Null: everywhere
};
Product product_of_reads(const Expr& expr);

}  // namespace lw
