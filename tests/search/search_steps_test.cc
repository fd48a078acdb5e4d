// The search as a machine of steps: what a driver elsewhere relies on.
#include "src/search/steps.h"

#include <set>

#include "cost_model/trees/learned.h"
#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/base/rng.h"
#include "src/search/allocate.h"
#include "src/search/null_measurer.h"

namespace lw {
namespace {

constexpr double kEnd = 1e6;               // seconds: never reached

Nest start_nest() {
  absl::StatusOr<Program> program = load_workload({"matmul", "M=64", "N=96", "K=48"});
  CHECK(program.ok());
  return make_nest(std::make_shared<const Program>(*std::move(program)),
                   std::make_shared<const Target>(*find_target("x86_avx512")), 1);
}

SearchOptions batch_options(int trials, int batch = 8, int depth = 2) {
  SearchOptions options;
  options.trials = trials;
  options.batch = batch;
  options.depth = depth;
  options.seconds = kEnd;
  options.drafts = 200;
  return options;
}

std::unique_ptr<SearchRun> run_of(const SearchOptions& options) {
  return std::make_unique<SearchRun>(start_nest(), options, make_xgboost_model());
}

Measurement measured(const Proposal& proposal, Verdict verdict = Verdict::kOk) {
  Outcome outcome;
  outcome.verdict = verdict;
  if (verdict == Verdict::kOk) {
    outcome.time_us = null_time_us(*proposal.kernel, 1);
    outcome.samples_us = {outcome.time_us};
    outcome.ci_low_us = outcome.ci_high_us = outcome.time_us;
    outcome.verified = true;
  }
  return make_measurement(proposal.text, proposal.kernel_hash, outcome,
                          {1, proposal.origin, 0.5, 7});
}

std::vector<Measurement> measured(const Batch& batch) {
  std::vector<Measurement> results;
  for (const Proposal& proposal : batch.proposals) results.push_back(measured(proposal));
  return results;
}

Batch must(absl::StatusOr<Batch> batch) {
  CHECK(batch.ok());
  return *std::move(batch);
}

// Runs to the end; appends what was measured to `stored`.
void finish(SearchRun& run, std::vector<Measurement>* stored) {
  for (int i = 0; i < 200 && !run.done(); ++i) {
    const std::vector<Measurement> results = measured(must(run.next(0)));
    stored->insert(stored->end(), results.begin(), results.end());
    run.take(results);
  }
  EXPECT_TRUE(run.done());
}

// No kernel twice, finalists apart.
void expect_nothing_twice(const std::vector<Measurement>& stored) {
  std::set<std::string> traces;
  std::set<uint64_t> kernels;
  for (const Measurement& m : stored) {
    if (m.source == "finalist") continue;
    EXPECT_TRUE(traces.insert(m.trace).second) << m.trace;
    EXPECT_TRUE(kernels.insert(m.kernel_hash).second) << m.trace;
  }
}

int count_trials(const std::vector<Measurement>& stored) {
  int trials = 0;
  for (const Measurement& m : stored) trials += is_trial(m);
  return trials;
}

TEST(Steps, ZeroTrialThenTrialsThenFinalists) {
  const auto run = run_of(batch_options(20));
  run->resume({});
  const Batch zero = must(run->next(0));
  ASSERT_EQ(zero.proposals.size(), 1u);
  EXPECT_EQ(zero.kind, BatchKind::kZeroTrial);
  EXPECT_TRUE(zero.verify);
  EXPECT_TRUE(must(run->next(0)).empty()) << "trials are raced against the zero-trial answer";
  run->take(measured(zero));
  EXPECT_EQ(run->progress().trials, 0);
  EXPECT_GT(run->progress().zero_us, 0);
  EXPECT_TRUE(run->progress().zero_verified);
  std::vector<BatchKind> kinds;
  while (!run->done()) {
    const Batch batch = must(run->next(0));
    EXPECT_GT(batch.incumbent_us, 0);
    kinds.push_back(batch.kind);
    if (batch.kind == BatchKind::kFinalists) EXPECT_GE(batch.rounds, 3);
    run->take(measured(batch));
  }
  EXPECT_EQ(kinds, (std::vector<BatchKind>{BatchKind::kTrials, BatchKind::kTrials,
                                           BatchKind::kTrials, BatchKind::kFinalists}));
  EXPECT_EQ(run->progress().trials, 20);
  EXPECT_TRUE(must(run->next(0)).empty());
}

TEST(Steps, DepthBoundsTheBatchesInFlight) {
  for (int depth = 1; depth <= 4; ++depth) {
    const auto run = run_of(batch_options(100, 6, depth));
    run->resume({});
    run->take(measured(must(run->next(0))));
    std::vector<Batch> out;
    for (Batch batch = must(run->next(0)); !batch.empty(); batch = must(run->next(0)))
      out.push_back(std::move(batch));
    EXPECT_EQ(static_cast<int>(out.size()), depth);
    EXPECT_EQ(run->trials_in_flight(), 6 * depth);
    // One batch back, the last first: one more goes out.
    run->take(measured(out.back()));
    EXPECT_EQ(must(run->next(0)).proposals.size(), 6u);
    EXPECT_TRUE(must(run->next(0)).empty());
  }
}

TEST(Steps, CapsAreExact) {
  const auto run = run_of(batch_options(100, 8, 3));
  run->set_trials(11);
  run->resume({});
  run->take(measured(must(run->next(0))));
  EXPECT_EQ(must(run->next(0, 5)).proposals.size(), 5u);
  EXPECT_TRUE(must(run->next(0, 0)).empty());
  EXPECT_EQ(must(run->next(0)).proposals.size() + must(run->next(0)).proposals.size(), 6u);
  EXPECT_TRUE(must(run->next(0)).empty());
}

// A search that was stopped has not run out of candidates, however few it proposed while it was.
TEST(Steps, AStoppedSearchIsNotDone) {
  SearchOptions options = batch_options(100, 8, 1);
  options.stop = Stop::on_request();
  const auto run = run_of(options);
  run->resume({});
  run->take(measured(must(run->next(0))));
  run->take(measured(must(run->next(0, 1))));
  for (int i = 0; i < 100 && run->progress().trials < 8; ++i) {
    run->take(measured(must(run->next(0))));
  }
  options.stop.request();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run->next(0).status().code(), absl::StatusCode::kCancelled);
    EXPECT_FALSE(run->done());
  }
}

// The key's times of another kind are no progress, no incumbent and nothing to learn from.
TEST(Steps, TimesOfOtherKindsTellTheSearchNothing) {
  std::vector<Measurement> foreign;
  const auto first = run_of(batch_options(20));
  first->resume({});
  finish(*first, &foreign);
  for (Measurement& m : foreign) m.time_us /= 100, m.time_kind = TimeKind::kEstimated;
  const auto run = run_of(batch_options(20)), fresh = run_of(batch_options(20));
  run->resume(foreign);
  run->take(foreign);                      // what others bring, too
  fresh->resume({});
  EXPECT_FALSE(run->done());
  EXPECT_EQ(run->progress().trials, 0);
  EXPECT_EQ(run->progress().best_us, 0);
  for (int i = 0; i < 200 && !fresh->done(); ++i) {
    const Batch batch = must(fresh->next(0)), same = must(run->next(0));
    ASSERT_EQ(same.proposals.size(), batch.proposals.size());
    for (size_t k = 0; k < batch.proposals.size(); ++k) {
      EXPECT_EQ(same.proposals[k].text, batch.proposals[k].text);
    }
    EXPECT_EQ(same.incumbent_us, batch.incumbent_us);
    fresh->take(measured(batch));
    run->take(measured(same));
  }
  EXPECT_TRUE(run->done());
  EXPECT_EQ(run->progress().trials, 20);
}

// A device that gives another kind than it said: its trials are spent, so that a study ends.
TEST(Steps, AProposalThatComesBackInAnotherKindIsSpent) {
  const auto run = run_of(batch_options(20));
  run->resume({});
  for (int i = 0; i < 200 && !run->done(); ++i) {
    std::vector<Measurement> results = measured(must(run->next(0)));
    for (Measurement& m : results) m.time_kind = TimeKind::kEstimated;
    run->take(results);
  }
  EXPECT_TRUE(run->done());
  EXPECT_EQ(run->progress().trials, 20);
  EXPECT_EQ(run->progress().best_us, 0);
}

TEST(Steps, SameCallsGiveTheSameBatches) {
  std::vector<std::string> traces[2];
  for (auto& list : traces) {
    const auto run = run_of(batch_options(30, 5, 3));
    run->resume({});
    std::vector<Batch> out;
    for (int i = 0; i < 12; ++i) {
      out.push_back(must(run->next(0)));
      for (const Proposal& proposal : out.back().proposals) list.push_back(proposal.text);
      if (i % 3 == 0) run->prepare();
      if (i % 2 == 1) run->take(measured(out[i / 2]));
    }
  }
  EXPECT_EQ(traces[0], traces[1]);
  EXPECT_GT(traces[0].size(), 20u);
}

// Whatever the order in which devices answer, one by one or together, and however early the driver thinks
// of the next batch: of simulated times the search proposes the same, and ends at the same trial.
TEST(Steps, SimulatedResultsAreTakenInOrder) {
  SearchOptions options = batch_options(96);
  options.time_kind = TimeKind::kSimulated;
  AllocateOptions allocation;
  allocation.batch = options.batch;
  allocation.window = 1, allocation.exact_flat_windows = 3;
  const auto proposed = [&](uint64_t seed) {
    Rng rng(seed);
    const auto chance = [&](int64_t of) { return seed > 0 && rng.below(of) == 0; };
    const auto run = run_of(options);
    run->set_depth(7);                     // as if there were so many devices
    run->resume({});
    WorkloadState state;
    state.time_kind = options.time_kind;
    std::vector<std::string> texts;
    std::vector<Measurement> out;
    const auto take = [&](const std::vector<Measurement>& results) {
      for (const Measurement& m : run->take(results)) record(state, m);
    };
    for (int i = 0; i < 2000 && !run->done(); ++i) {
      if (has_stopped(state, allocation)) run->finish();
      if (chance(3)) run->prepare();
      const Batch batch = must(run->next(0));
      for (const Proposal& proposal : batch.proposals) {
        texts.push_back(proposal.text);
        Measurement m = measured(proposal);
        m.time_kind = options.time_kind;
        m.verified = batch.verify || !chance(2);
        out.push_back(m);
      }
      take({});
      if (chance(2)) continue;             // nobody answers
      std::vector<Measurement> some;
      while (!out.empty() && !(chance(4) && !some.empty())) {
        const int64_t k = seed > 0 ? rng.below(static_cast<int64_t>(out.size())) : 0;
        some.push_back(out[static_cast<size_t>(k)]);
        out.erase(out.begin() + k);
      }
      take(some);
    }
    EXPECT_TRUE(run->done());
    EXPECT_TRUE(out.empty());
    return texts;
  };
  const std::vector<std::string> in_order = proposed(0);
  EXPECT_GT(in_order.size(), 40u);
  for (uint64_t seed = 1; seed <= 6; ++seed) EXPECT_EQ(proposed(seed), in_order) << seed;
}

TEST(Steps, WhatIsLostMayComeAgain) {
  const auto run = run_of(batch_options(12, 4, 1));
  run->resume({});
  run->lost(must(run->next(0)).proposals[0].text);  // no zero-trial answer in this run, then
  std::vector<Measurement> stored;
  for (int i = 0; i < 100 && run->phase() != SearchPhase::kFinalists; ++i) {
    const Batch batch = must(run->next(0));
    if (batch.kind == BatchKind::kFinalists) {
      for (const Proposal& proposal : batch.proposals) run->lost(proposal.text);
      break;
    }
    for (size_t k = 0; k < batch.proposals.size(); ++k) {
      if (i % 2 == 0 && k == 0) {
        run->lost(batch.proposals[k].text);
        continue;
      }
      stored.push_back(measured(batch.proposals[k]));
      run->take({stored.back()});
    }
  }
  EXPECT_EQ(run->progress().trials, 12);
  EXPECT_FALSE(run->done());
  const Batch finals = must(run->next(0));
  EXPECT_EQ(finals.kind, BatchKind::kFinalists) << "lost finalists are tried once more";
  for (const Proposal& proposal : finals.proposals) run->lost(proposal.text);
  EXPECT_TRUE(run->done());
  expect_nothing_twice(stored);
}

// A driver dies after any step; the next has what was stored, and hears what is still out.
TEST(Steps, GoesOnAfterACrashAtAnyStep) {
  for (int steps = 0; steps < 9; ++steps) {
    std::vector<Measurement> stored;
    std::vector<Batch> out;
    const auto first = run_of(batch_options(18, 5, 2));
    first->resume({});
    for (int i = 0; i < steps && !first->done(); ++i) {
      Batch batch = must(first->next(0));
      if (!batch.empty()) out.push_back(std::move(batch));
      if (i % 2 == 0 || out.size() < 2) continue;
      const std::vector<Measurement> results = measured(out.front());
      stored.insert(stored.end(), results.begin(), results.end());
      first->take(results);
      out.erase(out.begin());
    }
    if (steps >= 3 && !out.empty()) {      // stored, but the driver died before it took them
      stored.push_back(measured(out.back().proposals.back()));
    }
    const auto second = run_of(batch_options(18, 5, 2));
    second->resume(stored);
    std::vector<IssuedProposal> issued;
    for (const Batch& batch : out) {
      for (const Proposal& p : batch.proposals) issued.push_back({p.text, p.origin});
    }
    second->adopt(issued);
    const int adopted = second->in_flight();
    EXPECT_LE(adopted, static_cast<int>(issued.size()));
    std::set<std::string> known;
    for (const Measurement& m : stored) known.insert(m.trace);
    std::vector<Measurement> late;
    for (const Batch& batch : out) {
      for (const Proposal& p : batch.proposals) {
        if (!known.contains(p.text) || p.origin == Origin::kFinalist) late.push_back(measured(p));
      }
    }
    EXPECT_EQ(static_cast<int>(late.size()), adopted);
    // More is issued beside what is still out.
    const Batch beside = must(second->next(0));
    for (const Batch& batch : out) {
      for (const Proposal& old : batch.proposals) {
        for (const Proposal& p : beside.proposals) EXPECT_NE(p.text, old.text);
      }
    }
    stored.insert(stored.end(), late.begin(), late.end());
    second->take(late);
    const std::vector<Measurement> results = measured(beside);
    stored.insert(stored.end(), results.begin(), results.end());
    second->take(results);
    finish(*second, &stored);
    EXPECT_EQ(count_trials(stored), 18) << steps;
    expect_nothing_twice(stored);

    const auto third = run_of(batch_options(18, 5, 2));
    third->resume(stored);
    EXPECT_TRUE(third->done()) << "complete: nothing is measured again";
  }
}

// Of 1000 trials 56 are within the time: the best is refined before that is over.
TEST(Steps, TheLastTrialsInTimeRefineTheBest) {
  SearchOptions options = batch_options(1000, 8, 1);
  options.seconds = 10;
  const auto run = run_of(options);
  run->resume({});
  const auto refined = [&](double elapsed) {
    const Batch batch = must(run->next(elapsed));
    run->take(measured(batch));
    return std::any_of(batch.proposals.begin(), batch.proposals.end(),
                       [](const Proposal& p) { return p.origin == Origin::kDescent; });
  };
  for (double elapsed : {0.0, 1.0, 2.0, 3.0}) EXPECT_FALSE(refined(elapsed));
  EXPECT_TRUE(refined(9.0));
}

TEST(Steps, TheSecondsEndTheTrialsAndNothingValidEndsTheRun) {
  SearchOptions options = batch_options(1000, 8, 1);
  options.seconds = 10;
  const auto run = run_of(options);
  run->resume({});
  for (double elapsed : {0.0, 1.0, 2.0}) {
    const Batch batch = must(run->next(elapsed));
    std::vector<Measurement> results;
    for (const Proposal& p : batch.proposals) results.push_back(measured(p, Verdict::kCrash));
    run->take(results);
  }
  EXPECT_TRUE(must(run->next(9.5)).empty());
  EXPECT_TRUE(run->done());
  EXPECT_EQ(run->progress().trials, 16);
  EXPECT_EQ(run->progress().failed, 17);
  EXPECT_EQ(run->progress().best_us, 0);
}

}  // namespace
}  // namespace lw
