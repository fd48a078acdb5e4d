#include "src/base/check.h"
#include "src/cli/api.h"
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

}  // namespace

absl::StatusOr<TuneResult> tune_task(const Task& task, Store& store, const SearchOptions& options,
                                     std::unique_ptr<Model> model, TuneHooks hooks) {
  RETURN_IF_ERROR(check_runs_here(task));
  RETURN_IF_ERROR(put_task(store, task));
  RETURN_IF_ERROR(store.claim(task.key));
  const Claim claim(store, task.key);

  LocalOptions local;
  local.threads = task.threads();
  local.seed = options.seed;
  absl::StatusOr<Kernel> unscheduled = lower(task.start);
  if (unscheduled.ok()) local.reference = std::make_shared<const Kernel>(*std::move(unscheduled));
  ASSIGN_OR_RETURN(std::unique_ptr<Measurer> measurer,
                   make_local_measurer(*task.program, *task.target, local));
  const double begin = now();
  if (!hooks.now) hooks.now = [begin] { return lw::now() - begin; };
  if (!hooks.interrupted) hooks.interrupted = [] { return false; };
  if (!hooks.progress) hooks.progress = [](const TuneProgress&) {};
  if (model == nullptr) model = make_xgboost_model();
  return tune(task.start, task.key, store, *measurer, options, std::move(model), hooks);
}

}  // namespace lw
