// A daemon whose disk fails: it says so, goes on reading, loses nothing that it acknowledged, and
// writes again by itself when the disk does. Faults are injected under SQLite (faulty_vfs.h) at
// operations drawn from a seed; and a file system of 2 MiB that is really full.
#include <sched.h>
#include <sys/mount.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/fault_daemon.h"
#include "tests/support/faulty_vfs.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Fault = FaultyVfs::Fault;

// What clients were told is done.
struct Told {
  std::set<std::string> puts, studies, stored;
};

void expect_there(const std::string& file, const Told& told) {
  const auto database = *open_sqlite(file, {});
  const std::unique_ptr<Store> store = make_store(database);
  EXPECT_THAT(defects_of(*database, *store), IsEmpty());
  for (const std::string& id : told.puts) {
    EXPECT_EQ(column(*database, concat("SELECT 1 FROM requests WHERE id = '", id, "'")).size(), 1u);
  }
  EXPECT_EQ(column(*database, "SELECT 1 FROM keys k JOIN targets t ON t.id = k.target "
                              "WHERE t.text LIKE '%x86_test%'").size() >= told.puts.size(), true);
  for (const std::string& id : told.studies) {
    EXPECT_EQ(column(*database, concat("SELECT 1 FROM studies WHERE id = '", id, "'")).size(), 1u);
  }
  for (const std::string& job : told.stored) {
    const size_t epoch = job.find(' ');
    EXPECT_EQ(column(*database, concat("SELECT 1 FROM jobs WHERE state = 'done' AND id = ",
                                       job.substr(0, epoch), " AND epoch = ",
                                       job.substr(epoch + 1))).size(), 1u) << job;
  }
}

// Clients and an agent of one daemon, which note what they were told.
class Clients {
 public:
  Clients(const std::string& address, Told* told)
      : client(address), agent_("a1", "s1", {"d1"}), told_(*told) {}

  // One call that writes; what it said.
  absl::Status write(Rng& rng) {
    const std::string id = absl::StrCat("request ", ++count_);
    if (rng.below(3) == 0) {
      const auto operation = client.create(id, small_study(2));
      if (operation.ok()) {
        told_.studies.insert(operation->name().substr(operation->name().find('/') + 1));
      }
      return operation.status();
    }
    if (rng.below(2) == 0) return turn();
    const auto put = client.put(id, 100 + count_);
    if (put.ok()) told_.puts.insert(id);
    return put.status();
  }

  // A turn of the agent; a call of it that only asks need not write.
  absl::Status turn() {
    agent_.work();
    const auto response = client.synchronize(agent_.request());
    if (!response.ok()) return response.status();
    for (const v1::Receipt& receipt : response->receipts()) {
      if (receipt.kind() != v1::RECEIPT_KIND_STORED) continue;
      told_.stored.insert(concat(receipt.job().substr(5), " ", receipt.epoch()));
    }
    agent_.apply(*response);
    return absl::OkStatus();
  }

  DaemonClient client;

 private:
  FleetAgent agent_;
  Told& told_;
  int count_ = 0;
};

void expect_refused_as_read_only(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(reason_of(status), v1::ERROR_REASON_READ_ONLY) << status;
  EXPECT_GT(retry_delay_ms(status), 0) << status;
}

void expect_reads(Clients& clients, const RunningDaemon& daemon, const std::string& study) {
  DaemonClient& client = clients.client;
  v1::BatchLookupRequest lookup;
  v1::LookupQuery& query = *lookup.add_queries();
  query.set_workload_id(make_workload(64).id);
  query.set_target_id(sha256(to_text(make_target())));
  query.set_backend("llvm 19.1.7 r1");
  query.set_threads(2);
  const auto found = client.call<v1::BatchLookupResponse>(
      client.schedules, &v1::ScheduleService::Stub::BatchLookup, lookup);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->results(0).outcome(), v1::LOOKUP_OUTCOME_EXACT);
  EXPECT_TRUE(client.study(study).ok());
  const auto studies = client.call<v1::ListStudiesResponse>(
      client.tuning, &v1::TuningService::Stub::ListStudies, v1::ListStudiesRequest());
  ASSERT_TRUE(studies.ok()) << studies.status();
  EXPECT_GT(studies->studies_size(), 0);
  const auto fleet = client.call<v1::Fleet>(client.fleet, &v1::FleetService::Stub::GetFleet,
                                            v1::GetFleetRequest());
  ASSERT_TRUE(fleet.ok()) << fleet.status();
  EXPECT_THAT(fleet->problem(), HasSubstr("read-only"));
  grpc::ClientContext context;
  v1::WatchStudyRequest watch;
  watch.set_name(study);
  v1::StudyEvent event;
  const auto stream = client.tuning->WatchStudy(&context, watch);
  EXPECT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.sequence(), 1);
  context.TryCancel();
  stream->Finish();
  EXPECT_TRUE(eventually([&] { return client.health("loopwright.v1.TuningService") == 2; }));
  EXPECT_EQ(client.health("loopwright.v1.AgentService"), 2);
  EXPECT_EQ(client.health("loopwright.v1.ScheduleService"), 1);
  int code = 0;
  EXPECT_THAT(daemon.get("/readyz", &code), HasSubstr("read-only"));
  EXPECT_EQ(code, 503);
  daemon.get("/healthz", &code);
  EXPECT_EQ(code, 200);
  EXPECT_THAT(daemon.get("/metrics"), HasSubstr("loopwright"));
}

// Breaks the disk, expects what is promised, heals it, expects that all is well again.
void suffer(RunningDaemon& daemon, Clients& clients, const std::string& study, Rng& rng,
            const std::function<void()>& breaks, const std::function<void()>& heals) {
  for (int64_t i = rng.below(8); i > 0; --i) {
    const absl::Status before = clients.write(rng);
    ASSERT_TRUE(before.ok()) << before;
  }
  breaks();
  absl::Status refused;
  ASSERT_TRUE(eventually([&] {
    refused = clients.write(rng);
    return !refused.ok();
  }));
  expect_refused_as_read_only(refused);
  for (int i = 0; i < 3; ++i) {
    const auto again = clients.client.put(absl::StrCat("refused ", rng.next()), 90);
    ASSERT_FALSE(again.ok());
    expect_refused_as_read_only(again.status());
    EXPECT_THAT(std::string(again.status().message()), HasSubstr("read-only"));
  }
  expect_reads(clients, daemon, study);
  heals();
  ASSERT_TRUE(eventually([&] { return clients.write(rng).ok(); }));
  EXPECT_TRUE(eventually([&] { return clients.client.health("loopwright.v1.AgentService") == 1; }));
  int code = 0;
  EXPECT_TRUE(eventually([&] {
    daemon.get("/readyz", &code);
    return code == 200;
  }));
}

std::string begin(Clients& clients, Told* told) {
  EXPECT_TRUE(clients.client.put("first", 64).ok());
  told->puts.insert("first");
  const auto operation = clients.client.create("begin", small_study(12));
  EXPECT_TRUE(operation.ok()) << operation.status();
  EXPECT_TRUE(clients.turn().ok());
  return "studies/" + operation->name().substr(operation->name().find('/') + 1);
}

bool finish(Clients& clients, const std::string& study) {
  return eventually([&] {
    if (!clients.turn().ok()) return false;
    const auto now = clients.client.study(study);
    return now.ok() && now->has_end_time();
  });
}

TEST(ServiceFaults, DegradesToReadOnlyAndRecovers) {
  FaultyVfs vfs;
  for (const Fault fault : {Fault::kFull, Fault::kWrite, Fault::kShortWrite, Fault::kSync}) {
    SCOPED_TRACE(static_cast<int>(fault));
    Rng rng(11 + static_cast<uint64_t>(fault));
    Scratch scratch;
    Told told;
    {
      RunningDaemon daemon(scratch.file);
      Clients clients(daemon.address, &told);
      const std::string study = begin(clients, &told);
      for (int round = 0; round < 2 && !HasFatalFailure(); ++round) {
        suffer(daemon, clients, study, rng,
               [&] { vfs.fail(fault, static_cast<int>(rng.below(30))); }, [&] { vfs.heal(); });
      }
      vfs.heal();
      EXPECT_TRUE(finish(clients, study));
      EXPECT_TRUE(daemon.stop().ok());
    }
    expect_there(scratch.file, told);
  }
}

// The service ends while its disk is broken: what it had said is there afterwards.
TEST(ServiceFaults, StopsOnABrokenDisk) {
  FaultyVfs vfs;
  Scratch scratch;
  Told told;
  Rng rng(5);
  {
    RunningDaemon daemon(scratch.file);
    Clients clients(daemon.address, &told);
    begin(clients, &told);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(clients.write(rng).ok());
    vfs.fail(Fault::kFull, 0);
    EXPECT_FALSE(clients.client.put("lost", 91).ok());
    EXPECT_TRUE(daemon.stop().ok());
  }
  vfs.heal();
  expect_there(scratch.file, told);
  RunningDaemon daemon(scratch.file);
  EXPECT_TRUE(DaemonClient(daemon.address).put("lost", 91).ok());
}

// ---- a disk that is full ------------------------------------------------------------------------

// In a child with mounts of its own. 77: they cannot be had here.
void live_on_a_full_disk(const std::string& directory) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("small", directory.c_str(), "tmpfs", 0, "size=4m") != 0) {
    _exit(77);
  }
  const std::string file = directory + "/test.db", ballast = directory + "/ballast";
  Told told;
  Rng rng(3);
  {
    RunningDaemon daemon(file);
    Clients clients(daemon.address, &told);
    const std::string study = begin(clients, &told);
    suffer(daemon, clients, study, rng,
           [&] {
             std::ofstream out(ballast, std::ios::binary);
             const std::string block(4096, 'x');
             while (out.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
             }
           },
           [&] { std::filesystem::remove(ballast); });
    EXPECT_TRUE(finish(clients, study));
    EXPECT_TRUE(daemon.stop().ok());
  }
  expect_there(file, told);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(ServiceFaults, SurvivesAFullDisk) {
  Scratch scratch;
  // gRPC must not have begun in the parent of a fork, so this runs in a program of its own.
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("LW_FULL_DISK", scratch.directory.c_str(), 1);
    execl("/proc/self/exe", "service_fault_test", "--gtest_also_run_disabled_tests",
          "--gtest_filter=ServiceFaults.DISABLED_LifeOnAFullDisk", nullptr);
    _exit(127);
  }
  const int status = wait_for(pid);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "a file system cannot be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ServiceFaults, DISABLED_LifeOnAFullDisk) {
  const char* directory = getenv("LW_FULL_DISK");
  if (directory != nullptr) live_on_a_full_disk(directory);
}

}  // namespace
}  // namespace lw
