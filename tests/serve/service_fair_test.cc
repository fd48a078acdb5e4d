// A service beside searches and look-ups that take for ever: everybody else is served, and whatever
// is asked to end does.
#include <atomic>
#include <thread>

#include "tests/serve/study_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

// Searches of studies with the label `slow` take until they are stopped.
struct SlowSearches {
  std::atomic<int> begun = 0, ended = 0;

  ServiceOptions options() {
    ServiceOptions options;
    options.searcher.adopt_ms = 100;
    options.before_search = [this](const StudyRow& study, const Stop& stop) {
      if (!study.spec.labels().contains("slow")) return;
      ++begun;
      while (!stop.asked()) {
      }
      ++ended;
    };
    return options;
  }
};

class FairService : public StudyTest {
 protected:
  static v1::CreateStudyRequest slow_request() {
    v1::CreateStudyRequest request = study_request({48}, 24);
    (*request.mutable_spec()->mutable_labels())["slow"] = "yes";
    return request;
  }

  Scratch scratch_;
  SlowSearches slow_;
};

TEST_F(FairService, ASearchThatNeverEndsHoldsUpNoOtherAndEndsWhenItIsCancelled) {
  Daemon daemon(scratch_.file, slow_.options());
  NullAgent agent(daemon.server->address(), "a");
  std::vector<std::string> hostile;
  for (int i = 0; i < 3; ++i) hostile.push_back(create(daemon, slow_request()));
  ASSERT_TRUE(eventually([&] { return slow_.begun == 3; }));
  const v1::Study honest = finish(daemon, create(daemon, study_request({32}, 24)));
  EXPECT_EQ(honest.progress().state(), v1::STUDY_STATE_SUCCEEDED) << honest.error();
  EXPECT_EQ(honest.progress().trials(), 24);
  EXPECT_EQ(slow_.ended, 0);
  EXPECT_EQ(daemon.service->core->liveness.problem(), "")
      << "what looks up does not hang, however long it takes";
  for (size_t i = 0; i < hostile.size(); ++i) {
    EXPECT_EQ(get(daemon, hostile[i]).progress().state(), v1::STUDY_STATE_RUNNING);
    const auto begun = std::chrono::steady_clock::now();
    cancel(daemon, hostile[i]);
    EXPECT_TRUE(eventually([&] { return slow_.ended == static_cast<int>(i) + 1; }));
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  }
}

TEST_F(FairService, AStepThatTakesTooLongFailsItsStudyWithTheReason) {
  ServiceOptions options = slow_.options();
  options.searcher.step_limit_s = 6;       // far more than an honest one takes
  Daemon daemon(scratch_.file, options);
  NullAgent agent(daemon.server->address(), "a");
  const std::string hostile = create(daemon, slow_request());
  const std::string honest = create(daemon, study_request({32}, 24));
  EXPECT_EQ(finish(daemon, honest).progress().state(), v1::STUDY_STATE_SUCCEEDED);
  const v1::Study study = finish(daemon, hostile);
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(study.error(), HasSubstr("one step of the search took more than"));
}

// Each life of a daemon ends while the study's search begins: the fourth gives the study up.
TEST_F(FairService, AStudyAdoptedThreeTimesWithoutProgressFailsWithTheReason) {
  std::string hostile;
  for (int life = 0; life < 3; ++life) {
    Daemon daemon(scratch_.file, slow_.options());
    NullAgent agent(daemon.server->address(), "a");
    if (life == 0) hostile = create(daemon, slow_request());
    ASSERT_TRUE(eventually([&] { return number(*daemon.database, "SELECT fruitless FROM studies") == life + 1; }));
    EXPECT_EQ(get(daemon, hostile).progress().state(), v1::STUDY_STATE_RUNNING);
    // Ended in order before that, it would not count.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
  EXPECT_EQ(slow_.ended, 3) << "daemons end although the search does not";
  Daemon daemon(scratch_.file, slow_.options());
  NullAgent agent(daemon.server->address(), "a");
  const v1::Study study = finish(daemon, hostile);
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(study.error(), HasSubstr("adopted 3 times without progress"));
  EXPECT_EQ(slow_.begun, 3);
  const v1::Study honest = finish(daemon, create(daemon, study_request({32}, 24)));
  EXPECT_EQ(honest.progress().state(), v1::STUDY_STATE_SUCCEEDED) << honest.error();
}

// Whether it waits for a device or works, daemons may come and go.
TEST_F(FairService, AStudyThatWaitsForADeviceMayWaitThroughAnyNumberOfDaemons) {
  std::string waiting;
  for (int life = 0; life < 5; ++life) {
    Daemon daemon(scratch_.file, slow_.options());
    if (life == 0) waiting = create(daemon, study_request({32}, 8));
    ASSERT_TRUE(eventually([&] { return get(daemon, waiting).progress().waiting() == "no device"; }));
    EXPECT_EQ(daemon.service->core->liveness.problem(), "");
  }
  Daemon daemon(scratch_.file, slow_.options());
  EXPECT_EQ(number(*daemon.database, "SELECT owner_epoch FROM studies"), 0) << "nobody owned it";
  NullAgent agent(daemon.server->address(), "a");
  EXPECT_EQ(finish(daemon, waiting).progress().state(), v1::STUDY_STATE_SUCCEEDED);
}

v1::BatchLookupRequest lookups(int count, v1::LookupOutcome worst) {
  v1::BatchLookupRequest request;
  request.set_worst(worst);
  for (int i = 0; i < count; ++i) {
    v1::LookupQuery& query = *request.add_queries();
    query.set_program(matmul_text(32 + i));
    query.set_target_name("x86_avx2");
    query.set_threads(1);
  }
  return request;
}

// Sixteen calls of a thousand searches each: minutes of computing, but for their deadline.
TEST_F(FairService, LookupsThatComputeEndWithTheirDeadlineAndHoldUpNoOther) {
  Daemon daemon(scratch_.file);
  const auto look_up = [&](const v1::BatchLookupRequest& request, double seconds) {
    v1::BatchLookupResponse response;
    return Daemon::call(*daemon.schedules, &v1::ScheduleService::Stub::BatchLookup, request,
                        &response, seconds);
  };
  std::atomic<int> over = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&] {
      const absl::Status status = look_up(lookups(1000, v1::LOOKUP_OUTCOME_DEFAULT), 3);
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      ++over;
    });
  }
  const absl::Status beside = look_up(lookups(1, v1::LOOKUP_OUTCOME_NEAREST_TARGET), 20);
  EXPECT_TRUE(beside.ok()) << beside;
  for (std::thread& caller : callers) caller.join();
  const absl::Status after = look_up(lookups(1, v1::LOOKUP_OUTCOME_DEFAULT), 20);
  EXPECT_TRUE(after.ok()) << after;
  // Nor do they keep the server from ending.
  std::thread last([&] { look_up(lookups(1000, v1::LOOKUP_OUTCOME_DEFAULT), 1000).IgnoreError(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto begun = std::chrono::steady_clock::now();
  daemon.server->stop(0.1);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  last.join();
}

}  // namespace
}  // namespace lw
