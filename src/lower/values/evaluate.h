// Expressions to registers, at the points of one register tile. Internal to src/lower.
//
// Straight-line code with common subexpressions shared: a value is computed once for all points
// that agree in the axes it depends on. So in C[i, j] += A[i, k] * B[k, j] on a tile of rows i and
// lanes j, A's element is loaded once a row and broadcast, B's vector once for all rows.
//
// What an expression is at a point is decided here. How it gets there is said by parts that know no
// expressions: Registers (arithmetic), Addressing (where an element lies), Memory (loads, stores),
// and for reads of several points together transpose.h, slide.h and dot.h, at borders border.h.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "src/expr/expr.h"
#include "src/lower/values/memory.h"
#include "src/lower/values/slide.h"

namespace lw::lowering {

class Evaluator {
 public:
  // Values are shared for as long as the evaluator lives: one straight-line block. A copy knows
  // what was computed before, for a branch. `stage`, `vars`: Memory's.
  Evaluator(Emitter& e, int stage, std::vector<int> vars)
      : e_(e), memory_(e, stage, std::move(vars)) {}

  Memory& memory() { return memory_; }
  Registers& registers() { return memory_.registers(); }

  Value evaluate(const Expr& expr, const Point& point);
  // An integer expression, affine in loop variables and the lane wherever possible.
  Index index(const Expr& expr, const Point& point);
  // What `expr` is at the point, without the `where`s whose conditions are known to hold there.
  const Expr& unguarded(const Expr& expr, const Point& point);
  // Points that one dot product takes, in order: `expr` at all of them, of element type `type`, the
  // points' elements together for each lane.
  Value grouped(const Expr& expr, absl::Span<const Point> points, Type type);

  // Reads of `tensor` at the point itself yield `value` from now on (epilogues).
  void overlay(int tensor, Value value) { overlay_[tensor] = value; }
  // Points around one at which loads of a vector may be made together.
  void set_tile(const std::vector<Point>* points) { tile_ = points; }
  // Reads at points that do not exist may yield any element that does, not zero: nobody looks.
  void leave_beyond() { beyond_is_zero_ = false; }

 private:
  using Key = std::vector<int64_t>;        // of an expression's value at a point
  uint64_t dependencies(const Expr& expr);
  Key cache_key(const Expr& expr, const Point& point);

  bool holds_pad(const Expr& expr) const;
  Value compute(const Expr& expr, const Point& point);
  Value axis_value(const Expr& axis, Type type, const Point& point);
  Truth condition(const Expr& expr, const Point& point);
  Truth decide(const Expr& expr, const Point& point);
  Truth compare(ExprOp op, const Index& a, const Index& b, int lanes);
  Index index_of(const Expr& expr, const Point& point);
  Index index_of_value(const Expr& expr, const Point& point);

  // What a read finds. `in_bounds`: whether it is inside its tensor; null: it is.
  Value read(const Expr& expr, const Point& point, Truth* in_bounds);
  Value read_inside(const Storage& storage, const Expr& expr, const std::vector<Index>& local,
                    Truth inside, bool settled, const Point& point);
  // Together with what other points of the tile read; no register where that saves nothing.
  Value read_with_tile(const Storage& storage, const Expr& expr, const Index& address,
                       const Point& point);
  // What it reads at those points of the tile that count.
  std::vector<Neighbour> neighbours(const Storage& storage, const Expr& expr, const Index& address,
                                    absl::FunctionRef<bool(const Point&)> counts);
  // The address of a read at a point, where all its lanes are inside the tensor.
  std::optional<Index> address_inside(const Storage& storage, const Expr& expr, const Point& point);

  Emitter& e_;
  Memory memory_;
  Slides slides_;
  const std::vector<Point>* tile_ = nullptr;
  bool beyond_is_zero_ = true;
  absl::flat_hash_map<Key, Value> cache_;
  absl::flat_hash_map<Key, Truth> truths_;
  absl::flat_hash_map<Key, Index> indices_;
  absl::flat_hash_map<const ExprNode*, uint64_t> dependencies_;
  absl::flat_hash_map<int, Value> overlay_;
};

}  // namespace lw::lowering
