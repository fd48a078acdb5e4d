// What the tensors of a Program compute: the nodes of the tensor-expression language (README, "The
// language"). A body is an Expr over the tensor's axes and over reads of inputs and of earlier
// tensors. The front end splits nested reductions off, so a body never contains one.
//
// Semantics of Expr (all of them pure):
//   integers wrap; / and % floor, and by zero give 0; float -> int casts round toward zero and
//   saturate (NaN gives 0); int -> narrower int wraps; kRound is half to even;
//   kSelect evaluates only the chosen side; kPad reads args[0] (a kRead) where all its indices are
//   in bounds and is args[1] elsewhere; a kRead whose index itself reads a tensor (gather) is
//   clamped into range in kernels and is an error in the reference.
//   sum/prod accumulate in the tensor's type, which is the accumulator's (f32 for f16 and bf16
//   bodies, i32 for i8, u8, i16); max/min keep the body's.
//
// Everything here is an immutable value; functions are thread-safe and deterministic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "loopwright/program.h"
#include "loopwright/type.h"

namespace lw {

struct ExprNode {
  ExprOp op;
  Type type;                               // of the value; indices are kI64
  int index = -1;                          // kAxis, kRead
  int64_t integer = 0;                     // kConst of integer or bool type
  double number = 0;                       // kConst of float type
  std::vector<Expr> args;
};

// The tensors that `tensor`'s body reads, each once, in order of first occurrence.
std::vector<int> reads_of(const Tensor& tensor);

// The nodes of an expression that a walk has met. What has one owner is reached once, whatever it is
// part of: only nodes that have several are remembered, so walking a tree costs no memory.
class Visited {
 public:
  // Whether `expr` is met for the first time.
  bool first(const Expr& expr) { return expr.use_count() < 2 || met_.insert(expr.get()).second; }

 private:
  absl::flat_hash_set<const ExprNode*> met_;
};

// Calls `visit_node(node)` for every node of `expr`, parents first, each once however often it
// occurs: an Expr is a DAG, and its tree may be exponentially larger.
template <class Visit>
void visit(const Expr& expr, const Visit& visit_node, Visited& visited) {
  if (!visited.first(expr)) return;
  visit_node(*expr);
  for (const Expr& arg : expr->args) visit(arg, visit_node, visited);
}
template <class Visit>
void visit(const Expr& expr, const Visit& visit_node) {
  Visited visited;
  visit(expr, visit_node, visited);
}

inline bool is_zero(const ExprNode& e) {    // the constant 0, of any type
  return e.op == ExprOp::kConst && (is_float(e.type) ? e.number == 0 : e.integer == 0);
}

// Constructors of nodes. They fold constants and the identities x+0, x*1, x*0 (integers only),
// x/1, x%1; types of operands must agree (CHECKed).
Expr make_const(Type type, double value);
Expr make_int(Type type, int64_t value);
Expr make_axis(int axis);                                   // type kI64
Expr make_read(int tensor, Type type, std::vector<Expr> indices);
Expr make_pad(Expr read, Expr fill);
Expr make_select(Expr condition, Expr then_value, Expr else_value);
Expr make_cast(Type type, Expr value);
Expr make_binary(ExprOp op, Expr a, Expr b);
Expr make_unary(ExprOp op, Expr a);

inline bool is_const(const Expr& e) { return e->op == ExprOp::kConst; }
// Whether it takes more than an instruction or two, which look at an argument more than once.
inline bool is_function(ExprOp op) {
  switch (op) {
    case ExprOp::kExp: case ExprOp::kLog: case ExprOp::kSqrt: case ExprOp::kRsqrt:
    case ExprOp::kTanh: case ExprOp::kErf: case ExprOp::kSigmoid: case ExprOp::kPow: return true;
    default: return false;
  }
}
// Whether each index of the read is the axis of that number.
bool reads_own_point(const ExprNode& read);

// `expr` with other arguments, folded as the constructors do.
Expr with_args(const Expr& expr, std::vector<Expr> args);

// `expr` with every kAxis node i replaced by replacement[i] (null keeps it).
// What is shared stays shared.
Expr substitute(const Expr& expr, const std::vector<Expr>& replacement);

// `expr` with every read of tensor i made a read of tensor position[i].
Expr renumber_reads(const Expr& expr, const std::vector<int>& position);

// The value that a reduction starts from: 0, 1, -inf or lowest, +inf or highest.
double identity_float(Reduce reduce);
int64_t identity_int(Reduce reduce, Type type);

// Checks what every Program must satisfy: shapes positive and of matching rank, types agree, reads
// are of earlier tensors, every unprotected read in bounds (by intervals), tensors below 2^40
// elements. kInvalidArgument says which tensor and why.
absl::Status verify(const Program& program);

// The smallest and largest value `index` (an integer Expr) takes when axis i ranges over
// [axis_range[i].lo, axis_range[i].hi]; exact for affine expressions, an enclosure otherwise.
// Reads (gathers) give the whole i64 range.
struct Interval {
  int64_t lo = 0, hi = 0;
};
Interval bounds(const Expr& index, const std::vector<Interval>& axis_range);

}  // namespace lw
