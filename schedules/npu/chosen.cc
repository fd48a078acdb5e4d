#include "schedules/npu/chosen.h"

#include <algorithm>
#include <vector>

#include "src/expr/intern.h"

namespace lw {
namespace {

class Reads {
 public:
  Reads(int tensor, const Expr& condition) : tensor_(tensor), condition_(condition) {}

  // Of a tensor's body.
  bool are_chosen(const Expr& body) {
    held_.clear();
    return visit(nodes_.share(body));
  }

 private:
  bool visit(const Expr& e) {
    if (e->op == ExprOp::kRead && e->index == tensor_) {
      const Expr there = nodes_.share(substitute(condition_, e->args));
      return std::find(held_.begin(), held_.end(), there) != held_.end();
    }
    if (e->op != ExprOp::kSelect) {
      return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& x) { return visit(x); });
    }
    if (!visit(e->args[0]) || !visit(e->args[2])) return false;
    const size_t before = held_.size();
    hold(e->args[0]);
    const bool chosen = visit(e->args[1]);
    held_.resize(before);
    return chosen;
  }

  void hold(const Expr& condition) {
    held_.push_back(condition);
    if (condition->op != ExprOp::kAnd) return;
    for (const Expr& side : condition->args) hold(side);
  }

  const int tensor_;
  const Expr condition_;
  Interner nodes_;
  std::vector<Expr> held_;                 // conditions that hold
};

}  // namespace

bool is_read_where(const Program& program, int tensor, const Expr& condition) {
  const size_t rank = program.tensors[static_cast<size_t>(tensor)].shape.size();
  bool spatial = true;
  visit(condition, [&](const ExprNode& e) {
    spatial = spatial && (e.op != ExprOp::kAxis || static_cast<size_t>(e.index) < rank);
  });
  const std::vector<int> given = outputs(program);
  if (!spatial || std::find(given.begin(), given.end(), tensor) != given.end()) return false;
  Reads reads(tensor, condition);
  return std::all_of(program.tensors.begin(), program.tensors.end(), [&](const Tensor& reader) {
    return reader.body == nullptr || reads.are_chosen(reader.body);
  });
}

}  // namespace lw
