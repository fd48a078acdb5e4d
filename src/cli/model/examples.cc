#include "src/cli/model/examples.h"

#include <algorithm>
#include <map>
#include <set>

#include "cost_model/trees/learned.h"
#include "schedules/steps.h"
#include "schedules/targets/family.h"
#include "src/api/task.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// Measurements of one trace as one example; null where there is nothing to learn.
struct Seen {
  std::vector<double> times;
  bool failed = false;
};

uint64_t group_of(const Key& key) {
  return hash64(concat(key.workload, key.target, key.backend, key.cache),
                static_cast<uint64_t>(key.threads));
}

}  // namespace

absl::StatusOr<Examples> load_examples(const Store& store) {
  Examples result;
  ASSIGN_OR_RETURN(const std::vector<Key> keys, store.keys());
  for (const Key& key : keys) {
    ASSIGN_OR_RETURN(const WorkloadRow row, store.workload(key.workload));
    ASSIGN_OR_RETURN(Target target, store.target(key.target));
    ASSIGN_OR_RETURN(const std::vector<Measurement> all, store.measurements(key));
    absl::StatusOr<Program> program = reload_program(row);
    if (!program.ok() || !check_family(target).ok()) {
      result.skipped += static_cast<int64_t>(all.size());
      continue;
    }
    const Nest start = make_nest(std::make_shared<const Program>(*std::move(program)),
                                 std::make_shared<const Target>(std::move(target)), key.threads);
    std::map<std::string, Seen> traces;
    for (const Measurement& m : all) {
      if (!is_pooled(m)) continue;
      // What a model computed teaches a model nothing; an emulator's times are no machine's.
      if (m.time_kind != TimeKind::kMeasured) continue;
      if (m.verdict == Verdict::kOk) traces[m.trace].times.push_back(m.time_us);
      if (is_candidates_fault(m.verdict)) traces[m.trace].failed = true;
    }
    for (const auto& [text, seen] : traces) {
      const absl::StatusOr<Trace> trace = parse_trace(text);
      const absl::StatusOr<Nest> nest = trace.ok() ? replay(start, *trace) : trace.status();
      if (!nest.ok() || (seen.times.empty() && !seen.failed)) {
        ++result.skipped;
        continue;
      }
      Example example;
      example.features = features(*nest);
      example.group = group_of(key);
      example.failed = seen.failed;
      if (!seen.times.empty())
        example.time_us = *std::min_element(seen.times.begin(), seen.times.end());
      result.examples.push_back(std::move(example));
    }
  }
  return result;
}

absl::StatusOr<std::vector<float>> held_out_scores(const std::vector<Example>& examples, int folds,
                                                   uint64_t seed) {
  std::set<uint64_t> distinct;
  for (const Example& example : examples) distinct.insert(example.group);
  std::vector<uint64_t> groups(distinct.begin(), distinct.end());
  Rng(seed).shuffle(&groups);
  const size_t count = std::min(groups.size(), static_cast<size_t>(folds));
  std::vector<float> scores(examples.size());
  for (size_t fold = 0; fold < count; ++fold) {
    std::set<uint64_t> held;
    for (size_t g = fold; g < groups.size(); g += count) held.insert(groups[g]);
    std::vector<Example> learned;
    std::vector<std::vector<float>> asked;
    std::vector<size_t> positions;
    for (size_t i = 0; i < examples.size(); ++i) {
      if (held.count(examples[i].group) == 0) {
        learned.push_back(examples[i]);
      } else {
        asked.push_back(examples[i].features);
        positions.push_back(i);
      }
    }
    const std::unique_ptr<Model> model = make_xgboost_model();
    RETURN_IF_ERROR(model->fit(learned, seed));
    const std::vector<float> answered = model->score(asked);
    for (size_t i = 0; i < positions.size(); ++i) scores[positions[i]] = answered[i];
  }
  return scores;
}

}  // namespace lw
