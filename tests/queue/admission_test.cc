// Who may come in: new devices that wait for an admin, where the configuration says so.
#include "src/serve/access/admission.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/serve/access/limits.h"
#include "tests/queue/queue_fixture.h"
#include "tests/support/fault_fixture.h"

namespace lw {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Admission : public QueueTest {
 protected:
  void SetUp() override {
    QueueTest::SetUp();
    new_devices_wait_ = true;
  }
  void resume(const std::vector<std::string>& names,
              const std::map<std::string, std::string>& labels = {}) {
    write([&](WriteTransaction& tx) {
      return set_admission(tx, names, labels, v1::DEVICE_ADMISSION_OPEN, "", now_).status();
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Databases, Admission, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(QueueTest, IsOpenUnlessConfiguredOtherwise) {
  queue(make_study("ci"));
  Asker a;
  EXPECT_EQ(take(a).size(), 1u);
}

TEST_P(Admission, ANewDeviceWaitsForAnAdmin) {
  queue(make_study("ci"));
  Asker a;
  const absl::StatusOr<v1::SynchronizeResponse> response = call(a);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->jobs_size(), 0);
  EXPECT_THAT(response->draining_devices(), ElementsAre("devices/d")) << "as older agents read it";
  EXPECT_THAT(response->refused_devices().at("devices/d"), HasSubstr("devices resume d"));
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_PENDING);
  EXPECT_THAT(device("d").reason,
              HasSubstr("agents/a waits to be admitted with the target x86_test"));
  EXPECT_THAT(take(a), IsEmpty()) << "time alone does not open it";
  resume({"devices/d"});
  EXPECT_EQ(take(a).size(), 1u);
}

// It is the agent that is let in, with this target.
TEST_P(Admission, IsOfAnAgentWithATarget) {
  for (int i = 0; i < 6; ++i) queue(make_study(absl::StrCat("c", i)));
  Asker a;
  take(a);
  resume({"devices/d"});
  a.devices = {"d", "second"};
  take(a);
  EXPECT_EQ(device("second").admission, v1::DEVICE_ADMISSION_OPEN);
  Asker b{.agent = "b", .session = "s2", .devices = {"e"}};
  EXPECT_THAT(take(b), IsEmpty()) << "another agent";
  EXPECT_EQ(device("e").admission, v1::DEVICE_ADMISSION_PENDING);
  a.held.clear(), a.prepared.clear();
  a.target = "x86_popular";                // says that it is another machine
  take(a, 0);
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_PENDING);
  EXPECT_THAT(device("d").reason, HasSubstr("x86_popular"));
  a.target = "x86_test";
  take(a, 0);
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_OPEN) << "what was admitted stays so";
}

// Labels are what an agent says of itself.
TEST_P(Admission, ALabelOpensNoPendingDevice) {
  Asker a;
  take(a);
  write([&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<DeviceRow> row, find_device(tx, "d"));
    (*row->description.mutable_labels())["rack"] = "r2";
    return put_device(tx, *row);
  });
  resume({}, {{"rack", "r2"}});
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_PENDING);
}

TEST_P(Admission, WhatWasOpenWhenItWasConfiguredStaysOpen) {
  new_devices_wait_ = false;
  Asker a, b{.agent = "b", .session = "s2", .devices = {"e"}};
  take(a);
  new_devices_wait_ = true;
  a.session = "s9";                        // it restarts, describes itself, and brings a second
  a.devices = {"d", "second"};
  take(a);
  take(b);
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_OPEN);
  EXPECT_EQ(device("second").admission, v1::DEVICE_ADMISSION_OPEN);
  EXPECT_EQ(device("e").admission, v1::DEVICE_ADMISSION_PENDING);
  new_devices_wait_ = false;               // nobody waits any more
  take(b);
  EXPECT_EQ(device("e").admission, v1::DEVICE_ADMISSION_OPEN);
}

// A quarantine of one name lets no other target in.
TEST_P(Admission, AQuarantineAdmitsNobody) {
  Asker a{.fingerprint = "one"};
  take(a);
  resume({"devices/d"});
  write([&](WriteTransaction& tx) {
    return tx.query("UPDATE devices SET admission = 'quarantined', reason = 'hot'").run();
  });
  a.devices = {"fresh"}, a.target = "x86_popular";
  take(a);
  EXPECT_EQ(device("fresh").admission, v1::DEVICE_ADMISSION_QUARANTINED);
  a.devices = {"fresh", "third"}, a.fingerprint = "two";
  take(a);
  EXPECT_EQ(device("third").admission, v1::DEVICE_ADMISSION_PENDING);
}

TEST(ServeConfig, SaysWhetherNewDevicesWait) {
  EXPECT_FALSE(parse_serve_config("{}", "f")->new_devices_wait);
  EXPECT_FALSE(parse_serve_config(R"({"admission": "open"})", "f")->new_devices_wait);
  EXPECT_TRUE(parse_serve_config(R"({"admission": "pending"})", "f")->new_devices_wait);
  for (const char* wrong : {R"({"admission": "closed"})", R"({"admission": true})",
                            R"({"admission": null})"}) {
    const auto config = parse_serve_config(wrong, "f");
    EXPECT_THAT(std::string(config.status().message()),
                HasSubstr("f: admission: want \"open\" or \"pending\"")) << wrong;
  }
}

// From the configuration to the operator: the study waits and says so, the device is shown, the
// admission is in the audit, and the work begins.
TEST(PendingDevices, AreShownAdmittedAndAudited) {
  Scratch scratch;
  const auto database = *open_sqlite(scratch.file, {});
  ServiceOptions options = quick_service();
  options.config.new_devices_wait = true;
  const auto service = *Service::start(database, options);
  FleetAgent agent("a1", "s1", {"d1"});
  ASSERT_TRUE(synchronize(*service, agent.request()).ok());
  const std::string study = make_study(*service, 4);
  const auto state = [&] {
    v1::GetStudyRequest request;
    request.set_name("studies/" + study);
    v1::Study found;
    EXPECT_TRUE(service->studies.get_study(local_caller(), request, &found).ok());
    return found.progress().state();
  };
  for (int i = 0; i < 20; ++i) {
    const auto response = synchronize(*service, agent.request());
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->jobs_size(), 0);
  }
  EXPECT_EQ(state(), v1::STUDY_STATE_QUEUED);
  std::string waits;
  for (int i = 0; i < kPatienceMs && waits.find("1 pending") == std::string::npos; ++i) {
    bool ended = false;
    const auto events = *service->studies.events(study, 0, 100, &ended);
    for (const v1::StudyEvent& event : events) waits = event.detail();
    usleep(1000);
  }
  EXPECT_THAT(waits, HasSubstr("1 pending"));
  v1::ListDevicesResponse devices;
  ASSERT_TRUE(service->fleet.list_devices(local_caller(), {}, &devices).ok());
  EXPECT_EQ(devices.devices(0).admission(), v1::DEVICE_ADMISSION_PENDING);
  v1::ResumeDevicesRequest resume;
  resume.set_request_id("r1");
  resume.add_names("devices/d1");
  v1::ResumeDevicesResponse resumed;
  ASSERT_TRUE(service->fleet.resume_devices(local_caller(), resume, &resumed).ok());
  for (int i = 0; i < kPatienceMs && state() != v1::STUDY_STATE_SUCCEEDED; ++i) {
    const auto response = synchronize(*service, agent.request());
    ASSERT_TRUE(response.ok()) << response.status();
    agent.apply(*response);
    agent.work();
  }
  EXPECT_EQ(state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_THAT(column(*database, "SELECT method || ' ' || subject FROM audit"),
              Contains(HasSubstr("ResumeDevices devices/d1")));
  EXPECT_THAT(defects_of(*database, *make_store(database)), IsEmpty());
}

}  // namespace
}  // namespace lw
