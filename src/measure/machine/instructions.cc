#include "src/measure/machine/instructions.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/costs.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/machine/probe.h"

namespace lw {
namespace {

constexpr int kMostParts = 8;              // of a mix
constexpr int kTrips = 64, kRepeats = 20;  // of the inner and the outer loop
constexpr double kPureShare = 0.9;         // of multiply-adds: the peak says it

using Part = InstructionMix::Part;

bool is_simple(ExprOp op) {
  return op == ExprOp::kAdd || op == ExprOp::kMul || op == ExprOp::kMax;
}

Type computed_in(Type type) {
  if (type == Type::kF64) return type;
  return is_float(type) ? Type::kF32 : Type::kI32;
}

std::string_view name_of(const Part& part) {
  return part.adds ? "multiply-add" : op_name(part.op);
}

// Lanes of the computed type that one operation fills.
double lanes_filled(const OperationCount& o, const Target& target) {
  if (!is_float(o.type)) return size_of(o.type) / 4.0;
  if (!o.adds) return 1;
  double group = 1;
  for (const Atom& atom : target.atoms)
    if (atom.a == o.type || atom.b == o.type) group = std::max<double>(group, atom.group);
  return 1 / group;
}

// The proportions in small numbers that cover the most instructions.
InstructionMix simple_mix(Type type, const std::vector<std::pair<Part, double>>& wanted) {
  double total = 0;
  for (const auto& [part, count] : wanted) total += count;
  InstructionMix best;
  double covered = 0;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    InstructionMix mix;
    mix.type = type;
    mix.elements = total;
    int sum = 0;
    for (const auto& [part, count] : wanted) {
      const int share = static_cast<int>(std::lround(count / total * parts));
      if (share == 0) continue;
      mix.parts.push_back({part.op, part.adds, share});
      mix.elements = std::min(mix.elements, count / share);
      sum += share;
    }
    if (mix.elements * sum <= covered * (1 + 1e-6)) continue;
    covered = mix.elements * sum;
    best = mix;
  }
  for (const Part& part : best.parts) best.name += concat(name_of(part), " ", part.count, ", ");
  best.name += type_name(type);
  return best;
}

// One chain an instruction, each part's spread evenly; operands come from the nearest cache, so
// that none is the same in two trips.
Probe chains_probe(const InstructionMix& mix, int width, bool many, double* elements) {
  int sum = 0;
  for (const Part& part : mix.parts) sum += part.count;
  const int rounds = std::max(1, (many ? 28 : 14) / sum), chains = rounds * sum;
  const std::string type(type_name(mix.type));
  std::string text = absl::StrFormat(
      "kernel instructions arguments=2 variables=2 workspace=0 private=0 packed=0\n"
      "buffer in %s %d argument 0\nbuffer out %s %d argument 1 written\nregisters %sx%d %d\n"
      "body {\n",
      type, (kTrips + 1) * width, type, chains * width, type, width, chains + 2);
  for (int r = 0; r < chains; ++r) absl::StrAppendFormat(&text, "r%d = load in[0] stride 1\n", r);
  absl::StrAppendFormat(&text, "for v0 < %d {\nfor v1 < %d {\n", kRepeats, kTrips);
  const int x = chains, y = chains + 1;
  absl::StrAppendFormat(&text, "r%d = load in[%d*v1] stride 1\n", x, width);
  absl::StrAppendFormat(&text, "r%d = load in[%d*v1 + %d] stride 1\n", y, width, width);
  std::vector<Part> order;
  for (int i = 0; i < kMostParts; ++i) {
    for (const Part& part : mix.parts)
      if (i < part.count) order.push_back(part);
  }
  for (int i = 0; i < chains; ++i) {
    const Part& part = order[static_cast<size_t>(i % sum)];
    if (part.adds) {
      absl::StrAppendFormat(&text, "r%d = fma r%d, r%d, r%d\n", i, x, y, i);
    } else {
      absl::StrAppendFormat(&text, "r%d = %s r%d, r%d\n", i,
                            std::string(op_name(part.op)), i, x);
    }
  }
  absl::StrAppend(&text, "}\n}\n");
  for (int i = 0; i < chains; ++i)
    absl::StrAppendFormat(&text, "store out[%d] = r%d stride 1\n", i * width, i);
  Probe probe;
  probe.kernel = text + "}\n";
  probe.argument_bytes = {int64_t{kTrips + 1} * width * size_of(mix.type),
                          int64_t{chains} * width * size_of(mix.type)};
  probe.ones = is_float(mix.type);
  probe.f64 = mix.type == Type::kF64;
  *elements = double{kTrips} * kRepeats * rounds * width;
  return probe;
}

// From the nearest cache and back, `unroll` vectors a trip.
Probe map_probe(const InstructionMix& mix, int width, int unroll, double* elements) {
  constexpr int kMapTrips = 16;
  const std::string type(type_name(mix.type)), op(op_name(mix.parts[0].op));
  const int step = width * unroll, size = kMapTrips * step;
  std::string text = absl::StrFormat(
      "kernel instructions arguments=2 variables=2 workspace=0 private=0 packed=0\n"
      "buffer in %s %d argument 0\nbuffer out %s %d argument 1 written\nregisters %sx%d %d\n"
      "body {\nfor v0 < %d {\nfor v1 < %d {\n",
      type, 2 * size, type, size, type, width, 3 * unroll, kRepeats, kMapTrips);
  for (int i = 0; i < unroll; ++i) {
    absl::StrAppendFormat(&text, "r%d = load in[%d*v1 + %d] stride 1\n", i, step, i * width);
    if (is_binary(mix.parts[0].op)) {
      absl::StrAppendFormat(&text, "r%d = load in[%d*v1 + %d] stride 1\nr%d = %s r%d, r%d\n",
                            unroll + i, step, size + i * width, 2 * unroll + i, op, i, unroll + i);
    } else {
      absl::StrAppendFormat(&text, "r%d = %s r%d\n", 2 * unroll + i, op, i);
    }
    absl::StrAppendFormat(&text, "store out[%d*v1 + %d] = r%d stride 1\n", step, i * width,
                          2 * unroll + i);
  }
  Probe probe;
  probe.kernel = text + "}\n}\n}\n";
  probe.argument_bytes = {int64_t{2} * size * size_of(mix.type), int64_t{size} * size_of(mix.type)};
  probe.ones = is_float(mix.type);
  probe.f64 = mix.type == Type::kF64;
  *elements = double{kMapTrips} * kRepeats * step;
  return probe;
}

// Elements of a table in the nearest cache, `width` at a time; 1: by loads of scalars.
Probe gather_probe(int width, double* elements) {
  constexpr int kSize = 512, kUnroll = 4;
  const int step = width * kUnroll, trips = kSize / step;
  std::string text = absl::StrFormat(
      "kernel instructions arguments=3 variables=2 workspace=0 private=0 packed=0\n"
      "buffer at i64 %d argument 0\nbuffer table f32 %d argument 1\n"
      "buffer out f32 %d argument 2 written\nregisters i64x%d %d\nregisters f32x%d %d\n"
      "body {\nfor v0 < %d {\nfor v1 < %d {\n",
      kSize, kSize, kSize, width, kUnroll, width, kUnroll, kRepeats, trips);
  for (int i = 0; i < kUnroll; ++i) {
    absl::StrAppendFormat(
        &text,
        "r%d = load at[%d*v1 + %d] stride 1\nr%d = load table[0] stride 0 indices r%d\n"
        "store out[%d*v1 + %d] = r%d stride 1\n",
        i, step, i * width, kUnroll + i, i, step, i * width, kUnroll + i);
  }
  Probe probe;
  probe.kernel = text + "}\n}\n}\n";
  probe.argument_bytes = {kSize * 8, kSize * 4, kSize * 4};
  *elements = double{kRepeats} * trips * step;
  return probe;
}

}  // namespace

std::vector<InstructionMix> instruction_mixes(const Work& work, const Target& target) {
  std::vector<InstructionMix> mixes;
  for (Type type : {Type::kF32, Type::kF64, Type::kI32}) {
    std::vector<std::pair<Part, double>> simple;
    double all = 0, multiply_adds = 0;
    for (const OperationCount& o : work.operations) {
      if (computed_in(o.type) != type) continue;
      const double count = o.count * lanes_filled(o, target);
      if (!is_simple(o.op)) {
        const std::string name = concat(op_name(o.op), " ", type_name(type));
        const auto same = std::find_if(mixes.begin(), mixes.end(),
                                       [&](const InstructionMix& m) { return m.name == name; });
        if (same != mixes.end()) same->elements += count;
        if (same == mixes.end()) mixes.push_back({name, type, {{o.op, false, 1}}, count});
        continue;
      }
      all += count;
      if (o.adds) multiply_adds += count;
      const auto same = std::find_if(simple.begin(), simple.end(), [&](const auto& s) {
        return s.first.op == o.op && s.first.adds == o.adds;
      });
      if (same != simple.end()) same->second += count;
      if (same == simple.end()) simple.push_back({{o.op, o.adds, 1}, count});
    }
    if (all > 0 && multiply_adds < kPureShare * all) mixes.push_back(simple_mix(type, simple));
  }
  if (work.gathered > 0) mixes.push_back({"gather", Type::kF32, {}, work.gathered});
  return mixes;
}

absl::StatusOr<double> measure_instruction_rate(const Target& target, const InstructionMix& mix,
                                                int threads, double budget_s) {
  const int width = lanes(target, mix.type);
  std::vector<std::pair<Probe, double>> forms;
  const auto enter = [&](auto make, auto... how) {
    double elements = 0;
    Probe probe = make(how..., &elements);
    forms.emplace_back(std::move(probe), elements);
  };
  if (mix.parts.empty()) {
    enter(gather_probe, lanes(target, Type::kF32));
    enter(gather_probe, 1);
  } else if (is_simple(mix.parts[0].op)) {
    enter(chains_probe, mix, width, cpu(target).vector_registers >= 32);
  } else {
    enter(map_probe, mix, width, 1);
    enter(map_probe, mix, width, 4);
  }
  double best = 0;
  for (const auto& [probe, elements] : forms) {
    ASSIGN_OR_RETURN(const double rate,
                     best_rate(probe, target, threads, elements,
                               budget_s / static_cast<double>(forms.size())));
    best = std::max(best, rate);
  }
  return best * 1e-9;
}

double nominal_instruction_rate(const Target& target, const InstructionMix& mix, int threads) {
  const Atom* atom = multiply_add(target, mix.type);
  const double a_second = (atom != nullptr ? atom->per_cycle : 1) * target.ghz * threads;
  if (mix.parts.empty()) return cpu(target).loads_per_cycle * target.ghz * threads;
  double slots = 0;
  for (const Part& part : mix.parts) slots += part.count * costs(target).of(part.op).slots;
  return a_second * lanes(target, mix.type) / slots;
}

}  // namespace lw
