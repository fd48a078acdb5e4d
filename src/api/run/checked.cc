#include "src/api/run/checked.h"

#include <utility>

#include "cost_model/cost_model.h"
#include "loopwright/kernel.h"
#include "src/api/lookup.h"
#include "src/api/run/devices.h"
#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/local.h"

namespace lw {
namespace {

constexpr int kMostSeconds = 60;  // a kernel's own limits end it long before
constexpr int64_t kPoints = 1024;    // of each output; small outputs are judged whole

std::string described(const Choice& choice) {
  return choice.outcome == "default" ? "the zero-trial schedule"
                                     : concat("the ", choice.outcome, " schedule");
}

}  // namespace

bool is_verified(const Choice& choice) {
  return choice.outcome == rung_name(Rung::kExact) && choice.measurement &&
         choice.measurement->verified;
}

absl::Status check_in_worker(const Task& task, const Choice& choice) {
  RETURN_IF_ERROR(find_device(task).status());
  LocalOptions options;
  options.points = kPoints;
  options.builders = 1;
  ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer,
                   make_measurer(task, std::move(options)));
  Candidate candidate;
  candidate.kernel = choice.kernel;
  candidate.verify = true;
  candidate.draft_us = draft_us(*choice.nest);
  measurer->submit({candidate});
  const std::vector<Outcome> outcomes = measurer->poll(kMostSeconds);
  if (outcomes.empty()) {
    return absl::AbortedError(concat("no answer within ", kMostSeconds, " s"));
  }
  const Outcome& outcome = outcomes.front();
  const std::string what =
      concat(verdict_name(outcome.verdict), outcome.detail.empty() ? "" : ": ", outcome.detail);
  if (is_retried(outcome.verdict)) return absl::UnavailableError(what);
  if (outcome.verdict != Verdict::kOk) return absl::AbortedError(what);
  if (!outcome.verified) return absl::AbortedError("no oracle could judge it in time");
  return absl::OkStatus();
}

absl::StatusOr<Choice> checked(const Task& task, const LookupAnswer& answer,
                               std::vector<std::string>* notes) {
  Choice choice = as_choice(answer);
  if (choice.kernel == nullptr) {
    return absl::NotFoundError(concat("no schedule of '", task.workload().source_words,
                                      "' was found, so there is nothing to check"));
  }
  if (is_verified(choice)) return choice;
  absl::Status passed = check_in_worker(task, choice);
  if (passed.ok()) return choice;
  if (!absl::IsAborted(passed)) return passed;
  if (answer.record != nullptr) {
    notes->push_back(concat(described(choice), " failed its check and is passed over: ",
                            std::string(passed.message())));
    ASSIGN_OR_RETURN(const LookupAnswer untuned, default_answer(task, {}));
    choice = as_choice(untuned);
    passed = check_in_worker(task, choice);
    if (passed.ok()) return choice;
    if (!absl::IsAborted(passed)) return passed;
  }
  return absl::AbortedError(concat("'", task.workload().source_words, "' is not tuned, and ",
                                   described(choice), " failed its check: ",
                                   std::string(passed.message()),
                                   "; `loopwright tune` looks for one that is right"));
}

}  // namespace lw
