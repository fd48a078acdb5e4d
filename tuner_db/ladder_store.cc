// Records read from a Store: one, and a source that keeps nothing.
#include "src/base/check.h"
#include "tuner_db/ladder.h"

namespace lw {
namespace {

class StoreSource : public RecordSource {
 public:
  explicit StoreSource(const Store& store) : store_(store) {}

  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record(const Key& key) const override {
    ASSIGN_OR_RETURN(const BestRow row, store_.top(key, kRecordTraces));
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
  record.source_words = workload.source_words;
  record.family = workload.family;
  record.shape = workload.shape;
  record.flops = workload.flops;
  record.bytes = workload.bytes;
  record.trace = m.trace;
  record.kernel_hash = m.kernel_hash;
  record.time_us = m.time_us;
  record.ci_low_us = m.ci_low_us;
  record.ci_high_us = m.ci_high_us;
  record.time_kind = m.time_kind;
  record.samples = static_cast<int64_t>(m.samples_us.size());
  record.verified = m.verified;
  record.max_rel_error = m.max_rel_error;
  record.source = m.source;
  record.unix_ms = m.unix_ms;
  record.others = row.others;
  return record;
}

std::unique_ptr<RecordSource> make_store_source(const Store& store) {
  return std::make_unique<StoreSource>(store);
}

}  // namespace lw
