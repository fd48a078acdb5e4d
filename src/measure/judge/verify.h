// Is the result right? Points to look at, what they should be, and how much error is admissible.
// Everything here is deterministic; nothing here trusts the process that ran the kernel.
//
// What an element may be off by is said by the reference with its value
// (src/expr/reference/rounding.h has the promise and the rules, docs/numbers.md the reasons); here
// it is only compared.
//
// A kernel may say that its arithmetic is less exact than the program's by a factor, `growth`
// (Kernel::error_growth: Winograd's algorithm). Its errors are those of a whole tile of inputs, not
// of the terms of one element, so `growth` times the largest error of the tensor's known points is
// admissible, and small integers are no longer exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lw {

struct Program;

struct Point {
  int output = 0;     // position among outputs(program)
  int64_t index = 0;  // row-major
};

// What an element should be, and within what: PointOracle::Value. error < 0: not (yet) known.
struct PointValue {
  double value = 0, error = -1;
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
  // The worst element, "" where all are equal: its name, |error| and what it should be.
  std::string element;
  double error = 0, expected = 0;
};

// `data`: one pointer per output. Points of unknown value are passed over.
Check check_points(const Program& program, const std::vector<const std::byte*>& data,
                   const std::vector<Point>& points, const PointValue* values, double growth = 1);

// How the whole outputs for small-integer inputs compare: equal where all known points are exact,
// else within the largest error of the output's known points, in proportion for larger elements.
// Where no more is known than that the promise leaves some open, all are.
struct WholeScale {
  double error = 0, value = 0;             // the largest of the known points
  bool open = false;                       // some may be anything
};
std::vector<WholeScale> whole_scales(const Program& program, const std::vector<Point>& points,
                                     const PointValue* values);
// An element that is out of scale is wrong if `appeal` says so too: what the oracle says of it, which
// is one more known point then. (Of programs whose single points take seconds few are known before.)
using Appeal = std::function<PointValue(const Point& point)>;
Check check_whole(const Program& program, const std::vector<const std::byte*>& data,
                  const std::vector<std::vector<std::byte>>& expected,
                  std::vector<WholeScale> scales, double growth = 1,
                  const Appeal& appeal = nullptr);

// Elements of float outputs that still hold the poison: a fault even where nothing is known.
Check check_written(const Program& program, const std::vector<const std::byte*>& data);

}  // namespace lw
