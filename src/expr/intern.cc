#include "src/expr/intern.h"

#include <algorithm>
#include <bit>

#include "absl/hash/hash.h"

namespace lw {
namespace {

constexpr int64_t kHugeTree = int64_t{1} << 40;

}  // namespace

size_t Interner::Hash::operator()(const Expr& e) const {
  size_t hash = absl::HashOf(e->op, e->type, e->index, e->integer, std::bit_cast<int64_t>(e->number));
  for (const Expr& arg : e->args) hash = absl::HashOf(hash, arg.get());
  return hash;
}

bool Interner::Equal::operator()(const Expr& a, const Expr& b) const {
  // Constants by their bits: 0 and -0 are two.
  return a == b || (a->op == b->op && a->type == b->type && a->index == b->index &&
                    a->integer == b->integer &&
                    std::bit_cast<int64_t>(a->number) == std::bit_cast<int64_t>(b->number) &&
                    a->args == b->args);
}

Expr Interner::operator()(const Expr& node) {
  auto [it, fresh] = nodes_.try_emplace(node, Size{1, 1});
  const Expr found = it->first;
  if (!fresh) return found;
  Size size{1, 1};
  for (const Expr& arg : node->args) {
    const Size& part = nodes_.at(arg);
    size.depth = std::max(size.depth, part.depth + 1);
    size.tree_size = std::min(kHugeTree, size.tree_size + part.tree_size);
  }
  nodes_[found] = size;
  return found;
}

Expr Interner::share(const Expr& expr) {
  if (auto known = shared_.find(expr.get()); known != shared_.end()) return known->second;
  Expr result = expr;
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& arg : expr->args) {
    args.push_back(share(arg));
    changed = changed || args.back() != arg;
  }
  if (changed) {
    ExprNode copy = *expr;
    copy.args = std::move(args);
    result = std::make_shared<const ExprNode>(std::move(copy));
  }
  result = (*this)(result);
  given_.push_back(expr);
  shared_[expr.get()] = result;
  shared_[result.get()] = result;
  return result;
}

}  // namespace lw
