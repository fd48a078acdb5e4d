// Turns: that nobody waits long for who computes long, counted on a clock of the test's. Runs under
// ThreadSanitizer too.
#include "src/base/turns.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace lw {
namespace {

// A clock that computing moves, as far as the test lets it: while it stands, who holds a seat pauses
// and pauses again.
struct Computing {
  std::atomic<int64_t> clock_us = 0, limit_us = 0;
  Turns turns;
  std::atomic<bool> over = false;
  std::atomic<int> entered = 0, seated = 0, most_seated = 0;

  explicit Computing(int seats) : turns(seats, [this] { return clock_us.load(); }) {}

  // A millisecond with a seat.
  int64_t compute(Turns::Party& party) {
    const int now = ++seated;
    int most = most_seated;
    while (most < now && !most_seated.compare_exchange_weak(most, now)) {
    }
    if (clock_us < limit_us) clock_us += 1000;
    --seated;
    return turns.pause(party);
  }
  // Until it is over; how long it has computed is added to `used_us` all the time.
  std::thread endless(const std::string& client, std::atomic<int64_t>* used_us = nullptr) {
    return std::thread([this, used_us, party = turns.join(client)] {
      turns.enter(*party);
      ++entered;
      int64_t used = 0;
      while (!over) {
        const int64_t now = compute(*party);
        if (used_us != nullptr) *used_us += now - used;
        used = now;
      }
      turns.leave(*party);
    });
  }
  // Until that many have had a seat, and then until all have used about as much.
  void level(int threads) {
    while (entered < threads) run_for(1000);
    run_for(1'000'000);
  }
  void run_for(int64_t us) {
    limit_us += us;
    while (clock_us < limit_us) std::this_thread::yield();
  }
  void end(std::vector<std::thread>& threads) {
    over = true;
    for (std::thread& thread : threads) thread.join();
  }
};

// Fifty short turns beside what never ends, whosever that is: each begins before anybody has
// computed any longer, and is not broken.
TEST(Turns, WhoNeedsLittleWaitsForNobodyWhoNeedsMuch) {
  for (const char* client : {"another", "mine"}) {
    Computing computing(1);
    std::vector<std::thread> endless;
    for (int i = 0; i < 3; ++i) endless.push_back(computing.endless(client));
    computing.level(3);
    const auto party = computing.turns.join("mine");
    for (int turn = 0; turn < 50; ++turn) {
      const int64_t asked_us = computing.clock_us;
      computing.turns.enter(*party);       // hangs, if the clock had to move for that
      EXPECT_EQ(computing.clock_us, asked_us) << client;
      int64_t used_us = 0;
      computing.limit_us += 5000;
      while (used_us < 5000) used_us = computing.compute(*party);
      EXPECT_EQ(computing.clock_us, asked_us + 5000) << client;
      computing.turns.leave(*party);
      computing.run_for(45'000);
    }
    computing.end(endless);
    EXPECT_EQ(computing.most_seated, 1);
  }
}

TEST(Turns, ClientsShareAlikeHoweverManyPartiesTheyHave) {
  Computing computing(1);
  std::atomic<int64_t> many_us = 0, one_us = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.push_back(computing.endless("many", &many_us));
  threads.push_back(computing.endless("one", &one_us));
  computing.level(5);                      // who starts late does not make up for all of it
  const int64_t one_before = one_us, many_before = many_us;
  computing.run_for(20'000'000);
  computing.end(threads);
  const double one = static_cast<double>(one_us - one_before);
  const double share = one / (one + static_cast<double>(many_us - many_before));
  EXPECT_NEAR(share, 0.5, 0.05);
}

// After a minute away it is half a second ahead, and then shares.
TEST(Turns, BeingAwaySavesUpLittle) {
  Computing computing(1);
  std::vector<std::thread> threads;
  threads.push_back(computing.endless("busy"));
  computing.run_for(60'000'000);
  std::atomic<int64_t> used_us = 0;
  threads.push_back(computing.endless("idler", &used_us));
  while (computing.entered < 2) std::this_thread::yield();  // it goes first: no clock is needed
  computing.run_for(2'000'000);
  computing.end(threads);
  EXPECT_NEAR(static_cast<double>(used_us), 500'000 + 1'500'000 / 2, 50'000);
}

TEST(Turns, AsManyComputeAsThereAreSeatsAndAllWhenItCloses) {
  Computing computing(2);
  std::vector<std::thread> endless;
  for (int i = 0; i < 6; ++i) endless.push_back(computing.endless(std::to_string(i)));
  computing.run_for(500'000);
  EXPECT_LE(computing.most_seated, 2);
  computing.turns.close();
  computing.end(endless);
}

}  // namespace
}  // namespace lw
