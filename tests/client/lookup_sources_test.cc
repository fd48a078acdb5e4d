// One look-up, many ways to the records: a store in memory, SQLite, PostgreSQL, a daemon's index, a
// snapshot, a daemon over the network and the cache of what it said give the same answer, whole.

#include "loopwright/client.h"
#include "loopwright/program.h"
#include "schedules/targets/target.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/clock.h"
#include "src/lower/lower.h"
#include "tests/support/daemon_fixture.h"
#include "tuner_db/ladder/index.h"
#include "tuner_db/ladder/snapshot.h"

namespace lw {
namespace {

constexpr int64_t kDay_ms = 86'400'000;

Task task_of(const std::string& words, const std::string& target = "x86_avx2") {
  absl::StatusOr<Task> task = make_client_task(words, {.target = target, .threads = 1});
  CHECK(task.ok());
  return *std::move(task);
}

// The same on a machine with a slower clock.
Task slower(const Task& task) {
  Target target = *task.target();
  target.name = "slower";
  target.ghz /= 2;
  absl::StatusOr<Task> made =
      make_task(*task.program(), task.workload().source_words, std::move(target), 1);
  CHECK(made.ok());
  return *std::move(made);
}

struct Stored {
  Task task;
  std::string backend;
  int64_t unix_ms;
  TimeKind kind = TimeKind::kMeasured;
};

// Six schedules of each task, all of another speed, the last never verified.
void fill(Store& store, const std::vector<Stored>& all) {
  for (const Stored& one : all) {
    const std::vector<Sketch> space = make_space(one.task.start());
    Rng rng(1);
    std::vector<Measurement> batch;
    while (batch.size() < 6) {
      const Sketch& sketch =
          space[static_cast<size_t>(rng.below(static_cast<int64_t>(space.size())))];
      const absl::StatusOr<Sample> drawn = sample(one.task.start(), sketch, rng);
      if (!drawn.ok() || !lower(drawn->nest).ok()) continue;
      const double us = 20.0 - 2.0 * static_cast<double>(batch.size());
      Measurement m = make_measurement(0, {us, us + 0.1, us - 0.1, us, us, us, us});
      m.trace = to_text(drawn->trace);
      m.verified = batch.size() < 5;
      m.unix_ms = one.unix_ms;
      m.time_kind = one.kind;
      batch.push_back(std::move(m));
    }
    Key key = one.task.key();
    if (!one.backend.empty()) key.backend = one.backend;
    CHECK(store.put_workload(one.task.workload()).ok());
    CHECK(store.put_target(key.target, *one.task.target()).ok());
    CHECK(store.append(key, batch).ok());
  }
}

class LookupSources : public ::testing::Test {
 protected:
  using Answer = absl::StatusOr<LookupAnswer>;

  void look(const std::string& name, const std::function<Answer(const Task&)>& look_up) {
    answers_.emplace_back(name, std::vector<Answer>());
    for (const Task& task : asked_) answers_.back().second.push_back(look_up(task));
  }
  void look_in(const std::string& name, const RecordSource& source) {
    LookupOptions options;
    options.zero_trial = false;            // a client compares with what it was given, no more
    options.ladder.now_ms = unix_ms();
    look(name, [&](const Task& task) { return lw::look_up(task, source, options); });
  }
  // Its name is what the client says of where an answer comes from.
  void look_through(const std::string& name, std::unique_ptr<ScheduleClient> client) {
    look(name, [&](const Task& task) -> Answer {
      ASSIGN_OR_RETURN(ClientAnswer found, client->lookup(task));
      EXPECT_EQ(found.origin, found.answer.record == nullptr ? "" : name);
      return std::move(found.answer);
    });
  }
  std::unique_ptr<ScheduleClient> client(const std::function<void(ClientOptions*)>& set) {
    ClientOptions options;
    options.on_miss = OnMiss::kNothing;
    options.deadline_ms = 30'000;
    set(&options);
    return *ScheduleClient::open(options);
  }

  const int64_t now_ = unix_ms();
  const std::vector<Stored> stored_ = {
      {task_of("matmul M=64 N=96 K=48"), "", now_ - kDay_ms},
      {task_of("matmul M=128 N=48 K=64"), "", now_ - kDay_ms},
      {task_of("matmul M=96 N=96 K=96"), "", now_ - 300 * kDay_ms},
      {task_of("matmul M=48 N=200 K=64"), "", now_ - 2 * kDay_ms},
      {task_of("matmul M=56 N=72 K=48"), "", now_ - kDay_ms},
      {task_of("softmax M=64 N=80"), "llvm 19.0.1 r1", now_ - kDay_ms},
      {task_of("matmul M=64 N=96 K=48", "aarch64_neon"), "", now_ - kDay_ms, TimeKind::kEstimated},
      {slower(task_of("matmul M=64 N=64 K=48", "aarch64_neon")), "", now_ - kDay_ms}};
  // Exact, exact and old, near shapes, another code generator's, a greater machine, none; and of a
  // machine on which nothing was measured: a time that was computed, a shape beside it, and one
  // that was measured elsewhere.
  const std::vector<Task> asked_ = {
      task_of("matmul M=64 N=96 K=48"), task_of("matmul M=96 N=96 K=96"),
      task_of("matmul M=61 N=90 K=50"), task_of("softmax M=64 N=80"),
      task_of("matmul M=64 N=96 K=48", "x86_avx512"), task_of("matmul M=64 N=96 K=48", "x86_sse2"),
      task_of("matmul M=64 N=96 K=48", "aarch64_neon"),
      task_of("matmul M=72 N=90 K=48", "aarch64_neon"),
      task_of("matmul M=64 N=64 K=48", "aarch64_neon")};
  const std::vector<Rung> rungs_ = {Rung::kExact,         Rung::kExact,    Rung::kNearestShape,
                                    Rung::kLoose,
                                    Rung::kNearestTarget, Rung::kDefault,  Rung::kExact,
                                    Rung::kNearestShape,  Rung::kNearestTarget};
  std::vector<std::pair<std::string, std::vector<Answer>>> answers_;
  Scratch scratch_;
};

// All but the age, which goes on while the sources are asked one after the other.
std::string ageless(LookupAnswer answer) {
  answer.age_ms.reset();
  return to_json(answer);
}

TEST_F(LookupSources, AllGiveTheSameAnswers) {
  const std::unique_ptr<Store> memory = make_memory_store();
  fill(*memory, stored_);
  look_in("memory", *make_store_source(*memory));
  {
    const std::unique_ptr<Store> sqlite = *open_store(scratch_.file);
    fill(*sqlite, stored_);
    look_in("sqlite", *make_store_source(*sqlite));
    LadderIndex index(*sqlite);
    ASSERT_TRUE(index.refresh().ok());
    look_in("index", index);
  }
  if (const std::string url = database_url("postgres", ""); !url.empty()) {
    const std::unique_ptr<Store> postgres = *open_store(url);
    fill(*postgres, stored_);
    look_in("postgres", *make_store_source(*postgres));
  }
  const std::string file = scratch_.directory + "/a.lws", folder = scratch_.directory + "/cache";
  ASSERT_TRUE(write_snapshot(*memory, file, kRecordTraces, now_).ok());
  look_through("snapshot", client([&](ClientOptions* o) { o->snapshot = file; }));
  {
    const Daemon daemon(scratch_.file);
    auto asking = client([&](ClientOptions* o) {
      o->server = daemon.server->address();
      o->cache_folder = folder;
      o->fresh_s = o->miss_fresh_s = 0;    // asks again
    });
    ASSERT_TRUE(eventually([&] {           // the index is read behind
      return asking->lookup(asked_[5]).ok() &&
             asking->lookup(asked_[3])->answer.outcome == Rung::kLoose;
    }));
    look_through("server", std::move(asking));
  }
  look_through("cache", client([&](ClientOptions* o) { o->cache_folder = folder; }));

  const auto& expected = answers_.front().second;
  for (size_t i = 0; i < asked_.size(); ++i) {
    ASSERT_TRUE(expected[i].ok()) << expected[i].status();
    EXPECT_EQ(expected[i]->outcome, rungs_[i]) << i;
    if (expected[i]->record == nullptr) continue;
    EXPECT_EQ(expected[i]->record->others.size(), 3u);
    EXPECT_GT(*expected[i]->predicted_us, 0);
    EXPECT_EQ(expected[i]->record->time_kind,
              i == 6 || i == 7 ? TimeKind::kEstimated : TimeKind::kMeasured);
    EXPECT_GT(*expected[i]->age_ms, kDay_ms / 2);
  }
  EXPECT_TRUE(expected[1]->stale);
  for (const auto& [name, answers] : answers_) {
    for (size_t i = 0; i < asked_.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(name, ": ", asked_[i].workload().source_words, " on ",
                                asked_[i].target()->name));
      ASSERT_TRUE(answers[i].ok()) << answers[i].status();
      EXPECT_EQ(ageless(*answers[i]), ageless(*expected[i]));
      ASSERT_EQ(answers[i]->record == nullptr, expected[i]->record == nullptr);
      if (expected[i]->record == nullptr) continue;
      EXPECT_EQ(*answers[i]->record, *expected[i]->record);
      EXPECT_NEAR(static_cast<double>(*answers[i]->age_ms),
                  static_cast<double>(*expected[i]->age_ms), 0.1 * kDay_ms);
    }
  }
}

}  // namespace
}  // namespace lw
