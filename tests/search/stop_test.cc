// Stop: that it asks when it should, and that whatever is computed of a nest ends when it does, at
// whichever moment that is. Runs under ThreadSanitizer too.
#include "src/base/stop.h"

#include <atomic>
#include <thread>

#include "cost_model/cost_model.h"
#include "gtest/gtest.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "src/search/search.h"

namespace lw {
namespace {

using namespace std::chrono_literals;

TEST(Stop, NeverAsksByItself) {
  const Stop never;
  EXPECT_FALSE(never.asked());
  EXPECT_TRUE(never.status("it").ok());
  EXPECT_FALSE(never.before(after_seconds(1e12)).asked());
}

TEST(Stop, StaysAskedForItsFirstReason) {
  const Stop stop(nullptr, Stop::Clock::now() + 20ms);
  stop.request();
  std::this_thread::sleep_for(30ms);
  EXPECT_TRUE(absl::IsCancelled(stop.status("it")));
  const Stop late(nullptr, Stop::Clock::now() - 1ms);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status("it")));
  late.request();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status("it")));
  EXPECT_EQ(late.status("the search").message(), "the search was stopped: its time is over");
}

TEST(Stop, AnInnerOneAsksWhenTheOuterDoesAndNotTheOtherWayRound) {
  const Stop outer = Stop::on_request();
  const Stop inner = outer.before(after_seconds(1000)), brief = outer.before(Stop::Clock::now());
  EXPECT_TRUE(brief.asked());
  EXPECT_FALSE(outer.asked());
  EXPECT_FALSE(inner.asked());
  outer.request();
  EXPECT_TRUE(absl::IsCancelled(inner.status("it")));
  EXPECT_TRUE(absl::IsDeadlineExceeded(brief.status("it")));
}

TEST(Stop, IsSeenByAllThreads) {
  std::atomic<bool> wanted = false;
  std::atomic<int> calls = 0;
  const Stop stop([&] {
    ++calls;
    return wanted.load();
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([stop] {
      while (!stop.asked()) {
      }
    });
  }
  while (calls < 3) {
  }
  wanted = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(stop.asked());
}

// Blocks of a product and a map that two later definitions read: inlined, copied, fused, tiled.
Nest nest_of(int blocks) {
  std::string text = "op p(N = 40) {\n  in A0: f32[N, N]\n";
  for (int b = 0; b < blocks; ++b) {
    const std::string n = std::to_string(b), next = std::to_string(b + 1);
    text += "  C" + n + "[i: N, j: N] = sum[k: N](A" + n + "[i, k] * A" + n + "[k, j])\n  ";
    if (b + 1 == blocks) text += "out ";
    text += "A" + next + "[i: N, j: N] = max(C" + n + "[i, j], 0) + A" + n + "[i, j]\n";
  }
  const absl::StatusOr<Program> program = parse_program(text + "}\n", "p");
  EXPECT_TRUE(program.ok()) << program.status();
  return make_nest(std::make_shared<const Program>(*program),
                   std::make_shared<const Target>(*find_target("x86_avx2")), 1);
}

TEST(Stop, WhateverIsComputedOfANestMayBeStoppedAtAnyMoment) {
  Rng rng(1);
  const Nest whole = nest_of(4);
  const std::vector<Sketch> space = make_space(whole);
  for (int moment = 0; moment < 60; ++moment) {
    Nest start = whole;
    start.stop = Stop().before(Stop::Clock::now() + std::chrono::microseconds(rng.below(4000)));
    const std::vector<Sketch> cut = make_space(start);
    EXPECT_FALSE(cut.empty());
    while (!start.stop.asked()) {
      const absl::StatusOr<Sample> drawn = sample(start, space[0], rng);
      if (!drawn.ok()) continue;
      features(drawn->nest);
      const absl::Status lowered = lower(drawn->nest).status();
      EXPECT_NE(lowered.code(), absl::StatusCode::kInternal) << lowered;
      neighbours(start, space[0], drawn->trace);
      adapt(start, space[0], drawn->trace).status().IgnoreError();
    }
    EXPECT_TRUE(absl::IsDeadlineExceeded(sample(start, space[0], rng).status()));
    EXPECT_TRUE(absl::IsDeadlineExceeded(lower(start).status()));
  }
}

// Drawing hundreds of schedules of twenty stages takes seconds; stopped, none of it goes on.
TEST(Stop, ASearchEndsSoonAfterItIsAsked) {
  const Nest start = nest_of(10);
  for (const double seconds : {0.0, 0.01, 0.1, 0.3}) {
    SearchOptions options;
    options.stop = Stop().before(after_seconds(seconds));
    Search search(start, options, make_draft_model());
    while (!options.stop.asked()) search.propose(4, 100);
    const auto begun = Stop::Clock::now();
    EXPECT_TRUE(absl::IsDeadlineExceeded(search.zero_trial().status()));
    search.propose(16, 100);
    search.warm_start({{}});
    EXPECT_LT(Stop::Clock::now() - begun, 5s);
  }
}

}  // namespace
}  // namespace lw
