// A body as a graph: equal subexpressions are one node, however often they are written and whether
// or not the tree shares them.
#pragma once

#include <vector>

#include "src/expr/expr.h"

namespace lw {

struct BodyNode {
  Expr expr;                               // one of those that are equal
  std::vector<int> args;                   // positions in the graph
  bool reads = false;                      // something below it reads a tensor
  bool is_float = false;                   // something in it is a float
  std::vector<bool> axes;                  // those that change its value
  // Made of axes and integers alone.
  bool address() const { return !reads && !is_float; }
};

// Nodes after their arguments; the last one is the body. `axes`: how many there are. Linear in the
// nodes of the body as it is shared.
std::vector<BodyNode> body_graph(const Expr& body, size_t axes);

}  // namespace lw
