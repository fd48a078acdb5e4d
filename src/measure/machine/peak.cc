// Peak arithmetic rate. Problem: one loop form may miss the peak for reasons of its own (dispatch,
// register ports, forwarding), and an accumulator that ends up in memory misreads it by a factor of
// 2 to 3. So: kernels of our own, whose accumulators are registers by construction, in three forms,
// and the best of them counts:
//   registers  every multiply-add from the same two registers
//   broadcast  one factor is an element of the first-level cache
//   gemm       rows x columns, each step loading the columns and broadcasting the rows
// with enough independent chains (24 of 32 registers, 12 of 16) for 4 cycles of latency at two
// instructions a cycle. Values stay normal numbers: 1 + n * 0 .
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/measure/machine/doctor.h"
#include "src/measure/machine/probe.h"

namespace lw {
namespace {

constexpr int kPeakTrips = 64;    // of the inner loop
constexpr int kPeakRepeats = 50;  // of the outer one

struct Form {
  int rows = 1, columns = 1;
  bool loads_rows = false, loads_columns = false;
};

Type peak_type(Type type) {
  if (type == Type::kF64 || type == Type::kI32 || type == Type::kF32) return type;
  return is_float(type) ? Type::kF32 : Type::kI32;
}

// Register numbers: rows * columns accumulators, then columns, then one broadcast row.
Probe peak_probe(Type type, int lanes, const Form& form) {
  const int chains = form.rows * form.columns, row = chains + form.columns;
  const std::string type_text(type_name(type));
  const int64_t elements = int64_t{kPeakTrips} * (form.rows + form.columns * lanes);
  std::string text = absl::StrFormat(
      "kernel peak arguments=2 variables=2 workspace=0 private=0 packed=0\n"
      "buffer in %s %d argument 0\nbuffer out %s %d argument 1 written\nregisters %sx%d %d\nbody "
      "{\n",
      type_text, elements, type_text, chains * lanes, type_text, lanes, row + 1);
  for (int r = 0; r <= row; ++r) absl::StrAppendFormat(&text, "r%d = load in[0] stride 1\n", r);
  absl::StrAppendFormat(&text, "for v0 < %d {\nfor v1 < %d {\n", kPeakRepeats, kPeakTrips);
  const int column_begin = kPeakTrips * form.rows;
  for (int c = 0; form.loads_columns && c < form.columns; ++c) {
    absl::StrAppendFormat(&text, "r%d = load in[%d*v1 + %d] stride 1\n", chains + c,
                          form.columns * lanes, column_begin + c * lanes);
  }
  for (int r = 0; r < form.rows; ++r) {
    if (form.loads_rows) {
      absl::StrAppendFormat(&text, "r%d = load in[%d*v1 + %d] stride 0\n", row, form.rows, r);
    }
    for (int c = 0; c < form.columns; ++c) {
      const int chain = r * form.columns + c;
      absl::StrAppendFormat(&text, "r%d = fma r%d, r%d, r%d\n", chain, row, chains + c, chain);
    }
  }
  absl::StrAppend(&text, "}\n}\n");
  for (int i = 0; i < chains; ++i) {
    absl::StrAppendFormat(&text, "store out[%d] = r%d stride 1\n", i * lanes, i);
  }
  Probe probe;
  probe.kernel = text + "}\n";
  probe.argument_bytes = {elements * size_of(type), int64_t{chains} * lanes * size_of(type)};
  probe.ones = is_float(type);
  probe.f64 = type == Type::kF64;
  return probe;
}

// Independent chains of the instruction, all of the same two registers.
Probe dot_probe(const Atom& atom, int chains) {
  const int wide = atom.lanes * atom.group;
  const std::string a(type_name(atom.a)), b(type_name(atom.b)), acc(type_name(atom.acc));
  std::string text = absl::StrFormat(
      "kernel peak arguments=3 variables=2 workspace=0 private=0 packed=0\n"
      "buffer a %s %d argument 0\nbuffer b %s %d argument 1\n"
      "buffer out %s %d argument 2 written\n"
      "registers %sx%d %d\nregisters %sx%d 1\nregisters %sx%d 1\nbody {\n",
      a, wide, b, wide, acc, chains * atom.lanes, acc, atom.lanes, chains, a, wide, b, wide);
  for (int i = 0; i < chains; ++i) absl::StrAppendFormat(&text, "r%d = const 0\n", i);
  absl::StrAppendFormat(&text, "r%d = load a[0] stride 1\nr%d = load b[0] stride 1\n", chains,
                        chains + 1);
  absl::StrAppendFormat(&text, "for v0 < %d {\nfor v1 < %d {\n", kPeakRepeats, kPeakTrips);
  for (int i = 0; i < chains; ++i) {
    absl::StrAppendFormat(&text, "r%d = dot r%d, r%d, r%d\n", i, chains, chains + 1, i);
  }
  absl::StrAppend(&text, "}\n}\n");
  for (int i = 0; i < chains; ++i) {
    absl::StrAppendFormat(&text, "store out[%d] = r%d stride 1\n", i * atom.lanes, i);
  }
  Probe probe;
  probe.kernel = text + "}\n";
  probe.argument_bytes = {int64_t{wide} * size_of(atom.a), int64_t{wide} * size_of(atom.b),
                          int64_t{chains} * atom.lanes * size_of(atom.acc)};
  return probe;
}

}  // namespace

absl::StatusOr<double> measure_dot_gflops(const Target& target, const Atom& atom, int threads,
                                          double budget_s) {
  const int chains = cpu(target).vector_registers >= 32 ? 24 : 12;
  const double work = 2.0 * chains * atom.lanes * atom.group * kPeakTrips * kPeakRepeats;
  ASSIGN_OR_RETURN(const double rate,
                   best_rate(dot_probe(atom, chains), target, threads, work, budget_s));
  return rate * 1e-9;
}

absl::StatusOr<double> measure_peak_gflops(const Target& target, Type type, int threads,
                                           double budget_s) {
  const Type computed = peak_type(type);
  const int width = lanes(target, computed);
  const bool many = cpu(target).vector_registers >= 32;
  std::vector<Form> forms = many ? std::vector<Form>{{6, 4, true, true}, {8, 3, true, true}}
                                 : std::vector<Form>{{6, 2, true, true}, {4, 3, true, true}};
  if (is_float(computed)) {
    // Of integers, a product of loop invariants is computed once: only additions would remain.
    const int chains = many ? 24 : 12;
    forms.insert(forms.begin(), {{chains, 1, false, false}, {chains, 1, true, false}});
  }
  double best = 0;
  for (const Form& form : forms) {
    const double work = 2.0 * form.rows * form.columns * width * kPeakTrips * kPeakRepeats;
    ASSIGN_OR_RETURN(const double rate,
                     best_rate(peak_probe(computed, width, form), target, threads, work,
                               budget_s / static_cast<double>(forms.size())));
    best = std::max(best, rate);
  }
  return best * 1e-9;
}

absl::StatusOr<double> measure_peak_gflops(Type type, int threads, double budget_s) {
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  return measure_peak_gflops(host, type, threads, budget_s);
}

}  // namespace lw
