// Expressions as text of the language, for the printer and for messages.
#pragma once

#include <string>
#include <vector>

#include "src/expr/expr.h"

namespace lw {

std::string print_expr(const Expr& expr, const Program& program, const std::vector<Axis>& axes);
std::string print_number(Type type, double value);  // the shortest text that reads back equal

}  // namespace lw
