// Whether a kernel's results are the reference's, but for the order in which floats were rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "src/base/message.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/scalar.h"

namespace lw {

// For results of a program whose inputs are small whole numbers: a share of a tensor's largest
// element.
inline double tolerance(const Program& program) {
  double eps = 1e-9;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::kInput) continue;  // small whole numbers: exact in any type
    if (tensor.type == Type::kF32) eps = std::max(eps, 1e-4);
    if (tensor.type == Type::kF16) eps = std::max(eps, 8e-3);
    if (tensor.type == Type::kBF16) eps = std::max(eps, 5e-2);
  }
  return eps;
}

// "" when all elements agree; floats to `eps` of the largest.
inline std::string compare(const Tensor& tensor, const std::byte* got, const std::byte* want,
                           double eps) {
  const int64_t count = elements(tensor);
  double largest = 1;
  for (int64_t i = 0; i < count && is_float(tensor.type); ++i) {
    const double value = std::abs(load_element(tensor.type, want, i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!is_float(tensor.type)) {
      const int64_t x = load_integer(tensor.type, got, i), y = load_integer(tensor.type, want, i);
      if (x != y) return concat(tensor.name, " element ", i, ": ", x, ", not ", y);
      continue;
    }
    const double x = load_element(tensor.type, got, i), y = load_element(tensor.type, want, i);
    // Beyond the type's range the order of rounding decides between infinity and the largest.
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                      std::abs(x - y) <= eps * largest || (!std::isfinite(y) && !std::isfinite(x));
    if (!same)
      return concat(tensor.name, " element ", i, ": ", std::to_string(x), ", not ",
                    std::to_string(y));
  }
  return "";
}

}  // namespace lw
