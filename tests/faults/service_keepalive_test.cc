// A connection that falls silent without an end (a router that forgot it, a cable): both sides
// notice by their keepalive, the agent connects again, and its leases are kept if they are longer
// than that takes; shorter ones are lost, and their jobs run again.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/agent/agent.h"
#include "src/serve/wire/server.h"
#include "tests/support/fault_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace lw {
namespace {

using ::testing::IsEmpty;

constexpr int kWork_ms = 2500;             // of a candidate, longer than a silence is bearable
constexpr int64_t kShortLease_ms = 2000;
constexpr Keepalive kQuick = {.time_ms = 1000, .timeout_ms = 500};

// A service, and an agent that reaches it through a proxy, at work on the first job of a study.
class SilentConnection : public testing::Test {
 protected:
  void start(int64_t lease_ms, Keepalive keepalive = kQuick) {
    ServiceOptions options = quick_service();
    options.rules.ttl_ms = lease_ms;
    service_ = *Service::start(database_, options);
    ServerOptions server;
    server.address = *parse_bind_address("127.0.0.1:0");
    server.keepalive = keepalive;
    server.least_ping_ms = keepalive.time_ms / 2;
    server_ = *Server::start(*service_, server);
    const std::string& address = server_->address();
    proxy_ = std::make_unique<TcpProxy>(std::stoi(address.substr(address.rfind(':') + 1)));
    agent_.server.address = absl::StrCat("127.0.0.1:", proxy_->port());
    agent_.server.keepalive = keepalive;
    agent_.devices = {absl::StrCat("null:d1,target=x86_avx2,delay_ms=", kWork_ms)};
    agent_.name = "a1";
    agent_.slots = 8;                      // there is always room: it waits for more work
    agent_.leave_s = 0.5;
    agent_.backoff_s = 0.05, agent_.most_backoff_s = 0.2;
    agent_.interrupts = [this] { return signals_.load(); };
    thread_ = std::thread([this] { ended_ = run_agent(agent_); });
    v1::CreateStudyRequest create;
    create.set_request_id("1");
    *create.mutable_spec() = small_study(2);
    google::longrunning::Operation operation;
    ASSERT_TRUE(service_->studies.create_study(local_caller(), create, &operation).ok());
    // Leased; and the agent has it, for it has called again.
    ASSERT_TRUE(
        comes([&] { return count("state = 'leased'") > 0 && service_->core->parked.size() > 0; }));
  }
  ~SilentConnection() override {
    signals_ = 2;
    if (thread_.joinable()) thread_.join();
    if (server_ != nullptr) server_->stop(0.5);
  }

  // Half of the patience that the usual keepalive would need.
  static bool comes(const std::function<bool()>& what) {
    for (int i = 0; i < 1500; ++i) {
      if (what()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  int count(const std::string& where) {
    return std::stoi(column(*database_, "SELECT count(*) FROM jobs WHERE " + where)[0]);
  }
  std::vector<std::string> jobs() {
    return column(*database_, "SELECT state || ' ' || epoch || ' ' || lost_on FROM jobs");
  }

  Scratch scratch_;
  const std::shared_ptr<Database> database_ = *open_sqlite(scratch_.file, {});
  std::unique_ptr<Service> service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<TcpProxy> proxy_;
  std::atomic<int> signals_ = 0;
  AgentOptions agent_;
  absl::Status ended_;
  std::thread thread_;
};

using Sides = std::vector<TcpProxy::Side>;  // who is not heard

class EachSilentConnection : public SilentConnection, public testing::WithParamInterface<Sides> {};

TEST_P(EachSilentConnection, IsNoticedAndLeasesAreKept) {
  ASSERT_NO_FATAL_FAILURE(start(30'000));
  for (const TcpProxy::Side side : GetParam()) proxy_->silence(side);
  // Who does not hear the other must notice alone; who does may be told of the other's end first.
  for (const TcpProxy::Side side : GetParam()) {
    const TcpProxy::Side deaf = side == TcpProxy::kClient ? TcpProxy::kServer : TcpProxy::kClient;
    EXPECT_TRUE(comes([&] { return proxy_->given_up(deaf) > 0; }));
  }
  EXPECT_TRUE(comes([&] { return count("state = 'done'") > 0; }));
  EXPECT_EQ(count("attempt > 1"), 0);
}

std::string name_of(const testing::TestParamInfo<Sides>& info) {
  if (info.param.size() == 2) return "NeitherIsHeard";
  return info.param[0] == TcpProxy::kClient ? "AgentIsNotHeard" : "ServerIsNotHeard";
}

INSTANTIATE_TEST_SUITE_P(Sides, EachSilentConnection,
                         testing::Values(Sides{TcpProxy::kClient}, Sides{TcpProxy::kServer},
                                         Sides{TcpProxy::kClient, TcpProxy::kServer}),
                         name_of);

TEST_F(SilentConnection, LosesAShortLeaseAndTheJobRunsAgain) {
  ASSERT_NO_FATAL_FAILURE(
      start(kShortLease_ms, {.time_ms = 2 * kShortLease_ms, .timeout_ms = 500}));
  for (const TcpProxy::Side side : {TcpProxy::kClient, TcpProxy::kServer}) proxy_->silence(side);
  EXPECT_TRUE(comes([&] { return count("lost_on <> '' AND state = 'done' AND epoch > 1") > 0; }))
      << testing::PrintToString(jobs());
  EXPECT_THAT(column(*database_, "SELECT epoch FROM orphans"), IsEmpty());  // the agent knew
}

// While the connection lives, even a lease that is shorter than its job.
TEST_F(SilentConnection, IsNotOneThatRenewsLeases) {
  ASSERT_NO_FATAL_FAILURE(start(kShortLease_ms));
  EXPECT_TRUE(comes([&] { return count("state = 'done'") > 0; }));
  EXPECT_EQ(count("attempt > 1"), 0) << testing::PrintToString(jobs());
}

// Between two renewals, until a silence is noticed, and in time for the next one.
TEST(Keepalive, IsQuickerThanALeaseEnds) {
  const Keepalive usual;
  const int64_t ttl_ms = LeaseRules().ttl_ms;
  EXPECT_LT(ttl_ms / 3 + usual.time_ms + usual.timeout_ms, ttl_ms * 9 / 10);
  EXPECT_LE(ServerOptions().least_ping_ms, usual.time_ms / 2);
}

}  // namespace
}  // namespace lw
