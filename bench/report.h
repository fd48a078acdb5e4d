// What the results say: each bar with its figure, met or missed.
#pragma once

#include <string>
#include <vector>

#include "bench/cases.h"
#include "bench/compare.h"
#include "bench/tuner.h"

namespace lw {

struct BarVerdict {
  std::string bar;                         // "geomean over the best peer >= 1.00"
  double value = 0;
  bool met = false;
  std::string worst;                       // the case that decides, where one does
};

// The bars of a row for the results of one thread count; only those whose figures are there.
std::vector<BarVerdict> judge_row(const BenchRow& row, const std::vector<CaseResult>& results);

// The bars that several rows of the suite share: over all operators, of the bound where arithmetic
// sets it, and of two threads over one. Operators are the first letters of the cases' names.
std::vector<BarVerdict> judge_suite(const std::vector<CaseResult>& results);

// The bars of the search itself, from the tunings of all cases: zero-trial answers, time to 95 %.
std::vector<BarVerdict> judge_search(const std::vector<CaseResult>& results);

// The whole `tune` of 512^3: wall time, candidates a second, memory beside the tensors. Runs it.
absl::StatusOr<std::vector<BarVerdict>> judge_tune(const TunerOptions& options);

std::string table_line(const CaseResult& result);
std::string table_header();
std::string to_text(const BarVerdict& verdict);
nlohmann::json to_json(const BarVerdict& verdict);

}  // namespace lw
