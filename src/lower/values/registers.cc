#include "src/lower/values/registers.h"

#include <algorithm>

#include "src/base/check.h"

namespace lw::lowering {

Value Registers::emit(Stmt&& stmt, Type type, int lanes) {
  const Value value{e_.new_register(type, lanes), lanes};
  stmt.dst = value.reg;
  e_.emit(std::move(stmt));
  return value;
}

Value Registers::immediate(Type type, double number, int64_t integer, int lanes) {
  Stmt stmt;
  stmt.op = Op::kImmediate;
  stmt.number = number;
  stmt.integer = integer;
  return emit(std::move(stmt), register_type(type), lanes);
}

Value Registers::whole(int64_t number, int lanes) {
  return immediate(Type::kI64, static_cast<double>(number), number, lanes);
}

// As it was loaded: copies keep 16-bit floats.
Value Registers::zero_like(Value value) {
  const Type type = type_of(value);
  return convert(type, immediate(type, 0, 0, 1));
}

Value Registers::iota(Type type, const Index& index, int lanes) {
  Stmt stmt;
  stmt.op = Op::kIota;
  stmt.index = index.base;
  stmt.stride = lanes > 1 ? index.lane : 0;
  return emit(std::move(stmt), type, lanes);
}

Value Registers::of_index(const Index& index, Type type, int lanes) {
  if (index.terms.empty()) return iota(type, index, lanes);
  Value sum = iota(Type::kI64, index, lanes);
  for (const Index::Term& t : index.terms) {
    const Value factor = whole(t.coefficient, lanes);
    const Value product = binary(ExprOp::kMul, Type::kI64, {t.reg, lanes}, factor);
    sum = binary(ExprOp::kAdd, Type::kI64, sum, product);
  }
  return cast(type, sum);
}

Value Registers::lane_mask(const Affine& index, int64_t stride, int lanes) {
  Stmt stmt;
  stmt.op = Op::kLaneMask;
  stmt.index = index;
  stmt.stride = stride;
  return emit(std::move(stmt), Type::kBool, lanes);
}

Value Registers::broadcast(Value value, int lanes) {
  if (value.lanes == lanes) return value;
  CHECK(lanes % value.lanes == 0);
  auto [it, fresh] = broadcasts_.try_emplace(std::make_pair(value.reg, lanes), -1);
  if (fresh) {
    Stmt stmt;
    stmt.op = Op::kBroadcast;
    stmt.srcs[0] = value.reg;
    it->second = emit(std::move(stmt), type_of(value), lanes).reg;
  }
  return {it->second, lanes};
}

Value Registers::unary(ExprOp op, Type type, Value a) {
  Stmt stmt;
  stmt.op = Op::kUnary;
  stmt.expr_op = op;
  stmt.srcs[0] = a.reg;
  return emit(std::move(stmt), register_type(type), a.lanes);
}

Value Registers::binary(ExprOp op, Type type, Value a, Value b) {
  const int lanes = std::max(a.lanes, b.lanes);
  a = broadcast(a, lanes);
  b = broadcast(b, lanes);
  Stmt stmt;
  stmt.op = Op::kBinary;
  stmt.expr_op = op;
  stmt.srcs[0] = a.reg;
  stmt.srcs[1] = b.reg;
  return emit(std::move(stmt), register_type(type), lanes);
}

Value Registers::select(Value condition, Value a, Value b) {
  const int lanes = std::max({condition.lanes, a.lanes, b.lanes});
  condition = broadcast(condition, lanes);
  a = broadcast(a, lanes);
  b = broadcast(b, lanes);
  Stmt stmt;
  stmt.op = Op::kSelect;
  stmt.srcs[0] = condition.reg;
  stmt.srcs[1] = a.reg;
  stmt.srcs[2] = b.reg;
  return emit(std::move(stmt), type_of(a), lanes);
}

Value Registers::reciprocal(Value b) {
  auto [it, fresh] = reciprocals_.try_emplace(b.reg, -1);
  if (fresh) it->second = binary(ExprOp::kDiv, type_of(b), immediate(type_of(b), 1, 1, 1), b).reg;
  return {it->second, 1};
}

Value Registers::cast(Type type, Value value) { return convert(register_type(type), value); }

Value Registers::convert(Type type, Value value) {
  const Type from = type_of(value);
  if (from == type) return value;
  // What was only widened goes back as it was, bit for bit: rounding may take subnormals for zero.
  const auto narrow = narrow_.find(value.reg);
  if (narrow != narrow_.end() && type_of({narrow->second, value.lanes}) == type) {
    return {narrow->second, value.lanes};
  }
  Stmt stmt;
  stmt.op = Op::kCast;
  stmt.srcs[0] = value.reg;
  const Value result = emit(std::move(stmt), type, value.lanes);
  if (register_type(from) == type) narrow_[result.reg] = value.reg;
  return result;
}

void Registers::move(Value into, Value value) {
  Stmt stmt;
  stmt.op = Op::kMove;
  stmt.dst = into.reg;
  stmt.srcs[0] = value.reg;
  e_.emit(std::move(stmt));
}

Value Registers::horizontal(Reduce reduce, Value value) {
  Stmt stmt;
  stmt.op = Op::kHorizontal;
  stmt.reduce = reduce;
  stmt.srcs[0] = value.reg;
  return emit(std::move(stmt), type_of(value), 1);
}

Value Registers::across(Reduce reduce, Value value, int64_t items) {
  Stmt stmt;
  stmt.op = Op::kAcross;
  stmt.reduce = reduce;
  stmt.integer = items;
  stmt.srcs[0] = value.reg;
  return emit(std::move(stmt), type_of(value), value.lanes);
}

Value Registers::interleave(const std::vector<Value>& values) {
  int lanes = 1;
  for (const Value& value : values) lanes = std::max(lanes, value.lanes);
  Stmt stmt;
  stmt.op = Op::kInterleave;
  for (const Value& value : values) stmt.many.push_back(broadcast(value, lanes).reg);
  return emit(std::move(stmt), type_of(values[0]), lanes * static_cast<int>(values.size()));
}

std::vector<Value> Registers::transpose(const std::vector<Value>& rows) {
  Stmt stmt;
  stmt.op = Op::kTranspose;
  for (const Value& row : rows) stmt.many.push_back(row.reg);
  std::vector<Value> columns;
  for (const Value& row : rows) {
    columns.push_back({e_.new_register(type_of(row), row.lanes), row.lanes});
    stmt.many.push_back(columns.back().reg);
  }
  e_.emit(std::move(stmt));
  return columns;
}

Value Registers::slide(Value low, Value high, int64_t at) {
  Stmt stmt;
  stmt.op = Op::kSlide;
  stmt.srcs[0] = low.reg;
  stmt.srcs[1] = high.reg;
  stmt.integer = at;
  return emit(std::move(stmt), type_of(low), low.lanes);
}

}  // namespace lw::lowering
