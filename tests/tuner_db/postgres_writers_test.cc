// Writers of a shared PostgreSQL: several at once, and what the server does when it says that it
// has.
#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

using PostgresWriters = PostgresTest;

// Daemons that change the same rows all the time: who was undone waits a little, so that little is
// done in vain.
TEST_F(PostgresWriters, ConflictsCostLittle) {
  constexpr int kWriters = 4, kEach = 100;
  std::atomic<int> bodies = 0;
  const std::shared_ptr<Database> first = *open_database(url_);
  ASSERT_TRUE(first->write(5, [&](WriteTransaction& tx) {
    return tx.run("INSERT INTO clock (id, time_ms) VALUES (1, 0)");
  }).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < kWriters; ++t) {
    threads.emplace_back([&] {
      const std::shared_ptr<Database> db = *open_database(url_);
      for (int i = 0; i < kEach; ++i) {
        ASSERT_EQ(db->write(60, [&](WriteTransaction& tx) {
          ++bodies;
          const absl::Status status = tx.run("UPDATE clock SET time_ms = time_ms + 1");
          usleep(1000);                    // what else there is to do, as in a group of 256
          return status;
        }).message(), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t sum = 0;
  ASSERT_TRUE(first->read(5, [&](Transaction& tx) {
    Query query = tx.query("SELECT time_ms FROM clock");
    if (query.next()) sum = query.integer(0);
    return query.status();
  }).ok());
  EXPECT_EQ(sum, kWriters * kEach);
  std::printf("%d transactions ran %d times\n", kWriters * kEach, bodies.load());
  EXPECT_LT(bodies, 1.5 * kWriters * kEach);
}

// What is acknowledged is on the disk of the server, whatever it does by default.
TEST_F(PostgresWriters, CommitsAreDurableWhateverTheServersDefault) {
  for (const auto& [usual, ours] : {std::pair{"off", "on"}, {"local", "on"},
                                    {"remote_write", "on"}, {"remote_apply", "remote_apply"}}) {
    std::string url = cluster_->fresh();
    url += absl::StrCat("%20-csynchronous_commit%3D", usual);
    const std::shared_ptr<Database> database = *open_database(url);
    std::string found;
    ASSERT_TRUE(database->write(5, [&](WriteTransaction& tx) {
      Query query = tx.query("SELECT current_setting('synchronous_commit')");
      if (query.next()) found = query.text(0);
      return query.status();
    }).ok());
    EXPECT_EQ(found, ours) << usual;
  }
}

}  // namespace
}  // namespace lw
