// Which schedule a task gets: the stored best, the nearest stored one, or the zero-trial answer.
#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/api/api.h"
#include "src/expr/message.h"
#include "src/lower/lower.h"

namespace lw {
namespace {

absl::StatusOr<Choice> finish(const Task& task, Choice choice) {
  ASSIGN_OR_RETURN(const Trace trace, parse_trace(choice.trace));
  ASSIGN_OR_RETURN(choice.nest, replay(task.start, trace));
  ASSIGN_OR_RETURN(Kernel kernel, lower(choice.nest));
  choice.kernel = std::make_shared<const Kernel>(std::move(kernel));
  return choice;
}

absl::StatusOr<std::string> zero_trial_trace(const Task& task) {
  Search search(task.start, SearchOptions(), make_draft_model());
  ASSIGN_OR_RETURN(const Proposal proposal, search.zero_trial());
  return proposal.text;
}

// How far apart two shapes of one family are: the sum over extents of |log ratio|.
double distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(std::log(static_cast<double>(std::max<int64_t>(a[i], 1)) /
                             static_cast<double>(std::max<int64_t>(b[i], 1))));
  }
  return sum;
}

absl::StatusOr<Found> found(const Store& store, const char* outcome, const BestRow& row) {
  ASSIGN_OR_RETURN(WorkloadRow workload, store.workload(row.key.workload));
  return Found{outcome, std::move(workload), row.key, row.measurement};
}

}  // namespace

absl::StatusOr<Choice> choose(const Task& task, const Store* store) {
  Choice choice;
  if (store != nullptr) {
    absl::StatusOr<BestRow> best = store->best(task.key);
    if (best.ok()) {
      choice.outcome = "exact";
      choice.trace = best->measurement.trace;
      choice.measurement = std::move(best->measurement);
      return finish(task, std::move(choice));
    }
    if (!absl::IsNotFound(best.status())) return best.status();
  }
  choice.outcome = "default";
  ASSIGN_OR_RETURN(choice.trace, zero_trial_trace(task));
  return finish(task, std::move(choice));
}

absl::StatusOr<Choice> choose_trace(const Task& task, std::string_view trace) {
  Choice choice;
  choice.outcome = "trace";
  ASSIGN_OR_RETURN(const Trace parsed, parse_trace(trace));
  choice.trace = to_text(parsed);
  return finish(task, std::move(choice));
}

absl::StatusOr<Found> look_up(const Task& task, const Store& store) {
  absl::StatusOr<BestRow> exact = store.best(task.key);
  if (exact.ok()) return found(store, "exact", *exact);
  if (!absl::IsNotFound(exact.status())) return exact.status();

  // What is stored for this family runs here when its target's features exist on ours.
  ASSIGN_OR_RETURN(const std::vector<BestRow> rows,
                   store.best_in_family(task.workload.family, task.threads()));
  const BestRow* nearest = nullptr;
  double nearest_distance = HUGE_VAL;
  for (const BestRow& row : rows) {
    ASSIGN_OR_RETURN(const Target target, store.target(row.key.target));
    if (row.key.cache != task.key.cache || row.key.objective != task.key.objective) continue;
    if (!missing_feature(target, *task.target).empty()) continue;
    ASSIGN_OR_RETURN(const WorkloadRow workload, store.workload(row.key.workload));
    // Another target at the same shape is nearer than any other shape on ours.
    const double apart = distance(workload.shape, task.workload.shape) +
                         (row.key.target == task.key.target ? 0 : 1e-6) +
                         (row.key.backend == task.key.backend ? 0 : 1e-7);
    if (nearest != nullptr && apart >= nearest_distance) continue;
    nearest = &row;
    nearest_distance = apart;
  }
  if (nearest != nullptr && std::isfinite(nearest_distance)) {
    const bool same = nearest->key.workload == task.key.workload;
    return found(store, same ? "nearest-target" : "nearest-shape", *nearest);
  }
  Found none{"default", task.workload, task.key, Measurement()};
  ASSIGN_OR_RETURN(none.measurement.trace, zero_trial_trace(task));
  none.measurement.source = "zero";
  return none;
}

}  // namespace lw
