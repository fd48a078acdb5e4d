// Is the result right? Points to look at, what they should be, and how much error is admissible.
// Everything here is deterministic; nothing here trusts the process that ran the kernel.
//
// Admissible error of a float element (oracle 1, random inputs):
//   kSlack * u * sqrt(K) * max(magnitude, |value|)  +  2 * u_out * |value|
// u: unit roundoff of the accumulations, u_out: of the stored type; K and magnitude: terms of the
// longest reduction behind the element and the sum of their absolute values, from PointOracle.
// kSlack is 8: random walks of rounding errors stay below 1, functions add a few ulp, and one
// dropped term of a sum of K is still noticed up to K around 10^4 in f32 (the second oracle has no
// slack). Integer elements must be equal, or within 1 where the program rounds floats to integers.
//
// A kernel may say that its arithmetic is less exact than the program's by a factor, `growth`
// (Kernel::error_growth: Winograd's algorithm). Its errors are those of a whole tile of inputs, not
// of the terms of one element, so the first part is then
//   growth * kSlack * u * sqrt(K) * (the largest magnitude of the tensor's known points)
// and small integers are no longer exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/expr/expr.h"
#include "src/expr/interpret.h"

namespace lw {

struct Point {
  int output = 0;     // position among outputs(program)
  int64_t index = 0;  // row-major
};

// What an element should be; terms < 0: not (yet) known.
struct PointValue {
  double value = 0, magnitude = 0, terms = -1;
};

// At least `count` points of each output (all when it has fewer), without duplicates: corners,
// edges, every residue class modulo 64 and 48 of every dimension, the last 64 of every dimension,
// random.
std::vector<Point> choose_points(const Program& program, int64_t count, uint64_t seed);

// values[i] for points[i], i in [begin, end), until `deadline` on now()'s clock has passed.
void evaluate_points(const Program& program, const std::vector<const std::byte*>& inputs,
                     const std::vector<Point>& points, int64_t begin, int64_t end, double deadline,
                     PointValue* values);

struct Check {
  bool ok = true;
  double worst = 0;  // largest |error| / admissible error
  int64_t compared = 0;
  std::string detail;  // of the worst element, if not ok
};

// `data`: one pointer per output. Points of unknown value are passed over.
Check check_points(const Program& program, const std::vector<const std::byte*>& data,
                   const std::vector<Point>& points, const PointValue* values, double growth = 1);

// How the whole outputs for small-integer inputs compare: equal when the program is exact there,
// else within the tolerance of the largest magnitude that `values` has.
struct WholeScale {
  bool exact = false;
  double magnitude = 1, terms = 1;
};
WholeScale whole_scale(const Program& program, const std::vector<Point>& points,
                       const PointValue* values);
Check check_whole(const Program& program, const std::vector<const std::byte*>& data,
                  const std::vector<std::vector<std::byte>>& expected, const WholeScale& scale,
                  double growth = 1);

// Elements of float outputs that still hold the poison: a fault even where nothing is known.
Check check_written(const Program& program, const std::vector<const std::byte*>& data);

}  // namespace lw
