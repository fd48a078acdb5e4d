#include "tuner_db/ladder/index.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "absl/hash/hash.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "tuner_db/invariants.h"

namespace lw {
namespace {

constexpr size_t kKeyBytes = 350;
constexpr int64_t kLookBackMs = 30'000;    // longer than a transaction takes to commit

size_t bytes_of(const ScheduleRecord& record) {
  size_t total = sizeof(ScheduleRecord) + kKeyBytes + record.name.size() + record.source_words.size() +
                 record.trace.size() + record.source.size() + 8 * record.shape.size();
  for (const RankedTrace& other : record.others) {
    total += sizeof(other) + other.trace.size();
  }
  return total;
}

}  // namespace

size_t LadderIndex::KeyHash::operator()(const Key& key) const {
  size_t hash = 0;
  Key::fields(key, [&](FieldId, const auto& value) { hash = absl::HashOf(hash, value); });
  return hash;
}

LadderIndex::LadderIndex(const Store& store, LadderIndexOptions options)
    : store_(store), options_(options) {}

absl::Status LadderIndex::refresh() {
  if (!complete_) {                        // before the keys are read: later changes are followed
    ASSIGN_OR_RETURN(const int64_t latest_ms, store_.latest_change_ms());
    const std::lock_guard writer(writing_);
    followed_ms_ = std::max(followed_ms_, latest_ms);
  }
  ASSIGN_OR_RETURN(const std::vector<Key> keys, store_.keys());
  std::vector<Key> unknown;
  {
    const std::shared_lock guard(mutex_);
    for (const Key& key : keys) {
      if (!entries_.contains(key)) unknown.push_back(key);
    }
  }
  if (unknown.empty()) {
    complete_ = true;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<WorkloadRow> rows, store_.workloads());
  absl::flat_hash_map<std::string, const WorkloadRow*> workloads;
  for (const WorkloadRow& row : rows) workloads[row.id] = &row;
  for (const Key& key : unknown) {
    const auto workload = workloads.find(key.workload);
    if (workload == workloads.end()) continue;  // added just now; the next refresh has it
    const std::lock_guard writer(writing_);
    RETURN_IF_ERROR(reload(key, *workload->second));
  }
  complete_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Key>> LadderIndex::follow() {
  const std::lock_guard writer(writing_);
  ASSIGN_OR_RETURN(const std::vector<Store::Change> changes,
                   store_.changes(followed_ms_ - kLookBackMs));
  std::vector<Key> changed;
  absl::flat_hash_map<Key, int64_t, KeyHash> now;
  for (const Store::Change& change : changes) {
    const auto known = revisions_.find(change.key);
    if (known == revisions_.end() || known->second != change.revision) {
      changed.push_back(change.key);
    }
    now.emplace(change.key, change.revision);
    followed_ms_ = std::max(followed_ms_, change.changed_ms);
  }
  revisions_ = std::move(now);
  return changed;
}

absl::Status LadderIndex::update(const Key& key) {
  const std::lock_guard writer(writing_);
  return update_as_writer(key);
}

absl::Status LadderIndex::update_as_writer(const Key& key) {
  const absl::StatusOr<WorkloadRow> workload = store_.workload(key.workload);
  if (absl::IsNotFound(workload.status())) return absl::OkStatus();
  if (!workload.ok()) return workload.status();
  return reload(key, *workload);
}

absl::Status LadderIndex::reload(const Key& key, const WorkloadRow& workload) {
  // Readers go on while the store is read; of two writers of a key the later one's answer stays.
  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> found = read(key, workload);
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  const std::unique_lock guard(mutex_);
  keep(key, workload, found.ok() ? *std::move(found) : nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ScheduleRecord>> LadderIndex::read(
    const Key& key, const WorkloadRow& workload) const {
  ASSIGN_OR_RETURN(const BestRow row, store_.top(key, kRecordTraces));
  return std::make_shared<const ScheduleRecord>(make_record(workload, row));
}

void LadderIndex::keep(const Key& key, const WorkloadRow& workload,
                       std::shared_ptr<const ScheduleRecord> record) {
  const bool is_new = !entries_.contains(key);
  if (is_new && entries_.size() >= options_.max_keys) return;
  Entry& entry = entries_[key];
  if (entry.record != nullptr) {
    resident_bytes_ -= bytes_of(*entry.record);
    --resident_;
  }
  entry.none = record == nullptr;
  entry.record = nullptr;
  if (is_new) structures_[workload.structure].add(key, workload.shape);
  if (record == nullptr) return;
  const size_t bytes = bytes_of(*record);
  if (resident_bytes_ + bytes > options_.resident_bytes) return;
  resident_bytes_ += bytes;
  ++resident_;
  entry.record = std::move(record);
}

absl::Status LadderIndex::refresh_withdrawn() {
  const std::lock_guard writer(writing_);
  ASSIGN_OR_RETURN(const int64_t revision, store_.withdrawn_revision());
  if (withdrawn() != nullptr && revision == withdrawn_revision_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<WithdrawnDigests> rows, store_.withdrawn_digests());
  absl::flat_hash_map<std::string, Key> now;
  for (const WithdrawnDigests& row : rows) now.emplace(row.record, row.key);
  std::vector<Key> changed;
  for (const auto& [digest, key] : now) {
    if (!withdrawn_keys_.contains(digest)) changed.push_back(key);
  }
  for (const auto& [digest, key] : withdrawn_keys_) {
    if (!now.contains(digest)) changed.push_back(key);
  }
  for (const Key& key : changed) RETURN_IF_ERROR(update_as_writer(key));
  std::set<std::string> digests;
  for (const WithdrawnDigests& row : rows) digests.insert({row.record, row.kernel});
  auto list = std::make_shared<Withdrawn>(Withdrawn{WithdrawnList(digests), ""});
  list->etag = sha256(list->list.bytes());
  withdrawn_keys_ = std::move(now);
  withdrawn_revision_ = revision;          // read first: what came since is seen next time
  const std::unique_lock guard(mutex_);
  withdrawn_ = std::move(list);
  return absl::OkStatus();
}

std::shared_ptr<const LadderIndex::Withdrawn> LadderIndex::withdrawn() const {
  const std::shared_lock guard(mutex_);
  return withdrawn_;
}

absl::StatusOr<std::shared_ptr<const ScheduleRecord>> LadderIndex::record(const Key& key) const {
  {
    const std::shared_lock guard(mutex_);
    const auto entry = entries_.find(key);
    const bool known = entry != entries_.end();
    if (known && entry->second.record != nullptr) return entry->second.record;
    if (known ? entry->second.none : complete_ && entries_.size() < options_.max_keys) {
      return absl::NotFoundError("no record");  // asked for often: a short message
    }
  }
  ASSIGN_OR_RETURN(const WorkloadRow workload, store_.workload(key.workload));
  return read(key, workload);
}

absl::Status LadderIndex::with_structure(
    const std::string& structure, absl::FunctionRef<void(const StructureIndex&)> look) const {
  const std::shared_lock guard(mutex_);
  const auto found = structures_.find(structure);
  if (found != structures_.end()) look(found->second);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Target>> LadderIndex::target(const std::string& id) const {
  {
    const std::shared_lock guard(mutex_);
    const auto found = targets_.find(id);
    if (found != targets_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(Target target, store_.target(id));
  const std::unique_lock guard(mutex_);
  std::shared_ptr<const Target>& kept = targets_[id];
  if (kept == nullptr) kept = std::make_shared<const Target>(std::move(target));
  return kept;
}

LadderIndex::Stats LadderIndex::stats() const {
  const std::shared_lock guard(mutex_);
  return {entries_.size(), structures_.size(), targets_.size(), resident_, resident_bytes_};
}

}  // namespace lw
