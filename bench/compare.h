// One case, measured: our kernel and every peer's ways interleaved, beside the bound of the moment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/cases.h"
#include "bench/fused/array_library.h"
#include "nlohmann/json.hpp"
#include "src/expr/expr.h"
#include "src/measure/run/timing.h"

namespace lw {

struct Measured {
  std::string name, version, mode, implementation;
  Estimate time_us;
  Estimate ratio;                          // round by round: its time over our kernel's; of our
                                           // kernel, the bound over its time. 0 without our side
  double max_error = 0;                    // |error| over the admissible error, on sampled points
};

struct CaseResult {
  std::string row, name;
  std::string why;                         // BenchCase::why
  int threads = 1;
  Weights weights = Weights::kNeither;
  double useful_flops = 0, compulsory_bytes = 0;
  double peak_gflops = 0, bandwidth_gbytes = 0;
  double bound_us = 0;                     // the median of the rounds'
  std::string bound_by;                    // what set it in most of them
  std::optional<Measured> ours;
  double over_baseline = 0;                // our time over that of our kernel of the case that this
                                           // one is judged against, round by round; 0: none
  std::vector<Measured> peers;             // right ones only, fastest first (by
                                           // `ratio` where there is our side)
  std::vector<std::string> wrong;          // contenders whose results were refused
  nlohmann::json tuning;                   // what tune said; null without our side
};

// Our kernel for a case, on these arguments; `tuning` gets tune's JSON.
struct OurKernel {
  std::string implementation;
  std::function<void()> run;
  nlohmann::json tuning;
};
using OurSide = std::function<absl::StatusOr<OurKernel>(const BenchCase&, const Program&,
                                                        void* const* arguments, int threads)>;

struct CompareOptions {
  double budget_s = 3;                     // for the interleaved samples of one case
  std::vector<int> cpus;                   // to use; the caller is pinned to the first
  int64_t points = 64;                     // of the output, checked against the reference
  std::string folder = ".";                // for what is compiled
  std::string target = "host";             // that the bound is of
  std::vector<std::string> libraries;      // of arrays, beside cases that name a program of theirs
  ArrayLibraryOptions arrays = {};
};

// `ours` may be empty: peers alone. Fails when the workload is wrong or our side does.
absl::StatusOr<CaseResult> compare(const BenchRow& row, const BenchCase& bench_case, int threads,
                                   const OurSide& ours, const CompareOptions& options);

nlohmann::json to_json(const CaseResult& result);

}  // namespace lw
