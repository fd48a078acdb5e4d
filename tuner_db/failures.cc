#include "tuner_db/failures.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lw {
namespace {

constexpr char kOurBug[] =
    "this is our bug: `tune --keep-failing DIR` writes a case that `run --case` repeats, please "
    "report it";

}  // namespace

std::string failure_class(const Measurement& measurement) {
  std::string name(verdict_name(measurement.verdict));
  for (const char* inputs : {"on edge inputs", "on small integers"}) {
    if (absl::StartsWith(measurement.detail, inputs)) return absl::StrCat(name, " ", inputs);
  }
  return name;
}

std::vector<FailureClass> failure_classes(const std::vector<Measurement>& measurements) {
  std::vector<FailureClass> classes;
  for (const Measurement& m : measurements) {
    if (m.verdict == Verdict::kOk) continue;
    const std::string name = failure_class(m);
    auto at = std::find_if(classes.begin(), classes.end(),
                           [&](const FailureClass& one) { return one.name == name; });
    if (at == classes.end()) at = classes.insert(at, {name, 0, m});
    ++at->count;
  }
  std::stable_sort(classes.begin(), classes.end(), [](const FailureClass& a, const FailureClass& b) {
    return a.count > b.count;
  });
  return classes;
}

std::string failure_advice(const FailureClass& failure) {
  switch (failure.example.verdict) {
    case Verdict::kWrongResult:
      return failure.name == "wrong_result on edge inputs"
                 ? "docs/numbers.md says what is promised there; if the program keeps to it, this "
                   "is our bug: `tune --keep-failing DIR` writes the case"
                 : kOurBug;
    case Verdict::kTimeout:
      return "a call took longer than a candidate may: tune a smaller shape, or with more threads";
    case Verdict::kDeviceLimit:
      return "the tensors do not fit this machine: `loopwright doctor` shows what it has";
    default:
      return is_candidates_fault(failure.example.verdict)
                 ? kOurBug
                 : "the machine disturbed the measurement: run the same command again";
  }
}

}  // namespace lw
