// A network that says things twice: a copy of an agent's call, under the number of the first.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/serve/queue/synchronize.h"
#include "tests/support/fault_fixture.h"

namespace lw {
namespace {

using ::testing::IsEmpty;

class CopiedCalls : public testing::Test {
 protected:
  using Answer = std::pair<absl::Status, v1::SynchronizeResponse>;

  // A call that may wait for its answer.
  struct Waiting {
    std::shared_ptr<std::promise<Answer>> promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    std::shared_ptr<void> handle;

    bool is_answered() {
      return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
  };
  std::unique_ptr<Waiting> call(const v1::SynchronizeRequest& request) {
    auto waiting = std::make_unique<Waiting>();
    waiting->handle = service_->agents.synchronize(
        local_caller(), std::make_shared<v1::SynchronizeRequest>(request),
        [promise = waiting->promise](absl::Status status, v1::SynchronizeResponse response) {
          promise->set_value({std::move(status), std::move(response)});
        });
    return waiting;
  }

  std::string create(const std::string& id, int trials) {
    v1::CreateStudyRequest create;
    create.set_request_id(id);
    *create.mutable_spec() = small_study(trials);
    google::longrunning::Operation operation;
    EXPECT_TRUE(service_->studies.create_study(local_caller(), create, &operation).ok());
    return "studies/" + operation.name().substr(11);
  }

  v1::SynchronizeRequest patient_request() {
    v1::SynchronizeRequest request = agent_.request(1, 0);
    request.mutable_wait()->set_seconds(60);
    return request;
  }

  // The agent is known, nothing is queued, and a call of it waits.
  std::unique_ptr<Waiting> wait_for_work(v1::SynchronizeRequest* request) {
    for (int i = 0; i < 2; ++i) agent_.apply(*synchronize(*service_, agent_.request(1, 0)));
    *request = patient_request();
    std::unique_ptr<Waiting> waiting = call(*request);
    while (service_->core->parked.size() == 0) std::this_thread::yield();
    return waiting;
  }

  Scratch scratch_;
  const std::shared_ptr<Database> database_ = *open_sqlite(scratch_.file, {});
  const std::unique_ptr<Service> service_ = *Service::start(database_, quick_service());
  FleetAgent agent_{"a1", "s1", {"d1"}};
};

// Either answer may be the one that reaches the agent.
TEST_F(CopiedCalls, ACopyGetsTheSameAnswerAndChangesNothing) {
  v1::GetStudyRequest get;
  get.set_name(create("1", 6));
  v1::Study study;
  for (int i = 0; i < 2000 && !study.has_end_time(); ++i) {
    const v1::SynchronizeRequest request = agent_.request();
    const auto first = synchronize(*service_, request);
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = synchronize(*service_, request);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->SerializeAsString(), first->SerializeAsString());
    agent_.apply(i % 2 == 0 ? *first : *second);
    agent_.work();
    ASSERT_TRUE(service_->studies.get_study(local_caller(), get, &study).ok());
  }
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_THAT(column(*database_, "SELECT id FROM jobs WHERE attempt > 1"), IsEmpty());
}

// The copy may come first, and be the one of which nobody hears.
TEST_F(CopiedCalls, ACopyWaitsWithTheCallAndBothGetItsWork) {
  v1::SynchronizeRequest request;
  const auto first = wait_for_work(&request);
  const auto second = call(request);
  EXPECT_FALSE(first->is_answered() || second->is_answered());
  create("1", 6);
  const auto [status, response] = first->answer.get();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(response.jobs_size(), 1);
  EXPECT_EQ(second->answer.get().second.SerializeAsString(), response.SerializeAsString());
  EXPECT_THAT(column(*database_, "SELECT attempt FROM jobs WHERE state = 'leased'"),
              testing::ElementsAre("1"));
}

TEST_F(CopiedCalls, ACallWaitsUntilItsLastCallerHasGone) {
  v1::SynchronizeRequest request;
  const auto first = wait_for_work(&request);
  const auto second = call(request);
  service_->agents.abandon(first->handle);
  EXPECT_FALSE(second->is_answered());
  service_->agents.abandon(second->handle);
  for (const auto& gone : {first.get(), second.get()}) {
    const auto [status, response] = gone->answer.get();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(response.jobs_size(), 0);
  }
}

// It knows less than it seems: it takes nothing back, gets nothing, and does not wait.
TEST_F(CopiedCalls, WhatIsOlderThanTheLatestCallChangesNothing) {
  create("1", 6);
  agent_.apply(*synchronize(*service_, agent_.request(0, 0)));
  const v1::SynchronizeRequest old = patient_request();
  while (agent_.held().empty()) agent_.apply(*synchronize(*service_, agent_.request(1, 0.1)));
  const auto late = call(old);
  ASSERT_EQ(late->answer.wait_for(std::chrono::milliseconds(kPatienceMs)),
            std::future_status::ready);
  EXPECT_EQ(late->answer.get().second.jobs_size(), 0);
  EXPECT_THAT(column(*database_, "SELECT attempt FROM jobs WHERE state = 'leased'"),
              testing::ElementsAre("1"));
}

// Who was refused work has not seen the queue's end, which others would believe for a while.
TEST_F(CopiedCalls, OnlyWhoAskedTheQueueKnowsThatItIsEmpty) {
  for (const bool is_latest : {false, true}) {
    const v1::SynchronizeRequest request = agent_.request();
    Shares shares;
    SyncCall call;
    call.request = &request;
    call.is_latest = is_latest;
    SyncAnswer answer;
    const absl::Status status = database_->write(5, [&](WriteTransaction& tx) {
      return lw::synchronize(tx, call, shares, {}, service_->core->now_ms(), &answer);
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(answer.exhausted.size(), is_latest ? 1u : 0u);
  }
}

}  // namespace
}  // namespace lw
