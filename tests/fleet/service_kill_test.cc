// kill -9 of daemon, agents and clients at random moments: nothing acknowledged is lost, nothing is
// there twice, nothing gets stuck, nothing gets worse.
//
// A supervisor (this program) starts a daemon, three agents and a client, all of them the real
// programs, and at moments drawn from a seed kills a random one and starts it again, at once or
// later. The client (this program again) submits small studies, watches, cancels, puts and looks
// up, and keeps a journal of what was acknowledged. Every few kills a Witness compares journals,
// the agents' logs and the database with each other and with what they held before.
//
//   service_kill_test                       # 40 kills, some 20 s
//   service_kill_test --rounds=1000 --seed=7
#include <cstdio>

#include "loopwright/v1/schedule.grpc.pb.h"
#include "tests/fleet/service_witness.h"

namespace lw {
namespace {

constexpr int kKillShortForm = 40;             // kills
constexpr int kKillAgents = 3;
constexpr int kKillDelay_ms = 25;              // of a candidate
constexpr int kKillLookEvery = 20;             // kills

class ServiceKill : public FolderTest {
 protected:
  std::string database() const { return folder_ + "/service.db"; }

  void start(const std::string& name) {
    if (name == "daemon") {
      ASSERT_TRUE(processes_.start_daemon(name, daemon_words(address_, database(), "2", more_)))
          << read_text(processes_.log(name));
    } else if (name == "client") {
      processes_.start(name, client_words(address_, folder_ + "/journal", 2));
    } else {
      processes_.start(name, agent_words(address_, name, kKillDelay_ms, folder_ + "/state"));
    }
  }

  // Every record, as often as it is there. Empty when the daemon does not answer.
  std::multiset<std::string> export_all() {
    std::multiset<std::string> records;
    const auto stub = loopwright::v1::ScheduleService::NewStub(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = stub->ExportRecords(&context, {});
    for (loopwright::v1::ExportRecordsResponse response; stream->Read(&response);) {
      for (const auto& record : response.records()) {
        if (record.has_measurement()) records.insert(sha256(
            record.key().SerializeAsString() + record.measurement().SerializeAsString()));
      }
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return records;
  }

  void kill_for(int rounds);

  Words more_;                             // of the daemon
  const std::string address_ = loopback(free_port());
  Processes processes_{folder_};
  Witness witness_{database()};
};

void ServiceKill::kill_for(int rounds) {
  Rng rng(seed());
  std::vector<std::string> names = {"daemon", "client"};
  for (int i = 0; i < kKillAgents; ++i) names.push_back(nth_agent(i));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_NO_FATAL_FAILURE(start("daemon"));
  // Lives are long enough to get something done, however slow this build and this machine are.
  const std::chrono::duration<double> starting = std::chrono::steady_clock::now() - begin;
  const double slow = std::clamp(starting.count() / 0.1, 1.0, 5.0);
  for (const std::string& name : names) {
    if (!processes_.runs(name)) {
      ASSERT_NO_FATAL_FAILURE(start(name));
    }
  }
  std::multiset<std::string> exported;
  std::map<std::string, int> killed;
  std::map<std::string, int> back;         // who is down, until which round
  for (int round = 1; round <= rounds; ++round) {
    const int64_t life_ms = rng.below(5) == 0 ? 1000 : 20 + rng.below(400);
    pause_ms(static_cast<int64_t>(slow * static_cast<double>(life_ms)));
    const int64_t dice = rng.below(10);
    const std::string name = dice < 2   ? "daemon"
                             : dice < 4 ? "client"
                                        : nth_agent(static_cast<int>(dice) % kKillAgents);
    if (processes_.runs(name)) {
      ASSERT_FALSE(processes_.has_ended(name)) << name << " ended by itself\n"
                                               << read_text(processes_.log(name));
      ASSERT_EQ(processes_.end(name, SIGKILL), 128 + SIGKILL);
      ++killed[name];
      back[name] = round + (rng.below(3) == 0 ? 1 + static_cast<int>(rng.below(3)) : 0);
    } else {
      back[name] = round;
    }
    if (round % kKillLookEvery == 0) {
      if (!processes_.runs("daemon") && rng.below(2) == 0) {
        ASSERT_NO_FATAL_FAILURE(check_database(processes_, database()));
      }
      ASSERT_NO_FATAL_FAILURE(expect_sound(witness_, processes_, kKillAgents));
      back["daemon"] = round;
    }
    for (auto at = back.begin(); at != back.end();) {
      if (at->second > round) { ++at; continue; }
      if (!processes_.runs(at->first)) {
        ASSERT_NO_FATAL_FAILURE(start(at->first));
      }
      at = back.erase(at);
    }
    if (round % kKillLookEvery == 0) {
      std::multiset<std::string> now = export_all();
      ASSERT_TRUE(std::includes(now.begin(), now.end(), exported.begin(), exported.end()))
          << "a record is lost";
      exported = std::move(now);
      if (rounds > 100) std::printf("%d kills: %zu studies, %zu measurements, %zu events\n", round,
                                    witness_.counts().studies, witness_.counts().measurements,
                                    witness_.counts().events), std::fflush(stdout);
    }
  }
  for (const std::string& name : names) {
    if (!processes_.runs(name)) {
      ASSERT_NO_FATAL_FAILURE(start(name));
    }
  }
  // The killing is over: everything ends within a bound.
  ASSERT_EQ(finish_client(processes_), 0) << "studies are stuck";
  for (int i = 0; i < kKillAgents; ++i) EXPECT_EQ(processes_.end(nth_agent(i), SIGTERM), 0);
  std::multiset<std::string> now = export_all();
  EXPECT_TRUE(std::includes(now.begin(), now.end(), exported.begin(), exported.end()));
  EXPECT_EQ(processes_.end("daemon", SIGTERM), 0);
  ASSERT_NO_FATAL_FAILURE(expect_sound(witness_, processes_, kKillAgents, /*finished=*/true));
  ASSERT_NO_FATAL_FAILURE(check_database(processes_, database()));
  const Witness::Counts& counts = witness_.counts();
  int all = 0;
  for (const auto& [name, count] : killed) all += count;
  std::printf("%d kills (daemon %d, client %d): %s\n", all, killed["daemon"], killed["client"],
              counts.text().c_str());
  EXPECT_GT(counts.studies, 0u);
  EXPECT_GT(counts.acknowledged, 0u);
}

TEST_F(ServiceKill, NothingIsLostWhoeverIsKilledWhenever) {
  kill_for(rounds_or(rounds_of(kKillShortForm)));
}

// What is over is forgotten while all of that goes on, at once: nothing else is.
TEST_F(ServiceKill, NothingIsForgottenButWhatIsOver) {
  const std::string config = processes_.path("config.json");
  std::ofstream(config) << R"({"retention": {"audit_days": 1e-5, "orphan_days": 1e-5,
                               "payload_days": 1e-5}})";
  more_ = {"--config", config};
  witness_.expect_forgetting();
  ASSERT_NO_FATAL_FAILURE(kill_for(kKillLookEvery));
  // And the rest of it, by `db prune`: first what studies leave behind, then all that ended.
  for (const char* what : {"--event-days", "--study-days"}) {
    processes_.start("prune", {LW_BINARY_DIR "/loopwright", "db", "prune", what, "1e-9", "--db",
                               database()});
    ASSERT_EQ(processes_.wait("prune", 60), 0) << read_text(processes_.log("prune"));
    ASSERT_NO_FATAL_FAILURE(expect_sound(witness_, processes_, kKillAgents, /*finished=*/true));
    ASSERT_NO_FATAL_FAILURE(check_database(processes_, database()));
  }
  EXPECT_EQ(witness_.counts().studies, 0u);
  EXPECT_GT(witness_.counts().measurements, 0u);
}

}  // namespace

}  // namespace lw
