// Measures schedules of a task to learn from: a sample of its whole space, and some as a search
// would choose.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cost_model/cost_model.h"
#include "src/build/build.h"
#include "src/learn/dataset.h"
#include "src/search/measurer.h"

namespace lw {

struct ProgramCounts {
  int uniform = 24;                        // sketches alike, decisions uniform in their domains
  int searched = 8;                        // what a search by the draft would measure first
  int guided = 0;                          // what one that begins with a model would
};

// A schedule to measure. No two of a task have the same kernel.
struct DrawnProgram {
  std::string trace;                       // text
  char source = 'u';                       // as MeasuredProgram's
  std::shared_ptr<const Kernel> kernel;
  double draft_us = 0;
};
// Fewer where the space has fewer. The draft's best comes first. Deterministic for the seed. `guide`:
// the model of the guided ones; searches follow a model to where it errs, so it learns from those.
std::vector<DrawnProgram> draw_programs(const Task& task, const ProgramCounts& counts,
                                        uint64_t seed, std::unique_ptr<Model> guide = nullptr);

// Times of all, in short racing rounds: what is several times slower than the first is not measured
// exactly. What fails through nobody's fault is left out. kUnavailable: nothing can be measured.
absl::StatusOr<std::vector<MeasuredProgram>> measure_programs(
    const std::vector<DrawnProgram>& programs, Measurer& measurer);

// Machine code built ahead, so that measuring keeps a quiet machine for a second a task.
class ObjectFolder {
 public:
  // `folder` is made if needed. Empty: nothing is kept.
  explicit ObjectFolder(std::string folder) : folder_(std::move(folder)) {}

  bool has(int task) const;
  // Builds the kernels, but for those kept already, and keeps the objects; those that cannot be
  // built are left out.
  absl::Status build(int task, const Task& of, const std::vector<DrawnProgram>& programs) const;
  // A backend that takes what was kept and builds the rest; it owns what it read.
  std::unique_ptr<Backend> backend(int task, const Task& of) const;

 private:
  std::string path(int task) const;
  std::string folder_;
};

}  // namespace lw
