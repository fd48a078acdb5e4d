#include "bench/cases.h"

#include <cctype>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/rng.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

BenchCase gemm(int64_t m, int64_t n, int64_t k) {
  return {absl::StrCat(m, "x", n, "x", k),
          {"matmul", absl::StrCat("M=", m), absl::StrCat("N=", n), absl::StrCat("K=", k)}};
}

BenchCase op(const std::string& name, const std::string& workload, int64_t m, int64_t n) {
  return {name, {workload, absl::StrCat("M=", m), absl::StrCat("N=", n)}};
}

BenchCase cube(const std::string& name, const std::string& workload, int64_t size,
               const std::string& baseline = "") {
  return {name,
          {workload, absl::StrCat("M=", size), absl::StrCat("N=", size), absl::StrCat("K=", size)},
          baseline};
}

std::vector<BenchCase> narrow(const std::string& workload, const std::string& type) {
  std::vector<BenchCase> cases = {cube("512", workload, 512), cube("1024", workload, 1024),
                                  {"128x768x768", {workload, "M=128", "N=768", "K=768"}}};
  for (BenchCase& c : cases) {
    if (!type.empty()) c.words.push_back(type);
  }
  return cases;
}

// OP1 .. OP4 at batch 1 and 16.
absl::Status add_suite(const std::string& file, const std::string& op,
                       std::vector<BenchCase>* cases) {
  std::vector<std::string> names;
  for (int batch : {1, 16})
    for (int i = 1; i <= 4; ++i) names.push_back(absl::StrCat(op, i, "_b", batch));
  ASSIGN_OR_RETURN(const std::vector<SuiteCase> suite, load_suite(file, names));
  for (const SuiteCase& c : suite) cases->push_back({c.name, c.words});
  return absl::OkStatus();
}

// The suite's operators in both tables: weights const (the library packs its own), and plain.
absl::Status add_operators(const std::string& file, const std::vector<int>& threads,
                           std::vector<BenchRow>* rows) {
  struct Kind {
    const char *op, *title;
    double packed, plain;                  // geomeans over the best library; 0: no such bar
    const char* weights;                   // that the operator does not declare const
  };
  constexpr Kind kKinds[] = {{"C1D", "convolution, 1-D", 0.98, 1.05, nullptr},
                             {"C2D", "convolution, 2-D", 0.98, 1.05, nullptr},
                             {"C3D", "convolution, 3-D", 0.98, 1.05, nullptr},
                             {"GRP", "convolution in groups", 1.2, 1.3, nullptr},
                             {"DIL", "dilated convolution", 0.98, 1.05, nullptr},
                             {"DEP", "depthwise convolution", 1.6, 1.6, nullptr},
                             {"T2D", "transposed convolution", 1.35, 1.7, nullptr},
                             {"CBR", "convolution, scale, shift, ReLU", 0.98, 1.05, nullptr},
                             {"GMM", "batches of products", 0.98, 0, "Y"},
                             {"CAP", "capsule convolution", 0, 0, nullptr},
                             {"TBS", "softmax of Q K^T", 0, 1.2, nullptr},
                             {"NRM", "norms of matrices", 0, 1.04, nullptr}};
  for (const Kind& kind : kKinds) {
    const std::string op = kind.op;
    const bool weighted = op != "TBS" && op != "NRM";
    for (const Weights weights : {Weights::kConst, Weights::kPlain}) {
      const bool packed = weights == Weights::kConst;
      if (packed && !weighted) continue;
      BenchRow row{op, absl::StrCat(kind.title, weighted ? packed ? ", const" : ", plain" : ""),
                   {}, {.geomean_best = packed ? kind.packed : kind.plain,
                        .each_best = packed ? 0.9 : 0.92},
                   threads};
      row.weights = weights;
      if (op == "CAP") row.bar = {};       // no library has it
      for (char& c : row.id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (weighted && !packed) row.id += "_plain";
      RETURN_IF_ERROR(add_suite(file, op, &row.cases));
      for (BenchCase& c : row.cases) {
        if (!packed) c.constants.emplace();
        if (packed && kind.weights != nullptr) c.constants = {{kind.weights}};
      }
      rows->push_back(std::move(row));
    }
  }
  return absl::OkStatus();
}

// What no library has, beside plain loops by a compiler, which are for one thread.
BenchRow user_operators(const std::string& bench) {
  BenchRow row{"user", "operators of a user", {}, {.each_best = 2, .each_bound = 0.7}, {1}};
  const std::vector<std::vector<std::string>> operators = {
      {"bilinear_form", "B=256", "M=512", "N=512"},
      {"gaussian_blur", "H=1024", "W=1024", "R=5"},
      {"weighted_layer_norm", "M=1024", "N=1024"},
      {"min_plus", "M=512", "N=512", "K=512"},
      {"mahalanobis", "B=1024", "N=256"}};
  for (const std::vector<std::string>& words : operators) {
    BenchCase one{words[0], words};
    one.words[0] = bench + "/../examples/operators.te:" + words[0];
    one.plain = bench + "/plain/" + words[0] + ".c";
    row.cases.push_back(std::move(one));
  }
  return row;
}

// Why an operator stands below 40 % of its bound (or above 105 %): measured facts, for who reads the
// table.
const std::map<std::string, std::string>& reasons() {
  static const std::map<std::string, std::string> reasons = {
      {"layer_norm_2d",
       "a row, the gain and the bias fill the nearest cache to the byte, so the latter two come from "
       "the next for every row, which the bound counts once: with rows half as long it is 60 %"},
  };
  return reasons;
}

// Every operator of the library, as its parameters stand.
BenchRow library_operators() {
  BenchRow row{"library", "operators of the library", {}, {.explained = true}, {1}};
  for (const OpDefinition& op : builtin_ops()) {
    BenchCase one{op.name, {op.name}};
    one.trials = 100;
    one.seconds = 5;
    if (const auto reason = reasons().find(op.name); reason != reasons().end()) {
      one.why = reason->second;
    }
    row.cases.push_back(std::move(one));
  }
  return row;
}

// Programs of several stages, as long as they are one by one in the file.
absl::StatusOr<BenchRow> fused_programs(const std::string& file, bool short_vectors) {
  BenchRow row{"fused", "whole programs", {}, {}, {1}};
  row.bar = {.geomean_best = short_vectors ? 2.0 : 2.6,
             .each_best = short_vectors ? 1.05 : 1.15,
             .geomean_light_bound = 0.75,
             .each_light_bound = 0.55,
             .geomean_zero = 0.85,
             .each_zero = 0.6};
  ASSIGN_OR_RETURN(const std::string text, read_file(file));
  ASSIGN_OR_RETURN(const Module module, parse_module(text, file));
  for (const OpDefinition& op : module.ops) {
    BenchCase one{op.name, {absl::StrCat(file, ":", op.name)}};
    one.trials = 2000;
    one.seconds = 20;
    one.arrays = op.name;
    row.cases.push_back(std::move(one));
  }
  return row;
}

std::vector<BenchCase> random_gemms(uint64_t seed) {
  Rng rng(seed);
  std::vector<BenchCase> cases;
  while (cases.size() < 30) {
    int64_t size[3];
    for (int64_t& s : size) s = std::llround(std::exp(rng.uniform() * std::log(3000.0)));
    if (2.0 * size[0] * size[1] * size[2] >= 4e9) continue;
    cases.push_back(gemm(size[0], size[1], size[2]));
    cases.back().trials = 60;
  }
  return cases;
}

}  // namespace

absl::StatusOr<Program> load_case(const BenchCase& bench_case) {
  return load_workload(bench_case.words, bench_case.constants ? &*bench_case.constants : nullptr);
}

std::vector<std::string> command_words(const BenchCase& bench_case) {
  std::vector<std::string> words = bench_case.words;
  if (!bench_case.constants) return words;
  words.push_back("--const");
  words.push_back(bench_case.constants->empty() ? "none"
                                                : absl::StrJoin(*bench_case.constants, ","));
  return words;
}

absl::StatusOr<std::vector<BenchRow>> bench_rows(const std::string& folder, uint64_t seed,
                                                 const std::vector<int>& threads,
                                                 bool short_vectors) {
  const std::string te = folder + "/table.te:", suite = folder + "/ansor.json";
  std::vector<BenchRow> rows;

  BenchRow gemms{"gemm", "GMM1-4 and fixed shapes", {}, {}, threads};
  RETURN_IF_ERROR(add_suite(suite, "GMM", &gemms.cases));
  const std::vector<std::vector<int64_t>> shapes = {
      {64, 64, 64},    {384, 384, 384},  {1000, 1000, 1000}, {1, 1000, 2048},
      {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072},   {127, 129, 131},
      {4096, 64, 64},  {64, 64, 4096},   {64, 4096, 64}};
  for (const auto& s : shapes) gemms.cases.push_back(gemm(s[0], s[1], s[2]));
  gemms.bar = {
      .geomean_best = 1, .each_best = 0.95, .each_best_short = 0.90, .geomean_bound = 0.91};
  rows.push_back(gemms);

  rows.push_back({"thin", "8x4096x4096", {gemm(8, 4096, 4096)}, {.each_best = 2.3}, threads});
  rows.push_back({"random", absl::StrCat("30 random shapes, seed ", seed), random_gemms(seed),
                  {.geomean_best = 1, .each_best = 0.85, .geomean_openblas = 1.08}, threads});
  rows.push_back({"peak",
                  "512^3 and 1024^3",
                  {cube("512", "matmul", 512), cube("1024", "matmul", 1024)},
                  {.each_peak = 0.93},
                  {1}});
  rows.push_back({"peak_const", "the same, B const",
                  {cube("512 const", "dense", 512), cube("1024 const", "dense", 1024)},
                  {.each_peak = 0.95}, {1}});
  rows.push_back({"u8i8", "u8 by i8 into i32, B const", narrow("dense_u8i8", ""),
                  {.each_best = 0.97, .each_peak = 0.9}, {1}});
  rows.push_back({"bf16", "bf16 by bf16 into f32, B const", narrow("dense", "T=bf16"),
                  {.each_best = 0.97, .each_peak = 0.9}, {1}});
  rows.push_back({"relu", "512^3 + bias + ReLU over the bare one",
                  {cube("bare", "dense", 512), cube("bias relu", "dense_relu", 512, "bare")},
                  {.over_baseline = 1.03}, threads});
  rows.push_back({"gelu", "512^3 + bias + GELU over the bare one",
                  {cube("bare", "dense", 512), cube("bias gelu", "dense_gelu", 512, "bare")},
                  {.over_baseline = 1.07}, threads});

  BenchRow reductions{"reduce", "norms, sums, maxima", {}, {.each_bound = 0.88}, threads};
  RETURN_IF_ERROR(add_suite(suite, "NRM", &reductions.cases));
  for (const char* name : {"row_sum", "column_sum", "row_max"})
    for (int64_t size : {1024, 4096})
      reductions.cases.push_back(op(absl::StrCat(name, " ", size), te + name, size, size));
  rows.push_back(reductions);

  BenchRow softmax{"softmax", "softmax", {}, {.each_best = 1.3}, threads};
  BenchRow norms{
      "norms", "layer norm, RMS norm", {}, {.each_best = 1.3, .each_bound = 0.8}, threads};
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1024, 1024}, {4096, 1024}}) {
    const std::string size = absl::StrCat(" ", m, "x", n);
    softmax.cases.push_back(op("softmax" + size, te + "softmax", m, n));
    norms.cases.push_back(op("layer_norm" + size, te + "layer_norm", m, n));
    norms.cases.push_back(op("rms_norm" + size, te + "rms_norm", m, n));
  }
  rows.push_back(softmax);
  rows.push_back(norms);
  rows.push_back({"attention",
                  "attention, 12 heads of 64",
                  {{"attention 512", {"attention", "S=512", "T=512"}}},
                  {.each_best = 1.25},
                  {1}});
  rows.push_back({"transpose", "transpose",
                  {op("2048x2048", te + "transpose", 2048, 2048),
                   op("1000x3000", te + "transpose", 1000, 3000)},
                  {.each_bound = 0.7}, threads});
  rows.push_back({"chain", "6 operations on 16 M elements",
                  {{"chain 16M", {te + "chain", "N=16777216"}}}, {.each_bound = 0.9}, threads});
  rows.push_back(user_operators(folder + "/.."));
  rows.push_back(library_operators());
  ASSIGN_OR_RETURN(BenchRow programs, fused_programs(folder + "/fused.te", short_vectors));
  rows.push_back(std::move(programs));
  RETURN_IF_ERROR(add_operators(suite, threads, &rows));
  return rows;
}

}  // namespace lw
