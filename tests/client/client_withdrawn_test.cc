// What was withdrawn is given out of no cache and of no snapshot, whoever can be asked.
#include "src/client/withdrawn_cache.h"

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/api/lookup.h"
#include "src/client/cache.h"
#include "tests/client/client_fixture.h"
#include "tuner_db/ladder/snapshot.h"

namespace lw {
namespace {

ClientOptions polling(int every_s = 0) {
  ClientOptions options = patient();
  options.withdrawn_fresh_s = every_s;
  options.on_miss = OnMiss::kNothing;
  return options;
}

std::string digest_of(const ScheduleRecord& record) {
  return record_digest(record.key, record.trace);
}

// However fresh the entry is, for whom the server does not answer, and for builds that ask nobody.
TEST(ClientWithdrawn, WhatIsWithdrawnLeavesTheCache) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  const ScheduleRecord record = record_of(task);
  place.source->answer = {match_of(record)};
  const auto client = place.open(polling(3600));
  ASSERT_EQ(client->lookup(task)->origin, "server");
  wait_until([&] { return place.source->lists_sent == 1; });
  ASSERT_EQ(client->lookup(task)->origin, "cache");
  ClientOptions frozen = patient();
  frozen.frozen = true;
  const auto build = place.open(frozen);
  ASSERT_TRUE(build->lookup(task).ok());

  // Another process asks, and all others know.
  place.source->withdraw({digest_of(record)});
  place.source->answer.clear();
  const auto other = place.open(polling(0));
  wait_until([&] { return place.source->lists_sent == 2; });
  wait_until([&] { return absl::IsNotFound(build->lookup(task).status()); });
  EXPECT_GT(build->stats().withdrawn, 0);
  place.source->dead = true;
  EXPECT_EQ(client->lookup(task)->answer.outcome, Rung::kDefault)
      << "fresh, and the server is away";
  EXPECT_EQ(place.open({}, false)->lookup(task)->answer.outcome, Rung::kDefault);
  place.source->dead = false;

  // Restored, it is given out again: the server is asked, because what the cache held was out.
  place.source->answer = {match_of(record)};
  wait_until([&] { return place.open(patient())->lookup(task)->answer.outcome == Rung::kExact; });
  place.source->withdraw({});
  wait_until([&] { return place.open(frozen, false)->lookup(task).ok(); });
}

TEST(ClientWithdrawn, AWithdrawnKernelIsOutWhateverItsTrace) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  ScheduleRecord record = record_of(task);
  record.kernel_hash = 77;
  ASSERT_TRUE(ScheduleCache(place.cache()).write(task.key(), {match_of(record)}, 1).ok());
  place.source->dead = true;
  EXPECT_EQ(place.open(polling())->lookup(task)->answer.outcome, Rung::kExact);
  const WithdrawnList list({kernel_digest(task.key(), 77)});
  WithdrawnCache(place.cache()).put(WithdrawnSaid{list, "e"}, 1);
  EXPECT_EQ(place.open(polling())->lookup(task)->answer.outcome, Rung::kDefault);
}

// Nor does a near shape's answer go on being made from it, and the rungs below it are tried.
TEST(ClientWithdrawn, WithdrawnRecordsOfLowerRungsAreLeftOut) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  const ScheduleRecord near = record_of(task_of("matmul M=32 N=64 K=64")),
                       far = record_of(task_of("matmul M=16 N=64 K=64"));
  const std::vector<Match> both = {match_of(near, Rung::kNearestShape),
                                   match_of(far, Rung::kNearestShape)};
  ASSERT_TRUE(ScheduleCache(place.cache()).write(task.key(), both, 1).ok());
  spill(place.scratch.directory + "/a.lws", snapshot_bytes({near, far}, {}, 1));
  ClientOptions shot = polling();
  shot.cache_folder = place.scratch.directory + "/none";
  shot.snapshot = place.scratch.directory + "/a.lws";
  const auto cached = place.open(polling(), false), shown = place.open(shot, false);
  EXPECT_EQ(cached->candidates({request_of(task)})[0].size(), 2u);
  EXPECT_EQ(shown->candidates({request_of(task)})[0].size(), 2u);
  const WithdrawnSaid said = {WithdrawnList({digest_of(near)}), "e"};
  WithdrawnCache(place.cache()).put(said, 1);
  WithdrawnCache(shot.cache_folder).put(said, 1);
  for (const auto* client : {&cached, &shown}) {
    const std::vector<Match> found = (*client)->candidates({request_of(task)})[0];
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].record->trace, far.trace);
  }
  // An exact answer of the snapshot gives way to what is below it.
  EXPECT_EQ(shown->lookup(task_of("matmul M=32 N=64 K=64"))->answer.outcome, Rung::kNearestShape);
}

TEST(ClientWithdrawn, ASnapshotSaysWhatWasWithdrawn) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  const ScheduleRecord record = record_of(task);
  ASSERT_TRUE(ScheduleCache(place.cache()).write(task.key(), {match_of(record)}, 1).ok());
  ClientOptions options = polling();
  options.frozen = true;
  options.snapshot = place.scratch.directory + "/a.lws";
  spill(options.snapshot, snapshot_bytes({}, {}, 1));
  EXPECT_TRUE(place.open(options, false)->lookup(task).ok());
  spill(options.snapshot, snapshot_bytes({}, {}, 2, {{digest_of(record), "by admin/a: wrong"}}));
  EXPECT_TRUE(absl::IsNotFound(place.open(options, false)->lookup(task).status()));
}

// One question a minute for all compilers of a user, and a list only where it is another.
TEST(ClientWithdrawn, WhatIsWithdrawnIsAskedForSeldomAndSentOnce) {
  const ClientPlace place;
  std::set<std::string> many;
  for (int i = 0; i < 10'000; ++i) many.insert(sha256(absl::StrCat(i)));
  place.source->withdraw(many);
  {
    const auto first = place.open(polling(3600));
    wait_until([&] { return WithdrawnCache(place.cache()).known()->list.size() == many.size(); });
  }
  for (int i = 0; i < 20; ++i) place.open(polling(3600))->lookup(task_of(kWords)).IgnoreError();
  EXPECT_EQ(place.source->polls, 1);
  const auto eager = place.open(polling(0));
  wait_until([&] { return place.source->polls > 5; });
  EXPECT_EQ(place.source->lists_sent, 1);
  EXPECT_EQ(WithdrawnCache(place.cache()).known()->list.size(), many.size());
}

// A server that is away, or hangs, holds nothing up and takes nothing from what is known.
TEST(ClientWithdrawn, APollThatFailsLeavesWhatIsKnown) {
  const ClientPlace place;
  const Task task = task_of(kWords);
  const ScheduleRecord record = record_of(task);
  ASSERT_TRUE(ScheduleCache(place.cache()).write(task.key(), {match_of(record)}, 1).ok());
  WithdrawnCache(place.cache()).put(WithdrawnSaid{WithdrawnList({digest_of(record)}), "e"}, 1);
  ClientOptions options = polling();
  options.deadline_ms = 10;
  for (const bool hangs : {false, true}) {
    place.source->dead = !hangs, place.source->hangs = hangs;
    const int polls = place.source->polls;
    {
      const auto client = place.open(options);
      wait_until([&] { return place.source->polls > polls; });
      EXPECT_EQ(client->lookup(task)->answer.outcome, Rung::kDefault);
    }                                      // the client goes while a call still hangs
    place.source->let_go();
  }
}

TEST(ClientWithdrawn, ADamagedListOfWithdrawalsIsFetchedAgain) {
  const ClientPlace place;
  const WithdrawnSaid said = {WithdrawnList({sha256("a"), sha256("b")}), "etag"};
  const std::string good = encode_said(said);
  EXPECT_EQ(decode_said(good)->list.bytes(), said.list.bytes());
  for (size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_FALSE(decode_said(good.substr(0, cut)));
    std::string bad = good;
    bad[cut] ^= 4;
    EXPECT_FALSE(decode_said(bad));
  }
  place.source->withdraw({sha256("a")});
  WithdrawnCache cache(place.cache());
  cache.put(said, 1);
  const int64_t asked_ms = cache.asked_ms();
  EXPECT_GT(asked_ms, 1'000'000'000'000) << "by the file, for other processes too";
  EXPECT_EQ(WithdrawnCache(place.cache()).asked_ms(), asked_ms);
  spill(cache.path(), good.substr(0, 40));
  EXPECT_EQ(WithdrawnCache(place.cache()).asked_ms(), 0);
  EXPECT_EQ(cache.known()->list.size(), 2u) << "who had it keeps it";
  const auto client = place.open(polling(3600));
  wait_until([&] { return cache.known()->list.size() == 1; });
}

}  // namespace
}  // namespace lw
