// What stages evaluate and read, seen through inlined producers.
//
// A stage's body is a DAG: equal values are one node. A producer that is inlined is evaluated once
// at each point that its reader reads, however often it is read there, so a chain, a ladder or a
// residual map grows by its definition. What grows are windows: a reader at three neighbours of a
// point needs its producer at three points, and that one its own at five.
#include <algorithm>
#include <bit>

#include "absl/functional/function_ref.h"
#include "schedules/nest.h"
#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/bounds.h"
#include "src/expr/intern.h"

namespace lw {
namespace {

constexpr int64_t kMaxIndex = 1024;        // nodes of an index of a read

// Whether others have its body in their own.
bool is_gone(const Stage& stage) { return stage.place == Place::kInlined && stage.host < 0; }

bool contains(const std::vector<int>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

bool compares_indices(const ExprNode& e) {
  return e.op >= ExprOp::kEq && e.op <= ExprOp::kGe && e.args[0]->type == Type::kI64;
}

// Bytes of the widest value in registers; addresses and what is decided by axes do not count.
int widest(const Expr& e, Visited& visited) {
  if (compares_indices(*e) || !visited.first(e)) return 1;
  int bytes = size_of(register_type(e->type));
  if (e->op == ExprOp::kRead) return bytes;
  for (const Expr& arg : e->args) bytes = std::max(bytes, widest(arg, visited));
  return bytes;
}

std::shared_ptr<const StageBody> body_of(Expr value) {
  StageBody body;
  body.read_nodes = reads_in(value);
  for (const ExprNode* read : body.read_nodes) {
    if (!contains(body.reads, read->index)) body.reads.push_back(read->index);
  }
  Visited visited;
  body.widest = widest(value, visited);
  visit(value, [&](const ExprNode& e) { body.functions = body.functions || is_function(e.op); });
  body.value = std::move(value);
  return std::make_shared<const StageBody>(std::move(body));
}

// A sum of multiples of axes in the one form that all such sums with its value have: i + 1 - 1 is
// i, so that a window of a window reads each point once.
Expr normal_index(const Expr& index) {
  if (index->op != ExprOp::kAdd && index->op != ExprOp::kSub && index->op != ExprOp::kMul)
    return index;
  Linear form = linear_form(index);
  const auto is_axis = [](const Linear::Term& term) { return term.atom->op == ExprOp::kAxis; };
  if (!std::all_of(form.terms.begin(), form.terms.end(), is_axis)) return index;
  std::sort(form.terms.begin(), form.terms.end(),
            [](const auto& a, const auto& b) { return a.atom->index < b.atom->index; });
  Expr sum = make_int(Type::kI64, 0);
  for (const Linear::Term& term : form.terms) {
    sum = make_binary(ExprOp::kAdd, sum,
                      make_binary(ExprOp::kMul, term.atom, make_int(Type::kI64, term.factor)));
  }
  const bool back = form.constant < 0 && form.constant != INT64_MIN && !form.terms.empty();
  return back ? make_binary(ExprOp::kSub, sum, make_int(Type::kI64, -form.constant))
              : make_binary(ExprOp::kAdd, sum, make_int(Type::kI64, form.constant));
}

// Inside the shape of the tensor, what padding decides by.
Expr in_bounds(const Tensor& tensor, const std::vector<Expr>& indices) {
  Expr all = make_int(Type::kBool, 1);
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr zero = make_int(Type::kI64, 0), end = make_int(Type::kI64, tensor.shape[d]);
    if (indices[d]->op == ExprOp::kConst) {
      const bool inside = indices[d]->integer >= 0 && indices[d]->integer < tensor.shape[d];
      all = make_binary(ExprOp::kAnd, all, make_int(Type::kBool, inside));
      continue;
    }
    all = make_binary(ExprOp::kAnd, all, make_binary(ExprOp::kGe, indices[d], zero));
    all = make_binary(ExprOp::kAnd, all, make_binary(ExprOp::kLt, indices[d], end));
  }
  return all;
}

// Puts one producer's value where bodies read it.
class Inliner {
 public:
  Inliner(const Tensor& tensor, int number, const Expr& value)
      : tensor_(tensor), number_(number), producer_(nodes_.share(value)) {}

  // Null when what comes out is too large.
  Expr run(const Expr& body) {
    Expr result = expand(nodes_.share(body));
    return small(result) ? result : nullptr;
  }

 private:
  using Values = absl::flat_hash_map<const ExprNode*, Expr>;

  // While it is not, growing on is pointless.
  bool small(const Expr& e) {
    large_ = large_ || nodes_.size() > 4 * kMaxBodyNodes || nodes_.depth(e) > kMaxBodyDepth;
    // Indices are looked at as sums of their parts.
    const auto large_index = [&](const Expr& index) { return nodes_.tree_size(index) > kMaxIndex; };
    if (e->op == ExprOp::kRead)
      large_ = large_ || std::any_of(e->args.begin(), e->args.end(), large_index);
    return !large_;
  }

  // `e` with other arguments.
  Expr rebuilt(const Expr& e, std::vector<Expr> args) {
    if (args == e->args) return e;
    Expr result = nodes_.share(with_args(e, std::move(args)));
    const bool sum = result->type == Type::kI64 && nodes_.tree_size(result) <= kMaxIndex;
    return small(result) && sum ? nodes_.share(normal_index(result)) : result;
  }

  // The producer at a point of its axes.
  Expr at(std::vector<Expr> indices) {
    bool same_point = true;
    for (size_t d = 0; d < indices.size(); ++d) {
      same_point = same_point && indices[d]->op == ExprOp::kAxis &&
                   indices[d]->index == static_cast<int>(d);
    }
    // Only a nest whose checks are off inlines a reduction; its axes must still have a value.
    const Expr zero = nodes_.share(make_int(Type::kI64, 0));
    indices.resize(tensor_.axes.size() + tensor_.reduce_axes.size(), zero);
    if (same_point && tensor_.reduce_axes.empty()) return producer_;
    std::vector<const ExprNode*> point;
    for (const Expr& index : indices) point.push_back(index.get());
    return moved(producer_, indices, at_[point]);
  }

  Expr moved(const Expr& e, const std::vector<Expr>& indices, Values& known) {
    if (e->op == ExprOp::kAxis) return indices[e->index];
    if (e->args.empty() || large_) return e;
    if (auto it = known.find(e.get()); it != known.end()) return it->second;
    std::vector<Expr> args;
    for (const Expr& arg : e->args) args.push_back(moved(arg, indices, known));
    Expr result = rebuilt(e, std::move(args));
    known[e.get()] = result;
    return result;
  }

  Expr expand(const Expr& e) {
    if (large_) return e;
    if (auto it = expanded_.find(e.get()); it != expanded_.end()) return it->second;
    const bool pads = e->op == ExprOp::kPad && e->args[0]->index == number_;
    std::vector<Expr> args;
    for (const Expr& arg : pads ? e->args[0]->args : e->args) args.push_back(expand(arg));
    Expr result;
    if (pads) {
      const Expr inside = nodes_.share(in_bounds(tensor_, args));
      result = nodes_.share(make_select(inside, at(std::move(args)), expand(e->args[1])));
    } else if (e->op == ExprOp::kRead && e->index == number_) {
      result = at(std::move(args));
    } else {
      result = rebuilt(e, std::move(args));
    }
    expanded_[e.get()] = result;
    return result;
  }

  const Tensor& tensor_;
  const int number_;
  Interner nodes_;
  const Expr producer_;
  Values expanded_;
  absl::flat_hash_map<std::vector<const ExprNode*>, Values> at_;
  bool large_ = false;
};

int64_t count_nodes(const Expr& value) {
  int64_t nodes = 0;
  visit(value, [&](const ExprNode&) { ++nodes; });
  return nodes;
}

}  // namespace

std::vector<const ExprNode*> reads_in(const Expr& value) {
  std::vector<const ExprNode*> reads;
  visit(value, [&](const ExprNode& e) {
    if (e.op == ExprOp::kRead) reads.push_back(&e);
  });
  return reads;
}

std::shared_ptr<const StageBody> make_body(const Expr& value) {
  return body_of(Interner().share(value));
}

absl::Status inline_into_readers(Nest& nest, int stage) {
  const int number = nest.stages[stage].tensor;
  const Tensor& tensor = nest.program->tensors[number];
  for (Stage& reader : nest.stages) {
    if (is_gone(reader) || reader.copy_of >= 0) continue;
    if (!contains(reader.body->reads, number)) continue;
    const int64_t before = count_nodes(reader.body->value);
    Expr value = Inliner(tensor, number, nest.stages[stage].body->value).run(reader.body->value);
    if (value == nullptr || count_nodes(value) > std::max(before, kMaxBodyNodes)) {
      return infeasible(concat("with ", tensor.name, " inlined, ", reader.name,
                               " would be an expression of more than ", kMaxBodyNodes,
                               " operations, or ", kMaxBodyDepth, " deep"));
    }
    reader.body = body_of(std::move(value));
  }
  return absl::OkStatus();
}

Expr effective_body(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.copy_of < 0) return s.body->value;
  const Tensor& tensor = nest.program->tensors[s.tensor];
  std::vector<Expr> indices;
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    indices.push_back(make_axis(static_cast<int>(d)));
  return make_read(s.copy_of, tensor.type, std::move(indices));
}

std::vector<int> body_reads(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (s.copy_of >= 0) return {s.copy_of};
  return s.body->reads;
}

int points_read(const Nest& nest, int stage, int tensor) {
  int points = 0;
  visit(effective_body(nest, stage), [&](const ExprNode& e) {
    points += e.op == ExprOp::kRead && e.index == tensor;
  });
  return points;
}

namespace {

// The tensors that the stage reads itself, no copy in between.
void for_each_direct_read(const Stage& stage, absl::FunctionRef<void(int)> visit) {
  const auto direct = [&](int tensor) {
    const auto serves = [&](const Stage::Copy& copy) { return copy.tensor == tensor; };
    if (std::none_of(stage.copies.begin(), stage.copies.end(), serves)) visit(tensor);
  };
  if (is_gone(stage)) return;
  if (stage.copy_of >= 0) return direct(stage.copy_of);
  for (int tensor : stage.body->reads) direct(tensor);
}

// Who reads what the stage does.
int reader_of(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  return s.place == Place::kInlined ? s.host : stage;
}

void add_once(int stage, std::vector<int>& list) {
  if (!contains(list, stage)) list.push_back(stage);
}

}  // namespace

std::vector<int> readers(const Nest& nest, int tensor) {
  std::vector<int> result;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    for_each_direct_read(nest.stages[s], [&](int read) {
      if (read == tensor) add_once(reader_of(nest, s), result);
    });
  }
  return result;
}

std::vector<std::vector<int>> all_readers(const Nest& nest) {
  std::vector<std::vector<int>> result(nest.program->tensors.size());
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    for_each_direct_read(nest.stages[s],
                         [&](int read) { add_once(reader_of(nest, s), result[read]); });
  }
  return result;
}

int stage_lanes(const Nest& nest, int stage) {
  const Tensor& tensor = nest.program->tensors[nest.stages[stage].tensor];
  int bytes = size_of(tensor.type);
  if (nest.stages[stage].copy_of >= 0) {
    // Groups are stored as whole vectors.
    if (nest.stages[stage].wide) bytes = size_of(Type::kF32);
    if (nest.stages[stage].group > 0) bytes *= static_cast<int>(nest.stages[stage].group);
  } else {
    bytes = std::max(size_of(register_type(tensor.type)), nest.stages[stage].body->widest);
  }
  // Of groups of three no whole number fills a vector; tails are cut into halves (lower/tile.cc).
  return static_cast<int>(
      std::bit_floor(static_cast<unsigned>(lanes_of(*nest.target, bytes))));
}

}  // namespace lw
