// A bad network between a daemon, three agents and a client: nothing acknowledged is lost, nothing
// is there twice, no lease is held twice, nothing gets stuck.
//
// Daemon, agents and client are the real programs (service_kill_test); each agent and the client
// reach the daemon through a TcpProxy of its own, which delays, cuts, half-opens, doubles and
// repeats their connections as a seed says. A round is one such fault. The same witness compares
// what was acknowledged with the database; work goes on all the time, and when the network has
// become kind, everything ends.
//
// What is not promised: a small number of attempts. A claim counts its attempt before anybody knows
// whether the answer arrives (leases.h), so a job whose answers were lost was tried as often.
//
//   service_network_test                    # 100 faults, some 20 s
//   service_network_test --rounds=1000 --seed=7
#include <cstdio>

#include "tests/fleet/service_witness.h"
#include "tests/support/tcp_proxy.h"

namespace lw {
namespace {

constexpr int kNetShortForm = 100;            // faults
constexpr int kNetAgents = 3;
constexpr int kNetDelay_ms = 10;              // of a candidate
constexpr int kNetLookEvery = 20;             // faults
constexpr int kAnyAttempts = 1'000'000;
constexpr double kFaultWithin_s = 30;      // the next; only ends a test that has failed
constexpr int64_t kStuck_ms = 30'000;      // a doubled connection once stopped its agent for longer

class ServiceNetwork : public FolderTest {
 protected:
  ServiceNetwork() {
    for (int i = 0; i <= kNetAgents; ++i) {
      ways_.emplace_back(port_, hash_combine(seed(), i));
    }
  }

  int faults() const {
    int sum = 0;
    for (const TcpProxy& way : ways_) sum += way.faults();
    return sum;
  }

  // Jobs have waited for long, and since then none was finished.
  absl::StatusOr<bool> is_stuck() const {
    DatabaseOptions options;
    options.read_only = true;
    ASSIGN_OR_RETURN(const std::shared_ptr<Database> database, open_database(database_, options));
    const int64_t then = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch()).count() - kStuck_ms;
    bool stuck = false;
    RETURN_IF_ERROR(database->read(5, [&](Transaction& tx) -> absl::Status {
      Query query = tx.query("SELECT 1 FROM jobs WHERE state = 'queued' AND created_ms < ? "
                             "AND NOT EXISTS (SELECT 1 FROM jobs WHERE state = 'done' "
                             "AND ended_ms > ?)", then, then);
      stuck = query.next();
      return query.status();
    }));
    return stuck;
  }

  const std::string database_ = folder_ + "/service.db";
  const int port_ = free_port();
  std::list<TcpProxy> ways_;               // the agents', then the client's
  Processes processes_{folder_};
  Witness witness_{database_, kAnyAttempts};
};

TEST_F(ServiceNetwork, NothingIsLostWhateverTheNetworkDoes) {
  const int rounds = rounds_or(rounds_of(kNetShortForm));
  ASSERT_TRUE(processes_.start_daemon("daemon", daemon_words(loopback(port_), database_)))
      << read_text(processes_.log("daemon"));
  std::vector<std::string> names;
  for (const TcpProxy& way : ways_) {
    const bool agent = names.size() < kNetAgents;
    names.push_back(agent ? nth_agent(static_cast<int>(names.size())) : "client");
    const std::string address = loopback(way.port());
    processes_.start(names.back(),
                     names.back() == "client"
                         ? client_words(address, folder_ + "/journal", 2)
                         : agent_words(address, names.back(), kNetDelay_ms, folder_ + "/state"));
  }
  for (int round = kNetLookEvery; round <= rounds; round += kNetLookEvery) {
    for (int before = -1; faults() < round;) {
      ASSERT_LT(before, faults()) << "nobody connects";
      before = faults();
      await(kFaultWithin_s, [&] { return faults() > before; });
    }
    for (const std::string& name : names) {
      ASSERT_FALSE(processes_.has_ended(name)) << name << " ended by itself\n"
                                               << read_text(processes_.log(name));
    }
    ASSERT_NO_FATAL_FAILURE(expect_sound(witness_, processes_, kNetAgents));
    const absl::StatusOr<bool> stuck = is_stuck();
    ASSERT_TRUE(stuck.ok()) << stuck.status();
    ASSERT_FALSE(*stuck) << "jobs wait, and no agent works";
    if (rounds > 100) std::printf("%d faults: %zu studies, %zu measurements, %zu events\n", round,
                                  witness_.counts().studies, witness_.counts().measurements,
                                  witness_.counts().events), std::fflush(stdout);
  }
  // The network is well again: everything ends within a bound.
  for (TcpProxy& way : ways_) way.be_kind();
  ASSERT_EQ(finish_client(processes_), 0) << "studies are stuck";
  for (int i = 0; i < kNetAgents; ++i) EXPECT_EQ(processes_.end(nth_agent(i), SIGTERM), 0);
  EXPECT_EQ(processes_.end("daemon", SIGTERM), 0);
  ASSERT_NO_FATAL_FAILURE(expect_sound(witness_, processes_, kNetAgents, /*finished=*/true));
  ASSERT_NO_FATAL_FAILURE(check_database(processes_, database_));
  const Witness::Counts& counts = witness_.counts();
  for (int f = 0; f < TcpProxy::kFaults; ++f) {
    int sum = 0;
    for (const TcpProxy& way : ways_) sum += way.count(static_cast<TcpProxy::Fault>(f));
    std::printf("%s %d, ", TcpProxy::kNames[f], sum);
  }
  std::puts(counts.text().c_str());
  EXPECT_GT(counts.studies, 0u);
  EXPECT_GT(counts.acknowledged, 0u);
}

}  // namespace
}  // namespace lw
