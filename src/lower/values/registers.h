// Values in registers, within one straight-line block. Internal to src/lower.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/lower/emitter.h"

namespace lw::lowering {

struct Value {
  int reg = -1;
  int lanes = 1;
};

// Each call makes statements, or none where the block has the value already: a broadcast, a
// reciprocal, the 16-bit float that was widened. A copy knows what was made before, for a branch.
class Registers {
 public:
  explicit Registers(Emitter& e) : e_(e) {}
  Emitter& emitter() const { return e_; }
  Type type_of(Value v) const { return e_.kernel.registers[v.reg].type; }

  Value immediate(Type type, double number, int64_t integer, int lanes);
  Value whole(int64_t number, int lanes);  // a kI64
  Value zero_like(Value value);            // of its type, though that be a 16-bit float
  // All lanes of an index.
  Value of_index(const Index& index, Type type, int lanes);
  Value lane_mask(const Affine& index, int64_t stride, int lanes);
  Value broadcast(Value value, int lanes);
  Value unary(ExprOp op, Type type, Value a);
  // Of operands that differ in lanes, the fewer are broadcast: here and in select().
  Value binary(ExprOp op, Type type, Value a, Value b);
  Value select(Value condition, Value a, Value b);
  // One division for all lanes (and, hoisted, for all iterations): a * (1 / b) is within 1.5 ulp of
  // a / b, except that a divisor below the reciprocal of the largest number counts as zero.
  Value reciprocal(Value b);
  // To the register type of `type`; and to `type` itself, which may be a 16-bit float.
  Value cast(Type type, Value value);
  Value convert(Type type, Value value);
  void move(Value into, Value value);
  Value horizontal(Reduce reduce, Value value);  // its lanes combined
  // Each lane combined with what the other items of a sub-group of so many have there.
  Value across(Reduce reduce, Value value, int64_t items);
  // Lane l of each, one after the other, for every l.
  Value interleave(const std::vector<Value>& values);
  // As many as they have lanes, a power of two: lane i of each in the order of the vectors.
  std::vector<Value> transpose(const std::vector<Value>& rows);
  // The lanes of both, one after the other, from number `at`, 0 < at < lanes.
  Value slide(Value low, Value high, int64_t at);

 private:
  Value iota(Type type, const Index& index, int lanes);  // without the index's registers
  Value emit(Stmt&& stmt, Type type, int lanes);         // into a new register

  Emitter& e_;
  absl::flat_hash_map<std::pair<int, int>, int> broadcasts_;
  absl::flat_hash_map<int, int> reciprocals_;
  absl::flat_hash_map<int, int> narrow_;   // of a register that holds a widened 16-bit float
};

}  // namespace lw::lowering
