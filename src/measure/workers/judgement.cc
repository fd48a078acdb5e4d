#include "src/measure/workers/judgement.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "loopwright/program.h"
#include "src/expr/reference/interpret.h"
#include "src/measure/run/timing.h"

namespace lw {

bool fail(const Answer& answer, Outcome* outcome) {
  outcome->verdict = answer.verdict;
  outcome->detail = answer.detail;
  return false;
}

bool wrong(const std::string& detail, Outcome* outcome) {
  outcome->verdict = Verdict::kWrongResult;
  outcome->detail = detail;
  outcome->verified = false;
  return false;
}

bool forged(const std::string& detail, Outcome* outcome) {
  outcome->verdict = Verdict::kDeviceUnhealthy;
  outcome->detail = detail;
  forget_times(outcome);
  return false;
}

void forget_times(Outcome* outcome) {
  outcome->samples_us.clear();
  outcome->time_us = outcome->ci_low_us = outcome->ci_high_us = 0;
  outcome->verified = false;
}

void summarize(Outcome* outcome) {
  const Estimate e = estimate(outcome->samples_us);
  outcome->time_us = e.median;
  outcome->ci_low_us = e.low;
  outcome->ci_high_us = e.high;
}

std::string on_inputs(int set, const std::string& detail) {
  constexpr const char* kOn[kInputSets] = {"", "on small integers: ", "on edge inputs: "};
  return kOn[set] + detail;
}

void note_error(const Check& check, Outcome* outcome) {
  if (check.element.empty() || check.worst < outcome->max_rel_error) return;
  outcome->max_rel_error = check.worst;
  outcome->worst_error = check.error;
  outcome->worst_expected = check.expected;
  outcome->worst_element = check.element;
}

std::string error_json(const Outcome& outcome) {
  const double error = outcome.worst_error, expected = std::fabs(outcome.worst_expected);
  if (outcome.worst_element.empty() || !std::isfinite(error) ||
      !std::isfinite(outcome.max_rel_error)) {
    return "";
  }
  std::string text =
      absl::StrFormat("{\"element\":\"%s\",\"of_admissible\":%.4g,\"absolute\":%.4g",
                      outcome.worst_element, outcome.max_rel_error, error);
  if (expected > 0) absl::StrAppendFormat(&text, ",\"relative\":%.4g", error / expected);
  return text + "}";
}

int64_t count_known(const Workbench& bench, int set) {
  const PointValue* values = bench.value_table(set);
  return std::count_if(values, values + bench.points[set].size(),
                       [](const PointValue& v) { return v.error >= 0; });
}

std::string what_oracle_lacks(const Workbench& bench) {
  const int64_t all = static_cast<int64_t>(bench.points[kUniform].size());
  const int64_t known = count_known(bench, kUniform);
  if (known < all) {
    return absl::StrFormat("%d of %d points within the budget of %g s", known, all,
                           bench.options.oracle_budget_s);
  }
  const PointValue* values = bench.value_table(kUniform);
  const bool judged =
      std::any_of(values, values + all, [](const PointValue& v) { return std::isfinite(v.error); });
  return judged ? "" : "what is promised leaves every result open (docs/numbers.md)";
}

Appeal appeal_to_oracle(const Workbench& bench, int set) {
  // One oracle for all of a check: what it remembers of a row serves the row's other elements.
  return [&bench, set, oracle = std::shared_ptr<PointOracle>()](const Point& point) mutable {
    const Program& program = *bench.program;
    if (oracle == nullptr) oracle = std::make_shared<PointOracle>(program, input_data(bench, set));
    const int tensor = outputs(program)[point.output];
    const PointOracle::Value value = oracle->values(tensor, {point.index})[0];
    return PointValue{value.value, value.error};
  };
}

}  // namespace lw
