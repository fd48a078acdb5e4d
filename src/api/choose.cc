// Which schedule a task gets: the stored best, or the zero-trial answer. (Lower rungs: lookup.cc.)
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/build.h"
#include "src/lower/lower.h"
#include "src/search/search.h"
#include "tuner_db/ladder/ladder.h"

namespace lw {
namespace {

absl::StatusOr<Choice> finish(const Task& task, Choice choice) {
  ASSIGN_OR_RETURN(const Trace trace, parse_trace(choice.trace));
  ASSIGN_OR_RETURN(Nest nest, replay(task.start(), trace));
  ASSIGN_OR_RETURN(Kernel kernel, lower(nest));
  choice.nest = std::make_shared<const Nest>(std::move(nest));
  choice.kernel = std::make_shared<const Kernel>(std::move(kernel));
  return choice;
}

absl::StatusOr<Choice> finish_stored(const Task& task, const Measurement& measurement) {
  Choice choice;
  choice.outcome = "exact";
  choice.trace = measurement.trace;
  choice.measurement = std::make_shared<const Measurement>(measurement);
  return finish(task, std::move(choice));
}

}  // namespace

double Choice::time_us() const { return measurement == nullptr ? 0 : measurement->time_us; }

absl::StatusOr<Choice> choose(const Task& task, const Store* store) {
  if (store != nullptr) {
    absl::StatusOr<BestRow> best = store->top(task.key(), kRecordTraces);
    if (best.ok()) {
      absl::StatusOr<Choice> finished = finish_stored(task, best->measurement);
      for (const RankedTrace& other : best->others) {  // the best does not apply: the next
        if (finished.ok()) break;
        Measurement measured = best->measurement;
        measured.trace = other.trace;
        measured.time_us = measured.ci_low_us = measured.ci_high_us = other.time_us;
        if (absl::StatusOr<Choice> next = finish_stored(task, measured); next.ok()) finished = next;
      }
      return finished;
    }
    if (!absl::IsNotFound(best.status())) return best.status();
  }
  Choice choice;
  choice.outcome = "default";
  ASSIGN_OR_RETURN(const Proposal proposal, zero_trial(task));
  choice.trace = proposal.text;
  return finish(task, std::move(choice));
}

absl::StatusOr<Choice> choose_trace(const Task& task, std::string_view trace) {
  Choice choice;
  choice.outcome = "trace";
  ASSIGN_OR_RETURN(const Trace parsed, parse_trace(trace));
  choice.trace = to_text(parsed);
  return finish(task, std::move(choice));
}

absl::Status check_found(const Task& task, const Choice& choice) {
  if (choice.kernel != nullptr) return absl::OkStatus();
  return absl::NotFoundError(concat("no schedule of '", task.workload().source_words,
                                    "' was found, so there is nothing to build"));
}

absl::StatusOr<Artifact> build(const Task& task, const Choice& choice) {
  RETURN_IF_ERROR(check_found(task, choice));
  return task.backend().build(*choice.kernel, *task.target());
}

}  // namespace lw
