// Products in groups, as of a grouped convolution: an axis of the result at whose quotient, its
// group, an operand is read becomes one over groups, outside all others, and one within:
//
//   phase(Y, co; 16)
//   reorder(Y, co.q, n, y, x, co.p; 0)
//
// Each group is then a product of the array's.
#include "schedules/npu/product.h"

#include "schedules/space/rule.h"

namespace lw::rules {
namespace {

struct Group {
  int axis;
  int64_t extent;                          // points of each
};

// The first axis that a read of the stage has the quotient of; extent 0: there is none.
Group group_of(const Nest& nest, int stage) {
  Group group = {-1, 0};
  for (const ExprNode* read : nest.stages[stage].body->read_nodes) {
    for (const Expr& index : read->args) {
      visit(index, [&](const ExprNode& e) {
        const bool quotient = e.op == ExprOp::kDiv && e.args[0]->op == ExprOp::kAxis &&
                              e.args[1]->op == ExprOp::kConst;
        if (quotient && group.extent == 0) group = {e.args[0]->index, e.args[1]->integer};
      });
    }
  }
  return group;
}

bool split(Draft& d, int stage) {
  const Stage& s = d.nest.stages[stage];
  const Group group = group_of(d.nest, stage);
  if (group.extent == 0) return false;
  const std::string loop = loop_of(s, group.axis);
  std::vector<std::string> names = {s.name, loop + ".q"};
  for (const Loop& other : s.loops) {
    if (other.name == loop) break;
    names.push_back(other.name);
  }
  names.push_back(loop + ".p");
  fixed(d, "phase", {s.name, loop}, {group.extent});
  fixed(d, "reorder", std::move(names), {0});
  const std::optional<NpuProduct> product =
      d.failed ? std::nullopt : product_of(d.nest, stage);
  return product && is_for_array(*product);
}

void branch(Draft draft, std::vector<Draft>& drafts) {
  for (int s = 0; s < static_cast<int>(draft.nest.stages.size()); ++s) {
    Draft next = draft;
    if (split(next, s)) draft = std::move(next);
  }
  drafts.push_back(std::move(draft));
}

}  // namespace

const Rule& groups() {
  static constexpr Rule rule = {"groups", Phase::kRewrite, branch, nullptr, nullptr, "npu"};
  return rule;
}

}  // namespace lw::rules
