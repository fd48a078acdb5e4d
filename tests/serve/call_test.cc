// The timeline of a study's best: the report's picture, and why there is none.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/steps.h"
#include "src/figures/timeline.h"
#include "src/measure/run/simulation.h"
#include "src/serve/page/views.h"
#include "tests/serve/service_fixture.h"

namespace lw {
namespace {

using testing::HasSubstr;

class CallTest : public testing::Test {
 protected:
  absl::StatusOr<Json> call(const std::string& study, const std::string& workload = "0") {
    return calls_.view({data_.database()}, study, {{"workload", workload}});
  }
  std::string why(const std::string& study, const std::string& workload = "0") {
    return std::string(call(study, workload).status().message());
  }

  Scratch scratch_;
  ServiceData data_{scratch_.file};
  CallViews calls_;
};

TEST_F(CallTest, APictureIsTheReports) {
  const ServiceData::Simulated study = data_.simulated("STUDY1");
  const absl::StatusOr<Json> view = call("STUDY1");
  ASSERT_TRUE(view.ok()) << view.status();
  const Simulation expected = *simulate(study.task, study.untuned);
  EXPECT_EQ((*view)["svg"], timeline_chart(expected));
  EXPECT_EQ((*view)["note"], timeline_note(expected));
  EXPECT_EQ((*view)["colors"].size(), timeline_colors(expected).size());
  EXPECT_EQ(*call("STUDY1"), *view);
}

TEST_F(CallTest, ABetterBestHasAnother) {
  const ServiceData::Simulated study = data_.simulated("STUDY1");
  const Json before = *call("STUDY1");
  Rng rng(1);
  const std::vector<Sketch> space = make_space(study.task.start());
  for (int draw = 0; draw < 100; ++draw) {
    const absl::StatusOr<Sample> sample = lw::sample(study.task.start(), space[0], rng);
    if (!sample.ok() || to_text(sample->trace) == study.untuned.trace) continue;
    data_.measured(study, to_text(sample->trace), 1);
    break;
  }
  const absl::StatusOr<Json> after = call("STUDY1");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE((*after)["svg"], before["svg"]);
}

TEST_F(CallTest, WhyThereIsNone) {
  data_.simulated("STUDY1");
  EXPECT_EQ(call("STUDY1", "x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(why("STUDY1", "1"), HasSubstr("nothing was measured of it yet"));
  EXPECT_THAT(why("NONE"), HasSubstr("nothing was measured of it yet"));
  data_.run("UPDATE workloads SET program = ''");
  EXPECT_THAT(why("STUDY1"), HasSubstr("its program is not known here"));
  EXPECT_EQ(call("STUDY1").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CallTest, OtherVersionsAndOtherClocksHaveNone) {
  data_.simulated("STUDY1");
  data_.run("UPDATE keys SET backend = 'npu r0'");
  data_.run("UPDATE study_workloads SET backend = 'npu r0'");
  EXPECT_THAT(why("STUDY1"), HasSubstr("it was made by npu r0, this server has npu r"));
  data_.run("UPDATE measurements SET time_kind = 0");
  data_.run("UPDATE candidates SET time_kind = 0");
  EXPECT_THAT(why("STUDY1"), HasSubstr("it has no best that was simulated"));
}

}  // namespace
}  // namespace lw
