// Nodes from checked syntax. `want` is the type a node is evaluated in: its own, or the
// accumulator's type of the reduction around it, and then the reads below are cast to it (a sum of
// products of f16 multiplies in f32).
#include "src/base/check.h"
#include "src/expr/elaborate.h"
#include "src/expr/limits.h"
#include "src/expr/message.h"
#include "src/expr/print.h"
#include "src/expr/scalar.h"

namespace lw {

namespace {

// Where the text of a node starts (an operator's own position is that of its sign).
int start_of(const Node& node) {
  const bool infix = node.kind == NodeKind::kBinary;
  return infix ? start_of(*node.args[0]) : node.position;
}

}  // namespace

Type accumulator(Reduce reduce, Type type) {
  if (reduce != Reduce::kSum && reduce != Reduce::kProd) return type;
  if (type == Type::kF16 || type == Type::kBF16) return Type::kF32;
  if (type == Type::kI8 || type == Type::kU8 || type == Type::kI16) return Type::kI32;
  return type;
}

Expr Elaborator::build(const Node& node, Type want) {
  const Info info = infer(node);
  if (info.kind == Info::kLiteral) return literal_as(node, info.literal, want);
  if (info.kind == Info::kIndex) {
    return make_cast(want, make_cast(Type::kI32, axis_value(node)));
  }
  switch (node.kind) {
    case NodeKind::kBool: return make_int(Type::kBool, node.integer);
    case NodeKind::kName: {
      auto symbol = symbols_.find(node.name);
      CHECK(symbol != symbols_.end());
      return make_int(Type::kBool, symbol->second.literal.integer);
    }
    case NodeKind::kRead: return make_cast(want, build_read(node));
    case NodeKind::kPad: {
      if (border_of(node) != Border::kNone) return make_cast(want, build_border(node));
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

Expr Elaborator::build_operation(const Node& node, Type want) {
  if (!accepts(domain_of(node.op), want)) {  // where(c, 1, 0) % 2 in a float's place
    diagnostics_->error(node.position,
                        concat("'", op_name(node.op), "' does not apply to ", type_name(want)));
    return make_int(want, 0);
  }
  Expr a = build(*node.args[0], want);
  if (node.args.size() == 1) return make_unary(node.op, a);
  return make_binary(node.op, a, build(*node.args[1], want));
}

Expr Elaborator::build_comparison(const Node& node) {
  const Info a = infer(*node.args[0]), b = infer(*node.args[1]);
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

Expr Elaborator::build_where(const Node& node, Type want) {
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

Expr Elaborator::build_read(const Node& node) {
  auto indices = subscripts_.find(&node);
  CHECK(indices != subscripts_.end());
  return build_read(node, indices->second);
}

Expr Elaborator::build_read(const Node& node, const std::vector<Expr>& indices) {
  const int tensor = symbols_.at(node.name).tensor;
  Expr read = make_read(tensor, program_->tensors[static_cast<size_t>(tensor)].type, indices);
  read_sites_[read.get()] = &node;
  kept_reads_.push_back(read);
  return read;
}

Expr Elaborator::build_cast(const Node& node) {
  const Type type = *type_named(node.name, node.position);
  const Info info = infer(*node.args[0]);
  if (info.kind == Info::kLiteral) {
    const Literal& literal = info.literal;
    if (is_float(type)) return literal_as(*node.args[0], literal, type);
    if (type == Type::kBool) return make_int(type, literal.number != 0);
    return literal.exact ? make_int(type, literal.integer) : make_const(type, literal.number);
  }
  const Type own = info.kind == Info::kTyped ? info.type
                   : info.kind == Info::kIndex ? Type::kI32 : type;
  return make_cast(type, build(*node.args[0], own));
}

// An expression of axes and literals, in i64.
Expr Elaborator::axis_value(const Node& node) {
  const Info info = infer(node);
  if (info.kind == Info::kLiteral) return literal_as(node, info.literal, Type::kI64);
  if (node.kind == NodeKind::kName) return make_axis(find_axis(node.name));
  Expr a = axis_value(*node.args[0]);
  if (node.kind == NodeKind::kClamp) {
    Expr lo = axis_value(*node.args[1]), hi = axis_value(*node.args[2]);
    return make_binary(ExprOp::kMin, make_binary(ExprOp::kMax, a, lo), hi);
  }
  if (node.args.size() == 1) return make_unary(node.op, a);
  return make_binary(node.op, a, axis_value(*node.args[1]));
}

Elaborator::Reduction Elaborator::build_reduction(const Node& node, Type want) {
  const Info info = infer(node);
  Reduction result{info.kind == Info::kTyped ? info.type : want, reduction_axes_.at(&node),
                   nullptr};
  for (size_t i = 0; i < result.axes.size(); ++i) {
    scope_.emplace_back(node.axes[i].name, result.axes[i]);
  }
  result.body = build(*node.args[0], result.type);
  pop_axes(result.axes.size());
  return result;
}

std::vector<int> Elaborator::free_axes(const Expr& body, const std::vector<int>& bound) const {
  std::vector<bool> used(axes_.size());
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
Expr Elaborator::split_reduction(const Node& node, Type want) {
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
  if (!check_size(definition_, node.position, tensor.shape)) return make_int(reduction.type, 0);

  std::string key = concat(reduction_name(node.reduce), " ", type_name(tensor.type));
  std::vector<Axis> numbered;
  for (const std::vector<Axis>* axes : {&tensor.axes, &tensor.reduce_axes}) {
    for (const Axis& axis : *axes) {
      numbered.push_back({concat("$", numbered.size()), axis.extent});
      key += concat(axes == &tensor.axes ? " " : " over ", axis.extent);
    }
  }
  key += concat(" ", print_expr(tensor.body, *program_, numbered));
  auto [known, fresh] = split_.emplace(key, static_cast<int>(program_->tensors.size()));
  if (fresh) {
    tensor.name = fresh_name(concat(definition_, "_", reduction_name(node.reduce)));
    program_->tensors.push_back(std::move(tensor));
  }
  return make_read(known->second, reduction.type, std::move(indices));
}

std::vector<ReadFault> Elaborator::faults(const Expr& body) const {
  ShapeOf shape_of = [this](int tensor) -> const std::vector<int64_t>& {
    return program_->tensors[static_cast<size_t>(tensor)].shape;
  };
  return find_read_faults(body, facts_of(axes_), shape_of);
}

void Elaborator::report_faults(const Expr& body) {
  for (const ReadFault& fault : faults(body)) {
    auto site = read_sites_.find(fault.read);
    if (site == read_sites_.end()) continue;
    const size_t dimension = static_cast<size_t>(fault.dimension);
    const Expr& index = fault.read->args[dimension];
    std::string ranges;
    for (int axis : free_axes(index, {})) {
      const Axis& a = axes_[static_cast<size_t>(axis)];
      ranges += concat(ranges.empty() ? "" : ", ", a.name, " in [0, ", a.extent - 1, "]");
    }
    const Node& read = *site->second;
    diagnostics_->error(
        start_of(*read.args[dimension]),
        concat("index ", dimension + 1, " of '", read.name, "', ",
               print_expr(index, *program_, axes_), ", ranges over [", fault.range.lo, ", ",
               fault.range.hi, "] but the extent is ", fault.extent,
               ranges.empty() ? "" : concat(" (", ranges, ")")),
        "pad(READ, value) or where(condition, READ, value) protects a read");
  }
}

}  // namespace lw
