// Names and types: the pass that reports mistakes.
#include "src/expr/elaboration/infer.h"

#include "src/base/message.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

Info typed(Type type) { return {Info::kTyped, type, {}}; }
Info failed() { return {Info::kError, Type::kI32, {}}; }
Type value_type(const Info& info) { return info.kind == Info::kIndex ? Type::kI32 : info.type; }
bool untyped(const Info& info) {
  return info.kind == Info::kLiteral || info.kind == Info::kFlexible;
}

// An operation as the language spells it.
std::string_view spelling(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd: return "+";
    case ExprOp::kSub: case ExprOp::kNeg: return "-";
    case ExprOp::kMul: return "*";
    case ExprOp::kDiv: return "/";
    case ExprOp::kMod: return "%";
    case ExprOp::kAnd: return "&&";
    case ExprOp::kOr: return "||";
    case ExprOp::kNot: return "!";
    case ExprOp::kEq: return "==";
    case ExprOp::kNe: return "!=";
    case ExprOp::kLt: return "<";
    case ExprOp::kLe: return "<=";
    case ExprOp::kGt: return ">";
    case ExprOp::kGe: return ">=";
    default: return op_name(op);
  }
}

// Operations under which an expression of axes stays one.
bool keeps_index(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd: case ExprOp::kSub: case ExprOp::kMul: case ExprOp::kDiv: case ExprOp::kMod:
    case ExprOp::kMin: case ExprOp::kMax: case ExprOp::kNeg: case ExprOp::kAbs: return true;
    default: return false;
  }
}

}  // namespace

Type accumulator(Reduce reduce, Type type) {
  if (reduce != Reduce::kSum && reduce != Reduce::kProd) return type;
  const bool small = !is_float(type) && type != Type::kBool && size_of(type) < 4;
  return small ? Type::kI32 : register_type(type);
}

void Inference::begin() {
  infos_.clear();
  reduction_axes_.clear();
  subscripts_.clear();
  read_sites_.clear();
  kept_reads_.clear();
}

Expr Inference::read(const Node& node, const std::vector<Expr>& indices) {
  const int tensor = names_.find(node.name)->tensor;
  Expr read = make_read(tensor, program_.tensors[static_cast<size_t>(tensor)].type, indices);
  read_sites_[read.get()] = &node;
  kept_reads_.push_back(read);
  return read;
}

const Node* Inference::site_of(const ExprNode* read) const {
  const auto site = read_sites_.find(read);
  return site == read_sites_.end() ? nullptr : site->second;
}

Border Inference::border_of(const Node& pad) const {
  const Node& border = *pad.args[1];
  if (border.kind != NodeKind::kName) return Border::kNone;
  const bool is_value =
      names_.find_axis(border.name) >= 0 || names_.find(border.name) != nullptr;
  return is_value ? Border::kNone : border_named(border.name);
}

const Info& Inference::infer(const Node& node) {
  auto known = infos_.find(&node);
  if (known != infos_.end()) return known->second;
  Info info = infer_node(node);
  return infos_[&node] = info;
}

Info Inference::infer_node(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNumber:
      return {Info::kLiteral, Type::kI32, {node.number, node.integer, node.is_integer}};
    case NodeKind::kBool: return typed(Type::kBool);
    case NodeKind::kName: return infer_name(node);
    case NodeKind::kRead: return infer_read(node);
    case NodeKind::kUnary:
    case NodeKind::kBinary:
    case NodeKind::kCall: return infer_operation(node);
    case NodeKind::kWhere: return infer_where(node);
    case NodeKind::kClamp: return infer_clamp(node);
    case NodeKind::kCast: return infer_cast(node);
    case NodeKind::kReduce: return infer_reduce(node);
    case NodeKind::kPad: {
      if (node.args[0]->kind != NodeKind::kRead) {  // the parser has seen to it, the builder not
        error(node.position, "pad takes a read, such as X[i - 1]");
        return failed();
      }
      if (border_of(node) != Border::kNone) return infer(*node.args[0]);
      const Info read = infer(*node.args[0]), fill = infer(*node.args[1]);
      return combine(node, read, fill);
    }
  }
  return failed();
}

Info Inference::infer_name(const Node& node) {
  if (names_.find_axis(node.name) >= 0) return {Info::kIndex, Type::kI32, {}};
  const Symbol* found = names_.find(node.name);
  if (found == nullptr) {
    names_.report_unknown(node, false);
    return failed();
  }
  const Symbol& symbol = *found;
  switch (symbol.kind) {
    case Symbol::kInteger:
    case Symbol::kFloat: return {Info::kLiteral, Type::kI32, symbol.literal};
    case Symbol::kBool: return typed(Type::kBool);
    case Symbol::kType:
      error(node.position, concat("'", node.name, "' is a type, not a value"),
            concat("cast(", node.name, ", ...)"));
      return failed();
    case Symbol::kTensor: {
      const bool scalar = program_.tensors[static_cast<size_t>(symbol.tensor)].shape.empty();
      error(node.position, concat("'", node.name, "' is a tensor and needs indices"),
            concat(node.name, scalar ? "[]" : "[...]"));
      return failed();
    }
    case Symbol::kBroken: break;
  }
  return failed();
}

Info Inference::infer_read(const Node& node) {
  const Symbol* found = names_.find(node.name);
  if (found == nullptr) {
    if (names_.find_axis(node.name) < 0) {
      names_.report_unknown(node, true);
    } else {
      error(node.position, concat("'", node.name, "' is an axis and has no indices"));
    }
    return failed();
  }
  const Symbol symbol = *found;
  if (symbol.kind == Symbol::kBroken) return failed();
  if (symbol.kind != Symbol::kTensor) {
    error(node.position, concat("'", node.name, "' is a ",
                                symbol.kind == Symbol::kType ? "type" : "number",
                                " and has no indices"));
    return failed();
  }
  const Tensor& tensor = program_.tensors[static_cast<size_t>(symbol.tensor)];
  if (tensor.shape.size() != node.args.size()) {
    error(node.position, concat("'", node.name, "' has ", tensor.shape.size(),
                                " dimensions but is read with ", node.args.size(),
                                " indices"));
    return failed();
  }
  std::vector<Expr> indices;
  for (const NodePtr& arg : node.args) {
    indices.push_back(subscript(*arg));
    if (!indices.back()) return failed();
  }
  subscripts_[&node] = std::move(indices);
  return typed(tensor.type);
}

// An index: axes, constants, and reads of integer tensors under + - min max clamp abs, and * / % by
// constants.
Expr Inference::subscript(const Node& node) {
  if (is_literal(names_, node)) {
    std::optional<int64_t> value = constant_integer(names_, node, "an index");
    return value ? make_int(Type::kI64, *value) : nullptr;
  }
  switch (node.kind) {
    case NodeKind::kName: {
      const int axis = names_.find_axis(node.name);
      if (axis >= 0) return make_axis(axis);
      if (infer_name(node).kind == Info::kTyped) {
        error(node.position, concat("'", node.name, "' is a bool, not an index"));
      }
      return nullptr;
    }
    case NodeKind::kRead: {
      const Info info = infer(node);
      if (info.kind == Info::kError) return nullptr;
      if (!accepts(Domain::kInteger, info.type)) {
        error(node.position, concat("an index must be an integer; '", node.name,
                                    "' is ", type_name(info.type)));
        return nullptr;
      }
      return make_cast(Type::kI64, read(node, indices(node)));
    }
    case NodeKind::kUnary:
      if (node.op == ExprOp::kNeg) {
        Expr value = subscript(*node.args[0]);
        return value ? make_unary(ExprOp::kNeg, value) : nullptr;
      }
      break;
    case NodeKind::kBinary:
      if (node.op == ExprOp::kAdd || node.op == ExprOp::kSub) {
        Expr a = subscript(*node.args[0]), b = subscript(*node.args[1]);
        return a && b ? make_binary(node.op, a, b) : nullptr;
      }
      if (keeps_index(node.op)) return scaled_subscript(node);
      break;
    case NodeKind::kCall:
    case NodeKind::kClamp: {
      const bool clamps = node.kind == NodeKind::kClamp;
      if (!clamps && !keeps_index(node.op)) break;
      std::vector<Expr> args;
      for (const NodePtr& arg : node.args) {
        args.push_back(subscript(*arg));
        if (!args.back()) return nullptr;
      }
      if (clamps) {
        return make_binary(ExprOp::kMin, make_binary(ExprOp::kMax, args[0], args[1]), args[2]);
      }
      return args.size() == 1 ? make_unary(node.op, args[0])
                              : make_binary(node.op, args[0], args[1]);
    }
    default: break;
  }
  error(node.position,
        "an index is made of axes, constants and reads of integer tensors with "
        "+ - * / % min max clamp abs");
  return nullptr;
}

// index * constant, constant * index, index / constant, index % constant.
Expr Inference::scaled_subscript(const Node& node) {
  const bool left = is_literal(names_, *node.args[0]);
  const bool right = is_literal(names_, *node.args[1]);
  if (!right && !(left && node.op == ExprOp::kMul)) {
    error(node.position, node.op == ExprOp::kMul
                             ? "an index multiplies by constants only"
                             : "an index divides by constants only");
    return nullptr;
  }
  Expr a = subscript(*node.args[0]), b = subscript(*node.args[1]);
  if (!a || !b) return nullptr;
  if (node.op != ExprOp::kMul && b->integer < 1) {
    error(node.args[1]->position,
          concat("an index divides by positive constants only, not by ", b->integer));
    return nullptr;
  }
  return make_binary(node.op, a, b);
}

// The common type of two operands.
Info Inference::combine(const Node& node, const Info& a, const Info& b) {
  if (a.kind == Info::kError || b.kind == Info::kError) return failed();
  if (untyped(a) && untyped(b)) return {Info::kFlexible, Type::kI32, {}};
  if (untyped(a) || untyped(b)) {
    const Info& other = untyped(a) ? b : a;
    const Info& loose = untyped(a) ? a : b;
    return loose.kind == Info::kLiteral ? other : typed(value_type(other));
  }
  if (value_type(a) == value_type(b)) return a.kind == b.kind ? a : typed(value_type(a));
  const bool axis = a.kind == Info::kIndex || b.kind == Info::kIndex;
  error(node.position, concat("operands of types ", type_name(value_type(a)), " and ",
                              type_name(value_type(b)), " do not mix"),
        axis ? "an axis as a value is an i32; cast it: cast(f32, i)"
             : concat("cast one of them: cast(", type_name(value_type(a)), ", ...)"));
  return failed();
}

// The result of `op` on operands of this common type.
Info Inference::require(const Node& node, ExprOp op, const Info& operands) {
  if (operands.kind == Info::kError) return operands;
  if (untyped(operands)) {
    if (domain_of(op) == Domain::kBool) {
      error(node.position, concat("'", spelling(op), "' takes bools, not numbers"));
      return failed();
    }
    return is_comparison(op) ? typed(Type::kBool) : operands;
  }
  const Type type = value_type(operands);
  if (!accepts(domain_of(op), type)) {
    constexpr const char* kTakes[] = {"numbers", "floats", "integers", "bools", "anything"};
    const bool wants_float = domain_of(op) == Domain::kFloat;
    error(node.position, concat("'", spelling(op), "' takes ",
                                kTakes[static_cast<int>(domain_of(op))], ", not ",
                                type_name(type)),
          wants_float && type != Type::kBool ? "cast(f32, ...)" : "");
    return failed();
  }
  if (is_comparison(op)) return typed(Type::kBool);
  return operands.kind == Info::kIndex && !keeps_index(op) ? typed(type) : operands;
}

Info Inference::infer_operation(const Node& node) {
  const Info a = infer(*node.args[0]);
  if (node.args.size() == 1) {
    if (a.kind == Info::kLiteral) {
      if (std::optional<Literal> value = fold(node.op, a.literal, nullptr)) {
        return {Info::kLiteral, Type::kI32, *value};
      }
    }
    return require(node, node.op, a);
  }
  const Info b = infer(*node.args[1]);
  if (a.kind == Info::kLiteral && b.kind == Info::kLiteral) {
    if (std::optional<Literal> value = fold(node.op, a.literal, &b.literal)) {
      return {Info::kLiteral, Type::kI32, *value};
    }
  }
  const Info operands = combine(node, a, b);
  const bool constants = a.kind == Info::kLiteral && b.kind == Info::kLiteral;
  if (is_comparison(node.op) && operands.kind == Info::kFlexible && !constants) {
    error(node.position, "nothing gives the operands of this comparison a type",
          "cast(f32, ...) gives a literal one");
    return failed();
  }
  return require(node, node.op, operands);
}

Info Inference::infer_where(const Node& node) {
  const Info condition = infer(*node.args[0]);
  const Info a = infer(*node.args[1]), b = infer(*node.args[2]);
  Info result = combine(node, a, b);
  if (condition.kind != Info::kError &&
      (condition.kind != Info::kTyped || condition.type != Type::kBool)) {
    error(node.args[0]->position, "the condition of where is no bool",
          "compare it: where(x != 0, a, b)");
    return failed();
  }
  if (condition.kind == Info::kError) return failed();
  return result.kind == Info::kIndex ? typed(Type::kI32) : result;
}

Info Inference::infer_clamp(const Node& node) {
  const Info x = infer(*node.args[0]), lo = infer(*node.args[1]), hi = infer(*node.args[2]);
  if (x.kind == Info::kLiteral && lo.kind == Info::kLiteral && hi.kind == Info::kLiteral) {
    std::optional<Literal> low = fold(ExprOp::kMax, x.literal, &lo.literal);
    return {Info::kLiteral, Type::kI32, *fold(ExprOp::kMin, *low, &hi.literal)};
  }
  return require(node, ExprOp::kMin, combine(node, combine(node, x, lo), hi));
}

Info Inference::infer_cast(const Node& node) {
  std::optional<Type> type = names_.type_named(node.type);
  const Info value = infer(*node.args[0]);
  return type && value.kind != Info::kError ? typed(*type) : failed();
}

Info Inference::infer_reduce(const Node& node) {
  std::vector<int> ids;
  const bool ok = names_.push_axes(node.axes, &ids);
  const Info body = infer(*node.args[0]);
  names_.pop_axes(ids.size());
  reduction_axes_[&node] = ids;
  if (!ok || body.kind == Info::kError) return failed();
  if (untyped(body)) return {Info::kFlexible, Type::kI32, {}};
  const Type type = value_type(body);
  if (type == Type::kBool) {
    error(node.position, concat("'", reduction_name(node.reduce),
                                "' takes numbers, not bool"), "cast(i32, ...)");
    return failed();
  }
  return typed(accumulator(node.reduce, type));
}

}  // namespace lw
