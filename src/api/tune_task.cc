#include <algorithm>

#include "src/base/check.h"
#include "src/api/api.h"
#include "src/lower/lower.h"
#include "src/measure/timing.h"

namespace lw {
namespace {

// Gives the key back however tuning ends.
class Claim {
 public:
  Claim(Store& store, const Key& key) : store_(store), key_(key) {}
  ~Claim() { store_.release(key_); }

 private:
  Store& store_;
  const Key& key_;
};

// What the second oracle compares with: every definition on its own, in program order, loops as
// written; only the last axis of each result runs in vectors, or a large reference would take
// seconds.
std::shared_ptr<const Kernel> reference_kernel(const Nest& start) {
  Nest nest = start;
  for (const Stage& stage : start.stages) {
    const Loop* last = nullptr;
    for (const Loop& loop : stage.loops) {
      if (!is_reduction(stage, loop)) last = &loop;
    }
    if (last == nullptr) continue;
    const int64_t extent = stage.axes[last->parts[0].axis].extent;
    const int64_t tile =
        std::min<int64_t>(extent, 2 * stage_lanes(start, find_stage(start, stage.name)));
    Nest tiled = nest;
    const Step step{find_step("register_tile"), {stage.name, last->name}, {tile, 0}};
    if (apply(tiled, step).ok()) nest = std::move(tiled);
  }
  absl::StatusOr<Kernel> kernel = lower(nest);
  return kernel.ok() ? std::make_shared<const Kernel>(*std::move(kernel)) : nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Measurer>> make_measurer(const Task& task, LocalOptions options) {
  options.threads = task.threads();
  options.cache = task.key.cache;
  options.reference = reference_kernel(task.start);
  return make_local_measurer(*task.program, *task.target, options);
}

absl::StatusOr<TuneResult> tune_task(const Task& task, Store& store, const SearchOptions& options,
                                     std::unique_ptr<Model> model, TuneHooks hooks) {
  RETURN_IF_ERROR(check_runs_here(task));
  RETURN_IF_ERROR(put_task(store, task));
  RETURN_IF_ERROR(store.claim(task.key));
  const Claim claim(store, task.key);

  LocalOptions local;
  local.seed = options.seed;
  ASSIGN_OR_RETURN(std::unique_ptr<Measurer> measurer, make_measurer(task, std::move(local)));
  const double begin = now();
  if (!hooks.now) hooks.now = [begin] { return lw::now() - begin; };
  if (!hooks.interrupted) hooks.interrupted = [] { return false; };
  if (!hooks.progress) hooks.progress = [](const TuneProgress&) {};
  if (model == nullptr) model = make_xgboost_model();
  return tune(task.start, task.key, store, *measurer, options, std::move(model), hooks);
}

}  // namespace lw
