// What nobody has verified is tried in a process of its own before it runs here: a kernel that is
// wrong or crashes there is an error or gives way, and this process lives on.
#include "src/api/run/checked.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/kernel.h"
#include "loopwright/task.h"
#include "schedules/targets/target.h"
#include "src/api/lookup.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "tests/support/store_fixture.h"

namespace lw {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Task task_of(const std::string& body, const std::string& extent = "24") {
  const absl::StatusOr<Program> program =
      parse_program("op mixed(N = " + extent + ") {\n  in A: f32[N, 16]\n  in B: f32[N, 16]\n"
                    "  out C[i: N, j: 16] = " + body + "\n}\n", "test");
  CHECK(program.ok());
  absl::StatusOr<Task> task = make_task(*program, "mixed", {.threads = 1});
  CHECK(task.ok());
  return *std::move(task);
}

// The untuned answer to `task`, with the kernel of `other` in it.
LookupAnswer with_kernel_of(const Task& task, const Task& other) {
  LookupAnswer answer = *default_answer(task, {});
  answer.kernel = default_answer(other, {})->kernel;
  return answer;
}

TEST(Checked, ARightKernelPasses) {
  const Task task = task_of("A[i, j] + B[i, j]");
  const Choice choice = *choose(task, nullptr);
  EXPECT_FALSE(is_verified(choice));
  const absl::Status passed = check_in_worker(task, choice);
  EXPECT_TRUE(passed.ok()) << passed;
}

TEST(Checked, AWrongKernelIsRefusedWithWhatItDid) {
  const Task task = task_of("A[i, j] + B[i, j]");
  std::vector<std::string> notes;
  const absl::Status refused =
      checked(task, with_kernel_of(task, task_of("A[i, j] - B[i, j]")), &notes).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(refused.message(), HasSubstr("wrong_result"));
  EXPECT_THAT(refused.message(), HasSubstr("loopwright tune"));
}

TEST(Checked, AKernelThatCrashesDoesSoElsewhere) {
  const Task task = task_of("A[i, j] + B[i, j]");
  // It takes its arguments for a thousand times as large.
  const Choice choice =
      as_choice(with_kernel_of(task, task_of("A[i, j] + B[i, j]", "24000")));
  const absl::Status refused = check_in_worker(task, choice);
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(refused.message(), HasSubstr("crash"));
}

TEST(Checked, WhatFailsGivesWayToTheUntunedSchedule) {
  const Task task = task_of("A[i, j] + B[i, j]");
  LookupAnswer adapted = with_kernel_of(task, task_of("A[i, j] - B[i, j]"));
  adapted.outcome = Rung::kNearestShape;
  adapted.record = std::make_shared<const ScheduleRecord>();
  std::vector<std::string> notes;
  const absl::StatusOr<Choice> choice = checked(task, adapted, &notes);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->outcome, "default");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("nearest-shape"));
  EXPECT_THAT(notes[0], HasSubstr("wrong_result"));
}

// Its record says that it was verified, and so it is not run again: this one would fail.
TEST(Checked, AnExactRecordIsTakenAtItsWord) {
  const Task task = task_of("A[i, j] + B[i, j]");
  LookupAnswer exact = with_kernel_of(task, task_of("A[i, j] - B[i, j]"));
  ScheduleRecord record;
  record.verified = true;
  exact.outcome = Rung::kExact;
  exact.record = std::make_shared<const ScheduleRecord>(record);
  std::vector<std::string> notes;
  const absl::StatusOr<Choice> choice = checked(task, exact, &notes);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->outcome, "exact");
  EXPECT_THAT(notes, IsEmpty());
}

}  // namespace
}  // namespace lw
