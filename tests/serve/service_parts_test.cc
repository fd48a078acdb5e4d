// The parts of the service, each over a core alone: no searches, no house, no other part. What one
// does that others wait for is told, and nothing else passes between them.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_fixture.h"

namespace lw {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

class ServiceParts : public testing::Test {
 protected:
  ServiceParts() {
    core_->changed = [this](const Changes& changes) {
      const std::lock_guard lock(mutex_);
      told_.push_back(changes);
    };
  }
  Changes last() {
    const std::lock_guard lock(mutex_);
    return told_.empty() ? Changes() : told_.back();
  }

  Scratch scratch_;
  std::mutex mutex_;                       // guards the next
  std::vector<Changes> told_;
  const std::unique_ptr<Core> core_ = *Core::open(*open_sqlite(scratch_.file, {}), quick_service());
};

TEST_F(ServiceParts, StudiesTellWhatBecomesOfThem) {
  Studies studies(*core_);
  v1::CreateStudyRequest create;
  create.set_request_id("1");
  *create.mutable_spec() = small_study(8);
  google::longrunning::Operation operation;
  ASSERT_TRUE(studies.create_study(local_caller(), create, &operation).ok());
  const std::string id = id_of(operation.name());
  EXPECT_THAT(last().studies, Contains(id));
  ASSERT_TRUE(studies.create_study(local_caller(), create, &operation).ok());
  EXPECT_THAT(last().studies, IsEmpty()) << "the same request changes nothing";

  v1::CancelStudyRequest cancel;
  cancel.set_name(study_name(id));
  cancel.set_request_id("2");
  v1::Study study;
  ASSERT_TRUE(studies.cancel_study(local_caller(), cancel, &study).ok());
  EXPECT_THAT(last().ended, Contains(id));
  EXPECT_FALSE(last().deleted);

  google::longrunning::DeleteOperationRequest remove;
  remove.set_name(operation.name());
  google::protobuf::Empty nothing;
  ASSERT_TRUE(studies.delete_operation(local_caller(), remove, &nothing).ok());
  EXPECT_TRUE(last().deleted) << "its rows may go at once";
  EXPECT_THAT(last().studies, Contains(id)) << "whoever waits for it hears that it is no more";
}

TEST_F(ServiceParts, DevicesThatAreOpenAgainAreNews) {
  Agents agents(*core_);
  FleetAgent agent("a", "s1", {"a-0"});
  ASSERT_TRUE(synchronize(agents, agent.request(1, 0)).ok());
  EXPECT_EQ(agents.size(), 1u);

  Fleet fleet(*core_);
  v1::DrainDevicesRequest drain;
  drain.set_request_id("1");
  drain.add_names("devices/a-0");
  v1::DrainDevicesResponse drained;
  ASSERT_TRUE(fleet.drain_devices(local_caller(), drain, &drained).ok());
  EXPECT_FALSE(last().devices);
  v1::ResumeDevicesRequest resume;
  resume.set_request_id("2");
  resume.add_names("devices/a-0");
  v1::ResumeDevicesResponse resumed;
  ASSERT_TRUE(fleet.resume_devices(local_caller(), resume, &resumed).ok());
  EXPECT_TRUE(last().devices) << "studies that wait for one look";
  EXPECT_THAT(last().agents, Contains("a")) << "and so does its agent";
}

TEST_F(ServiceParts, SchedulesAnswerFromAnIndexThatNobodyKeeps) {
  IndexKeeper keeper(*core_);
  Schedules schedules(*core_, keeper);
  v1::ListSchedulesResponse listed;
  ASSERT_TRUE(schedules.list_schedules(local_caller(), {}, &listed).ok());
  EXPECT_EQ(listed.schedules_size(), 0);
  v1::PollWithdrawnResponse withdrawn;
  EXPECT_TRUE(absl::IsUnavailable(schedules.poll_withdrawn(local_caller(), {}, &withdrawn)));
  ASSERT_TRUE(keeper.index().refresh_withdrawn().ok());
  EXPECT_TRUE(schedules.poll_withdrawn(local_caller(), {}, &withdrawn).ok());
}

TEST(Bell, WakesWhoSleepsAndEndsAllSleep) {
  Bell bell;
  std::atomic<int> asked = 0;
  std::atomic<bool> due = false;
  std::thread sleeper([&] {
    EXPECT_TRUE(bell.sleep([&] {
      const bool is_due = due;             // as it was before anybody can know that it was asked
      ++asked;
      return Bell::Clock::now() + (is_due ? std::chrono::hours(0) : std::chrono::hours(1));
    }));
  });
  while (asked == 0) std::this_thread::yield();
  due = true;
  bell.ring();                             // an hour would be longer than the test may take
  sleeper.join();
  EXPECT_GE(asked, 2);

  std::thread other([&] { EXPECT_FALSE(bell.sleep_for(std::chrono::hours(1))); });
  bell.end();
  other.join();
  EXPECT_FALSE(bell.sleep_for(std::chrono::hours(0))) << "it is over for whoever comes later";
}

}  // namespace
}  // namespace lw
