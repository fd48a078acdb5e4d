// The client: where answers come from, and that nothing it waits for can hold a build up.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/client.h"
#include "loopwright/loopwright.h"
#include "schedules/targets/target.h"
#include "src/client/cache.h"
#include "src/client/grpc/grpc_source.h"
#include "src/expr/language/text.h"
#include "tests/client/client_fixture.h"
#include "tuner_db/ladder/snapshot.h"

namespace lw {
namespace {

TEST(Client, CachesWhatTheServerSays) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  place.source->answer = {match_of(record_of(task))};
  const auto client = place.open(patient());
  const absl::StatusOr<ClientAnswer> first = client->lookup(task);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->origin, "server");
  EXPECT_EQ(first->answer.outcome, Rung::kExact);
  EXPECT_FALSE(first->answer.adapted);
  EXPECT_NE(first->answer.kernel, nullptr);
  EXPECT_EQ(client->lookup(task)->origin, "cache");
  // Another process, without a server.
  EXPECT_EQ(place.open({}, false)->lookup(task)->origin, "cache");
  EXPECT_EQ(place.source->calls, 1);
}

TEST(Client, ACachedAnswerIsAskedForAgainWhenItIsOld) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  place.source->answer = {match_of(record_of(task))};
  const auto clock = std::make_shared<std::atomic<int64_t>>(1'000'000'000'000);
  ClientOptions options = patient();
  options.unix_ms = [clock] { return clock->load(); };
  const auto client = place.open(options);
  const auto origin = [&] { return client->lookup(task)->origin; };
  EXPECT_EQ(origin(), "server");
  *clock += 1000 * options.fresh_s - 1;
  EXPECT_EQ(origin(), "cache");
  *clock += 1;
  EXPECT_EQ(origin(), "server");
  EXPECT_EQ(origin(), "cache");
  *clock -= 1000;
  EXPECT_EQ(origin(), "server") << "a clock that was set back keeps nothing for ever";
}

TEST(Client, MissesAreCachedToo) {
  const ClientPlace place;
  const auto client = place.open(patient());
  const Task task = task_of(kWords);
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<ClientAnswer> answer = client->lookup(task);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->answer.outcome, Rung::kDefault);
    EXPECT_FALSE(answer->answer.trace.empty());  // the zero-trial schedule
  }
  EXPECT_EQ(place.source->calls, 1);
  ClientOptions impatient = patient();
  impatient.miss_fresh_s = 0;
  impatient.on_miss = OnMiss::kNothing;
  EXPECT_TRUE(place.open(impatient)->lookup(task)->answer.trace.empty());
  EXPECT_EQ(place.source->calls, 2);
}

TEST(Client, ABatchIsOneCall) {
  const ClientPlace place;
  std::vector<Task> tasks = {task_of(kWords), task_of("matmul M=32 N=32 K=32"),
                             task_of("matmul M=48 N=32 K=32")};
  place.source->answer = {match_of(record_of(tasks[0])), match_of(record_of(tasks[2]))};
  const auto answers = place.open(patient())->lookup(tasks);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0]->answer.outcome, Rung::kExact);
  EXPECT_EQ(answers[1]->answer.outcome, Rung::kDefault);
  EXPECT_EQ(answers[2]->answer.outcome, Rung::kExact);
  EXPECT_EQ(place.source->calls, 1);
}

TEST(Client, TheSnapshotAnswersWithoutTheServerUnlessItIsOnlyNear) {
  const ClientPlace place;
  const Task small = task_of("matmul M=32 N=32 K=32"), task = task_of(kWords);
  spill(place.scratch.directory + "/a.lws", snapshot_bytes({record_of(small)}, {}, 1));
  ClientOptions options = patient();
  options.snapshot = place.scratch.directory + "/a.lws";
  const auto client = place.open(options);
  EXPECT_EQ(client->lookup(small)->origin, "snapshot");
  EXPECT_EQ(place.source->calls, 0);
  const absl::StatusOr<ClientAnswer> near = client->lookup(task);  // the server has none
  EXPECT_EQ(place.source->calls, 1);
  EXPECT_EQ(near->origin, "snapshot");
  EXPECT_EQ(near->answer.outcome, Rung::kNearestShape);
  EXPECT_NE(near->answer.kernel, nullptr);
  EXPECT_GE(*near->answer.predicted_loss, 0);
}

TEST(Client, ADeadServerOpensTheCircuitAndComesBack) {
  const ClientPlace place;
  place.source->dead = true;
  ClientOptions options = patient();
  options.miss_fresh_s = 0;
  options.on_miss = OnMiss::kNothing;
  options.remote.pause_ms = 20;
  const auto client = place.open(options);
  const Task task = task_of(kWords);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(client->lookup(task)->answer.outcome, Rung::kDefault);
  }
  EXPECT_TRUE(client->stats().remote.open);
  EXPECT_GT(client->stats().remote.skipped, 0);
  EXPECT_LT(place.source->calls, 10);
  place.source->dead = false;
  place.source->answer = {match_of(record_of(task))};
  wait_until([&] { return client->lookup(task)->answer.outcome == Rung::kExact; });
  EXPECT_FALSE(client->stats().remote.open);
}

TEST(Client, AHangingServerIsNotWaitedFor) {
  const ClientPlace place;
  place.source->hangs = true;
  ClientOptions options;
  options.deadline_ms = 10;
  options.remote.pause_ms = 100'000;
  options.on_miss = OnMiss::kNothing;
  options.miss_fresh_s = 0;
  const Task task = task_of(kWords);
  place.source->answer = {match_of(record_of(task))};
  {
    const auto client = place.open(options);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(client->lookup(task).ok());
    EXPECT_EQ(client->stats().remote.late, 3);  // then the circuit is open
    EXPECT_EQ(place.source->calls, 1);
  }  // the client goes while the call still hangs
  place.source->let_go();
  // The late answer has reached the cache.
  wait_until([&] { return ScheduleCache(place.cache()).read(task.key()).has_value(); });
}

// One deadline for all of it; without, a default is worked out.
TEST(Client, ALookupIsOverInItsTime) {
  const ClientPlace place;
  place.source->hangs = true;
  ClientOptions options;
  options.deadline_ms = kPatient;
  options.most_ms = 1;
  const Task task = task_of(kWords);
  const absl::StatusOr<ClientAnswer> late = place.open(options)->lookup(task);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->answer.outcome, Rung::kDefault);
  EXPECT_EQ(late->answer.kernel, nullptr);
  EXPECT_THAT(late->answer.notes.back(), testing::HasSubstr("1 ms were over"));
  place.source->let_go();
  options.most_ms = 0;
  const absl::StatusOr<ClientAnswer> worked_out = place.open(options, false)->lookup(task);
  ASSERT_TRUE(worked_out.ok());
  EXPECT_NE(worked_out->answer.kernel, nullptr);
}

TEST(Client, FrozenTakesNothingButWhatIsStored) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  place.source->answer = {match_of(record_of(task))};
  ClientOptions options = patient();
  options.frozen = true;
  const auto client = place.open(options);
  EXPECT_TRUE(absl::IsNotFound(client->lookup(task).status()));
  EXPECT_EQ(place.source->calls, 0);
  ASSERT_TRUE(ScheduleCache(place.cache()).write(task.key(), place.source->answer, 1).ok());
  ClientOptions forever = options;
  EXPECT_TRUE(place.open(forever)->lookup(task).ok());
}

TEST(Client, AnExactRecordThatDoesNotApplyIsPassedOver) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  ScheduleRecord broken = record_of(task);
  broken.trace = "split(nothing, i; 5, 6, 0)\n";
  place.source->answer = {match_of(broken)};
  const absl::StatusOr<ClientAnswer> answer = place.open(patient())->lookup(task);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->answer.outcome, Rung::kDefault);
  ASSERT_EQ(answer->answer.notes.size(), 1u);
  EXPECT_NE(answer->answer.notes[0].find("does not apply"), std::string::npos);
}

TEST(Client, DamagedCacheEntriesAreIgnoredAndWrittenAgain) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  place.source->answer = {match_of(record_of(task))};
  place.open(patient())->lookup(task).IgnoreError();
  const std::string file = ScheduleCache(place.cache()).path(task.key());
  const std::string good = slurp(file);
  ASSERT_FALSE(good.empty());
  for (size_t cut = 0; cut < good.size(); cut += 13) {
    EXPECT_FALSE(decode_entry(task.key(), good.substr(0, cut)).has_value());
    std::string bad = good;
    bad[cut] ^= 4;
    EXPECT_FALSE(decode_entry(task.key(), bad).has_value());
  }
  spill(file, good.substr(0, 100));
  EXPECT_EQ(place.open(patient())->lookup(task)->origin, "server");
  EXPECT_EQ(slurp(file).size(), good.size());
  EXPECT_EQ(place.open(patient())->lookup(task)->origin, "cache");
}

TEST(Client, ManyProcessesShareOneCache) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  const std::vector<Match> answer = {match_of(record_of(task))};
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(child([&] {
      const ScheduleCache cache(place.cache());
      for (int i = 0; i < 300; ++i) {
        if (!cache.write(task.key(), answer, p * 1000 + i).ok()) _exit(1);
        const std::optional<CacheEntry> entry = cache.read(task.key());
        if (!entry || entry->candidates.size() != 1) _exit(2);  // whole, whoever wrote it
      }
    }));
  }
  for (const pid_t pid : children) EXPECT_EQ(wait_for(pid), 0);
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place.cache())) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 1u);
}

TEST(Client, AServerThatIsNotThereIsNoError) {
  ClientOptions options;
  options.server = "127.0.0.1:1";  // nobody listens
  options.on_miss = OnMiss::kNothing;
  const auto client = *ScheduleClient::open(options);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(client->lookup(task_of(kWords)).ok());
  EXPECT_GT(client->stats().remote.failures + client->stats().remote.late, 0);
}

TEST(Client, TakesWordsOrTheTextOfAProgram) {
  const Task task = task_of(kWords);
  EXPECT_EQ(task_of(print(*task.program())).key(), task.key());
}

TEST(ClientInC, AnswersAndReportsErrors) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  const std::string file = place.scratch.directory + "/a.lws";
  spill(file, snapshot_bytes({record_of(task)}, {}, 1));
  loopwright_options options{};
  options.size = sizeof options;
  options.snapshot = file.c_str();
  loopwright_client* client = nullptr;
  char error[64] = "";
  ASSERT_EQ(loopwright_open(&options, &client, error, sizeof error), LOOPWRIGHT_OK) << error;
  const char* workloads[] = {kWords, "matmul M=many", "matmul M=128 N=64 K=64"};
  loopwright_answer* answers[3];
  EXPECT_EQ(
      loopwright_lookup_batch(client, workloads, 3, "x86_avx2", 1, answers, error, sizeof error),
      LOOPWRIGHT_BAD_REQUEST);
  EXPECT_NE(std::string(error), "");
  EXPECT_EQ(answers[1], nullptr);
  EXPECT_STREQ(loopwright_answer_outcome(answers[0]), "exact");
  EXPECT_STREQ(loopwright_answer_time_kind(answers[0]), "measured");
  EXPECT_STREQ(loopwright_answer_origin(answers[0]), "snapshot");
  EXPECT_EQ(loopwright_answer_time_us(answers[0]), 10);
  EXPECT_STREQ(loopwright_answer_outcome(answers[2]), "nearest-shape");
  EXPECT_GT(loopwright_answer_distance(answers[2]), 0.6);
  for (loopwright_answer* answer : answers) loopwright_answer_free(answer);
  EXPECT_EQ(loopwright_lookup(client, nullptr, nullptr, 1, answers, nullptr, 0),
            LOOPWRIGHT_BAD_REQUEST);
  loopwright_close(client);
  options.snapshot = "/no/such/file.lws";
  EXPECT_EQ(loopwright_open(&options, &client, error, sizeof error), LOOPWRIGHT_ENVIRONMENT);
  EXPECT_EQ(client, nullptr);
}

}  // namespace
}  // namespace lw
