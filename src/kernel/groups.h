// What is the same for all items of a group, and so where they may meet. Internal to the verifier
// and to who places barriers.
#pragma once

#include <string>
#include <vector>

#include "src/kernel/kernel.h"

namespace lw {

// Of the integer variables in scope, which some see differently than others. Told of each kInt and
// kFor in program order (`define`).
class DifferingValues {
 public:
  bool differ(const Affine& a) const;
  bool differ(const std::vector<Affine>& conditions) const;

 protected:
  explicit DifferingValues(const Kernel& kernel) : differ_(kernel.variables, false) {}
  std::vector<bool> differ_;
};

// Items of a group: what is computed from an item's number, or comes from data.
class ItemValues : public DifferingValues {
 public:
  explicit ItemValues(const Kernel& kernel) : DifferingValues(kernel) {}
  void define(const Stmt& s);
};

// Groups of a cluster: what is computed from a group's number, but for which of the clusters it is.
class ClusterValues : public DifferingValues {
 public:
  explicit ClusterValues(const Kernel& kernel) : DifferingValues(kernel) {}
  void define(const Stmt& s);

 private:
  int64_t cluster_ = 1;
  int group_ = -1;                         // the variable that is a group's number
};

// Whether the items of a sub-group come to it together and leave each other registers.
inline bool is_barrier(Op op) { return op == Op::kBarrier || op == Op::kLanded; }
inline bool exchanges_registers(Op op) {
  return op == Op::kAcross || op == Op::kMatrixProduct || op == Op::kMatrixParts ||
         op == Op::kWideProduct || op == Op::kMultiplied;
}

// Whether it is such an operation or has one inside; whether one of the list's statements does.
bool has_op(const Stmt& s, Op op);
bool has_op(const std::vector<Stmt>& list, Op op);

// What is wrong with parallel loops, items and what they have in common, with its place; "" when
// nothing. REQUIRES: variables and buffers exist.
std::string group_defect(const Kernel& kernel);

}  // namespace lw
