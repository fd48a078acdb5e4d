// What a service keeps: who has left, what is deleted and forgotten, how much callers may store.
#include "nlohmann/json.hpp"
#include "src/serve/views.h"
#include "tests/api_fixture.h"

namespace lw {
namespace {

INSTANTIATE_TEST_SUITE_P(Databases, ApiTest, ::testing::Values("sqlite", "postgres"),
                         [](const auto& info) { return std::string(info.param); });

// ---- who is there -------------------------------------------------------------------------------

TEST_P(ApiTest, AnAgentThatHasLeftIsOfflineWhereverItIsShown) {
  v1::SynchronizeResponse response;
  v1::SynchronizeRequest call = agent_call();
  const auto shown = [&] {
    v1::ListDevicesResponse devices;
    v1::ListAgentsResponse agents;
    v1::Fleet fleet;
    EXPECT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::ListDevices, v1::ListDevicesRequest(),
                    &devices).ok());
    EXPECT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::ListAgents, v1::ListAgentsRequest(),
                    &agents).ok());
    EXPECT_TRUE(ask(daemon_->fleet, &v1::FleetService::Stub::GetFleet, v1::GetFleetRequest(),
                    &fleet).ok());
    const ViewContext context{*daemon_->database, daemon_->service->now_ms()};
    const nlohmann::ordered_json page = *view_overview(context);
    return std::vector<int>{devices.devices(0).online(), agents.agents(0).online(),
                            static_cast<int>(fleet.classes(0).online()),
                            static_cast<int>(fleet.classes(0).idle()),
                            page["devices"]["online"].get<int>(),
                            page["agents"]["online"].get<int>(),
                            (*view_devices(context, {}))["devices"][0]["online"].get<bool>(),
                            (*view_agents(context, {}))["agents"][0]["online"].get<bool>()};
  };
  ASSERT_TRUE(ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, call, &response).ok());
  EXPECT_EQ(shown(), std::vector<int>({1, 1, 1, 1, 1, 1, 1, 1}));
  call.set_sequence(call.sequence() + 1);
  call.set_leaving(true);
  ASSERT_TRUE(ask(daemon_->agents, &v1::AgentService::Stub::Synchronize, call, &response).ok());
  EXPECT_EQ(shown(), std::vector<int>(8, 0));
  daemon_->service->before_metrics();
  const std::string metrics = daemon_->service->metrics().text();
  EXPECT_NE(metrics.find("loopwright_agents_online 0\n"), std::string::npos);
  EXPECT_NE(metrics.find("loopwright_devices{state=\"offline\"} 1\n"), std::string::npos);
}

}  // namespace
}  // namespace lw
