// What is the same for all items of a group, and so where they may meet. Internal to the verifier
// and to who places barriers.
#pragma once

#include <string>
#include <vector>

#include "src/kernel/kernel.h"

namespace lw {

// Of the integer variables in scope, which items of a group may see differently: what is computed
// from an item's number, or comes from data. Told of each kInt in program order.
class ItemValues {
 public:
  explicit ItemValues(const Kernel& kernel) : differ_(kernel.variables, false) {}
  void define(const Stmt& s);              // kInt, or a kFor, whose variable is the same for all
  bool differ(const Affine& a) const;
  bool differ(const std::vector<Affine>& conditions) const;

 private:
  std::vector<bool> differ_;
};

// Whether the items of a sub-group come to it together and leave each other registers.
inline bool is_barrier(Op op) { return op == Op::kBarrier || op == Op::kLanded; }
inline bool exchanges_registers(Op op) {
  return op == Op::kAcross || op == Op::kMatrixProduct || op == Op::kMatrixParts ||
         op == Op::kWideProduct || op == Op::kMultiplied;
}

// Whether there is such an operation in the list or inside of its statements.
bool has_op(const std::vector<Stmt>& list, Op op);

// What is wrong with parallel loops, items and what they have in common, with its place; "" when
// nothing. REQUIRES: variables and buffers exist.
std::string group_defect(const Kernel& kernel);

}  // namespace lw
