// Two daemons on one PostgreSQL, three agents and a client, while a random one of the daemons and
// agents is killed now and then and started again later: nothing is lost, and what a dead daemon
// searched for goes on with the other.
//
// Agents and the client have one address each: a switch that leads to the daemon they prefer, or to
// the other one while that is dead, as a service's address in a cluster does.
//
//   service_fleet_test                      # 10 kills
//   service_fleet_test --rounds=200 --seed=7
#include <cstdio>

#include "tests/fleet/service_witness.h"
#include "tests/fleet/tcp_switch.h"
#include "tests/support/postgres_fixture.h"

namespace lw {
namespace {

constexpr int kFleetShortForm = 10;             // kills
constexpr int kFleetAgents = 3, kDaemons = 2;
constexpr int kFleetDelay_ms = 15;              // of a candidate
constexpr int kWorkloads = 4;              // of a study, at most
constexpr int kFleetLookEvery = 10;             // kills

class ServiceFleet : public FolderTest {
 protected:
  static std::string daemon(int i) { return absl::StrCat("d", i); }

  void start(const std::string& name) {
    const int i = name[1] - '0';
    if (name[0] == 'd') {
      ASSERT_TRUE(processes_.start_daemon(name, daemon_words(loopback(ports_[i]), url_)))
          << read_text(processes_.log(name));
    } else if (name[0] == 'a') {
      processes_.start(name, agent_words(loopback(ways_[i % kDaemons].port()), name, kFleetDelay_ms,
                                         folder_ + "/state"));
    } else {
      processes_.start(name, client_words(loopback(ways_[1].port()), folder_ + "/journal",
                                          kWorkloads));
    }
  }

  // How many studies were taken over from another daemon.
  size_t count_adoptions() const {
    size_t count = 0;
    for (int i = 0; i < kDaemons; ++i) {
      for (const nlohmann::json& event : log_events(processes_.log(daemon(i)))) {
        count += event["event"] == "study_adopted" && event["owner_epoch"].get<int>() > 1;
      }
    }
    return count;
  }

  // Starts what is due; nobody stays dead for good, and never are both daemons.
  void start_again(std::map<std::string, int>* back, int round) {
    for (auto at = back->begin(); at != back->end();) {
      if (at->second > round) {
        ++at;
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(start(at->first));
      at = back->erase(at);
    }
  }

  std::string url_;
  const std::vector<int> ports_ = {free_port(), free_port()};
  TcpSwitch ways_[kDaemons] = {TcpSwitch({ports_[0], ports_[1]}),
                               TcpSwitch({ports_[1], ports_[0]})};
  Processes processes_{folder_};
  std::unique_ptr<Witness> witness_;
};

TEST_F(ServiceFleet, FinishesWhoeverIsKilled) {
  PostgresCluster* cluster = PostgresCluster::get();
  if (cluster == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  url_ = cluster->fresh();
  witness_ = std::make_unique<Witness>(url_);
  const int rounds = rounds_or(kFleetShortForm);
  Rng rng(seed());
  std::vector<std::string> names;
  for (int i = 0; i < kDaemons; ++i) names.push_back(daemon(i));
  for (int i = 0; i < kFleetAgents; ++i) names.push_back(nth_agent(i));
  names.push_back("client");
  for (const std::string& name : names) ASSERT_NO_FATAL_FAILURE(start(name));
  const size_t mortals = names.size() - 1;
  std::map<std::string, int> back;         // who is down, until which round
  int kills = 0;
  for (int round = 1; round <= rounds; ++round) {
    pause_ms(100 + rng.below(1000));
    const std::string name = names[static_cast<size_t>(rng.below(static_cast<int64_t>(mortals)))];
    const bool last_daemon = name[0] == 'd' && back.contains(daemon(1 - (name[1] - '0')));
    if (processes_.runs(name) && !last_daemon) {
      ASSERT_FALSE(processes_.has_ended(name)) << name << " ended by itself\n"
                                               << read_text(processes_.log(name));
      ASSERT_EQ(processes_.end(name, SIGKILL), 128 + SIGKILL);
      ++kills;
      back[name] = round + 1 + static_cast<int>(rng.below(5));
    }
    ASSERT_NO_FATAL_FAILURE(start_again(&back, round));
    if (round % kFleetLookEvery == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_sound(*witness_, processes_, kFleetAgents));
    }
  }
  // One daemon and one agent finish it all, if these are all that is left.
  ASSERT_EQ(finish_client(processes_), 0) << "studies are stuck";
  std::reverse(names.begin(), names.end());  // agents say goodbye to a daemon
  for (const std::string& name : names) {
    if (!processes_.runs(name)) continue;
    EXPECT_EQ(processes_.end(name, SIGTERM), 0) << name;
  }
  ASSERT_NO_FATAL_FAILURE(expect_sound(*witness_, processes_, kFleetAgents, /*finished=*/true));
  ASSERT_NO_FATAL_FAILURE(check_database(processes_, url_));
  const Witness::Counts& counts = witness_->counts();
  std::printf("%d kills, %zu studies taken over: %s\n", kills, count_adoptions(),
              counts.text().c_str());
  EXPECT_GT(counts.acknowledged, 0u);
}

}  // namespace
}  // namespace lw
