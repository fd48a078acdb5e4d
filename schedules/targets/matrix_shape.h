// Products of small matrices that the items of a sub-group compute together (Op::kMatrixProduct), and
// how these lie in their registers: NVIDIA's mma.sync. Facts of the PTX ISA, 9.7.14. Pure; thread-safe.
//
// An item is g = item / 4 % 8, t = item % 4. Its registers have `pack` lanes, elements that follow
// each other along k, of a row or a column:
//
//   a   row g + 8 h, from k = pack * (t + 4 q) on: register q * (m / 8) + h
//   b   column g, from the same k on: register q
//   acc row g + 8 h, columns 2 t and 2 t + 1: register h, of two lanes
#pragma once

#include <cstdint>

#include "loopwright/type.h"

namespace lw {

inline constexpr int64_t kMatrixItems = 32;  // of a sub-group
inline constexpr int64_t kMatrixRows = 8;    // among which an item has one, or one of as many columns
// Op::kMatrixParts, NVIDIA's ldmatrix (9.7.14.5.15): of a row that an item has; of its part of one.
inline constexpr int64_t kMatrixRowBytes = 16, kMatrixPartBytes = 4;

// Op::kWideProduct, NVIDIA's wgmma (9.7.16): rows of the product of sub-groups that work together, each
// of which has as many of them as a product of its own has, and its parts of acc lie as of that.
inline constexpr int64_t kWideSubGroups = 4, kWideRows = 64;
inline constexpr int64_t kWideItems = kWideSubGroups * kMatrixItems;
inline constexpr int64_t kWideColumns = 256;  // at most
inline constexpr int64_t kWideRowBytes = 128;  // of a row of an operand in memory
inline constexpr size_t kWideRegisters = 4;  // of an item, of a where that is in registers

struct MatrixShape {
  Type a, b, acc;
  int m, n, k;
  int pack;                                // lanes of a register of a and of b

  int halves() const { return m / static_cast<int>(kMatrixRows); }  // of rows
  int parts() const { return k / (4 * pack); }  // of k
  int acc_registers() const { return halves(); }
  int a_registers() const { return halves() * parts(); }
  int b_registers() const { return parts(); }
  int registers() const { return acc_registers() + a_registers() + b_registers(); }
  // Words that an item's registers have of a tile of so many of them each way: results, the operands
  // of one step along k, all of which are read before the products begin, and others.
  int64_t words(int64_t along_m, int64_t along_n) const {
    const int64_t operand = a == Type::kF64 ? 2 : 1;
    return words_of_results(along_m, along_n, /*applied=*/true) +
           operand * (a_registers() * along_m + b_registers() * along_n);
  }
  // The same where operands lie in memory, as those of four sub-groups do; `applied`: functions are,
  // to the results.
  int64_t words_of_results(int64_t along_m, int64_t along_n, bool applied) const {
    const int64_t results = (acc == Type::kF64 ? 4 : 2) * acc_registers() * along_m * along_n;
    return results + kOtherWords + (applied ? results / kPlaces : 0);
  }
  // Of a factor in registers, of a row of kWideRowBytes along k, and as many that it is made of.
  int64_t words_of_made() const {
    return 2 * a_registers() * (kWideRowBytes / size_of(a) / k);
  }
  // Addresses, counters, what is on its way; and where results belong, a row or so for each few.
  // As ptxas 13.0 has it of drawn schedules (bench/gpu/gate.cc).
  static constexpr int64_t kOtherWords = 28, kPlaces = 4;
};

inline constexpr MatrixShape kMatrixShapes[] = {
    {Type::kBF16, Type::kBF16, Type::kF32, 16, 8, 16, 2},
    {Type::kF16, Type::kF16, Type::kF32, 16, 8, 16, 2},
    {Type::kI8, Type::kI8, Type::kI32, 16, 8, 32, 4},
    {Type::kU8, Type::kI8, Type::kI32, 16, 8, 32, 4},
    {Type::kI8, Type::kU8, Type::kI32, 16, 8, 32, 4},
    {Type::kU8, Type::kU8, Type::kI32, 16, 8, 32, 4},
    {Type::kF64, Type::kF64, Type::kF64, 8, 8, 4, 1},
};

// Null: there is none for the types.
inline const MatrixShape* find_matrix_shape(Type a, Type b, Type acc) {
  for (const MatrixShape& shape : kMatrixShapes) {
    if (shape.a == a && shape.b == b && shape.acc == acc) return &shape;
  }
  return nullptr;
}

}  // namespace lw
