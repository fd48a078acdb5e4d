// The builder: each call makes the node that the parser would make of the same text.
#include "loopwright/builder.h"

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/language/border.h"
#include "src/expr/language/syntax.h"

namespace lw {
namespace {

Value operation(NodeKind kind, ExprOp op, std::initializer_list<Value> operands) {
  Node node;
  node.kind = kind;
  node.op = op;
  for (const Value& operand : operands) node.args.push_back(operand.node());
  return Value(make_node(std::move(node)));
}
Value binary(ExprOp op, const Value& a, const Value& b) {
  return operation(NodeKind::kBinary, op, {a, b});
}

NodePtr number(double value, int64_t integer, bool is_integer) {
  Node node;
  node.kind = NodeKind::kNumber;
  node.number = value;
  node.integer = integer;
  node.is_integer = is_integer;
  return make_node(std::move(node));
}
NodePtr integer(int64_t value) { return number(static_cast<double>(value), value, true); }

NodePtr name_node(const std::string& name) {
  Node node;
  node.kind = NodeKind::kName;
  node.name = name;
  return make_node(std::move(node));
}

Value reduce(Reduce kind, const std::vector<ReduceAxis>& axes, const Value& body) {
  Node node;
  node.kind = NodeKind::kReduce;
  node.reduce = kind;
  for (const ReduceAxis& axis : axes) node.axes.push_back({axis.name, 0, integer(axis.extent)});
  node.args = {body.node()};
  return Value(make_node(std::move(node)));
}

}  // namespace

Value::Value(int literal) : node_(integer(literal)) {}
Value::Value(int64_t literal) : node_(integer(literal)) {}
Value::Value(double literal) : node_(number(literal, 0, false)) {}
Value::Value(bool literal) {
  Node node;
  node.kind = NodeKind::kBool;
  node.integer = literal;
  node_ = make_node(std::move(node));
}
Value::Value(const ReduceAxis& axis) : node_(name_node(axis.name)) {}

Value TensorRef::read(const Values& indices) const {
  Node node;
  node.kind = NodeKind::kRead;
  node.name = name_;
  for (const Value& index : indices) node.args.push_back(index.node());
  return Value(make_node(std::move(node)));
}

OpBuilder::OpBuilder(std::string name) : syntax_(std::make_shared<OpSyntax>()) {
  check_name(name, "an op");
  syntax_->source = std::make_shared<const Source>(Source{concat("op ", name), ""});
  syntax_->name = std::move(name);
}

// What the parser would refuse must not get into a program: it could not be printed.
void OpBuilder::check_name(const std::string& name, const char* what) const {
  if (is_identifier(name) && !is_reserved(name)) return;
  errors_.push_back(concat("'", name, "' cannot name ", what, "\n"));
}

TensorRef OpBuilder::declare(const std::string& name, Type type, const std::vector<int64_t>& shape,
                             bool is_const) {
  check_name(name, "an input");
  Statement statement;
  statement.kind = StatementKind::kInput;
  statement.name = name;
  statement.type.name = type_name(type);
  statement.is_const = is_const;
  for (int64_t extent : shape) statement.shape.push_back(integer(extent));
  syntax_->statements.push_back(std::move(statement));
  return TensorRef(name);
}

TensorRef OpBuilder::input(const std::string& name, Type type, const std::vector<int64_t>& shape) {
  return declare(name, type, shape, false);
}
TensorRef OpBuilder::constant(const std::string& name, Type type,
                              const std::vector<int64_t>& shape) {
  return declare(name, type, shape, true);
}

TensorRef OpBuilder::define(const std::string& name, const std::vector<Axis>& axes,
                            const Body& body, bool is_out) {
  check_name(name, "a tensor");
  Statement statement;
  statement.name = name;
  statement.is_out = is_out;
  Values indices;
  for (const Axis& axis : axes) {
    check_name(axis.name, "an axis");
    statement.axes.push_back({axis.name, 0, integer(axis.extent)});
    indices.emplace_back(name_node(axis.name));
  }
  statement.value = body(indices).node();
  syntax_->statements.push_back(std::move(statement));
  return TensorRef(name);
}

TensorRef OpBuilder::compute(const std::string& name, const std::vector<Axis>& axes,
                             const Body& body) {
  return define(name, axes, body, false);
}
TensorRef OpBuilder::output(const std::string& name, const std::vector<Axis>& axes,
                            const Body& body) {
  return define(name, axes, body, true);
}

Value OpBuilder::sum(const std::vector<ReduceAxis>& axes, const Value& body) const {
  for (const ReduceAxis& axis : axes) check_name(axis.name, "an axis");
  return reduce(Reduce::kSum, axes, body);
}
Value OpBuilder::prod(const std::vector<ReduceAxis>& axes, const Value& body) const {
  for (const ReduceAxis& axis : axes) check_name(axis.name, "an axis");
  return reduce(Reduce::kProd, axes, body);
}
Value OpBuilder::max(const std::vector<ReduceAxis>& axes, const Value& body) const {
  for (const ReduceAxis& axis : axes) check_name(axis.name, "an axis");
  return reduce(Reduce::kMax, axes, body);
}
Value OpBuilder::min(const std::vector<ReduceAxis>& axes, const Value& body) const {
  for (const ReduceAxis& axis : axes) check_name(axis.name, "an axis");
  return reduce(Reduce::kMin, axes, body);
}

absl::StatusOr<Program> OpBuilder::build() const {
  if (!errors_.empty()) {
    std::string all;
    for (const std::string& error : errors_)
      all += concat("op ", syntax_->name, ": error: ", error);
    return absl::InvalidArgumentError(all);
  }
  Diagnostics diagnostics(syntax_->source);
  std::unique_ptr<Program> program = elaborate(*syntax_, {}, &diagnostics);
  RETURN_IF_ERROR(diagnostics.status());
  CHECK(program != nullptr);
  RETURN_IF_ERROR(verify(*program));
  return std::move(*program);
}

Value operator+(const Value& a, const Value& b) { return binary(ExprOp::kAdd, a, b); }
Value operator-(const Value& a, const Value& b) { return binary(ExprOp::kSub, a, b); }
Value operator*(const Value& a, const Value& b) { return binary(ExprOp::kMul, a, b); }
Value operator/(const Value& a, const Value& b) { return binary(ExprOp::kDiv, a, b); }
Value operator%(const Value& a, const Value& b) { return binary(ExprOp::kMod, a, b); }
Value operator<(const Value& a, const Value& b) { return binary(ExprOp::kLt, a, b); }
Value operator<=(const Value& a, const Value& b) { return binary(ExprOp::kLe, a, b); }
Value operator>(const Value& a, const Value& b) { return binary(ExprOp::kGt, a, b); }
Value operator>=(const Value& a, const Value& b) { return binary(ExprOp::kGe, a, b); }
Value operator==(const Value& a, const Value& b) { return binary(ExprOp::kEq, a, b); }
Value operator!=(const Value& a, const Value& b) { return binary(ExprOp::kNe, a, b); }
Value operator&&(const Value& a, const Value& b) { return binary(ExprOp::kAnd, a, b); }
Value operator||(const Value& a, const Value& b) { return binary(ExprOp::kOr, a, b); }
Value operator-(const Value& a) { return operation(NodeKind::kUnary, ExprOp::kNeg, {a}); }
Value operator!(const Value& a) { return operation(NodeKind::kUnary, ExprOp::kNot, {a}); }
Value call(ExprOp function, std::initializer_list<Value> operands) {
  return operation(NodeKind::kCall, function, operands);
}

Value clamp(const Value& x, const Value& lo, const Value& hi) {
  return operation(NodeKind::kClamp, ExprOp::kConst, {x, lo, hi});
}
Value where(const Value& condition, const Value& a, const Value& b) {
  return operation(NodeKind::kWhere, ExprOp::kConst, {condition, a, b});
}
Value pad(const Value& read, const Value& fill) {
  return operation(NodeKind::kPad, ExprOp::kConst, {read, fill});
}
Value pad(const Value& read, Border border) {
  Node name;
  name.kind = NodeKind::kName;
  name.name = border_name(border);
  return pad(read, Value(make_node(std::move(name))));
}
Value cast(Type type, const Value& a) {
  Node node;
  node.kind = NodeKind::kCast;
  node.type.name = type_name(type);
  node.args = {a.node()};
  return Value(make_node(std::move(node)));
}

}  // namespace lw
