// Inputs on which libraries compute what they are compared with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/reference/interpret.h"

namespace lw {

// Halves the i8 inputs of a program that multiplies them by u8 where this host has no instruction
// for it: there oneDNN adds pairs of such products in saturating i16 (its documentation's "Nuances
// of int8 computations"), and 2 * 255 * 64 is the most that fits.
inline void keep_pairs_in_i16(const Program& program, std::vector<Data>& in) {
  const absl::StatusOr<Target> host = find_target("host");
  CHECK(host.ok());
  if (dot_product(*host, Type::kU8, Type::kI8, Type::kI32) != nullptr) return;
  const std::vector<int> tensors = inputs(program);
  const auto has = [&](Type type) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](int t) { return program.tensors[t].type == type; });
  };
  if (!has(Type::kU8)) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (program.tensors[tensors[i]].type != Type::kI8) continue;
    auto* values = reinterpret_cast<int8_t*>(in[i].bytes.data());
    for (size_t j = 0; j < in[i].bytes.size(); ++j) values[j] /= 2;
  }
}

}  // namespace lw
