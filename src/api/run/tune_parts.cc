// An encoder block of 14 stages takes 0.6 s to build: in 20 s its search saw 30 schedules, each of 90
// decisions. Its 7 different parts are built in tens of milliseconds, have 10 decisions each, and a
// bad one hides no other.
#include "src/api/run/tune_parts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "schedules/parts.h"
#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

// Shown while parts are searched, for all of them together.
struct Shown {
  int trials = 0, failed = 0;
};

std::vector<SuiteMember> members_of(const std::vector<Task>& tasks, const TuneHooks& hooks,
                                    std::vector<Shown>* shown) {
  std::vector<SuiteMember> members;
  shown->resize(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    SuiteMember member{tasks[i], 1, nullptr, nullptr};
    member.progress = [i, shown, &hooks](const TuneProgress& p) {
      (*shown)[i] = {p.trials, p.failed};
      if (!hooks.progress) return;
      TuneProgress all = p;
      all.trials = all.failed = 0;
      all.best_us = 0;
      for (const Shown& one : *shown) all.trials += one.trials, all.failed += one.failed;
      hooks.progress(all);
    };
    members.push_back(std::move(member));
  }
  return members;
}

}  // namespace

absl::StatusOr<PartsResult> tune_parts(const Task& task, const Trace& scheduled,
                                       const SearchOptions& options, const TuneHooks& hooks) {
  PartsResult result;
  ASSIGN_OR_RETURN(const Nest nest, replay(task.start(), scheduled));
  const std::vector<Part> parts = parts_of(*task.program(), nest);
  if (parts.size() < 2) return result;
  std::vector<Task> tasks;
  std::set<std::string> different;
  for (const Part& part : parts) {
    const std::string words = concat("part of ", task.workload().source_words);
    ASSIGN_OR_RETURN(Task one, make_task(part.program, words, *task.target(), task.threads()));
    different.insert(one.key().workload);
    tasks.push_back(std::move(one));
  }
  result.parts = static_cast<int>(different.size());
  SearchOptions each = options;
  each.seconds = options.seconds / result.parts;
  each.trials = std::max(1, options.trials / result.parts);
  const std::unique_ptr<Store> store = make_memory_store();
  std::vector<Shown> shown;
  TuneHooks suite;
  ASSIGN_OR_RETURN(const std::vector<TuneResult> tuned,
                   tune_tasks(members_of(tasks, hooks, &shown), *store, each, suite));
  std::vector<Trace> traces;
  for (size_t i = 0; i < tuned.size(); ++i) {
    if (different.erase(tasks[i].key().workload) > 0) {  // once, however many are alike
      result.trials += tuned[i].trials;
      result.failed += tuned[i].failed;
    }
    const absl::StatusOr<Trace> best = parse_trace(tuned[i].best.measurement.trace);
    if (!best.ok() || best->empty()) return result;
    traces.push_back(*best);
  }
  const absl::StatusOr<Trace> joined = join_parts(task.start(), parts, traces);
  if (joined.ok()) result.traces.push_back(to_text(*joined));
  return result;
}

}  // namespace lw
