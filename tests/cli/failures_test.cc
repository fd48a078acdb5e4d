// What failed is named by class, with an example, what to do, and a folder that repeats it.
#include "tuner_db/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/api/task.h"
#include "tests/support/cli_fixture.h"

namespace lw {
namespace {

using testing::HasSubstr;

Measurement failed(Verdict verdict, const std::string& detail) {
  Measurement m;
  m.verdict = verdict;
  m.detail = detail;
  m.source = "random";
  m.environment = "{}";
  m.unix_ms = 1;
  return m;
}

TEST(Failures, AreCountedByClassTheLargestFirst) {
  const std::vector<FailureClass> classes = failure_classes(
      {failed(Verdict::kCrash, "SIGSEGV"), failed(Verdict::kOk, ""),
       failed(Verdict::kWrongResult, "on edge inputs: Y[1] is nan, should be 0"),
       failed(Verdict::kWrongResult, "Y[2] is 1, should be 0"),
       failed(Verdict::kWrongResult, "on edge inputs: Y[3] is nan, should be 0")});
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0].name, "wrong_result on edge inputs");
  EXPECT_EQ(classes[0].count, 2);
  EXPECT_THAT(classes[0].example.detail, HasSubstr("Y[1]"));
  EXPECT_EQ(classes[1].name, "crash");
  EXPECT_EQ(classes[2].name, "wrong_result");
  for (const FailureClass& one : classes) EXPECT_FALSE(failure_advice(one).empty());
}

constexpr char kProgram[] = "op p() {\n  in A: f32[30]\n  out Y[i: 30] = exp(A[i]) / 3\n}\n";

class FailingCases : public CliTest {};

TEST_F(FailingCases, AreKeptAndRepeated) {
  write("p.te", kProgram);
  TaskOptions options;
  options.threads = 1;
  const absl::StatusOr<Task> task = make_task({path("p.te") + ":p"}, options);
  ASSERT_TRUE(task.ok()) << task.status();
  {
    const absl::StatusOr<std::unique_ptr<Store>> store = open_sqlite_store(path("p.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(put_task(**store, *task).ok());
    // As if it had been wrong: the unscheduled program is not.
    std::vector<Measurement> rows = {
        failed(Verdict::kWrongResult, "Y[7] is 2, should be 1 (admissible error 1e-07)")};
    ASSERT_TRUE((*store)->append(task->key(), rows).ok());
  }
  const CliRun tuned =
      cli("tune p.te:p --threads 1 --trials 0 --db p.db --json -q --seed 5 --keep-failing kept");
  ASSERT_EQ(tuned.code, 0) << tuned.err << tuned.out;
  const nlohmann::json failures = tuned.json()["failures"];
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0]["class"], "wrong_result");
  EXPECT_EQ(failures[0]["count"], 1);
  EXPECT_THAT(failures[0]["detail"].get<std::string>(), HasSubstr("Y[7] is 2, should be 1"));
  EXPECT_THAT(failures[0]["advice"].get<std::string>(), HasSubstr("--keep-failing"));
  const nlohmann::json error = tuned.json()["best"]["error"];
  EXPECT_LE(error["of_admissible"].get<double>(), 1);
  EXPECT_GT(error["absolute"].get<double>(), 0);
  EXPECT_LT(error["relative"].get<double>(), 1e-6);
  EXPECT_THAT(error["element"].get<std::string>(), HasSubstr("Y["));

  const CliRun again = cli("run --case kept/wrong_result");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("was  wrong_result: Y[7] is 2"));
  EXPECT_THAT(again.out, HasSubstr("is   ok"));
}

TEST_F(FailingCases, ThatAreNoneAreRefused) {
  EXPECT_EQ(cli("run --case nowhere").code, 1);
  std::filesystem::create_directory(path("empty"));
  write("empty/case.json", "{\"target\": 3}");
  const CliRun run = cli("run --case empty");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("is no case"));
}

// A program whose values are NaN everywhere has right kernels too.
TEST_F(FailingCases, ProgramsOfNothingButNaNEndExplained) {
  write("n.te", "op n() {\n  in A: f32[40]\n  out Y[i: 40] = sqrt(-1 - abs(A[i]))\n}\n"
                "op m() {\n  in A: f32[40]\n  out Y[i: 40] = max(A[i] / (A[i] - A[i]), 0)\n}\n");
  for (const char* op : {"n", "m"}) {
    const CliRun run = cli(std::string("tune n.te:") + op + " --threads 1 --trials 2 --db n.db");
    EXPECT_EQ(run.code, 0) << run.err << run.out;
    EXPECT_THAT(run.out, HasSubstr("error     none"));
  }
}

}  // namespace
}  // namespace lw
