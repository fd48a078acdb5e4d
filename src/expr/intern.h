// Hash-consing: of nodes that are equal, arguments included, there is one. A value that is used
// twice is then one node, and whatever walks nodes (once each) meets, counts and computes it once.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "src/expr/expr.h"

namespace lw {

class Interner {
 public:
  // The one node equal to `node`. REQUIRES: its arguments are from here.
  Expr operator()(const Expr& node);
  // The same of a whole expression.
  Expr share(const Expr& expr);

  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }  // different nodes so far
  // Of an expression from here: the nodes of the longest path down, and of the tree that it would
  // be without sharing (saturating).
  int64_t depth(const Expr& expr) const { return nodes_.at(expr).depth; }
  int64_t tree_size(const Expr& expr) const { return nodes_.at(expr).tree_size; }

 private:
  struct Hash {
    size_t operator()(const Expr& e) const;
  };
  struct Equal {
    bool operator()(const Expr& a, const Expr& b) const;
  };
  struct Size {
    int64_t depth, tree_size;
  };
  absl::flat_hash_map<Expr, Size, Hash, Equal> nodes_;
  absl::flat_hash_map<const ExprNode*, Expr> shared_;  // by nodes given to share()
  std::vector<Expr> given_;                            // keeps those nodes in place
};

}  // namespace lw
