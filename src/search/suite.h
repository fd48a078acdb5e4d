// tune_suite(): several workloads that share one budget, in turns.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/search/allocate.h"
#include "src/search/search.h"

namespace lw {

// A workload of the suite. Keys are distinct.
struct SuiteItem {
  Nest start;
  Key key;
  std::unique_ptr<Model> model;            // may be null
  WorkloadState state;                     // what is given of it: weight, group, bound_us,
                                           // its measurer's time_kind
  // Prepares tensors and workers; called on the calling thread, again after the measurer was
  // dropped.
  std::function<absl::StatusOr<std::unique_ptr<Measurer>>()> make_measurer;
  int64_t bytes = 0;                       // of memory that its measurer holds
  std::function<void(const TuneProgress&)> progress;  // may be empty
};

struct SuiteOptions {
  SearchOptions search;                    // trials and seconds: of a workload on average
  AllocateOptions allocate;                // batch is search.batch
  int64_t memory_bytes = int64_t{2} << 30; // of measurers kept; one is kept whatever it takes
  std::function<double()> now;             // seconds
};

// Gives the next batch to the workload with the largest expected gain per second (allocate.h) until
// search.trials · workloads trials are stored (never more, stored ones count), search.seconds ·
// workloads seconds are over, nothing promises a gain, or search.stop is asked; then measures the
// finalists of each. One measurer works at a time. Result i is item i's; its clock (curve,
// progress) stands still while others have their turn. Everything is stored before it is counted,
// as in tune(). What ends one search (no schedule can be lowered, its measurer cannot be made or
// measures nothing) is its result's `failure`, and the others have what is left of the budget; errors
// of the store end the run. REQUIRES: the keys claimed.
absl::StatusOr<std::vector<TuneResult>> tune_suite(std::vector<SuiteItem> items, Store& store,
                                                   const SuiteOptions& options);

}  // namespace lw
