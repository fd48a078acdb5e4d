// Every step before -> after, and every refusal with its reason: tests/steps/NAME.test. A file
// holds
//   === title
//   program text
//   --- trace [threads N] [on TARGET]
//   steps
//   --- nest | infeasible
//   what print(Nest) gives, or the message of replay
// as tests/support/text_cases.h says.
#include "schedules/steps.h"

#include <algorithm>

#include "tests/support/text_cases.h"

namespace lw {
namespace {

TextCase run_trace(const TextCase& c) {
  TextCase now = c;
  TextSection& outcome = now.sections.back();
  const auto comes_to = [&](const char* kind, const std::string& text) {
    outcome = {kind, text};
    return now;
  };
  const absl::StatusOr<Nest> start = start_of(c, c.sections[0].header);
  if (!start.ok()) return comes_to("error", message_of(start.status()));
  const absl::StatusOr<Trace> trace = parse_trace(c.sections[0].text);
  if (!trace.ok()) return comes_to("error", message_of(trace.status()));
  const absl::StatusOr<Nest> nest = replay(*start, *trace);
  if (!nest.ok()) {
    EXPECT_EQ(nest.status().code(), absl::StatusCode::kFailedPrecondition);
    return comes_to("infeasible", concat(message_of(nest.status()), "\n"));
  }
  EXPECT_TRUE(verify(*nest).ok()) << c.title << ": " << verify(*nest);
  return comes_to("nest", print(*nest));
}

TEST(StepsTest, EveryCaseOfTheTextFiles) {
  expect_cases(LW_SOURCE_DIR "/tests/steps", run_trace);
}

TEST(StepsTest, EveryStepHasItsFileWithARefusal) {
  for (const StepKind* kind : lw_step_table()) {
    const std::vector<TextCase> cases =
        read_cases(concat(LW_SOURCE_DIR "/tests/steps/", kind->name, ".test"));
    const auto applies = [&](const char* outcome) {
      return std::any_of(cases.begin(), cases.end(), [&](const TextCase& c) {
        return c.sections.back().header == outcome &&
               c.sections[0].text.find(kind->name) != std::string::npos;
      });
    };
    EXPECT_TRUE(applies("nest")) << kind->name;
    EXPECT_TRUE(applies("infeasible")) << kind->name;
  }
}

}  // namespace
}  // namespace lw
