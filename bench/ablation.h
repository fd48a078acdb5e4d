// What each part of the search is worth: the same tunings with one part switched off at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/search/search.h"

namespace lw {

struct AblationVariant {
  const char* name;
  void (*change)(SearchOptions& options);
  // The model it starts with; null: none.
  absl::StatusOr<std::unique_ptr<Model>> (*model)(std::string_view architecture);
  bool warm = false;                       // uses what the store knows of other workloads
};
// "no draft": the draft's times and cycles neither rank candidates, nor weigh what is drawn, nor
// are features of the learned model. What its analysis counts (instructions, lines moved), and
// which stage it holds to be the main one, are features still.
// The first is the search as it is. All others start cold: with a neighbour's best at hand little
// is left to find, and what finds it fast hardly shows.
const std::vector<AblationVariant>& ablation_variants();

// How the best verified time fell in one tuning.
struct AblationRun {
  std::string workload, variant;
  uint64_t seed = 0;
  std::vector<CurvePoint> curve;
};

// One tuning. `store` holds what warm starts may use, and nothing of the key.
absl::StatusOr<AblationRun> run_ablation(const Nest& start, const Key& key, Store& store,
                                         Measurer& measurer, const AblationVariant& variant,
                                         SearchOptions options, const TuneHooks& hooks,
                                         const std::string& workload);

// Measures traces of a workload side by side: their times in microseconds, infinite where one
// fails.
using Timer = std::function<absl::StatusOr<std::vector<double>>(
    const std::string& workload, const std::vector<std::string>& traces)>;
// Gives every point of the curves the time that its trace has beside all others: what a run saw
// itself is the host's speed of that second.
absl::Status time_again(std::vector<AblationRun>& runs, const Timer& timer);

// Lines of JSON, one a run; parsing skips what is no run.
std::string to_line(const AblationRun& run);
std::vector<AblationRun> parse_runs(std::string_view text);

// Of all runs of one variant: what it took to come within `share` of the best time that any run of
// the workload found. Not reached counts as infinite. Quartiles by linear interpolation.
struct Quartiles {
  double low = 0, median = 0, high = 0;
};
struct AblationRow {
  std::string variant;
  double share = 0;
  int runs = 0, reached = 0;
  Quartiles seconds, trials;
  double final_share = 0;                  // geometric mean of best time / final time
};
std::vector<AblationRow> ablation_rows(const std::vector<AblationRun>& runs, double share);

// A picture of both, for the README: a line a variant, its median and its quartiles.
std::string ablation_svg(const std::vector<AblationRow>& rows, const std::string& title);

}  // namespace lw
