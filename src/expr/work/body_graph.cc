#include "src/expr/work/body_graph.h"

#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"

namespace lw {

std::vector<BodyNode> body_graph(const Expr& body, size_t axes) {
  using Shape = std::tuple<ExprOp, Type, int, int64_t, double, std::vector<int>>;
  std::vector<BodyNode> graph;
  std::map<Shape, int> position;
  absl::flat_hash_map<const ExprNode*, int> of_node;
  std::vector<Expr> open = {body};         // no recursion: bodies may be deep
  while (!open.empty()) {
    const Expr e = open.back();
    if (of_node.contains(e.get())) {
      open.pop_back();
      continue;
    }
    BodyNode node{e, {}, e->op == ExprOp::kRead, is_float(e->type), std::vector<bool>(axes)};
    for (const Expr& arg : e->args) {
      const auto it = of_node.find(arg.get());
      if (it == of_node.end()) {
        open.push_back(arg);
      } else {
        node.args.push_back(it->second);
      }
    }
    if (node.args.size() < e->args.size()) continue;
    open.pop_back();
    for (int arg : node.args) {
      const BodyNode& below = graph[static_cast<size_t>(arg)];
      node.reads |= below.reads;
      node.is_float |= below.is_float;
      for (size_t i = 0; i < axes; ++i) node.axes[i] = node.axes[i] || below.axes[i];
    }
    if (e->op == ExprOp::kAxis) node.axes[static_cast<size_t>(e->index)] = true;
    const Shape shape{e->op, e->type, e->index, e->integer, e->number, node.args};
    const auto [it, added] = position.emplace(shape, static_cast<int>(graph.size()));
    of_node[e.get()] = it->second;
    if (added) graph.push_back(std::move(node));
  }
  return graph;
}

}  // namespace lw
