// The operations of expressions as rows of one table: what they are called, what they take and, of
// the functions of one float, what they are and what the reference has to know of them. A function
// is its line in ExprOp (loopwright/type.h), its row here, its word in C++ (loopwright/builder.h), its cost
// (schedules/costs.cc) and its code (src/build/llvm_math.cc).
#pragma once

#include <algorithm>
#include <cmath>

#include "loopwright/type.h"

namespace lw {

// Which operand types an operation takes; the front end's rules and verify()'s.
enum class Domain : uint8_t { kNumber, kFloat, kInteger, kBool, kAny };

// An operand known to lie within `radius`, which is finite, of `x`, which is finite too.
struct Ball {
  double x, radius;
  double value;                            // the function's at x, no NaN
  double largest;                          // finite number of the type that computes
  double least_size() const { return std::max(std::fabs(x) - radius, 0.0); }
};

// How far a kernel's value of a function may be from the exact one (reference/rounding.h).
enum class Rounding : uint8_t { kNone, kArithmetic, kFunction };

// How large values are beside large operands; tamed: no larger than a power of one.
enum class Growth : uint8_t { kAsOperand, kRoot, kTamed };

struct ExprOpRow {
  ExprOp op;
  std::string_view name;                   // in every text; unique
  int operands = 0;                        // 1 or 2 of one type; 0: expr.h says what `args` are
  Domain takes = Domain::kNumber;
  bool called = false;                     // the language writes name(...)
  bool wants_positive = false;             // its first operand, to have a tame value

  // Of functions of one float.
  double (*value)(double x) = nullptr;
  // The radius of the ball around `value` that holds the function's values of the operand's ball;
  // infinite where it has none somewhere. Null: a step, whose values lie between those of the ends.
  double (*radius)(const Ball& operand) = nullptr;
  Rounding rounding = Rounding::kNone;
  Growth growth = Growth::kAsOperand;
};

extern const ExprOpRow kExprOpRows[kExprOps];  // by ExprOp
inline const ExprOpRow& row_of(ExprOp op) { return kExprOpRows[static_cast<int>(op)]; }

}  // namespace lw
