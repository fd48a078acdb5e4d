// A network that says things twice: a copy of an agent's call, under the number of the first.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/serve/synchronize.h"
#include "tests/fault_fixture.h"

namespace lw {
namespace {

using ::testing::IsEmpty;

// A copy of a call, with the number of the first, takes no work away and gets none.
TEST(CopiedCalls, ACopyOfACallChangesNothing) {
  Scratch scratch;
  const auto database = *open_sqlite(scratch.file, {});
  const auto service = *Service::start(database, quick_service());
  FleetAgent agent("a1", "s1", {"d1"});
  v1::GetStudyRequest get;
  get.set_name(study_name(make_study(*service, 6)));
  v1::Study study;
  for (int i = 0; i < 2000 && !study.has_end_time(); ++i) {
    const v1::SynchronizeRequest request = agent.request();
    const auto first = synchronize(*service, request);
    ASSERT_TRUE(first.ok()) << first.status();
    v1::SynchronizeRequest copy = request;
    copy.clear_wait();
    const auto second = synchronize(*service, copy);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->jobs_size(), 0);
    agent.apply(*first);
    agent.work();
    ASSERT_TRUE(service->get_study(local_caller(), get, &study).ok());
  }
  EXPECT_EQ(study.progress().state(), v1::STUDY_STATE_SUCCEEDED);
  EXPECT_THAT(column(*database, "SELECT id FROM jobs WHERE attempt > 1"), IsEmpty());
}

// Who was refused work has not seen the queue's end, which others would believe for a while.
TEST(CopiedCalls, OnlyWhoAskedTheQueueKnowsThatItIsEmpty) {
  Scratch scratch;
  const std::shared_ptr<Database> database = *open_sqlite(scratch.file, {});
  const std::unique_ptr<Store> store = make_store(database);
  FleetAgent agent("a1", "s1", {"d1"});
  for (const bool is_latest : {false, true}) {
    const v1::SynchronizeRequest request = agent.request();
    Shares shares;
    SyncCall call;
    call.request = &request;
    call.is_latest = is_latest;
    SyncAnswer answer;
    const absl::Status status = database->write(5, [&] {
      return lw::synchronize(*database, *store, call, shares, {}, 1, &answer);
    });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(answer.exhausted.size(), is_latest ? 1u : 0u);
  }
}

}  // namespace
}  // namespace lw
