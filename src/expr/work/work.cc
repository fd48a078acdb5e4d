// Tensors from the last to the first, because what is read of a tensor says how much of it is
// needed. Of each body's graph (body_graph.h) every node is looked at once, under the conditions of
// those that use it; what a node needs is counted at the different values of the axes that change
// it, where the conditions hold (points.h).
#include "src/expr/work/work.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "src/base/message.h"
#include "src/expr/bounds.h"
#include "src/expr/language/print.h"
#include "src/expr/work/body_graph.h"
#include "src/expr/work/points.h"

namespace lw {
namespace {

constexpr double kBudget = 8e6;            // points that are enumerated: some tenths of a second
// Users of a node under other conditions each; what more of them need is not counted.
constexpr size_t kMostUses = 4;

// What an operation costs at least: as an addition, a comparison or a product where it is, or a
// compiler makes it, one instruction of that kind.
ExprOp kind_of(const ExprNode& e) {
  const bool fixed = e.args.size() == 2 && e.args[1]->op == ExprOp::kConst;
  int exponent = 0;
  switch (e.op) {
    case ExprOp::kSub: return ExprOp::kAdd;
    case ExprOp::kMin: case ExprOp::kAbs:
    case ExprOp::kFloor: case ExprOp::kCeil: case ExprOp::kRound: return ExprOp::kMax;
    case ExprOp::kMod: case ExprOp::kPow: return fixed ? ExprOp::kMul : e.op;
    case ExprOp::kDiv:
      if (!fixed) return e.op;
      if (!is_float(e.type)) return ExprOp::kMul;
      return std::abs(std::frexp(e.args[1]->number, &exponent)) == 0.5 ? ExprOp::kMul : e.op;
    default: return is_comparison(e.op) ? ExprOp::kMax : e.op;
  }
}

// The widest type that one of the values has before it is widened to `type`.
Type type_before_widening(const std::vector<Expr>& values, Type type) {
  Type widest = type;
  int bytes = 0;
  for (const Expr& value : values) {
    const ExprNode* from = value.get();
    while (from->op == ExprOp::kCast && is_float(from->args[0]->type) == is_float(type) &&
           size_of(from->args[0]->type) < size_of(from->type)) {
      from = from->args[0].get();
    }
    if (size_of(from->type) > bytes) bytes = size_of(from->type), widest = from->type;
  }
  return widest;
}

// A read of a tensor, under conditions on the axes of its reader.
struct Read {
  const ExprNode* node;
  Conditions conditions;
  PointCounter* points;
  double share;                            // of the reader's elements, those needed
  double gathered = 0;                     // elements at places of their own: the last index is
                                           // read
};

class TensorWork {
 public:
  TensorWork(const Program& program, const Tensor& tensor, double share, double* budget)
      : program_(program), tensor_(tensor), share_(share), axes_(all_axes(tensor)),
        graph_(body_graph(tensor.body, axes_.size())),
        points_(std::make_unique<PointCounter>(axes_, budget)), uses_(graph_.size()) {}

  void count(Work* work, std::vector<std::vector<Read>>* reads) {
    needed_.resize(graph_.size());
    Conditions base;
    if (tensor_.reduce != Reduce::kNone) require_nonzero(tensor_.body, tensor_.reduce, &base);
    use(graph_.size() - 1, {base, key_of(base), false});
    for (size_t i = graph_.size(); i-- > 0;) {
      for (const Use& use : uses_[i]) visit_node(i, use, reads);
    }
    steps_needed_ = tensor_.reduce == Reduce::kNone ? 0 : needed(graph_.size() - 1, base);
    add_flops(&work->flops);
    add_operations(base, &work->operations);
  }
  std::unique_ptr<PointCounter> take_points() { return std::move(points_); }

 private:
  struct Use {
    Conditions conditions;
    std::string key;
    bool addressing = false;               // as part of a gather's index
  };

  static std::vector<Axis> all_axes(const Tensor& tensor) {
    std::vector<Axis> axes = tensor.axes;
    axes.insert(axes.end(), tensor.reduce_axes.begin(), tensor.reduce_axes.end());
    return axes;
  }

  static std::string key_of(const Conditions& conditions) {
    std::string key;
    for (const auto& [text, condition] : conditions) key += text + "\n";
    return key;
  }

  void use(size_t node, Use use) {
    std::vector<Use>& uses = uses_[node];
    for (Use& other : uses) {
      if (other.key != use.key) continue;
      other.addressing &= use.addressing;
      return;
    }
    if (uses.size() < kMostUses) uses.push_back(std::move(use));
  }

  // Made of axes and integers alone.
  bool is_test(const Expr& e) {
    const auto it = tests_.find(e.get());
    if (it != tests_.end()) return it->second;
    bool test = e->op != ExprOp::kRead && !is_float(e->type);
    for (const Expr& arg : e->args) test = test && is_test(arg);
    return tests_[e.get()] = test;
  }

  void require(const Expr& test, bool holds, Conditions* conditions) {
    if (!is_test(test)) return;
    if (test->op == ExprOp::kNot) return require(test->args[0], !holds, conditions);
    if (test->op == (holds ? ExprOp::kAnd : ExprOp::kOr)) {
      require(test->args[0], holds, conditions);
      return require(test->args[1], holds, conditions);
    }
    (*conditions)[concat(holds ? "+" : "-", print_expr(test, program_, axes_))] = {test, holds};
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
    if (!factors_.insert(e.get()).second) return;
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

  void visit_node(size_t at, const Use& own, std::vector<std::vector<Read>>* reads) {
    const BodyNode& node = graph_[at];
    const Expr& e = node.expr;
    if (node.address()) return;
    const auto arg = [&](size_t i) { return static_cast<size_t>(node.args[i]); };
    if (e->op == ExprOp::kSelect) {
      use(arg(0), own);
      for (bool holds : {true, false}) {
        Use inside = own;
        require(e->args[0], holds, &inside.conditions);
        inside.key = key_of(inside.conditions);
        use(arg(holds ? 1 : 2), std::move(inside));
      }
      return;
    }
    if (e->op == ExprOp::kPad) {
      Use inside = own;
      require_in_bounds(e->args[0], &inside.conditions);
      inside.key = key_of(inside.conditions);
      use(arg(0), std::move(inside));
      use(arg(1), own);
      return;
    }
    if (e->op == ExprOp::kRead) {
      const bool alone = !e->args.empty() && is_gather(e->args.back());
      (*reads)[static_cast<size_t>(e->index)].push_back(
          {e.get(), own.conditions, points_.get(), share_,
           alone ? share_ * needed(at, own.conditions) : 0});
    } else if (!own.addressing && (is_binary(e->op) || is_unary(e->op))) {
      Needed& needs = needed_[at];
      needs.operation = true;
      if (node.reads) needs.count = std::max(needs.count, needed(at, own.conditions));
    }
    for (size_t i = 0; i < node.args.size(); ++i) {
      Use inside = own;
      inside.addressing |= e->op == ExprOp::kRead;
      use(arg(i), std::move(inside));
    }
  }

  // How often the node's value is needed: different values of its axes where the conditions hold.
  double needed(size_t at, const Conditions& conditions) {
    const BodyNode& node = graph_[at];
    if (!node.reads) return 0;
    Address axes;
    std::string key;
    int64_t stride = 1;
    for (size_t i = 0; i < axes_.size(); ++i) {
      key += node.axes[i] ? '1' : '0';
      if (!node.axes[i]) continue;
      axes.push_back({make_axis(static_cast<int>(i)), stride});
      stride *= axes_[i].extent;
    }
    const auto [it, added] = known_.emplace(key + key_of(conditions), 0);
    if (added) it->second = points_->places(conditions, axes);
    return it->second;
  }

  void add_flops(Flops* flops) const {
    const double domain = points_->domain();
    for (const Needed& needs : needed_) {
      if (!needs.operation) continue;
      flops->counted += domain;
      flops->useful += share_ * needs.count;
    }
    if (tensor_.reduce == Reduce::kNone) return;
    flops->counted += domain;
    flops->useful += share_ * steps_needed_;
  }

  // A sum's product under the selects and signs that leave it a product; -1: it is none.
  int summed_product() const {
    if (tensor_.reduce != Reduce::kSum) return -1;
    int at = static_cast<int>(graph_.size()) - 1;
    while (true) {
      const BodyNode& node = graph_[static_cast<size_t>(at)];
      const Expr& e = node.expr;
      if (e->op == ExprOp::kMul) return e->type == tensor_.type ? at : -1;
      if (e->op == ExprOp::kNeg) {
        at = node.args[0];
      } else if (e->op == ExprOp::kSelect && is_identity(e->args[2], tensor_.reduce)) {
        at = node.args[1];
      } else if (e->op == ExprOp::kSelect && is_identity(e->args[1], tensor_.reduce)) {
        at = node.args[2];
      } else {
        return -1;
      }
    }
  }

  void add_operations(const Conditions& base, std::vector<OperationCount>* all) const {
    const auto add = [&](ExprOp op, Type type, bool adds, double count) {
      if (count <= 0) return;
      for (OperationCount& o : *all) {
        if (o.op == op && o.type == type && o.adds == adds) {
          o.count += share_ * count;
          return;
        }
      }
      all->push_back({op, type, adds, share_ * count});
    };
    // Takes the product into an addition of as many; fewer products are part of it anyhow.
    std::vector<bool> taken(graph_.size());
    const auto add_sum = [&](int product, Type type, double count) {
      if (product < 0) return add(ExprOp::kAdd, type, false, count);
      const size_t at = static_cast<size_t>(product);
      taken[at] = true;
      if (needed_[at].count < (1 - 1e-9) * count) return add(ExprOp::kAdd, type, false, count);
      add(ExprOp::kMul, type_before_widening(graph_[at].expr->args, type), true, count);
    };
    if (tensor_.reduce != Reduce::kNone && steps_needed_ > 0) {
      const int product = summed_product();
      if (product >= 0) {
        add_sum(product, tensor_.type, steps_needed_);
      } else {
        // The first term of each sum is not added to anything.
        constexpr ExprOp kStep[] = {ExprOp::kAdd, ExprOp::kAdd, ExprOp::kMul, ExprOp::kMax,
                                    ExprOp::kMax};
        Type type = tensor_.type;
        if (!is_float(type)) type = type_before_widening({tensor_.body}, type);
        add(kStep[static_cast<int>(tensor_.reduce)], type, false,
            steps_needed_ - sums_needed(base));
      }
    }
    for (size_t i = graph_.size(); i-- > 0;) {
      const Expr& e = graph_[i].expr;
      const double count = needed_[i].count;
      if (!needed_[i].operation || taken[i]) continue;
      const Type type = e->args[0]->type;
      if (e->op == ExprOp::kNeg || type == Type::kBool) continue;
      // x - 3 - 3 is x - 6, abs of what is never negative nothing, a sum that is kept as a byte one
      // of bytes: exact algebra that compilers do.
      const bool quotient = e->op == ExprOp::kDiv || e->op == ExprOp::kMod;
      const bool by_data = quotient && e->args[1]->op != ExprOp::kConst;
      if (!is_float(type) && !by_data) continue;
      if (e->op == ExprOp::kAdd || e->op == ExprOp::kSub) {
        int product = -1;
        for (int arg : graph_[i].args) {
          const bool is_product = graph_[static_cast<size_t>(arg)].expr->op == ExprOp::kMul;
          if (!is_product || taken[static_cast<size_t>(arg)]) continue;
          if (product < 0 || needed_[static_cast<size_t>(arg)].count >
                                 needed_[static_cast<size_t>(product)].count) {
            product = arg;
          }
        }
        add_sum(product, e->type, count);
        continue;
      }
      const ExprOp kind = kind_of(*e);
      const bool narrow = kind == ExprOp::kMul || !is_float(type);
      add(kind, narrow ? type_before_widening(e->args, type) : type, false, count);
    }
  }

  // Different sums among the results: those of equal operands are one.
  double sums_needed(const Conditions& base) const {
    Address axes;
    int64_t stride = 1;
    for (size_t i = 0; i < tensor_.axes.size(); ++i) {
      if (!graph_.back().axes[i]) continue;
      axes.push_back({make_axis(static_cast<int>(i)), stride});
      stride *= axes_[i].extent;
    }
    return points_->places(base, axes);
  }

  struct Needed {
    bool operation = false;
    double count = 0;
  };

  const Program& program_;
  const Tensor& tensor_;
  const double share_;                     // of the elements, those needed
  std::vector<Axis> axes_;
  std::vector<BodyNode> graph_;
  std::unique_ptr<PointCounter> points_;
  std::vector<std::vector<Use>> uses_;     // by node
  std::vector<Needed> needed_;             // by node
  double steps_needed_ = 0;                // of the reduction
  std::map<std::string, double> known_;
  absl::flat_hash_map<const ExprNode*, bool> tests_;
  absl::flat_hash_set<const ExprNode*> factors_;  // of the reduction's terms, looked at already
};

// How many elements of one tensor its readers need.
class Demand {
 public:
  Demand(const Program& program, const Tensor& tensor, double* budget)
      : program_(program), tensor_(tensor), size_(static_cast<double>(elements(tensor))),
        budget_(budget) {}

  double count(const std::vector<Read>& reads) {
    double most = 0;
    std::vector<const Read*> whole;        // whose places can be named
    for (const Read& read : reads) {
      const bool gathers = std::any_of(read.node->args.begin(), read.node->args.end(), is_gather);
      const double places =
          gathers ? gathered(read) : read.points->places(read.conditions, address(*read.node));
      most = std::max(most, std::min(size_, read.share * places));
      if (!gathers && read.share == 1) whole.push_back(&read);
    }
    if (most >= size_ || whole.size() < 2 || size_ > *budget_) return most;
    std::vector<bool> marked(static_cast<size_t>(size_));
    for (const Read* read : whole) mark(*read, &marked);
    return std::max(most, static_cast<double>(std::count(marked.begin(), marked.end(), true)));
  }

 private:
  // In elements; indices that gather are left out.
  Address address(const ExprNode& read) const {
    Address address;
    int64_t stride = 1;
    for (size_t d = tensor_.shape.size(); d-- > 0;) {
      if (!is_gather(read.args[d])) address.push_back({read.args[d], stride});
      stride *= tensor_.shape[d];
    }
    return address;
  }

  // n indices drawn at random from E values are E (1 - (1 - 1/E)^n) different ones.
  double gathered(const Read& read) const {
    Address others = address(*read.node);
    const double rows = read.points->places(read.conditions, others);
    double values = 1;
    Address draws = others;
    double stride = size_;
    for (size_t d = 0; d < tensor_.shape.size(); ++d) {
      const Expr& index = read.node->args[d];
      if (!is_gather(index)) continue;
      Expr drawn = index;
      while (drawn->op == ExprOp::kCast) drawn = drawn->args[0];
      const bool random = drawn->op == ExprOp::kRead &&
          program_.tensors[static_cast<size_t>(drawn->index)].role == Role::kInput;
      if (!random) return rows;
      values *= static_cast<double>(tensor_.shape[d]);
      visit(drawn, [&](const ExprNode& n) {
        if (n.op != ExprOp::kAxis) return;
        draws.push_back({make_axis(n.index), static_cast<int64_t>(stride)});
        stride *= static_cast<double>(read.points->extent(n.index));
      });
      if (stride > 0x1p62) return rows;
    }
    const double n = read.points->places(read.conditions, draws) / std::max(rows, 1.0);
    return rows * -values * std::expm1(n * std::log1p(-1 / std::max(values, 1 + 1e-9)));
  }

  void mark(const Read& read, std::vector<bool>* marked) const {
    const auto lists = read.points->addresses(read.conditions, address(*read.node));
    if (!lists) return;
    double all = 1;
    for (const std::vector<int64_t>& list : *lists) all *= static_cast<double>(list.size());
    if (all > *budget_) return;
    *budget_ -= all;
    std::vector<int64_t> places = {0};
    for (const std::vector<int64_t>& list : *lists) {
      std::vector<int64_t> next;
      for (int64_t place : places)
        for (int64_t offset : list) next.push_back(place + offset);
      places = std::move(next);
    }
    for (int64_t place : places) {
      if (place >= 0 && place < static_cast<int64_t>(marked->size()))
        (*marked)[static_cast<size_t>(place)] = true;
    }
  }

  const Program& program_;
  const Tensor& tensor_;
  const double size_;
  double* budget_;                         // elements that may be marked one by one
};

}  // namespace

Work count_work(const Program& program) {
  Work work;
  double budget = kBudget;
  std::vector<std::vector<Read>> reads(program.tensors.size());
  std::vector<std::unique_ptr<PointCounter>> counters;
  for (int t = static_cast<int>(program.tensors.size()); t-- > 0;) {
    const Tensor& tensor = program.tensors[static_cast<size_t>(t)];
    const std::vector<Read>& of_it = reads[static_cast<size_t>(t)];
    const double size = static_cast<double>(elements(tensor));
    double needed = size;
    if (tensor.role == Role::kOutput) {
      work.bytes_written += static_cast<double>(bytes(tensor));
    } else {
      needed = Demand(program, tensor, &budget).count(of_it);
    }
    // What is made of const inputs alone stands in memory before the call (expr.h).
    if (tensor.role == Role::kInput || tensor.is_const) {
      work.bytes_read += needed * size_of(tensor.type);
      for (const Read& read : of_it) work.gathered += read.gathered;
      continue;
    }
    TensorWork counter(program, tensor, needed / size, &budget);
    counter.count(&work, &reads);
    counters.push_back(counter.take_points());
  }
  return work;
}

Flops count_flops(const Program& program) { return count_work(program).flops; }

double compulsory_bytes(const Program& program) {
  const Work work = count_work(program);
  return work.bytes_read + work.bytes_written;
}

}  // namespace lw
