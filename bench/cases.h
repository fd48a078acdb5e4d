// The table: its rows, their cases and their bars, as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

struct Program;

struct BenchCase {
  std::string name;
  std::vector<std::string> words;          // what load_workload and the command line take
  std::string baseline = {};               // case of the same row that this one is compared with
  int trials = 200;
  double seconds = 60;
  std::string plain = {};                  // C file of bench/plain/ to run beside it, or empty
  std::string arrays = {};                 // its name among bench/fused/programs.py, or empty
  // Inputs that are const; null: those that the operator declares.
  std::optional<std::vector<std::string>> constants = {};
  std::string why = {};                    // it is as far from its bound as it is, where that is far
};

absl::StatusOr<Program> load_case(const BenchCase& bench_case);
// What the command line takes: the words, and the constants where they are given.
std::vector<std::string> command_words(const BenchCase& bench_case);

// What must hold; 0 or less: no such bar. Ratios are the other's time over ours (higher is better).
struct Bar {
  double geomean_best = 0, each_best = 0;  // against the best peer
  double each_best_short = 0;              // instead of each_best for cases under 5 us
  double geomean_openblas = 0;
  double geomean_bound = 0, each_bound = 0;  // fraction of the bound
  // The same of those that memory or instructions bound, not multiply-adds.
  double geomean_light_bound = 0, each_light_bound = 0;
  double geomean_zero = 0, each_zero = 0;  // zero trials, as fraction of the final
  double each_peak = 0;                    // fraction of the peak alone
  double over_baseline = 0;                // time over the baseline's, at most
  bool explained = false;                  // each within these shares of the bound, or it says why
};
constexpr double kLeastUnexplained = 0.40, kMostUnexplained = 1.05;  // of the bound
constexpr double kSaidBelow = 0.60;        // the reason is printed, where there is one

// The suite is judged twice: with weights that a library may lay out anew before the calls, and with
// weights that come with each call.
enum class Weights : uint8_t { kNeither, kConst, kPlain };

struct BenchRow {
  std::string id, what;
  std::vector<BenchCase> cases;
  Bar bar;
  std::vector<int> threads;
  Weights weights = Weights::kNeither;
};

// All rows. `folder` holds ansor.json, table.te and fused.te, and stands in bench/; `seed` draws the
// random shapes; `threads` are the counts for rows that do not say their own. `short_vectors`: for
// a target with vectors of 32 bytes at most, of which less is asked.
absl::StatusOr<std::vector<BenchRow>> bench_rows(const std::string& folder, uint64_t seed,
                                                 const std::vector<int>& threads,
                                                 bool short_vectors);

}  // namespace lw
