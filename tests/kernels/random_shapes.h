// Small shapes of the library's operators that nobody tiles for, by kinds that take turns: a single
// point, an extent of 1, a stride longer than the window, padding with dilation, primes, and what
// comes. Parameters are told apart by their names, as src/expr/ops uses them.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/work/work.h"

namespace lw {

using Parameters = std::map<std::string, std::string>;

enum class ShapeKind { kPoint, kPrimes, kPadded, kLongStride, kThin, kAny };
inline constexpr int kShapeKinds = 6;

inline bool has_parameter(const OpDefinition& op, const std::string& name) {
  return std::any_of(op.parameters.begin(), op.parameters.end(),
                     [&](const Parameter& p) { return p.name == name; });
}

// What a parameter is to the shape.
enum class ParameterRole { kExtent, kChannels, kPixels, kWindow, kStride, kPadding, kDilation,
                           kGroups, kType, kOther };
inline ParameterRole role_of(const OpDefinition& op, const Parameter& p) {
  if (Type type; parse_type(p.default_text, &type)) return ParameterRole::kType;
  if (p.default_text.find_first_not_of("0123456789") != std::string::npos)
    return ParameterRole::kOther;
  if (p.name == "zp" || p.name == "hi") return ParameterRole::kOther;
  if (p.name == "stride") return ParameterRole::kStride;
  if (p.name == "pad") return ParameterRole::kPadding;
  if (p.name == "dilation") return ParameterRole::kDilation;
  if (p.name == "groups") return ParameterRole::kGroups;
  if (!has_parameter(op, "stride")) return ParameterRole::kExtent;
  if (p.name == "R" || p.name == "S" || p.name == "Q") return ParameterRole::kWindow;
  return p.name[0] == 'C' ? ParameterRole::kChannels : ParameterRole::kPixels;
}

inline int64_t pick(const std::vector<int64_t>& from, Rng& rng) {
  return from[rng.below(static_cast<int64_t>(from.size()))];
}

// The shape's type of those that take turns, or the next that the operator takes.
inline std::string pick_type(const OpDefinition& op, const Parameter& p, int shape) {
  static const std::vector<std::string> kTypes = {"f32", "f64", "f32", "f16",
                                                  "i8",  "f32", "bf16", "i32"};
  if (p.default_text == "i8") return shape % 2 == 0 ? "i8" : "u8";  // of bytes
  for (size_t n = shape;; ++n) {
    const std::string& type = kTypes[n % kTypes.size()];
    if (instantiate(op, {{p.name, type}}).ok()) return type;
  }
}

// One draw, maybe one that the operator refuses (a window larger than what it slides over).
inline Parameters draw_parameters(const OpDefinition& op, ShapeKind kind, int shape, Rng& rng) {
  static const std::vector<int64_t> kExtents = {1,  2,  3,  5,  7,  8,  13, 15, 16, 17,
                                                19, 23, 31, 32, 33, 37, 41, 47, 48, 61,
                                                64, 65, 67, 83, 97, 101, 127, 131};
  static const std::vector<int64_t> kPrimes = {3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 53, 67};
  static const std::vector<int64_t> kPixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 17};
  static const std::vector<int64_t> kChannels = {1, 2, 3, 5, 7, 8, 13, 16, 17, 19, 31, 32, 33, 48};
  const bool primes = kind == ShapeKind::kPrimes, point = kind == ShapeKind::kPoint;
  const auto extent = [&](const std::vector<int64_t>& usual) {
    return point ? 1 : pick(primes ? kPrimes : usual, rng);
  };
  Parameters values;
  int64_t groups = 1, extents = 0, window = 1;
  std::vector<std::string> sizes;          // what an extent of 1 may be forced on
  for (const Parameter& p : op.parameters) {
    if (role_of(op, p) == ParameterRole::kGroups)
      groups = point ? 1 : pick({1, 2, 3, 4, 5}, rng);
    extents += role_of(op, p) == ParameterRole::kExtent;
  }
  for (const Parameter& p : op.parameters) {
    int64_t value = 1;
    switch (role_of(op, p)) {
      case ParameterRole::kType:
        values[p.name] = pick_type(op, p, shape);
        continue;
      case ParameterRole::kOther:
        // Rows of equal elements are divided by sqrt(eps): keep that from magnifying rounding.
        if (p.name == "eps") values[p.name] = "1e-3";
        if (p.name == "zp") values[p.name] = std::to_string(pick({-5, 0, 3}, rng));
        if (p.name == "lo") values[p.name] = std::to_string(pick({-128, 0}, rng));
        if (p.name == "hi") values[p.name] = std::to_string(pick({100, 127, 255}, rng));
        continue;
      case ParameterRole::kExtent:
        value = extent(kExtents);
        // A single axis is long, or nothing but its tail would be seen.
        if (extents == 1) value *= extent(kExtents);
        sizes.push_back(p.name);
        break;
      case ParameterRole::kChannels:
        value = extent(kChannels) * (p.name == "C" ? 1 : groups);
        sizes.push_back(p.name);
        break;
      case ParameterRole::kPixels:
        value = extent(kPixels);
        sizes.push_back(p.name);
        break;
      case ParameterRole::kWindow:
        value = point ? 1 : primes ? pick({2, 3, 5}, rng) : pick({1, 2, 3, 3, 4, 5}, rng);
        if (p.name != "Q") window = std::max(window, value);
        break;
      case ParameterRole::kStride:
        value = point ? 1 : pick({1, 1, 2, 3}, rng);
        if (kind == ShapeKind::kLongStride) value = window + 1 + rng.below(2);
        break;
      case ParameterRole::kPadding:
        value = point ? 0 : kind == ShapeKind::kPadded ? 1 + rng.below(3) : rng.below(2);
        break;
      case ParameterRole::kDilation:
        value = point ? 1 : kind == ShapeKind::kPadded ? 2 + rng.below(2) : 1 + rng.below(3);
        break;
      case ParameterRole::kGroups:
        value = groups;
        break;
    }
    values[p.name] = std::to_string(value);
  }
  if (kind == ShapeKind::kThin && groups == 1 && !sizes.empty())
    values[sizes[shape / kShapeKinds % sizes.size()]] = "1";
  return values;
}

// The shape's parameters and its program, of at most `most_flops` operations and `most_elements`
// elements together. Deterministic.
struct RandomShape {
  ShapeKind kind = ShapeKind::kAny;
  Parameters parameters;
  Program program;
  std::vector<std::string> words;          // what load_workload takes
};
inline RandomShape random_shape(const OpDefinition& op, int shape, double most_flops,
                                int64_t most_elements, Rng& rng) {
  constexpr int kAttempts = 100000;
  RandomShape drawn;
  drawn.kind = static_cast<ShapeKind>(shape % kShapeKinds);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    drawn.parameters = draw_parameters(op, drawn.kind, shape, rng);
    absl::StatusOr<Program> program = instantiate(op, drawn.parameters);
    if (!program.ok()) continue;
    int64_t total = 0;
    for (const Tensor& tensor : program->tensors) total += elements(tensor);
    if (total > most_elements || count_flops(*program).counted > most_flops) continue;
    drawn.program = *std::move(program);
    drawn.words = {op.name};
    for (const auto& [name, value] : drawn.parameters) drawn.words.push_back(name + "=" + value);
    return drawn;
  }
  ADD_FAILURE() << op.name << ": no shape of kind " << shape % kShapeKinds << " is small enough";
  return drawn;
}

// Random inputs. A scale that bytes are requantized by is small, or all results would saturate.
inline std::vector<Data> fitting_inputs(const Program& program, Rng& rng) {
  std::vector<Data> in;
  for (int t : inputs(program)) {
    const Tensor& tensor = program.tensors[t];
    in.push_back(random_input(program, t, rng.next(), /*integers=*/false));
    const bool requantizes =
        tensor.name == "scale" && !is_float(program.tensors[outputs(program)[0]].type);
    std::byte* data = in.back().bytes.data();
    for (int64_t i = 0; requantizes && i < elements(tensor); ++i)
      store_element(tensor.type, data, i, load_element(tensor.type, data, i) / 200);
  }
  return in;
}

}  // namespace lw
