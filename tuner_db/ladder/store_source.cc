// A source of records that keeps nothing: each is read from a Store.
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "tuner_db/ladder/ladder.h"

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

  absl::Status with_structure(const std::string& structure,
                              absl::FunctionRef<void(const StructureIndex&)> look) const override {
    ASSIGN_OR_RETURN(const std::vector<WorkloadRow> workloads, store_.workloads());
    ASSIGN_OR_RETURN(const std::vector<Key> keys, store_.keys());
    absl::flat_hash_map<std::string, const WorkloadRow*> members;
    for (const WorkloadRow& row : workloads) {
      if (row.structure == structure) members[row.id] = &row;
    }
    StructureIndex index;
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

std::unique_ptr<RecordSource> make_store_source(const Store& store) {
  return std::make_unique<StoreSource>(store);
}

}  // namespace lw
