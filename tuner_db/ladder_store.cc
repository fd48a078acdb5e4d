// Records read from a Store: one, the best few of a key, and a source that keeps nothing.
#include <algorithm>
#include <map>

#include "src/base/check.h"
#include "tuner_db/best.h"
#include "tuner_db/invariants.h"
#include "tuner_db/ladder.h"

namespace lw {
namespace {

class StoreSource : public RecordSource {
 public:
  explicit StoreSource(const Store& store) : store_(store) {}

  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record(const Key& key) const override {
    ASSIGN_OR_RETURN(const BestRow row, store_.best(key));
    ASSIGN_OR_RETURN(const WorkloadRow workload, store_.workload(key.workload));
    return std::make_shared<const ScheduleRecord>(make_record(workload, row));
  }

  absl::Status with_family(const std::string& family,
                           absl::FunctionRef<void(const FamilyIndex&)> look) const override {
    ASSIGN_OR_RETURN(const std::vector<WorkloadRow> workloads, store_.workloads());
    ASSIGN_OR_RETURN(const std::vector<Key> keys, store_.keys());
    absl::flat_hash_map<std::string, const WorkloadRow*> members;
    for (const WorkloadRow& row : workloads) {
      if (row.family == family) members[row.id] = &row;
    }
    FamilyIndex index;
    for (const Key& key : keys) {
      const auto member = members.find(key.workload);
      if (member != members.end()) index.add(key, member->second->shape);
    }
    if (!index.groups.empty()) look(index);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const Target>> target(const std::string& id) const override {
    ASSIGN_OR_RETURN(Target target, store_.target(id));
    return std::make_shared<const Target>(std::move(target));
  }

 private:
  const Store& store_;
};

}  // namespace

ScheduleRecord make_record(const WorkloadRow& workload, const BestRow& row) {
  const Measurement& m = row.measurement;
  ScheduleRecord record;
  record.key = row.key;
  record.name = workload.name;
  record.words = workload.source_words;
  record.family = workload.family;
  record.shape = workload.shape;
  record.flops = workload.flops;
  record.bytes = workload.bytes;
  record.trace = m.trace;
  record.kernel_hash = m.kernel_hash;
  record.time_us = m.time_us;
  record.ci_low_us = m.ci_low_us;
  record.ci_high_us = m.ci_high_us;
  record.samples = static_cast<int64_t>(m.samples_us.size());
  record.verified = m.verified;
  record.max_rel_error = m.max_rel_error;
  record.source = m.source;
  record.unix_ms = m.unix_ms;
  return record;
}

absl::StatusOr<ScheduleRecord> read_top(const Store& store, const WorkloadRow& workload,
                                        const Key& key, int count) {
  ASSIGN_OR_RETURN(const std::vector<Measurement> rows, store.measurements(key));
  // In order of first arrival, as best_of's ties want it.
  std::vector<std::vector<const Measurement*>> traces;
  absl::flat_hash_map<std::string, size_t> place;
  for (const Measurement& m : rows) {
    const auto [at, is_new] = place.emplace(m.trace, traces.size());
    if (is_new) traces.emplace_back();
    traces[at->second].push_back(&m);
  }
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, store.withdrawn(key));
  std::erase_if(traces, [&](const auto& trace) {
    return std::any_of(withdrawn.begin(), withdrawn.end(),
                       [&](const Withdrawal& w) { return w.trace == trace[0]->trace; });
  });
  std::vector<Pool> pools;
  for (const auto& trace : traces) pools.push_back(pool(trace));
  const int64_t best = best_of(pools);
  if (best < 0) return no_result(key);
  ScheduleRecord record = make_record(workload, {key, represent(traces[best])});
  std::vector<size_t> order;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].eligible && static_cast<int64_t>(i) != best) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return pools[a].median_us < pools[b].median_us; });
  for (size_t i = 0; i < order.size() && static_cast<int>(i) + 1 < count; ++i) {
    record.others.push_back({traces[order[i]][0]->trace, pools[order[i]].median_us});
  }
  return record;
}

std::unique_ptr<RecordSource> make_store_source(const Store& store) {
  return std::make_unique<StoreSource>(store);
}

}  // namespace lw
