// Many writers' operations in one transaction: all durable, failures apart, and a database that
// cannot be written is refused until it can.
#include "tuner_db/sql/group_commit.h"

#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/schema/schema.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Status insert_target(WriteTransaction& tx, const std::string& id) {
  return tx.query("INSERT INTO targets (id, text) VALUES (?,?)", id, "t").run();
}

std::set<std::string> targets(Database& db) {
  std::set<std::string> ids;
  CHECK(db.read(5, [&](Transaction& tx) {
    ids.clear();
    Query query = tx.query("SELECT id FROM targets");
    while (query.next()) ids.insert(query.text(0));
    return query.status();
  }).ok());
  return ids;
}

struct GroupKind {
  const char* name;
  std::function<std::shared_ptr<Database>(const std::string& file)> open;
};

const GroupKind kGroupKinds[] = {
    {"sqlite", [](const std::string& file) { return *open_database(file); }},
    {"postgres", [](const std::string&) -> std::shared_ptr<Database> {
       PostgresCluster* cluster = PostgresCluster::get();
       return cluster == nullptr ? nullptr : *open_database(cluster->fresh());
     }},
};

class GroupCommitTest : public ::testing::TestWithParam<GroupKind> {
 protected:
  void SetUp() override {
    if (database_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  }
  Scratch scratch_;
  std::shared_ptr<Database> database_ = GetParam().open(scratch_.file);
};
INSTANTIATE_TEST_SUITE_P(All, GroupCommitTest, ::testing::ValuesIn(kGroupKinds),
                         [](const auto& info) { return std::string(info.param.name); });

// Holds the writer's thread in an operation, so that what is submitted meanwhile makes one group.
struct Gate {
  std::promise<void> open;
  explicit Gate(GroupCommit& group) {
    std::shared_future<void> opened = open.get_future().share();
    auto entered = std::make_shared<std::promise<void>>();
    std::future<void> inside = entered->get_future();
    auto once = std::make_shared<std::atomic<bool>>(false);
    group.submit([=](WriteTransaction&) {
      if (!once->exchange(true)) entered->set_value();
      opened.wait();
      return absl::OkStatus();
    }, [](absl::Status) {});
    inside.wait();
  }
};

TEST_P(GroupCommitTest, WhatIsAcknowledgedIsThere) {
  GroupCommit group(*database_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string id = absl::StrCat(t, ".", i);
        ASSERT_TRUE(group.run([&](WriteTransaction& tx) { return insert_target(tx, id); }).ok());
        ASSERT_TRUE(targets(*database_).contains(id));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(targets(*database_).size(), 200u);
  EXPECT_LE(group.counts().groups, 200);
  EXPECT_EQ(group.counts().operations, 200);
}

TEST_P(GroupCommitTest, AFailureUndoesOnlyItself) {
  GroupCommit group(*database_);
  std::atomic<int> fine = 0, refused = 0, broken = 0;
  for (int round = 0; round < 2; ++round) {
    Gate gate(group);
    for (int i = 0; i < 30; ++i) {
      const std::string id = absl::StrCat(round, ".", i);
      group.submit([=](WriteTransaction& tx) -> absl::Status {
        RETURN_IF_ERROR(insert_target(tx, id));
        if (i % 3 == 1) return absl::NotFoundError("mine");
        if (i % 3 == 2) return insert_target(tx, id);        // twice: the statement itself fails
        return absl::OkStatus();
      }, [&](absl::Status status) {
        fine += status.ok();
        refused += status == absl::NotFoundError("mine");
        broken += status.code() == absl::StatusCode::kDataLoss;
      });
    }
    gate.open.set_value();
    ASSERT_TRUE(group.run([](WriteTransaction&) { return absl::OkStatus(); }).ok());
  }
  EXPECT_EQ(fine, 20);
  EXPECT_EQ(refused, 20);
  EXPECT_EQ(broken, 20);
  EXPECT_EQ(targets(*database_).size(), 20u);
  EXPECT_EQ(group.problem(), "");
  EXPECT_FALSE(group.run([](WriteTransaction& tx) -> absl::Status {  // alone, without a savepoint
    RETURN_IF_ERROR(insert_target(tx, "alone"));
    return absl::NotFoundError("mine");
  }).ok());
  EXPECT_FALSE(targets(*database_).contains("alone"));
}

TEST_P(GroupCommitTest, AcknowledgesInOneTransactionAndDrainsAtTheEnd) {
  std::atomic<int> done = 0;
  {
    GroupCommit group(*database_);
    Gate gate(group);
    for (int i = 0; i < 600; ++i) {
      group.submit([=](WriteTransaction& tx) { return insert_target(tx, absl::StrCat(i)); },
                   [&](absl::Status status) { done += status.ok(); });
    }
    gate.open.set_value();
  }
  EXPECT_EQ(done, 600);
  EXPECT_EQ(targets(*database_).size(), 600u);
}

TEST_P(GroupCommitTest, StoresMayBeUsedInside) {
  const std::unique_ptr<Store> store = make_store(database_);
  const Key key = put_key(*store);
  GroupCommit group(*database_);
  Gate gate(group);
  std::atomic<int> done = 0, refused = 0;
  for (int i = 0; i < 20; ++i) {
    group.submit([&, i](WriteTransaction& tx) {
      Key of = key;
      if (i % 4 == 0) of.workload = std::string(64, 'f');    // not there
      std::vector<Measurement> batch = {make_measurement(i, {1, 2})};
      return store_in(tx)->append(of, batch);
    }, [&](absl::Status status) { (status.ok() ? done : refused) += 1; });
  }
  gate.open.set_value();
  ASSERT_TRUE(group.run([](WriteTransaction&) { return absl::OkStatus(); }).ok());
  EXPECT_EQ(done, 15);
  EXPECT_EQ(refused, 5);
  EXPECT_EQ(store->measurements(key)->size(), 15u);
  EXPECT_THAT(*store->check(), IsEmpty());
}

// ---- a database that cannot be written

void degrade_and_recover(FaultyVfs::Fault fault, const std::string& words) {
  FaultyVfs vfs;
  Scratch scratch;
  const std::shared_ptr<Database> database = *open_database(scratch.file);
  GroupCommit group(*database);
  ASSERT_TRUE(group.run([](WriteTransaction& tx) { return insert_target(tx, "before"); }).ok());
  std::atomic<int> failed = 0;
  {
    Gate gate(group);
    for (int i = 0; i < 5; ++i) {
      group.submit([=](WriteTransaction& tx) { return insert_target(tx, absl::StrCat(i)); },
                   [&](absl::Status status) {
                     failed += !status.ok();
                     EXPECT_THAT(std::string(status.message()), HasSubstr(words));
                   });
    }
    vfs.fail(fault, 0);
    gate.open.set_value();
  }
  for (int i = 0; i < 1000 && failed < 5; ++i) usleep(10'000);
  EXPECT_EQ(failed, 5);
  absl::Status refused = group.run([](WriteTransaction& tx) { return insert_target(tx, "while"); });
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("read-only"));
  EXPECT_THAT(group.problem(), HasSubstr(words));
  EXPECT_EQ(targets(*database), std::set<std::string>{"before"});  // reading goes on
  vfs.heal();
  absl::Status status = refused;
  for (int i = 0; i < 1000 && !status.ok(); ++i) {
    usleep(10'000);
    status = group.run([](WriteTransaction& tx) { return insert_target(tx, "after"); });
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(group.problem(), "");
  EXPECT_EQ(targets(*database), (std::set<std::string>{"before", "after"}));
}

// A disk with room for a little: a probe that fits where a group does not promises too much, and the
// next ones ask for more.
TEST(ReadOnlyState, DoesNotFlapWhileLargeGroupsDoNotFit) {
  Scratch scratch;
  const std::shared_ptr<Database> database = *open_database(scratch.file);
  ASSERT_TRUE(database->write(5, [&](WriteTransaction& tx) {
    return tx.run("PRAGMA max_page_count = 400");
  }).ok());
  GroupCommit group(*database);
  int failed = 0, refused = 0;
  for (int i = 0; i < 60; ++i) {
    const absl::Status status = group.run([](WriteTransaction& tx) {
      const std::string bytes(size_t{4} << 20, 'x');
      return tx.query("INSERT INTO audit (time_ms, actor, peer, method, subject, outcome) "
                      "VALUES (1, ?, '', '', '', '')", bytes).run();
    });
    ASSERT_FALSE(status.ok());
    (absl::IsUnavailable(status) ? refused : failed) += 1;
    usleep(100'000);
  }
  EXPECT_LE(failed, 3) << refused;         // once a second, it were six
}

TEST(ReadOnlyState, DiskFull) { degrade_and_recover(FaultyVfs::Fault::kFull, "disk is full"); }
TEST(ReadOnlyState, FailedSync) { degrade_and_recover(FaultyVfs::Fault::kSync, "failed"); }
TEST(ReadOnlyState, ShortWrite) { degrade_and_recover(FaultyVfs::Fault::kShortWrite, "failed"); }

// ---- speed

// Those that leases depend on go before what came earlier, also when a usual one takes long; what
// waits for the next transaction is run there and has not failed.
TEST(Turns, SomeGoFirstAndALongOneStandsAlone) {
  Scratch scratch;
  const std::shared_ptr<Database> database = *open_database(scratch.file);
  std::vector<std::string> order;          // by the writer's thread
  GroupCommit commit(*database);
  std::promise<void> began, go;
  const auto note = [&order](std::string name) {
    return [&order, name](WriteTransaction&) {
      order.push_back(name);
      return absl::OkStatus();
    };
  };
  std::atomic<int> done = 0;
  const auto count = [&done](absl::Status status) { done += status.ok(); };
  commit.submit([&](WriteTransaction&) {
    began.set_value();
    go.get_future().wait();
    return absl::OkStatus();
  }, count);
  began.get_future().wait();
  commit.submit([&](WriteTransaction&) {
    order.push_back("long");
    commit.submit(note("later lease"), count, GroupCommit::Turn::kFirst);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return absl::OkStatus();
  }, count);
  commit.submit(note("usual"), count);
  commit.submit(note("lease"), count, GroupCommit::Turn::kFirst);
  go.set_value();
  commit.stop();
  EXPECT_EQ(order, (std::vector<std::string>{"lease", "long", "later lease", "usual"}));
  EXPECT_EQ(done, 5);
  EXPECT_EQ(commit.counts().operations, 5);
}

// Operations like append(), 256 in flight, on a real disk.
TEST(Speed, DurableOperationsTogether) {
  Scratch scratch(std::filesystem::temp_directory_path());
  const std::shared_ptr<Database> database = *open_database(scratch.file);
  const std::unique_ptr<Store> store = make_store(database);
  const Key key = put_key(*store);
  constexpr int kOperations = 8000, kInFlight = 256;
  std::atomic<int> next = 0, done = 0;
  const auto start = std::chrono::steady_clock::now();
  GroupCommit::Counts counts;
  {
    GroupCommit group(*database);
    std::function<void()> one = [&] {
      const int i = next++;
      if (i >= kOperations) return;
      group.submit([&, i](WriteTransaction& tx) {
        std::vector<Measurement> batch = {make_measurement(i, {100.0 + i % 50, 101.0 + i % 50})};
        return store_in(tx)->append(key, batch);
      }, [&](absl::Status status) {
        EXPECT_TRUE(status.ok()) << status;
        ++done;
        one();
      });
    };
    for (int i = 0; i < kInFlight; ++i) one();
    while (done < kOperations) usleep(1000);
    counts = group.counts();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%.0f durable operations/s, %.1f a group\n", kOperations / seconds,
              double(counts.operations) / double(counts.groups));
  EXPECT_EQ(store->measurements(key)->size(), static_cast<size_t>(kOperations));
}

}  // namespace
}  // namespace lw
