// Devices in the queue: whose they are, when they are closed, what they keep.
#include "src/serve/messages/errors.h"
#include "src/serve/rows/online.h"
#include "tests/queue/queue_fixture.h"

namespace lw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What else the agent brings is not at fault.
TEST_P(QueueTest, AnotherAgentsDeviceIsRefusedAlone) {
  const std::string study = make_study("ci");
  queue(study), queue(study);
  Asker a, b{.agent = "b", .session = "s2", .devices = {"e"}};
  take_one(a);
  v1::JobResult result = result_of(take_one(b));
  b.devices = {"e", "d"};
  b.results = {result};
  const absl::StatusOr<v1::SynchronizeResponse> response = call(b);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->receipts_size(), 1);
  EXPECT_EQ(response->receipts(0).kind(), v1::RECEIPT_KIND_STORED);
  EXPECT_THAT(response->refused_devices().at("devices/d"), HasSubstr("belongs to agents/a"));
  EXPECT_EQ(response->draining_devices(0), "devices/d") << "as older agents read it";
  EXPECT_EQ(device("d").agent, "a");
}

// Of an agent that gives its devices a new name at each start, say.
TEST_P(QueueTest, AnAgentHasSoManyDevicesTheOthersOfItsCallGoOn) {
  const std::string study = make_study("ci");
  Asker a;
  for (int i = 0; i < 256; ++i) a.devices.push_back(absl::StrCat("d", i));
  a.devices.resize(256);                   // "d" and 255 more, as many as a call may have
  take(a, 0);
  EXPECT_EQ(number("SELECT count(*) FROM devices"), 256);
  a.devices = {"fresh", "d"};
  queue(study);
  const absl::StatusOr<v1::SynchronizeResponse> response = call(a);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->refused_devices().at("devices/fresh"),
              HasSubstr("agents/a has 256 devices"));
  EXPECT_THAT(response->draining_devices(), ElementsAre("devices/fresh"));
  ASSERT_EQ(response->jobs_size(), 1) << "the other goes on";
  EXPECT_EQ(response->jobs(0).device(), "devices/d");
  a.devices = {"fresh"};
  EXPECT_TRUE(call(a).ok()) << "its own, though too many: nobody's name is taken";
  EXPECT_EQ(number("SELECT count(*) FROM devices"), 256);
  Asker b{.agent = "b", .session = "s2", .devices = {"fresh"}};
  EXPECT_TRUE(call(b).ok());
  EXPECT_EQ(device("fresh").agent, "b") << "another agent has room";
}

// What an agent says is kept, so each text has its length; the field that is too long is named.
TEST_P(QueueTest, EachTextOfACallHasItsLength) {
  Asker a;
  const v1::SynchronizeRequest good = request_of(a, 1);
  ASSERT_TRUE(check_request(good).ok());
  const auto refused = [&](const std::string& field,
                           const std::function<void(v1::SynchronizeRequest&)>& spoil) {
    v1::SynchronizeRequest request = good;
    spoil(request);
    const absl::Status status = check_request(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field + ": "));
    EXPECT_LT(status.message().size(), 400u) << field;
  };
  const std::string long_text(201, 'x'), longer((64 << 10) + 1, 'x');
  using R = v1::SynchronizeRequest;
  const auto device = [](R& r) -> v1::DeviceState& { return *r.mutable_devices(0); };
  const auto description = [&](R& r) -> v1::Device& { return *device(r).mutable_description(); };
  refused("agent", [&](R& r) { r.set_agent("agents/" + long_text); });
  refused("session", [&](R& r) { r.set_session(long_text); });
  refused("version", [&](R& r) { r.set_version(long_text); });
  refused("labels", [&](R& r) { (*r.mutable_labels())[long_text] = ""; });
  refused("labels", [&](R& r) { (*r.mutable_labels())["rack"] = long_text; });
  refused("labels", [&](R& r) {
    for (int i = 0; i < 65; ++i) (*r.mutable_labels())[absl::StrCat(i)] = "";
  });
  refused("devices[0].name", [&](R& r) { device(r).set_name("devices/" + long_text); });
  refused("devices[0].health_detail", [&](R& r) { device(r).set_health_detail(longer); });
  refused("devices[0].description.backend", [&](R& r) { description(r).set_backend(long_text); });
  refused("devices[0].description.kind", [&](R& r) { description(r).set_kind(long_text); });
  refused("devices[0].description.fingerprint",
          [&](R& r) { description(r).set_fingerprint(long_text); });
  refused("devices[0].description.facts", [&](R& r) { description(r).set_facts(longer); });
  refused("devices[0].description.labels",
          [&](R& r) { (*description(r).mutable_labels())["rack"] = long_text; });
  refused("devices[0].description", [&](R& r) {
    description(r).GetReflection()->MutableUnknownFields(&description(r))->AddLengthDelimited(
        1000, std::string(200 << 10, 'x'));
  });
  refused("devices[0].description",
          [&](R& r) { description(r).mutable_target()->set_cpu(std::string(200 << 10, 'x')); });
  refused("results[0].job", [&](R& r) { r.add_results()->set_job("jobs/" + long_text); });
  refused("results[0].digest", [&](R& r) {
    r.add_results()->set_job("jobs/1");
    r.mutable_results(0)->set_digest(long_text);
  });
}

// A board that is away for an hour finds its name as it was; its machine may come back under
// another agent's name sooner.
TEST_P(QueueTest, ASilentDeviceIsKeptForItsAgent) {
  Asker a{.fingerprint = "one"}, thief{.agent = "b", .session = "s2", .fingerprint = "two"};
  take(a, 0);
  now_ += 3'600'000;
  EXPECT_EQ(reason_of(call(thief).status()), v1::ERROR_REASON_ROLE_DENIED);
  Asker same{.agent = "c", .session = "s3", .fingerprint = "one"};
  EXPECT_TRUE(call(same).ok());
  EXPECT_EQ(device("d").agent, "c");
  now_ += 25 * int64_t{3'600'000};
  EXPECT_TRUE(call(thief).ok());
  EXPECT_EQ(device("d").agent, "b");
}

TEST_P(QueueTest, AnotherNameEndsNoQuarantine) {
  Asker a{.fingerprint = "one"};
  take(a, 0);
  write([&](WriteTransaction& tx) {
    return tx.query("UPDATE devices SET admission = 'quarantined', reason = 'too hot'").run();
  });
  a.devices = {"d", "other"};              // another machine's twin, or a second of it
  take(a, 0);
  EXPECT_EQ(device("other").admission, v1::DEVICE_ADMISSION_OPEN);
  a.devices = {"fresh"};
  take(a, 0);
  EXPECT_EQ(device("fresh").admission, v1::DEVICE_ADMISSION_QUARANTINED);
  EXPECT_THAT(device("fresh").reason, HasSubstr("was devices/d: too hot"));
}

// It takes nothing more from its word on, and is there for as long as it holds something.
TEST_P(QueueTest, WhoLeavesInOrderIsGoneWithItsLastJob) {
  const std::string study = make_study("ci");
  queue(study), queue(study);
  Asker a;
  const auto online = [&] {
    int devices = 0, agents = 0, slots = 0;
    bool has_place = false;
    write([&](WriteTransaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<DeviceRow> device, find_device(tx, "d"));
      ASSIGN_OR_RETURN(const std::optional<AgentRow> agent, find_agent(tx, "a"));
      devices = is_online(*device, now_ - 60'000), agents = is_online(*agent, now_ - 60'000);
      ASSIGN_OR_RETURN(const Capacity capacity,
                       capacity_of(tx, device->target, "llvm", now_ - 60'000));
      slots = capacity.slots;
      ASSIGN_OR_RETURN(const std::optional<StudyPlace> found, place(tx, {}, {}, now_ - 60'000));
      has_place = found.has_value();
      return absl::OkStatus();
    });
    return std::vector<int>{devices, agents, slots, has_place};
  };
  const v1::Job held = take_one(a);
  EXPECT_THAT(online(), ElementsAre(1, 1, 2, 1));
  a.leaving = true;
  EXPECT_THAT(take(a), IsEmpty());
  EXPECT_THAT(online(), ElementsAre(1, 1, 2, 1)) << "it holds a job";
  a.is_latest = false;                     // an older call, late
  a.held.clear(), a.results = {result_of(held)};
  ASSERT_TRUE(call(a).ok());
  EXPECT_THAT(online(), ElementsAre(1, 1, 2, 1));
  a.is_latest = true;
  ASSERT_TRUE(call(a).ok());
  EXPECT_THAT(online(), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(device("d").seen_ms, now_) << "it was seen all the same";
  a.leaving = false, a.is_latest = false;
  ASSERT_TRUE(call(a).ok());
  EXPECT_THAT(online(), ElementsAre(0, 0, 0, 0)) << "a late copy brings nobody back";
  Asker again{.agent = "a", .session = "s2"};
  take_one(again);
  EXPECT_THAT(online(), ElementsAre(1, 1, 2, 1));
}

// A board whose agent was renamed need not wait as one that fell silent.
TEST_P(QueueTest, AMachineThatLeftComesBackUnderAnotherNameAtOnce) {
  Asker a{.fingerprint = "one"}, same{.agent = "b", .session = "s2", .fingerprint = "one"};
  take(a, 0);
  EXPECT_EQ(reason_of(call(same).status()), v1::ERROR_REASON_ROLE_DENIED);
  a.leaving = true;
  take(a, 0);
  Asker thief{.agent = "c", .session = "s3", .fingerprint = "two"};
  EXPECT_EQ(reason_of(call(thief).status()), v1::ERROR_REASON_ROLE_DENIED);
  EXPECT_TRUE(call(same).ok());
  EXPECT_EQ(device("d").agent, "b");
  EXPECT_EQ(device("d").left_ms, 0);
}

TEST_P(QueueTest, ADeviceThatFailsInARowIsQuarantinedWithEvidence) {
  const std::string study = make_study("ci");
  for (int i = 0; i < 6; ++i) queue(study);
  Asker a;
  send(a, result_of(take_one(a)));         // so that it can be measured
  for (int i = 0; i < rules_.quarantine_failures; ++i) {
    EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_OPEN);
    send(a, failure_of(take_one(a), v1::VERDICT_DEVICE_UNHEALTHY));
  }
  const DeviceRow sick = device("d");
  EXPECT_EQ(sick.admission, v1::DEVICE_ADMISSION_QUARANTINED);
  EXPECT_THAT(sick.reason, HasSubstr("the fan stands still"));
  EXPECT_THAT(sick.evidence, HasSubstr("jobs/"));
  EXPECT_EQ(sick.failures, rules_.quarantine_failures);
  const absl::StatusOr<v1::SynchronizeResponse> response = call(a);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->jobs_size(), 0);
  EXPECT_THAT(response->draining_devices(), ElementsAre("devices/d"));
}

TEST_P(QueueTest, AQuarantinedDeviceKeepsNothingItHolds) {
  const std::string study = make_study("ci");
  std::vector<int64_t> ids;
  Asker a;
  queue(study);
  send(a, result_of(take_one(a)));         // so that it can be measured
  for (int i = 0; i < 4; ++i) ids.push_back(queue(study));
  take(a, 4);
  for (int i = 0; i < rules_.quarantine_failures; ++i) {
    send(a, failure_of(a.held[0], v1::VERDICT_DEVICE_UNHEALTHY));
  }
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_QUARANTINED);
  EXPECT_EQ(job(ids[3]).state, v1::JOB_STATE_QUEUED) << "what a sick device holds goes elsewhere";
}

TEST_P(QueueTest, ASuccessForgivesADevice) {
  const std::string study = make_study("ci");
  for (int i = 0; i < 9; ++i) queue(study);
  Asker a;
  for (int i = 0; i < 4; ++i) {
    now_ += 60'000;
    send(a, failure_of(take_one(a), v1::VERDICT_THROTTLED));
    now_ += 60'000;
    send(a, result_of(take_one(a)));
  }
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_OPEN);
  EXPECT_EQ(device("d").jobs_failed, 4);
  EXPECT_EQ(device("d").jobs_done, 4);
}

TEST_P(QueueTest, DrainedWorker) {
  const std::string study = make_study("ci");
  queue(study), queue(study);
  Asker a;
  const v1::Job claimed = take_one(a);
  const auto admit = [&](v1::DeviceAdmission admission) {
    write([&](WriteTransaction& tx) {
      return set_admission(tx, {"devices/d"}, {}, admission, "cleaning", now_).status();
    });
  };
  admit(v1::DEVICE_ADMISSION_DRAINING);
  a.session = "s1";
  EXPECT_THAT(take(a), IsEmpty());
  EXPECT_EQ(send(a, result_of(claimed)).kind(), v1::RECEIPT_KIND_STORED) << "it finishes its work";
  Asker restarted{.agent = "a", .session = "s2"};
  EXPECT_THAT(take(restarted), IsEmpty()) << "a drain survives a restart of the agent";
  admit(v1::DEVICE_ADMISSION_OPEN);
  EXPECT_EQ(take(restarted).size(), 1u);
}

TEST_P(QueueTest, DrainsGoByLabelsToo) {
  Asker a{.devices = {"d", "e"}};
  take(a);
  write([&](WriteTransaction& tx) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<DeviceRow> row, find_device(tx, "e"));
    (*row->description.mutable_labels())["rack"] = "r2";
    RETURN_IF_ERROR(put_device(tx, *row));
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     set_admission(tx, {}, {{"rack", "r2"}}, v1::DEVICE_ADMISSION_DRAINING,
                                   "move", now_));
    EXPECT_THAT(names, ElementsAre("devices/e"));
    return absl::OkStatus();
  });
  EXPECT_EQ(device("d").admission, v1::DEVICE_ADMISSION_OPEN);
  EXPECT_EQ(device("e").admission, v1::DEVICE_ADMISSION_DRAINING);
}

}  // namespace
}  // namespace lw
