// Makes snapshots: payloads first in memory, then the tables that point to them.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "tuner_db/ladder/snapshot.h"
#include "tuner_db/ladder/snapshot_format.h"
#include "tuner_db/records/record_codec.h"

namespace lw {
namespace {

class Builder {
 public:
  Builder() : bytes_(sizeof(SnapshotHeader), '\0') {}

  void add(int table, std::string_view name, std::string_view rest) {
    ByteWriter out;
    out.text(name);
    entries_[table].push_back({checksum(name), bytes_.size()});
    append(out.bytes() + std::string(rest));
  }

  void set_withdrawn(const std::string& payload) {
    withdrawn_ = bytes_.size();
    append(payload);
  }

  std::string finish(int64_t unix_ms) {
    SnapshotHeader header{};
    std::memcpy(header.magic, kSnapshotMagic, sizeof header.magic);
    header.version = kSnapshotVersion;
    header.unix_ms = unix_ms;
    header.withdrawn = withdrawn_;
    for (int t = 0; t < 3; ++t) {
      std::vector<SnapshotEntry>& entries = entries_[t];
      std::sort(entries.begin(), entries.end(), [](const SnapshotEntry& a, const SnapshotEntry& b) {
        return std::pair(a.hash, a.offset) < std::pair(b.hash, b.offset);
      });
      header.tables[t] = {bytes_.size(), entries.size()};
      bytes_.append(reinterpret_cast<const char*>(entries.data()),
                    entries.size() * sizeof(SnapshotEntry));
    }
    header.file_bytes = bytes_.size();
    const std::string sum = sha256(std::string_view(bytes_).substr(sizeof header));
    std::memcpy(header.sha256, sum.data(), sizeof header.sha256);
    const char* raw = reinterpret_cast<const char*>(&header);
    header.checksum = checksum({raw, sizeof header - sizeof header.checksum});
    std::memcpy(bytes_.data(), &header, sizeof header);
    return std::move(bytes_);
  }

 private:
  void append(const std::string& payload) {
    ByteWriter head;
    head.u64(payload.size());
    head.u64(checksum(payload));
    bytes_ += head.bytes();
    bytes_ += payload;
    bytes_.resize((bytes_.size() + 7) / 8 * 8, '\0');
  }

  std::string bytes_;
  std::vector<SnapshotEntry> entries_[3];
  uint64_t withdrawn_ = 0;
};

}  // namespace

std::string encode_structure(const std::vector<const ScheduleRecord*>& members) {
  ByteWriter out;
  out.u64(members.size());
  for (const ScheduleRecord* record : members) {
    const Key& key = record->key;
    for (const std::string* text :
         {&key.workload, &key.target, &key.backend, &key.cache, &key.objective}) {
      out.text(*text);
    }
    out.u64(static_cast<uint64_t>(key.threads));
    out.u64(record->shape.size());
    for (int64_t extent : record->shape) out.u64(static_cast<uint64_t>(extent));
  }
  return out.bytes();
}

bool decode_structure(std::string_view bytes, StructureIndex* index) {
  ByteReader in(bytes);
  const size_t members = in.count(7 * 8);
  for (size_t i = 0; i < members && in.ok(); ++i) {
    Key key;
    for (std::string* text :
         {&key.workload, &key.target, &key.backend, &key.cache, &key.objective}) {
      text->assign(in.text());
    }
    key.threads = static_cast<int>(in.i64());
    std::vector<int64_t> shape(in.count(8));
    for (int64_t& extent : shape) extent = in.i64();
    if (in.ok()) index->add(key, shape);
  }
  return in.finished();
}

std::string encode_withdrawn(const WithdrawnReasons& reasons) {
  std::set<std::string> digests;
  for (const auto& [digest, reason] : reasons) digests.insert(digest);
  ByteWriter out;
  out.text(WithdrawnList(digests).bytes());
  for (const auto& [digest, reason] : reasons) out.text(reason);
  return out.bytes();
}

bool decode_withdrawn(std::string_view bytes, WithdrawnList* list, WithdrawnReasons* reasons) {
  ByteReader in(bytes);
  std::optional<WithdrawnList> read = WithdrawnList::of_bytes(std::string(in.text()));
  if (!in.ok() || !read) return false;
  *list = *std::move(read);
  if (reasons == nullptr) return true;
  reasons->clear();
  for (size_t i = 0; i < list->size() && in.ok(); ++i) {
    reasons->emplace_hint(reasons->end(), list->digest(i), in.text());
  }
  return in.finished();
}

std::string snapshot_bytes(const std::vector<ScheduleRecord>& records,
                           const std::vector<std::pair<std::string, Target>>& targets,
                           int64_t unix_ms, const WithdrawnReasons& withdrawn) {
  std::map<std::string, const ScheduleRecord*> by_key;  // sorted: the same records, the same bytes
  for (const ScheduleRecord& record : records) by_key[key_text(record.key)] = &record;
  std::map<std::string, std::vector<const ScheduleRecord*>> structures;
  Builder builder;
  for (const auto& [name, record] : by_key) {
    if (!record->verified) continue;
    ByteWriter out;
    encode(*record, out);
    builder.add(0, name, out.bytes());
    structures[record->structure].push_back(record);
  }
  for (const auto& [name, members] : structures) builder.add(1, name, encode_structure(members));
  std::map<std::string, const Target*> sorted;
  for (const auto& [id, target] : targets) sorted[id] = &target;
  for (const auto& [id, target] : sorted) {
    ByteWriter out;
    out.text(to_text(*target));
    builder.add(2, id, out.bytes());
  }
  builder.set_withdrawn(encode_withdrawn(withdrawn));
  return builder.finish(unix_ms);
}

absl::StatusOr<SnapshotStats> write_snapshot(const Store& store, const std::string& path, int count,
                                             int64_t unix_ms) {
  ASSIGN_OR_RETURN(const std::vector<Key> keys, store.keys());
  ASSIGN_OR_RETURN(const std::vector<WorkloadRow> rows, store.workloads());
  absl::flat_hash_map<std::string, const WorkloadRow*> workloads;
  for (const WorkloadRow& row : rows) workloads[row.id] = &row;
  std::vector<ScheduleRecord> records;
  std::set<std::string> ids;
  for (const Key& key : keys) {
    const auto workload = workloads.find(key.workload);
    if (workload == workloads.end()) continue;  // added just now
    const absl::StatusOr<BestRow> row = store.top(key, count);
    if (absl::IsNotFound(row.status())) continue;  // nothing of it is verified
    if (!row.ok()) return row.status();
    ids.insert(key.target);
    records.push_back(make_record(*workload->second, *row));
  }
  std::vector<std::pair<std::string, Target>> targets;
  for (const std::string& id : ids) {
    ASSIGN_OR_RETURN(Target target, store.target(id));
    targets.emplace_back(id, std::move(target));
  }
  ASSIGN_OR_RETURN(const std::vector<Withdrawal> withdrawn, store.withdrawn());
  const std::string bytes = snapshot_bytes(records, targets, unix_ms, reasons_of(withdrawn));
  RETURN_IF_ERROR(replace_file(path, bytes));
  ASSIGN_OR_RETURN(const std::unique_ptr<Snapshot> snapshot, Snapshot::over(bytes));
  return snapshot->stats();
}

}  // namespace lw
