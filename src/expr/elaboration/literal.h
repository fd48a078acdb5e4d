// Constants: integers where the language wants integers (extents, lets, indices: floor division,
// overflow is an error), f64 where it wants values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "src/expr/expr.h"
#include "src/expr/language/syntax.h"

namespace lw {

class Names;

// The value of an expression of literals, in f64; also exactly when it is an integer.
struct Literal {
  double number = 0;
  int64_t integer = 0;
  bool exact = false;
};

// `b` null: of one operand. Nothing when the operation gives a bool or takes one.
std::optional<Literal> fold(ExprOp op, const Literal& a, const Literal* b);
// As a constant of the type; where it is none, that is reported.
Expr literal_as(const Node& node, const Literal& literal, Type type, Diagnostics* diagnostics);

// Whether the expression is one of numbers, parameters and lets alone.
bool is_literal(const Names& names, const Node& node);
// The value of such an expression; anything else is reported, `what` ("an extent") names the place.
std::optional<int64_t> constant_integer(const Names& names, const Node& node,
                                        std::string_view what);

}  // namespace lw
