#include "src/measure/judge/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/clock.h"
#include "src/base/rng.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/reference/rounding.h"
#include "src/measure/run/guarded.h"

namespace lw {
namespace {

constexpr int kAppeals = 64;               // of one check; a wrong kernel would have many
// Of one that has won them all: equal elements beside a tie of a narrow type come in rows.
constexpr int kWonAppeals = 1 << 14;

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

double share(double got, const PointValue& expected) {
  if (got == expected.value || std::isinf(expected.error)) return 0;
  if (std::isnan(got) && std::isnan(expected.value)) return 0;
  const double error = std::fabs(got - expected.value);
  return std::isfinite(error) && expected.error > 0 ? error / expected.error
                                                    : std::numeric_limits<double>::infinity();
}

// Compares one element and keeps the worst.
void compare(const Tensor& tensor, const std::byte* data, int64_t index, const PointValue& expected,
             Check* check) {
  if (std::isinf(expected.error)) return;
  ++check->compared;
  const double got = load_element(tensor.type, data, index);
  const bool untouched = is_float(tensor.type) && is_poison(tensor.type, data, index);
  const double ratio =
      untouched ? std::numeric_limits<double>::infinity() : share(got, expected);
  if (ratio > 1 && (check->ok || ratio > check->worst)) {
    check->detail = absl::StrFormat(
        "%s is %s, should be %.9g (admissible error %.3g)", element_name(tensor, index),
        untouched ? "not written" : absl::StrFormat("%.9g", got), expected.value, expected.error);
    check->ok = false;
  }
  if (ratio > check->worst) {
    check->element = element_name(tensor, index);
    check->error = std::fabs(got - expected.value);
    check->expected = expected.value;
  }
  check->worst = std::max(check->worst, ratio);
}

// What `growth` is to be of: where all that is known is exact, what the longest reduction would err
// by if it were not.
double grown(const Program& program, const Tensor& tensor, const WholeScale& scale, double growth) {
  double terms = 1;
  for (const Tensor& any : program.tensors) {
    double its = 1;
    for (const Axis& axis : any.reduce_axes) its *= static_cast<double>(axis.extent);
    terms = std::max(terms, its);
  }
  const double rounded = kSumRoundings * arithmetic_of(tensor.type).unit * terms * scale.value;
  return growth * (scale.error > 0 ? scale.error : rounded);
}

// A further point is known.
void join(const PointValue& known, WholeScale* scale) {
  if (known.error < 0) return;
  if (!std::isfinite(known.error)) {
    scale->open = true;
    return;
  }
  scale->error = std::max(scale->error, known.error);
  if (std::isfinite(known.value)) scale->value = std::max(scale->value, std::fabs(known.value));
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
      values[begin++] = {v.value, v.error};
  }
}

Check check_points(const Program& program, const std::vector<const std::byte*>& data,
                   const std::vector<Point>& points, const PointValue* values, double growth) {
  Check check;
  const std::vector<int> out = outputs(program);
  std::vector<WholeScale> scales;
  if (growth != 1) scales = whole_scales(program, points, values);
  for (size_t i = 0; i < points.size(); ++i) {
    if (values[i].error < 0) continue;
    const int o = points[i].output;
    const Tensor& tensor = program.tensors[out[o]];
    PointValue expected = values[i];
    if (growth != 1 && is_float(tensor.type)) {
      expected.error = std::max(expected.error, grown(program, tensor, scales[o], growth));
    }
    compare(tensor, data[o], points[i].index, expected, &check);
  }
  return check;
}

std::vector<WholeScale> whole_scales(const Program& program, const std::vector<Point>& points,
                                     const PointValue* values) {
  std::vector<WholeScale> scales(outputs(program).size());
  for (size_t i = 0; i < points.size(); ++i) join(values[i], &scales[points[i].output]);
  return scales;
}

Check check_whole(const Program& program, const std::vector<const std::byte*>& data,
                  const std::vector<std::vector<std::byte>>& expected,
                  std::vector<WholeScale> scales, double growth, const Appeal& appeal) {
  Check check;
  int appeals = 0;
  const std::vector<int> out = outputs(program);
  for (size_t o = 0; o < out.size(); ++o) {
    const Tensor& tensor = program.tensors[out[o]];
    if (std::memcmp(data[o], expected[o].data(), expected[o].size()) == 0) {
      check.compared += elements(tensor);
      continue;
    }
    const bool grows = growth != 1 && is_float(tensor.type);
    const auto admissible = [&] {
      if (grows) return grown(program, tensor, scales[o], growth);
      const bool nothing = scales[o].open && scales[o].error == 0;
      return nothing ? std::numeric_limits<double>::infinity() : scales[o].error;
    };
    double error = admissible();
    for (int64_t i = 0; i < elements(tensor); ++i) {
      PointValue value = {load_element(tensor.type, expected[o].data(), i), error};
      if (scales[o].value > 0 && std::fabs(value.value) > scales[o].value)
        value.error *= std::fabs(value.value) / scales[o].value;
      const int most = check.ok ? kWonAppeals : kAppeals;
      if (appeal && appeals < most && share(load_element(tensor.type, data[o], i), value) > 1) {
        ++appeals;
        value = appeal({static_cast<int>(o), i});
        join(value, &scales[o]);
        error = admissible();
        if (grows) value.error = std::max(value.error, error);
      }
      compare(tensor, data[o], i, value, &check);
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
