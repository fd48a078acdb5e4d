#include "src/measure/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/rng.h"
#include "src/measure/guarded.h"
#include "src/measure/timing.h"

namespace lw {
namespace {

constexpr double kSlack = 8;

double roundoff(Type type) {
  switch (type) {
    case Type::kF64: return 0x1p-53;
    case Type::kF32: return 0x1p-24;
    case Type::kF16: return 0x1p-11;
    case Type::kBF16: return 0x1p-8;
    default: return 0;
  }
}

// What a program's arithmetic is like.
struct Arithmetic {
  double u = 0;                    // of the coarsest accumulation
  bool rounds_to_integer = false;  // casts floats to integers
  bool exact_on_integers = true;   // no operation that leaves the integers
};

bool keeps_integers(const ExprNode& node) {
  switch (node.op) {
    case ExprOp::kDiv:
    case ExprOp::kMod: return !is_float(node.type);
    case ExprOp::kPow:
    case ExprOp::kExp:
    case ExprOp::kLog:
    case ExprOp::kSqrt:
    case ExprOp::kRsqrt:
    case ExprOp::kTanh:
    case ExprOp::kErf:
    case ExprOp::kSigmoid: return false;
    case ExprOp::kConst:
      return !is_float(node.type) || std::isinf(node.number) ||
             node.number == std::floor(node.number);
    default: return true;
  }
}

Arithmetic arithmetic_of(const Program& program) {
  Arithmetic a;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::kInput) continue;
    // An output's own rounding is allowed for apart; what is summed in it is not.
    const bool accumulates = tensor.role == Role::kTemp || tensor.reduce != Reduce::kNone;
    const bool half = tensor.type == Type::kF16 || tensor.type == Type::kBF16;
    if (accumulates) a.u = std::max(a.u, roundoff(tensor.type));
    // A fused temporary may keep more bits than its type has.
    if (half && tensor.role == Role::kTemp) a.exact_on_integers = false;
    if (tensor.reduce == Reduce::kProd) a.exact_on_integers = false;
    visit(tensor.body, [&](const ExprNode& node) {
      if (node.type == Type::kF64 || node.type == Type::kF32)
        a.u = std::max(a.u, roundoff(node.type));
      if (!keeps_integers(node)) a.exact_on_integers = false;
      if (node.op == ExprOp::kCast && !is_float(node.type) && is_float(node.args[0]->type)) {
        a.rounds_to_integer = true;
      }
    });
  }
  if (a.u == 0) a.u = 0x1p-24;  // half types are computed in f32
  return a;
}

double admissible(const Arithmetic& a, Type stored, const PointValue& v, double growth) {
  if (!is_float(stored)) return a.rounds_to_integer ? 1 : 0;
  const double scale = std::max(v.magnitude, std::fabs(v.value));
  return growth * kSlack * a.u * std::sqrt(std::max(v.terms, 1.0)) * scale +
         2 * roundoff(stored) * std::fabs(v.value) + std::numeric_limits<float>::min();
}

bool is_poison(Type type, const std::byte* data, int64_t index) {
  const int size = size_of(type);
  for (int i = 0; i < size; ++i) {
    if (data[index * size + i] != static_cast<std::byte>(kPoison)) return false;
  }
  return true;
}

std::vector<int64_t> unflatten(int64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> position(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    position[d] = index % shape[d];
    index /= shape[d];
  }
  return position;
}

std::string element_name(const Tensor& tensor, int64_t index) {
  std::string name = absl::StrCat(tensor.name, "[");
  const std::vector<int64_t> position = unflatten(index, tensor.shape);
  for (size_t d = 0; d < position.size(); ++d) absl::StrAppend(&name, d ? ", " : "", position[d]);
  return name + "]";
}

// Compares one element and keeps the worst.
void compare(const Tensor& tensor, const std::byte* data, int64_t index, double expected,
             double tolerance, Check* check) {
  const double got = load_element(tensor.type, data, index);
  ++check->compared;
  if (got == expected || std::isnan(expected)) return;
  const double error = std::fabs(got - expected);
  const double ratio = std::isfinite(error) && tolerance > 0
                           ? error / tolerance
                           : std::numeric_limits<double>::infinity();
  if (ratio > 1 && (check->ok || ratio > check->worst)) {
    const bool untouched = is_float(tensor.type) && is_poison(tensor.type, data, index);
    check->detail = absl::StrFormat(
        "%s is %s, should be %.9g (admissible error %.3g)", element_name(tensor, index),
        untouched ? "not written" : absl::StrFormat("%.9g", got), expected, tolerance);
    check->ok = false;
  }
  check->worst = std::max(check->worst, ratio);
}

class PointSet {
 public:
  PointSet(const Tensor& tensor, Rng rng) : shape_(tensor.shape), rng_(rng) {}

  void add(const std::vector<int64_t>& position) {
    int64_t index = 0;
    for (size_t d = 0; d < shape_.size(); ++d) index = index * shape_[d] + position[d];
    chosen_.insert(index);
  }
  std::vector<int64_t> random() {
    std::vector<int64_t> position(shape_.size());
    for (size_t d = 0; d < shape_.size(); ++d) position[d] = rng_.below(shape_[d]);
    return position;
  }
  // Every combination of first, second, middle, last but one and last, up to 4 dimensions' worth.
  void add_corners() {
    const size_t rank = shape_.size();
    for (int64_t code = 0; code < 625; ++code) {
      int64_t rest = code;
      std::vector<int64_t> position = random();
      for (size_t d = rank; d-- > 0;) {
        const int64_t n = shape_[d];
        const int64_t places[5] = {0, n - 1, std::min<int64_t>(1, n - 1), n / 2,
                                   std::max<int64_t>(n - 2, 0)};
        if (rest > 0 || rank <= 4) position[d] = places[rest % 5];
        rest /= 5;
      }
      add(position);
    }
  }
  void add_residues() {
    for (size_t d = 0; d < shape_.size(); ++d) {
      const int64_t n = shape_[d];
      const auto at = [&](int64_t i) {
        std::vector<int64_t> position = random();
        position[d] = i;
        add(position);
      };
      for (int64_t modulus : {64, 48}) {
        for (int64_t r = 0; r < std::min(n, modulus); ++r) {
          at(r + modulus * rng_.below((n - r + modulus - 1) / modulus));
        }
      }
      for (int64_t i = std::max<int64_t>(n - 64, 0); i < n; ++i) at(i);
    }
  }
  // Runs of up to 16 neighbours in the last dimension: what one point needs serves its neighbours.
  void add_random(int64_t count) {
    while (static_cast<int64_t>(chosen_.size()) < count) {
      std::vector<int64_t> position = random();
      if (shape_.empty()) return add(position);
      for (int i = 0; i < 16 && position.back() < shape_.back(); ++i, ++position.back())
        add(position);
    }
  }
  const std::set<int64_t>& chosen() const { return chosen_; }

 private:
  const std::vector<int64_t>& shape_;
  Rng rng_;
  std::set<int64_t> chosen_;
};

}  // namespace

std::vector<Point> choose_points(const Program& program, int64_t count, uint64_t seed) {
  std::vector<Point> points;
  const std::vector<int> out = outputs(program);
  for (size_t o = 0; o < out.size(); ++o) {
    const Tensor& tensor = program.tensors[out[o]];
    const int64_t total = elements(tensor);
    if (total <= 2 * count) {
      for (int64_t i = 0; i < total; ++i) points.push_back({static_cast<int>(o), i});
      continue;
    }
    PointSet set(tensor, Rng(seed).split(o));
    set.add_corners();
    set.add_residues();
    set.add_random(count);
    for (int64_t i : set.chosen()) points.push_back({static_cast<int>(o), i});
  }
  return points;
}

void evaluate_points(const Program& program, const std::vector<const std::byte*>& inputs,
                     const std::vector<Point>& points, int64_t begin, int64_t end, double deadline,
                     PointValue* values) {
  PointOracle oracle(program, inputs);
  const std::vector<int> out = outputs(program);
  while (begin < end && now() < deadline) {
    // A few neighbours of one output at a time.
    std::vector<int64_t> addresses;
    const int output = points[begin].output;
    for (int64_t i = begin; i < end && points[i].output == output && addresses.size() < 16; ++i)
      addresses.push_back(points[i].index);
    for (const PointOracle::Value& v : oracle.values(out[output], addresses))
      values[begin++] = {v.value, v.magnitude, std::max(v.terms, 1.0)};
  }
}

Check check_points(const Program& program, const std::vector<const std::byte*>& data,
                   const std::vector<Point>& points, const PointValue* values, double growth) {
  Check check;
  const Arithmetic arithmetic = arithmetic_of(program);
  const std::vector<int> out = outputs(program);
  std::vector<double> largest(out.size(), 0);
  for (size_t i = 0; i < points.size(); ++i) {
    if (values[i].terms < 0 || growth == 1) continue;
    double& most = largest[points[i].output];
    most = std::max({most, values[i].magnitude, std::fabs(values[i].value)});
  }
  for (size_t i = 0; i < points.size(); ++i) {
    if (values[i].terms < 0) continue;
    const Tensor& tensor = program.tensors[out[points[i].output]];
    PointValue scaled = values[i];
    scaled.magnitude = std::max(scaled.magnitude, largest[points[i].output]);
    compare(tensor, data[points[i].output], points[i].index, values[i].value,
            admissible(arithmetic, tensor.type, scaled, growth), &check);
  }
  return check;
}

WholeScale whole_scale(const Program& program, const std::vector<Point>& points,
                       const PointValue* values) {
  const Arithmetic arithmetic = arithmetic_of(program);
  WholeScale scale;
  for (size_t i = 0; i < points.size(); ++i) {
    if (values[i].terms < 0) continue;
    scale.magnitude = std::max({scale.magnitude, values[i].magnitude, std::fabs(values[i].value)});
    scale.terms = std::max(scale.terms, values[i].terms);
  }
  // Partial sums must stay integers of the accumulator; the points are a sample, hence the factor.
  scale.exact = arithmetic.exact_on_integers && 8 * scale.magnitude < 1 / arithmetic.u;
  return scale;
}

Check check_whole(const Program& program, const std::vector<const std::byte*>& data,
                  const std::vector<std::vector<std::byte>>& expected, const WholeScale& scale,
                  double growth) {
  Check check;
  const Arithmetic arithmetic = arithmetic_of(program);
  const std::vector<int> out = outputs(program);
  for (size_t o = 0; o < out.size(); ++o) {
    const Tensor& tensor = program.tensors[out[o]];
    if (std::memcmp(data[o], expected[o].data(), expected[o].size()) == 0) {
      check.compared += elements(tensor);
      continue;
    }
    for (int64_t i = 0; i < elements(tensor); ++i) {
      const double value = load_element(tensor.type, expected[o].data(), i);
      const PointValue expectation = {value, scale.magnitude, scale.terms};
      const double tolerance = scale.exact && growth == 1
                                   ? 0
                                   : admissible(arithmetic, tensor.type, expectation, growth);
      compare(tensor, data[o], i, value, tolerance, &check);
    }
  }
  return check;
}

Check check_written(const Program& program, const std::vector<const std::byte*>& data) {
  Check check;
  const std::vector<int> out = outputs(program);
  for (size_t o = 0; o < out.size(); ++o) {
    const Tensor& tensor = program.tensors[out[o]];
    if (!is_float(tensor.type)) continue;
    for (int64_t i = 0; i < elements(tensor); ++i) {
      if (!is_poison(tensor.type, data[o], i)) continue;
      check.ok = false;
      check.worst = std::numeric_limits<double>::infinity();
      check.detail = absl::StrCat(element_name(tensor, i), " is not written");
      return check;
    }
  }
  return check;
}

}  // namespace lw
