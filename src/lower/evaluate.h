// Expressions to registers, at the points of one register tile. Internal to src/lower.
//
// Straight-line code with common subexpressions shared: a value is computed once for all points
// that agree in the axes it depends on. So in C[i, j] += A[i, k] * B[k, j] on a tile of rows i and
// lanes j, A's element is loaded once a row and broadcast, B's vector once for all rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "src/lower/emitter.h"

namespace lw::lowering {

// One point (or vector of points) of a stage: the value of every axis of its TENSOR there, and a
// key for each axis that equals another point's key exactly when the values are equal within the
// tile.
struct Point {
  std::vector<Index> axis;
  std::vector<int64_t> key;
  std::vector<bool> varies;                // the axis differs between lanes
  std::vector<Index> valid;                // exists only where all of these are >= 0,
  std::vector<bool> dropped;               // of which these, where they fail, are not stored
  bool bounded = false;                    // the ranges of its axes hold only where it exists
  Chunk chunk;
};

// Whether there is a read anywhere in it.
bool reads_tensor(const Expr& expr);

struct Value {
  int reg = -1;
  int lanes = 1;
};

class Evaluator {
 public:
  // Values are shared for as long as the evaluator lives: one straight-line block.
  // `stage`: whose copies serve reads (and whose prefetches apply, along the loops of `vars`, the
  // innermost last; none: nothing is prefetched).
  Evaluator(Emitter& e, int stage, std::vector<int> vars)
      : e_(e), stage_(stage), vars_(std::move(vars)) {}

  Value evaluate(const Expr& expr, const Point& point);
  // Reads of `tensor` at the point itself yield `value` from now on (epilogues).
  void overlay(int tensor, Value value) { overlay_[tensor] = value; }
  // Points around one at which loads of a strided vector may be made together (see load()).
  void set_tile(const std::vector<Point>* points) { tile_ = points; }

  // 16-bit floats that are only copied stay what they are.
  void keep_raw() { raw_ = true; }

  void store(const Storage& storage, const Tensor& tensor, const Point& point, Value value,
             bool non_temporal);
  Value load(const Storage& storage, int tensor, std::vector<Index> local, const Point& point,
             bool prefetches);
  Index localize(const Storage& storage, size_t dimension, const Index& index, const Point& point);

  // What `expr` is at the point, without the `where`s whose conditions are known to hold there.
  const Expr& unguarded(const Expr& expr, const Point& point);

  // Points that one dot product takes, in order. `expr` at all of them, of element type `type`: the
  // points' elements together for each lane (dot.cc).
  using Group = absl::Span<const Point>;
  Value grouped(const Expr& expr, Group points, Type type);
  // Stores the points' vectors, where their places follow each other for each lane; else false.
  bool store_group(const Storage& storage, const Tensor& tensor, Group points,
                   const std::vector<Value>& values);

  Value broadcast(Value value, int lanes);
  Value immediate(Type type, double number, int64_t integer, int lanes);
  Value unary(ExprOp op, Type type, Value a);
  Value binary(ExprOp op, Type type, Value a, Value b);
  // To the register type of `type`; and to `type` itself, which may be a 16-bit float.
  Value cast(Type type, Value value);
  Value convert(Type type, Value value);
  Value select(Value condition, Value a, Value b);
  // From a point over the stage's axes to one over its tensor's (they differ after whole axes were
  // fused).
  Point tensor_point(const Stage& stage, Point point);
  // The point's validity as a mask of its lanes; -1 where all lanes exist.
  int point_mask(const Point& point);
  Type type_of(Value v) const { return e_.kernel.registers[v.reg].type; }

 private:
  struct Truth {
    std::optional<bool> known;
    Value value;
  };
  Value compute(const Expr& expr, const Point& point);
  Value reciprocal(Value b);
  Truth condition(const Expr& expr, const Point& point);
  Truth decide(const Expr& expr, const Point& point);
  Truth at_least_zero(const Index& index, const Point& point);
  Truth both(Truth a, Truth b);
  Truth lanes_exist(const Point& point);   // the chunk's active lanes
  Truth exists(const Point& point);        // those at which the point is valid
  Index index(const Expr& expr, const Point& point);
  Index index_of(const Expr& expr, const Point& point);
  int64_t most_beyond(const Index& a, const Affine& whole, int64_t most, const Point& point);
  std::optional<Index> divide_blocks(const Index& a, int64_t divisor, bool modulo,
                                     const Point& point);
  Index divide(const Index& a, int64_t divisor, bool modulo, const Point& point);
  Index extreme(ExprOp op, const Index& a, const Index& b, const Point& point);
  int known_quotient(const Index& a, int64_t divisor, int lanes) const;
  Index gather_index(const Expr& expr, const Point& point, int64_t extent);
  Index flatten(const Storage& storage, const std::vector<Index>& local, const Point& point);
  void cancel_quotients(Index& index);
  int vector_index(const Index& index, int lanes);
  int materialize(const Index& index, Type type, int lanes);
  Value transposed_load(const Storage& storage, const Index& address, const Point& point,
                        const Expr& expr);
  // The address of a read at a point, where all its lanes are inside the tensor.
  std::optional<Index> address_inside(const Storage& storage, const Expr& expr, const Point& point);
  // Places of one read of which neighbours overlap (slide.cc).
  struct Overlap {
    int buffer = -1;
    Type type = Type::kF32;
    Affine origin;                         // where a vector is loaded; others are lanes apart
    int64_t first = 0, last = 0;           // from there: elements that exist, the last excluded
    absl::flat_hash_map<int64_t, Value> loaded;  // by their places from the origin
  };
  Value slid_load(const Storage& storage, const Index& address, const Point& point,
                  const Expr& expr);
  void find_overlap(const Storage& storage, const Index& address, const Point& point,
                    const Expr& expr);
  Value load_part(Overlap& overlap, int64_t at, int lanes);
  Value zero_like(Value value);
  Stmt load_statement(int buffer, const Index& address, int lanes, int mask);
  Value emit_load(int buffer, Type type, const Index& address, int lanes, int mask);
  // Where a read at clamped places is one at plain ones (border.cc).
  struct Interior {
    Index address;
    std::vector<Affine> needs;             // where all of these are >= 0
  };
  std::optional<Interior> interior(const Storage& storage, const Expr& read,
                                   std::vector<Index> local, const Point& point);
  Value border_load(int buffer, Type type, const Interior& inside, const Index& address, int lanes,
                    int mask);
  struct Scalar {
    int buffer = -1;
    bool raw = false;
    Affine address;
    Value value;
  };
  Value load_scalar(int buffer, Type type, const Index& address);
  struct Place {
    int buffer = -1;
    Index address;
    bool affine = false;                   // in loop variables and the lane
    bool uniform = true;                   // all indices are
    std::vector<Index> needs;              // there is an element only where all of these are >= 0
  };
  Place place_of(const Expr& read, const Point& point);
  Value load_group(const Expr& read, Group points);
  bool loads_whole(const Expr& read, const Point& point);
  Value interleave(std::vector<Value> values);
  std::optional<int> group_mask(const Point& point, int64_t group,
                                const std::vector<Index>& needs);
  void prefetch(int tensor, int buffer, const Index& address, Type type);
  Value read(const Expr& expr, const Point& point, Truth* in_bounds);
  Value read_inside(const Storage& storage, const Expr& expr, const std::vector<Index>& local,
                    Truth inside, bool settled, const Point& point);
  uint64_t dependencies(const Expr& expr);
  std::vector<int64_t> cache_key(const Expr& expr, const Point& point);
  int varying_lanes(const Expr& expr, const Point& point);

  struct Extreme {
    ExprOp op;                             // kMin, kMax
    int lanes;
    Index a, b, result;
  };
  struct Quotient {
    Index dividend;
    int64_t divisor;
    int lanes;
    bool vector;
    int quotient, remainder;               // variables, or kI64 vector registers
  };

  Emitter& e_;
  int stage_;
  std::vector<int> vars_;
  const std::vector<Point>* tile_ = nullptr;
  absl::flat_hash_map<std::vector<int64_t>, Value> cache_;
  absl::flat_hash_map<std::vector<int64_t>, Truth> truths_;
  absl::flat_hash_map<std::vector<int64_t>, Index> indices_;
  absl::flat_hash_map<const ExprNode*, uint64_t> dependencies_;
  absl::flat_hash_map<int, Value> overlay_;
  absl::flat_hash_map<std::pair<int, int>, int> broadcasts_;
  absl::flat_hash_map<int, int> reciprocals_;
  absl::flat_hash_map<int, int> narrow_;   // of a register that holds a widened 16-bit float
  std::vector<Overlap> overlaps_;
  absl::flat_hash_map<std::vector<int64_t>, std::pair<int, int64_t>> overlap_at_;
  std::vector<Quotient> quotients_;
  std::vector<Extreme> extremes_;
  std::vector<Scalar> scalars_;            // loaded so far
  std::vector<std::pair<int, Affine>> prefetched_;
  bool raw_ = false;                       // loads keep 16-bit floats as they are
};

}  // namespace lw::lowering
