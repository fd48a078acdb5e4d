// Studies that wait for devices: they hold no seat, say why they wait, and however many there are,
// others go on.
#include "src/serve/studies/study_queue.h"

#include <set>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/studies/studies.h"
#include "tests/serve/study_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

class StudyQueueTest : public StudyTest {
 protected:
  static ServiceOptions options() {
    ServiceOptions options;
    options.searcher.adopt_ms = 100;
    options.searcher.gone_ms = 200;
    options.config.quotas.active_studies_per_client = 1'000'000;
    return options;
  }
  static v1::CreateStudyRequest request(const std::string& target, int priority, int trials = 8) {
    v1::CreateStudyRequest request = study_request({32}, trials);
    request.mutable_spec()->set_target(target);
    request.mutable_spec()->set_priority(priority);
    return request;
  }
  static void insert(Daemon& daemon, int count, const v1::StudySpec& spec,
                     const std::string& client) {
    const CheckedSpec checked = *check_spec(spec, options().config.quotas);
    ASSERT_TRUE(daemon.database->write(60, [&](WriteTransaction& tx) -> absl::Status {
      for (int i = 0; i < count; ++i) {
        Changes changes;
        StudyRow study;
        study.id = make_id(1 + i);
        study.client = client;
        study.spec = checked.spec;
        study.asked = checked.spec.target();
        study.priority = checked.spec.priority();
        study.waiting_ms = study.created_ms = daemon.service->core->now_ms();
        RETURN_IF_ERROR(insert_study(tx, study));
        StudyWorkloadRow row;
        row.study = study.id;
        row.name = "m";
        row.workload = checked.workloads[0].id;
        row.cache = "warm";
        RETURN_IF_ERROR(store_in(tx)->put_workload(checked.workloads[0]));
        RETURN_IF_ERROR(insert_workload(tx, row));
      }
      return absl::OkStatus();
    }).ok());
  }
  // Of the study's events, those that say what it waits for.
  static std::vector<std::string> waits(Daemon& daemon, const std::string& name) {
    bool ended = false;
    std::vector<std::string> found;
    const auto events =
        *daemon.service->studies.events(name.substr(name.find('/') + 1), 0, 100, &ended);
    for (const v1::StudyEvent& event : events) {
      if (event.kind() == v1::StudyEvent::KIND_WAITING) found.push_back(event.detail());
    }
    return found;
  }

  Scratch scratch_;
};

// A device that says how much memory it has: enough for a product of 32 rows, not for one of 65536.
constexpr char kSmall[] = "target=x86_avx2,memory_mib=4";

// Asked for before any device was known; nobody is blamed for what none can hold.
TEST_F(StudyQueueTest, AStudyTooLargeForAllDevicesFailsAndClosesNone) {
  Daemon daemon(scratch_.file, options());
  const std::string large = create(daemon, study_request({65536}, 8));
  const std::string honest = create(daemon, request("any", 0));
  NullAgent a(daemon.server->address(), "a", kSmall), b(daemon.server->address(), "b", kSmall);
  const v1::Study failed = finish(daemon, large);
  EXPECT_EQ(failed.progress().state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(failed.error(), HasSubstr("GB of memory"));
  EXPECT_EQ(failed.progress().trials(), 0);
  EXPECT_EQ(finish(daemon, honest).progress().state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_EQ(number(*daemon.database, "SELECT count(*) FROM devices WHERE admission = 'open' AND "
                                     "failures = 0 AND jobs_failed = 0"), 2);
}

// As agents take it in --device: by the number that a device has where it is, or by its name.
TEST_F(StudyQueueTest, ADriversDeviceIsTheOneThatIsRegistered) {
  Daemon daemon(scratch_.file, options());
  const auto put = [&](const std::string& id, int number, const std::string& named) {
    const int64_t now_ms = daemon.service->core->now_ms();  // so that nobody forgets it
    return daemon.database->write(60, [&](WriteTransaction& tx) -> absl::Status {
      RETURN_IF_ERROR(tx.query("INSERT INTO agents (id, sessions, version, labels, peer, seen_ms) "
                               "VALUES (?, '', '', '{}', '', ?)", id, now_ms).run());
      DeviceRow row;
      row.id = row.agent = id;
      row.seen_ms = now_ms;
      row.description.set_name("devices/" + id);
      row.description.set_kind("opencl");
      row.description.mutable_target()->set_name("opencl:" + named);
      row.description.set_facts(concat("{\"device\":\"", named, "\",\"number\":", number, "}"));
      return put_device(tx, row);
    });
  };
  const auto asks = [&](const std::string& target) -> absl::StatusOr<std::string> {
    google::longrunning::Operation operation;
    RETURN_IF_ERROR(Daemon::call(*daemon.tuning, &v1::TuningService::Stub::CreateStudy,
                                 request(target, 0), &operation));
    std::string asked;
    RETURN_IF_ERROR(daemon.database->read(60, [&](Transaction& tx) -> absl::Status {
      Query query = tx.query("SELECT asked FROM studies ORDER BY created_ms DESC, id DESC LIMIT 1");
      if (query.next()) asked = query.text(0);
      return query.status();
    }));
    return asked;
  };
  const auto refusal = [&](const std::string& target) {
    return std::string(asks(target).status().message());
  };
  EXPECT_THAT(refusal("opencl:0"), HasSubstr("no agent has registered"));
  ASSERT_EQ(put("left", 0, "Mali-G78"), absl::OkStatus());
  EXPECT_EQ(*asks("opencl:0"), "opencl:Mali-G78");
  EXPECT_EQ(*asks("opencl:mali"), "opencl:Mali-G78");
  EXPECT_THAT(refusal("opencl:1"), HasSubstr("'opencl:1' is no device of this service's; there are "
                                             "devices/left (opencl:0, Mali-G78)"));
  ASSERT_TRUE(put("right", 1, "Mali-G78").ok());
  EXPECT_EQ(*asks("opencl:1"), "opencl:Mali-G78");
  ASSERT_TRUE(put("far", 0, "Mali-T860").ok());
  EXPECT_THAT(refusal("opencl:0"), HasSubstr("not one device"));
  EXPECT_THAT(refusal("opencl:mali"), HasSubstr("devices/far (opencl:0, Mali-T860)"));
  EXPECT_EQ(*asks("opencl:t860"), "opencl:Mali-T860");
  EXPECT_THAT(refusal("cpu:0"), HasSubstr("can never be"));
}

// Now that there are devices, its client hears of it at once, and of which workload it is.
TEST_F(StudyQueueTest, WhatNoDeviceCanHoldIsRefused) {
  Daemon daemon(scratch_.file, options());
  NullAgent a(daemon.server->address(), "a", kSmall);
  ASSERT_TRUE(eventually([&] {
    return number(*daemon.database, "SELECT count(*) FROM devices") == 1;
  }));
  google::longrunning::Operation operation;
  const auto ask = [&] {
    return Daemon::call(*daemon.tuning, &v1::TuningService::Stub::CreateStudy,
                        study_request({32, 65536}, 8), &operation);
  };
  const absl::Status refused = ask();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("spec.workloads[1]"));
  // One that does not say might.
  NullAgent b(daemon.server->address(), "b");
  ASSERT_TRUE(eventually([&] {
    return number(*daemon.database, "SELECT count(*) FROM devices") == 2;
  }));
  EXPECT_TRUE(ask().ok());
}

// Of two boards of a kind the larger measures what the smaller cannot.
TEST_F(StudyQueueTest, LargeWorkloadsGoToLargeDevices) {
  Daemon daemon(scratch_.file, options());
  NullAgent a(daemon.server->address(), "a", kSmall);
  NullAgent b(daemon.server->address(), "b", "target=x86_avx2,memory_mib=400");
  ASSERT_TRUE(eventually([&] {
    return number(*daemon.database, "SELECT count(*) FROM devices") == 2;
  }));
  const v1::Study study = finish(daemon, create(daemon, study_request({65536, 32}, 24)));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  for (const v1::WorkloadProgress& one : study.progress().workloads()) {
    EXPECT_GT(one.best_us(), 0) << one.name();
  }
  EXPECT_EQ(number(*daemon.database, "SELECT count(*) FROM jobs WHERE position = 0 AND "
                                     "device <> 'b-0'"), 0);
  EXPECT_EQ(number(*daemon.database, "SELECT max(attempt) FROM jobs"), 1) << "none was refused";
}

// The rest of a study goes on.
TEST_F(StudyQueueTest, AWorkloadTooLargeForTheStudysDevicesClosesAlone) {
  Daemon daemon(scratch_.file, options());
  const std::string name = create(daemon, study_request({65536, 32}, 16));
  NullAgent a(daemon.server->address(), "a", kSmall);
  const v1::Study study = finish(daemon, name);
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_THAT(study.progress().workloads(0).note(), HasSubstr("its devices have at most"));
  EXPECT_GT(study.progress().workloads(1).best_us(), 0);
}

TEST_F(StudyQueueTest, TwoHundredStudiesWithoutADeviceHoldUpNobody) {
  Daemon daemon(scratch_.file, options());
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2");
  std::string first;
  for (int i = 0; i < 200; ++i) {
    const std::string name = create(daemon, request("devices/nothing", 100));
    if (i == 0) first = name;
  }
  const v1::Study study = finish(daemon, create(daemon, request("any", 0)));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  const v1::Study waiting = get(daemon, first);
  EXPECT_EQ(waiting.progress().state(), v1::STUDY_STATE_QUEUED);
  EXPECT_EQ(waiting.progress().waiting(), "no device: devices/nothing is wanted");
  EXPECT_GT(waiting.progress().waiting_since().seconds(), 0);
  EXPECT_THAT(waits(daemon, first), ::testing::ElementsAre(HasSubstr("devices/nothing is wanted; ")));
  EXPECT_EQ(number(*daemon.database, "SELECT count(*) FROM studies WHERE owner <> ''"), 1);
}

TEST_F(StudyQueueTest, AStudyWhoseDevicesGoGivesItsSeatUpAndGoesOnWhenTheyAreBack) {
  ServiceOptions options = this->options();
  options.searcher.most_studies = 1;
  Daemon daemon(scratch_.file, options);
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2,delay_ms=20");
  const std::string name = create(daemon, request("x86_avx2", 0, 60));
  ASSERT_TRUE(eventually([&] { return get(daemon, name).progress().trials() > 8; }));
  v1::DrainDevicesRequest drain;
  v1::DrainDevicesResponse drained;
  drain.set_request_id(fresh_id());
  drain.add_names("devices/a-0");
  ASSERT_TRUE(Daemon::call(*daemon.fleet, &v1::FleetService::Stub::DrainDevices, drain, &drained)
                  .ok());
  ASSERT_TRUE(eventually([&] {
    return get(daemon, name).progress().state() == v1::STUDY_STATE_QUEUED;
  }));
  EXPECT_THAT(get(daemon, name).progress().waiting(), HasSubstr("no device"));
  EXPECT_THAT(waits(daemon, name), ::testing::Contains(HasSubstr("1 draining")));
  // Its seat, the only one, is another's.
  NullAgent other(daemon.server->address(), "b", "target=x86_avx512");
  const v1::Study next = finish(daemon, create(daemon, request("x86_avx512", -100)));
  EXPECT_EQ(next.progress().state(), v1::STUDY_STATE_SUCCEEDED) << next.error();
  v1::ResumeDevicesRequest resume;
  v1::ResumeDevicesResponse resumed;
  resume.set_request_id(fresh_id());
  resume.add_names("devices/a-0");
  ASSERT_TRUE(Daemon::call(*daemon.fleet, &v1::FleetService::Stub::ResumeDevices, resume, &resumed)
                  .ok());
  const v1::Study study = finish(daemon, name);
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_EQ(study.progress().trials(), 60);
}

// Not only when it has been silent for a minute.
TEST_F(StudyQueueTest, AnAgentThatHasLeftIsNobodysPlace) {
  Daemon daemon(scratch_.file, options());
  {
    NullAgent agent(daemon.server->address(), "a");
    ASSERT_TRUE(eventually([&] {
      return number(*daemon.database, "SELECT count(*) FROM devices") == 1;
    }));
  }
  create(daemon, request("any", 0));
  EXPECT_TRUE(eventually([&] {
    return number(*daemon.database,
                  "SELECT count(*) FROM studies WHERE waiting = 'no device'") == 1;
  }));
  EXPECT_EQ(number(*daemon.database, "SELECT max(owner_epoch) FROM studies"), 0)
      << "it had a seat all the same";
}

TEST_F(StudyQueueTest, AStudyThatHasWaitedForTooLongFailsWithWhatItWaitedFor) {
  Daemon daemon(scratch_.file, options());
  v1::CreateStudyRequest hopeless = request("devices/nothing", 0);
  hopeless.mutable_spec()->mutable_most_waiting()->set_seconds(1);
  const v1::Study study = finish(daemon, create(daemon, hopeless));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_FAILED);
  EXPECT_THAT(study.error(), HasSubstr("s: no device: devices/nothing is wanted"));
}

// A look costs by groups; the bound is generous, and far below one that reads each study.
TEST_F(StudyQueueTest, TenThousandQueuedStudiesDoNotSlowALook) {
  Daemon daemon(scratch_.file, options());
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2");
  insert(daemon, 10'000, request("devices/nothing", 100).spec(), "nightly");
  const v1::Study study = finish(daemon, create(daemon, request("any", 0)));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  // Each is told once why it waits; then there is nothing to write.
  EXPECT_TRUE(eventually([&] {
    return number(*daemon.database, "SELECT count(*) FROM studies WHERE state = 'queued' AND "
                                    "waiting = ''") == 0;
  }));
  EXPECT_EQ(number(*daemon.database, "SELECT count(*) FROM events WHERE study IN "
                                     "(SELECT id FROM studies WHERE client = 'nightly')"), 10'000);
  SearchSeat seat;
  const std::shared_ptr<Store> store = make_store(daemon.database);
  seat.database = daemon.database.get();
  seat.store = store.get();
  seat.now_ms = [&] { return daemon.service->core->now_ms(); };
  seat.commit = [](std::function<absl::Status(WriteTransaction&)>) {
    ADD_FAILURE() << "a look that has nothing to say writes";
    return absl::OkStatus();
  };
  StudyQueue queue(seat);
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<StudyQueue::Look> look = queue.look(64, {});
    ASSERT_TRUE(look.ok()) << look.status();
    EXPECT_TRUE(look->next.empty());
  }
  const double look_ms =
      10 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::printf("a look at 10,000 queued studies: %.3f ms\n", look_ms);
  EXPECT_LT(look_ms, 20);
}

TEST_F(StudyQueueTest, TenThousandQueuedStudiesAreListedAndOutliveARestart) {
  const auto listed = [](Daemon& daemon) {
    std::set<std::string> names;
    v1::ListStudiesRequest request;
    request.set_page_size(1000);
    do {
      v1::ListStudiesResponse page;
      const absl::Status status =
          Daemon::call(*daemon.tuning, &v1::TuningService::Stub::ListStudies, request, &page);
      EXPECT_TRUE(status.ok()) << status;
      for (const v1::Study& study : page.studies()) EXPECT_TRUE(names.insert(study.name()).second);
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return names.size();
  };
  {
    Daemon daemon(scratch_.file, options());
    insert(daemon, 10'000, request("devices/nothing", 100).spec(), "nightly");
    EXPECT_EQ(listed(daemon), 10'000u);
  }
  Daemon daemon(scratch_.file, options());
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2");
  const v1::Study study = finish(daemon, create(daemon, request("any", 0)));
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED) << study.error();
  EXPECT_EQ(listed(daemon), 10'001u);
}

TEST_F(StudyQueueTest, SeatsGoToTheClientThatHoldsTheFewestThenByPriorityAndAge) {
  ServiceOptions options = this->options();
  options.search = false;
  Daemon daemon(scratch_.file, options);
  NullAgent agent(daemon.server->address(), "a", "target=x86_avx2");
  ASSERT_TRUE(eventually([&] { return number(*daemon.database, "SELECT count(*) FROM devices") == 1; }));
  insert(daemon, 5'000, request("any", 50).spec(), "greedy");
  insert(daemon, 5, request("any", 0).spec(), "modest");
  insert(daemon, 1, request("any", 7).spec(), "modest");
  SearchSeat seat;
  const std::shared_ptr<Store> store = make_store(daemon.database);
  seat.database = daemon.database.get();
  seat.store = store.get();
  seat.now_ms = [&] { return daemon.service->core->now_ms(); };
  StudyQueue queue(seat);
  const absl::StatusOr<StudyQueue::Look> look = queue.look(6, {{"greedy", 1}});
  ASSERT_TRUE(look.ok()) << look.status();
  std::vector<std::string> clients;
  for (const std::string& id : look->next) {
    ASSERT_TRUE(daemon.database->read(5, [&](Transaction& tx) -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<StudyRow> row, find_study(tx, id));
      clients.push_back(absl::StrCat(row->client, " ", row->priority));
      return absl::OkStatus();
    }).ok());
  }
  EXPECT_THAT(clients, ::testing::ElementsAre("modest 7", "greedy 50", "modest 0", "greedy 50",
                                              "modest 0", "greedy 50"));
}

}  // namespace
}  // namespace lw
