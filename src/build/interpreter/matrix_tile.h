// Matrices put together of what the items of a sub-group have. Internal to src/build.
#pragma once

#include <vector>

#include "src/build/interpreter/lanes.h"
#include "schedules/targets/matrix_shape.h"

namespace lw {

// An element of acc grows by the products of a row of `a` and a column of `b`, whose elements lie
// `step` apart.
inline void add_products(const MatrixShape& shape, const Lane* a, const Lane* b, int step,
                         Lane* acc) {
  if (!is_float(shape.acc)) {
    int64_t sum = acc->integer;
    for (int k = 0; k < shape.k; ++k) sum = add_wrapping(sum, a[k].integer * b[k * step].integer);
    acc->integer = wrap(shape.acc, sum);
    return;
  }
  double sum = 0;
  for (int k = 0; k < shape.k; ++k) sum += a[k].number * b[k * step].number;
  acc->number = round_to(shape.acc, acc->number + sum);
}

// Where the first lane of an item's register `number` of a is in its sub-group's; the others follow it
// along k.
struct PlaceInA {
  int64_t row, k;
};
inline PlaceInA place_in_a(const MatrixShape& shape, int64_t item, int64_t number) {
  const int64_t half = number % shape.halves(), part = number / shape.halves();
  return {item % kMatrixItems / 4 + kMatrixRows * half, shape.pack * (item % 4 + 4 * part)};
}

class MatrixTile {
 public:
  explicit MatrixTile(const MatrixShape& shape)
      : shape_(shape), a_(shape.m * shape.k), b_(shape.k * shape.n), acc_(shape.m * shape.n) {}

  // An item's register, of all that take part by its number.
  void put(int64_t item, int number, const Lanes& lanes) {
    each(item, number, [&](Lane& element, size_t lane) { element = lanes[lane]; });
  }
  void get(int64_t item, int number, Lanes* lanes) {
    each(item, number, [&](Lane& element, size_t lane) { (*lanes)[lane] = element; });
  }

  void multiply() {
    for (int i = 0; i < shape_.m; ++i) {
      for (int j = 0; j < shape_.n; ++j) {
        add_products(shape_, &a_[i * shape_.k], &b_[j], shape_.n, &acc_[i * shape_.n + j]);
      }
    }
  }

 private:
  void each(int64_t item, int number, const auto& visit) {
    const int g = static_cast<int>(item / 4 % 8), t = static_cast<int>(item % 4);
    const int of_a = number - shape_.acc_registers(), of_b = of_a - shape_.a_registers();
    if (of_a < 0) {
      const int row = g + 8 * number;
      for (int lane = 0; lane < 2; ++lane) visit(acc_[row * shape_.n + 2 * t + lane], lane);
      return;
    }
    for (int lane = 0; lane < shape_.pack; ++lane) {
      if (of_b < 0) {
        const PlaceInA place = place_in_a(shape_, item, of_a);
        visit(a_[place.row * shape_.k + place.k + lane], lane);
      } else {
        visit(b_[(shape_.pack * (t + 4 * of_b) + lane) * shape_.n + g], lane);
      }
    }
  }

  const MatrixShape& shape_;
  std::vector<Lane> a_, b_, acc_;          // row-major
};

// Op::kMatrixParts of a sub-group: `row(item)` has what the item read; a part has so many lanes.
// For each item its part of each of the four matrices.
std::vector<Lanes> parts_of_rows(const auto& row, int lanes, bool transposed) {
  std::vector<Lanes> parts;
  for (int64_t item = 0; item < kMatrixItems; ++item) {
    const int64_t g = item / 4, at = item % 4 * lanes;
    for (int64_t first = 0; first < kMatrixItems; first += kMatrixRows) {
      Lanes& part = parts.emplace_back();
      for (int64_t l = at; l < at + lanes; ++l) {
        part.push_back(transposed ? row(first + l)[g] : row(first + g)[l]);
      }
    }
  }
  return parts;
}

// Of a group, of which lanes(item, register) has them: the products of each sub-group. Sums are exact,
// or as good, and rounded once.
void multiply_matrices(const MatrixShape& shape, const Stmt& s, size_t items, const auto& lanes) {
  for (size_t first = 0; first < items; first += kMatrixItems) {
    MatrixTile tile(shape);
    for (int64_t item = 0; item < kMatrixItems; ++item) {
      for (int r = 0; r < shape.registers(); ++r) tile.put(item, r, lanes(first + item, s.many[r]));
    }
    tile.multiply();
    for (int64_t item = 0; item < kMatrixItems; ++item) {
      for (int r = 0; r < shape.acc_registers(); ++r) {
        tile.get(item, r, &lanes(first + item, s.many[r]));
      }
    }
  }
}

// The rows of each sub-group's matrices, to whom their parts of so many lanes are.
void hand_out_rows(const Stmt& s, int part_lanes, size_t items, const auto& lanes) {
  for (size_t first = 0; first < items; first += kMatrixItems) {
    const std::vector<Lanes> parts = parts_of_rows(
        [&](int64_t item) -> const Lanes& { return lanes(first + item, s.srcs[0]); }, part_lanes,
        s.integer == 1);
    for (size_t n = 0; n < parts.size(); ++n) {
      const size_t item = n / s.many.size(), matrix = n % s.many.size();
      lanes(first + item, s.many[matrix]) = parts[n];
    }
  }
}

}  // namespace lw
