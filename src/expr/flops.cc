// Counts of operations.
//
// Every operation on data in a body counts 1 for each point of its tensor's domain (spatial axes
// times reduction axes), and so does the step of a reduction: a multiply-add is 2. Arithmetic on
// axes alone is addressing and counts nothing, nor do casts, reads, pads and selects.
//
// An operation is *useful* at the points where its result can matter: where the pads and selects
// that multiply it by zero, or replace it by the reduction's identity, let it through. Those
// conditions mention few axes each; the points are counted exactly for each connected group of axes
// (y and r, x and s of a convolution) and multiplied. A group too large to enumerate is sampled.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/expr/bounds.h"
#include "src/expr/interpret.h"
#include "src/expr/message.h"
#include "src/expr/print.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

struct Condition {
  Expr test;                               // of axes only, bool
  bool holds;
  std::string key;                         // equal conditions have equal keys
};
using Conditions = std::map<std::string, Condition>;

int64_t evaluate(const Expr& e, const std::vector<int64_t>& axes) {
  switch (e->op) {
    case ExprOp::kConst: return e->integer;
    case ExprOp::kAxis: return axes[static_cast<size_t>(e->index)];
    case ExprOp::kSelect: return evaluate(e->args[evaluate(e->args[0], axes) ? 1 : 2], axes);
    case ExprOp::kCast: return wrap(e->type, evaluate(e->args[0], axes));
    default: break;
  }
  const Type type = e->args[0]->type;
  const int64_t a = evaluate(e->args[0], axes);
  if (e->args.size() == 1) return apply_int(e->op, type, a);
  return apply_int(e->op, type, a, evaluate(e->args[1], axes));
}

// Made of axes and integers alone.
bool is_address(const Expr& e) {
  bool address = true;
  visit(e, [&](const ExprNode& n) { address &= n.op != ExprOp::kRead && !is_float(n.type); });
  return address;
}

class Counter {
 public:
  Counter(const Program& program, const Tensor& tensor, double* budget)
      : program_(program), tensor_(tensor), budget_(budget) {
    axes_ = tensor.axes;
    axes_.insert(axes_.end(), tensor.reduce_axes.begin(), tensor.reduce_axes.end());
    for (const Axis& axis : axes_) domain_ *= static_cast<double>(axis.extent);
  }

  Flops run() {
    Conditions base;
    if (tensor_.reduce != Reduce::kNone) require_nonzero(tensor_.body, tensor_.reduce, &base);
    walk(tensor_.body, base);
    if (tensor_.reduce != Reduce::kNone) add(base);
    return total_;
  }

 private:
  void add(const Conditions& conditions) {
    total_.counted += domain_;
    total_.useful += points(conditions);
  }

  void require(const Expr& test, bool holds, Conditions* conditions) {
    if (!is_address(test)) return;
    if (test->op == ExprOp::kNot) return require(test->args[0], !holds, conditions);
    if (test->op == (holds ? ExprOp::kAnd : ExprOp::kOr)) {
      require(test->args[0], holds, conditions);
      return require(test->args[1], holds, conditions);
    }
    std::string key = concat(holds ? "+" : "-", print_expr(test, program_, axes_));
    (*conditions)[key] = {test, holds, key};
  }

  void require_in_bounds(const Expr& read, Conditions* conditions) {
    const std::vector<int64_t>& shape = program_.tensors[static_cast<size_t>(read->index)].shape;
    const Facts facts = facts_of(axes_);
    for (size_t d = 0; d < shape.size(); ++d) {
      const Expr& index = read->args[d];
      const Interval range = interval_of(index, facts);
      if (range.lo < 0) {
        require(make_binary(ExprOp::kGe, index, make_int(Type::kI64, 0)), true, conditions);
      }
      if (range.hi >= shape[d]) {
        require(make_binary(ExprOp::kLt, index, make_int(Type::kI64, shape[d])), true, conditions);
      }
    }
  }

  static bool is_identity(const Expr& e, Reduce reduce) {
    if (e->op != ExprOp::kConst) return false;
    if (is_float(e->type)) return e->number == identity_float(reduce);
    return e->integer == identity_int(reduce, e->type);
  }

  // The conditions without which `e` is the reduction's identity (0 of a sum).
  void require_nonzero(const Expr& e, Reduce reduce, Conditions* conditions) {
    switch (e->op) {
      case ExprOp::kMul:
        if (reduce != Reduce::kSum) return;
        require_nonzero(e->args[0], reduce, conditions);
        return require_nonzero(e->args[1], reduce, conditions);
      case ExprOp::kNeg:
      case ExprOp::kCast:
        if (reduce == Reduce::kSum) require_nonzero(e->args[0], reduce, conditions);
        return;
      case ExprOp::kPad:
        if (is_identity(e->args[1], reduce)) require_in_bounds(e->args[0], conditions);
        return;
      case ExprOp::kSelect:
        for (bool holds : {true, false}) {
          if (!is_identity(e->args[holds ? 2 : 1], reduce)) continue;
          require(e->args[0], holds, conditions);
          require_nonzero(e->args[holds ? 1 : 2], reduce, conditions);
        }
        return;
      default: return;
    }
  }

  void walk(const Expr& e, const Conditions& conditions) {
    if (is_address(e)) return;
    if (e->op == ExprOp::kSelect) {
      walk(e->args[0], conditions);
      for (bool holds : {true, false}) {
        Conditions inside = conditions;
        require(e->args[0], holds, &inside);
        walk(e->args[holds ? 1 : 2], inside);
      }
      return;
    }
    if (is_binary(e->op) || is_unary(e->op)) add(conditions);
    if (e->op == ExprOp::kRead) return;  // a gather's indices are addressing too
    for (const Expr& arg : e->args) walk(arg, conditions);
  }

  // How many points of the domain satisfy all conditions.
  double points(const Conditions& conditions) {
    std::string key;
    for (const auto& [text, condition] : conditions) key += text + "\n";
    auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    // Groups of axes that share a condition.
    std::vector<size_t> group(axes_.size());
    for (size_t i = 0; i < group.size(); ++i) group[i] = i;
    auto axes_of = [](const Expr& e) {
      std::set<size_t> axes;
      visit(e, [&](const ExprNode& n) {
        if (n.op == ExprOp::kAxis) axes.insert(static_cast<size_t>(n.index));
      });
      return axes;
    };
    for (const auto& [text, condition] : conditions) {
      std::set<size_t> axes = axes_of(condition.test);
      for (size_t axis : axes) {
        const size_t from = group[axis], to = group[*axes.begin()];
        std::replace(group.begin(), group.end(), from, to);
      }
    }
    double total = 1;
    for (size_t leader = 0; leader < axes_.size(); ++leader) {
      std::vector<size_t> members;
      for (size_t i = 0; i < axes_.size(); ++i) {
        if (group[i] == leader) members.push_back(i);
      }
      if (members.empty()) continue;
      std::vector<const Condition*> tests;
      for (const auto& [text, condition] : conditions) {
        std::set<size_t> axes = axes_of(condition.test);
        if (!axes.empty() && group[*axes.begin()] == leader) tests.push_back(&condition);
      }
      total *= count_group(members, tests);
    }
    return known_[key] = total;
  }

  double count_group(const std::vector<size_t>& members,
                     const std::vector<const Condition*>& tests) {
    constexpr int kSamples = 1 << 15;
    double size = 1;
    for (size_t axis : members) size *= static_cast<double>(axes_[axis].extent);
    if (tests.empty()) return size;
    std::vector<int64_t> index(axes_.size());
    auto passes = [&] {
      return std::all_of(tests.begin(), tests.end(), [&](const Condition* condition) {
        return (evaluate(condition->test, index) != 0) == condition->holds;
      });
    };
    double count = 0;
    if (size > *budget_) {
      Rng rng(0);
      for (int i = 0; i < kSamples; ++i) {
        for (size_t axis : members) index[axis] = rng.below(axes_[axis].extent);
        count += passes();
      }
      return count / kSamples * size;
    }
    *budget_ -= size;
    for (int64_t left = static_cast<int64_t>(size); left > 0; --left) {
      count += passes();
      for (size_t axis : members) {
        if (++index[axis] < axes_[axis].extent) break;
        index[axis] = 0;
      }
    }
    return count;
  }

  const Program& program_;
  const Tensor& tensor_;
  double* budget_;                         // points that may still be enumerated
  std::vector<Axis> axes_;
  double domain_ = 1;
  Flops total_;
  std::map<std::string, double> known_;
};

}  // namespace

Flops count_flops(const Program& program) {
  Flops total;
  double budget = 8e6;                     // some tenths of a second
  for (const Tensor& tensor : program.tensors) {
    if (!tensor.body) continue;
    const Flops flops = Counter(program, tensor, &budget).run();
    total.useful += flops.useful;
    total.counted += flops.counted;
  }
  return total;
}

double compulsory_bytes(const Program& program) {
  double total = 0;
  for (int tensor : arguments(program)) {
    total += static_cast<double>(bytes(program.tensors[static_cast<size_t>(tensor)]));
  }
  return total;
}

}  // namespace lw
