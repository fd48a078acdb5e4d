#include "src/expr/type.h"

#include <iterator>

namespace lw {
namespace {

struct TypeRow {
  const char* name;
  int size;
  bool is_float;
};
constexpr TypeRow kTypes[] = {{"f64", 8, true},  {"f32", 4, true},  {"f16", 2, true},
                              {"bf16", 2, true}, {"i64", 8, false}, {"i32", 4, false},
                              {"i16", 2, false}, {"i8", 1, false},  {"u8", 1, false},
                              {"bool", 1, false}};
constexpr const char* kOpNames[] = {
    "const", "axis",  "read", "pad", "select", "cast", "add",  "sub",  "mul", "div",     "mod",
    "min",   "max",   "pow",  "and", "or",     "eq",   "ne",   "lt",   "le",  "gt",      "ge",
    "neg",   "not",   "abs",  "exp", "log",    "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "floor",
    "ceil",  "round"};

}  // namespace

int size_of(Type type) { return kTypes[static_cast<int>(type)].size; }
bool is_float(Type type) { return kTypes[static_cast<int>(type)].is_float; }
std::string_view type_name(Type type) { return kTypes[static_cast<int>(type)].name; }

bool parse_type(std::string_view name, Type* type) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (name != kTypes[i].name) continue;
    *type = static_cast<Type>(i);
    return true;
  }
  return false;
}

bool is_binary(ExprOp op) { return op >= ExprOp::kAdd && op <= ExprOp::kGe; }
bool is_unary(ExprOp op) { return op >= ExprOp::kNeg; }

bool is_commutative(ExprOp op) {
  switch (op) {
    case ExprOp::kAdd: case ExprOp::kMul: case ExprOp::kMin: case ExprOp::kMax:
    case ExprOp::kAnd: case ExprOp::kOr: case ExprOp::kEq: case ExprOp::kNe: return true;
    default: return false;
  }
}
std::string_view op_name(ExprOp op) { return kOpNames[static_cast<int>(op)]; }

}  // namespace lw
