#include "src/expr/elaboration/build.h"

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/language/print.h"
#include "src/expr/limits.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

// Where the text of a node starts (an operator's own position is that of its sign).
int start_of(const Node& node) {
  const bool infix = node.kind == NodeKind::kBinary;
  return infix ? start_of(*node.args[0]) : node.position;
}

}  // namespace

bool check_size(Diagnostics* diagnostics, const std::string& name, int position,
                const std::vector<int64_t>& shape) {
  if (shape.size() > kMaxRank) {
    diagnostics->error(position, concat("'", name, "' has ", shape.size(), " dimensions; at most ",
                                        kMaxRank, " are supported"));
    return false;
  }
  double total = 1;
  for (int64_t extent : shape) total *= static_cast<double>(extent);
  if (total <= static_cast<double>(kMaxElements)) return true;
  diagnostics->error(position, concat("'", name, "' would have ", print_number(Type::kF64, total),
                                      " elements; at most 2^40 are supported"));
  return false;
}

Tensor NodeBuilder::finish_tensor(std::string name, const std::vector<int>& spatial,
                                  const std::vector<int>& reduced, Reduce reduce,
                                  const Expr& body) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.type = body->type;
  tensor.reduce = reduce;
  std::vector<Expr> renumbered(names_.axes().size());
  int next = 0;
  for (int id : spatial) {
    tensor.axes.push_back(names_.axes()[static_cast<size_t>(id)]);
    tensor.shape.push_back(tensor.axes.back().extent);
    renumbered[static_cast<size_t>(id)] = make_axis(next++);
  }
  for (int id : reduced) {
    tensor.reduce_axes.push_back(names_.axes()[static_cast<size_t>(id)]);
    renumbered[static_cast<size_t>(id)] = make_axis(next++);
  }
  bool strayed = false;
  visit(body, [&](const ExprNode& e) {
    if (e.op == ExprOp::kAxis && !renumbered[static_cast<size_t>(e.index)]) strayed = true;
  });
  if (strayed) {
    error(op_.position,
          concat("'", tensor.name, "' uses the axis of a reduction outside of it"));
  }
  tensor.body = substitute(body, renumbered);
  return tensor;
}

Expr NodeBuilder::build(const Node& node, Type want) {
  const Info info = inference_.infer(node);
  if (info.kind == Info::kLiteral) {
    return literal_as(node, info.literal, want, names_.diagnostics());
  }
  if (info.kind == Info::kIndex) {
    return make_cast(want, make_cast(Type::kI32, axis_value(node)));
  }
  switch (node.kind) {
    case NodeKind::kBool: return make_int(Type::kBool, node.integer);
    case NodeKind::kName: {
      const Symbol* symbol = names_.find(node.name);
      CHECK(symbol != nullptr);
      return make_int(Type::kBool, symbol->literal.integer);
    }
    case NodeKind::kRead: return make_cast(want, build_read(node));
    case NodeKind::kPad: {
      if (inference_.border_of(node) != Border::kNone) return make_cast(want, build_border(node));
      Expr read = build_read(*node.args[0]);
      Expr fill = build(*node.args[1], read->type);
      return make_cast(want, make_pad(read, fill));
    }
    case NodeKind::kCast: return make_cast(want, build_cast(node));
    case NodeKind::kReduce: return make_cast(want, split_reduction(node, want));
    case NodeKind::kWhere: return build_where(node, want);
    case NodeKind::kClamp: {
      Expr x = build(*node.args[0], want);
      Expr lo = build(*node.args[1], want), hi = build(*node.args[2], want);
      return make_binary(ExprOp::kMin, make_binary(ExprOp::kMax, x, lo), hi);
    }
    default:
      return is_comparison(node.op) ? build_comparison(node) : build_operation(node, want);
  }
}

Expr NodeBuilder::build_operation(const Node& node, Type want) {
  if (!accepts(domain_of(node.op), want)) {  // where(c, 1, 0) % 2 in a float's place
    error(node.position, concat("'", op_name(node.op), "' does not apply to ", type_name(want)));
    return make_int(want, 0);
  }
  Expr a = build(*node.args[0], want);
  if (node.args.size() == 1) return make_unary(node.op, a);
  return make_binary(node.op, a, build(*node.args[1], want));
}

Expr NodeBuilder::build_comparison(const Node& node) {
  const Info a = inference_.infer(*node.args[0]), b = inference_.infer(*node.args[1]);
  auto is_index = [](const Info& x) { return x.kind == Info::kIndex || x.kind == Info::kLiteral; };
  if (a.kind == Info::kLiteral && b.kind == Info::kLiteral) {
    return make_int(Type::kBool, compare(node.op, a.literal.number, b.literal.number));
  }
  if (is_index(a) && is_index(b)) {  // exact, and what bounds are proved from
    return make_binary(node.op, axis_value(*node.args[0]), axis_value(*node.args[1]));
  }
  Type type = a.kind == Info::kTyped ? a.type : b.kind == Info::kTyped ? b.type : Type::kI32;
  return make_binary(node.op, build(*node.args[0], type), build(*node.args[1], type));
}

Expr NodeBuilder::build_where(const Node& node, Type want) {
  Expr condition = build(*node.args[0], Type::kBool);
  if (condition->op == ExprOp::kConst) {
    return build(*node.args[condition->integer ? 1 : 2], want);
  }
  guards_.push_back(condition);
  Expr a = build(*node.args[1], want);
  guards_.back() = make_unary(ExprOp::kNot, condition);
  Expr b = build(*node.args[2], want);
  guards_.pop_back();
  return make_select(condition, a, b);
}

Expr NodeBuilder::build_read(const Node& node) {
  return inference_.read(node, inference_.indices(node));
}

Expr NodeBuilder::build_border(const Node& pad) {
  const Node& read = *pad.args[0];
  std::vector<Expr> indices = inference_.indices(read);
  const Tensor& tensor = program_.tensors[static_cast<size_t>(names_.find(read.name)->tensor)];
  Facts facts = facts_of(names_.axes());
  for (const Expr& guard : guards_) assume(guard, true, &facts);
  for (size_t d = 0; d < indices.size(); ++d) {
    indices[d] = index_inside(indices[d], tensor.shape[d], inference_.border_of(pad), facts);
  }
  return inference_.read(read, indices);
}

Expr NodeBuilder::build_cast(const Node& node) {
  const Type type = *names_.type_named(node.type);
  const Info info = inference_.infer(*node.args[0]);
  if (info.kind == Info::kLiteral) {
    const Literal& literal = info.literal;
    if (is_float(type)) return literal_as(*node.args[0], literal, type, names_.diagnostics());
    if (type == Type::kBool) return make_int(type, literal.number != 0);
    return literal.exact ? make_int(type, literal.integer) : make_const(type, literal.number);
  }
  const Type own = info.kind == Info::kTyped ? info.type
                   : info.kind == Info::kIndex ? Type::kI32 : type;
  return make_cast(type, build(*node.args[0], own));
}

// An expression of axes and literals, in i64.
Expr NodeBuilder::axis_value(const Node& node) {
  const Info info = inference_.infer(node);
  if (info.kind == Info::kLiteral) {
    return literal_as(node, info.literal, Type::kI64, names_.diagnostics());
  }
  if (node.kind == NodeKind::kName) return make_axis(names_.find_axis(node.name));
  Expr a = axis_value(*node.args[0]);
  if (node.kind == NodeKind::kClamp) {
    Expr lo = axis_value(*node.args[1]), hi = axis_value(*node.args[2]);
    return make_binary(ExprOp::kMin, make_binary(ExprOp::kMax, a, lo), hi);
  }
  if (node.args.size() == 1) return make_unary(node.op, a);
  return make_binary(node.op, a, axis_value(*node.args[1]));
}

NodeBuilder::Reduction NodeBuilder::build_reduction(const Node& node, Type want) {
  const Info info = inference_.infer(node);
  Reduction result{info.kind == Info::kTyped ? info.type : want, inference_.reduction_axes(node),
                   nullptr};
  for (size_t i = 0; i < result.axes.size(); ++i) {
    names_.push_axis(node.axes[i].name, result.axes[i]);
  }
  result.body = build(*node.args[0], result.type);
  names_.pop_axes(result.axes.size());
  return result;
}

std::vector<int> NodeBuilder::free_axes(const Expr& body, const std::vector<int>& bound) const {
  std::vector<bool> used(names_.axes().size());
  visit(body, [&](const ExprNode& e) {
    if (e.op == ExprOp::kAxis) used[static_cast<size_t>(e.index)] = true;
  });
  for (int axis : bound) used[static_cast<size_t>(axis)] = false;
  std::vector<int> free;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) free.push_back(static_cast<int>(i));
  }
  return free;
}

// The reduction as a tensor over the axes that it depends on, and the read that takes its place.
// Conditions around it are lost by that; where its reads need them they are put inside.
Expr NodeBuilder::split_reduction(const Node& node, Type want) {
  Reduction reduction = build_reduction(node, want);
  Expr body = reduction.body;
  if (!guards_.empty() && (!faults(body).empty() || is_gather(body))) {
    Expr identity = is_float(body->type)
                        ? make_const(body->type, identity_float(node.reduce))
                        : make_int(body->type, identity_int(node.reduce, body->type));
    // Nested as they were: an outer condition may protect the reads of an inner one.
    for (size_t i = guards_.size(); i-- > 0;) body = make_select(guards_[i], body, identity);
  }
  report_faults(body);
  std::vector<int> spatial = free_axes(body, reduction.axes);
  Tensor tensor = finish_tensor("", spatial, reduction.axes, node.reduce, body);
  std::vector<Expr> indices;
  for (int axis : spatial) indices.push_back(make_axis(axis));
  if (!check_size(names_.diagnostics(), names_.definition(), node.position, tensor.shape)) {
    return make_int(reduction.type, 0);
  }

  std::string key = concat(reduction_name(node.reduce), " ", type_name(tensor.type));
  std::vector<Axis> numbered;
  for (const std::vector<Axis>* axes : {&tensor.axes, &tensor.reduce_axes}) {
    for (const Axis& axis : *axes) {
      numbered.push_back({concat("$", numbered.size()), axis.extent});
      key += concat(axes == &tensor.axes ? " " : " over ", axis.extent);
    }
  }
  key += concat(" ", print_expr(tensor.body, program_, numbered));
  auto [known, fresh] = split_.emplace(key, static_cast<int>(program_.tensors.size()));
  if (fresh) {
    tensor.name = names_.fresh(concat(names_.definition(), "_", reduction_name(node.reduce)));
    program_.tensors.push_back(std::move(tensor));
  }
  return make_read(known->second, reduction.type, std::move(indices));
}

std::vector<ReadFault> NodeBuilder::faults(const Expr& body) const {
  ShapeOf shape_of = [this](int tensor) -> const std::vector<int64_t>& {
    return program_.tensors[static_cast<size_t>(tensor)].shape;
  };
  return find_read_faults(body, facts_of(names_.axes()), shape_of);
}

void NodeBuilder::report_faults(const Expr& body) {
  const std::vector<Axis>& axes = names_.axes();
  for (const ReadFault& fault : faults(body)) {
    const Node* read = inference_.site_of(fault.read);
    if (read == nullptr) continue;
    const size_t dimension = static_cast<size_t>(fault.dimension);
    const Expr& index = fault.read->args[dimension];
    std::string ranges;
    for (int axis : free_axes(index, {})) {
      const Axis& a = axes[static_cast<size_t>(axis)];
      ranges += concat(ranges.empty() ? "" : ", ", a.name, " in [0, ", a.extent - 1, "]");
    }
    error(start_of(*read->args[dimension]),
          concat("index ", dimension + 1, " of '", read->name, "', ",
                 print_expr(index, program_, axes), ", ranges over [", fault.range.lo, ", ",
                 fault.range.hi, "] but the extent is ", fault.extent,
                 ranges.empty() ? "" : concat(" (", ranges, ")")),
          "pad(READ, value) or where(condition, READ, value) protects a read");
  }
}

}  // namespace lw
