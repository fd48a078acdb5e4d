#include "tuner_db/ladder/snapshot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "tuner_db/ladder/snapshot_format.h"
#include "tuner_db/records/record_codec.h"

namespace lw {

absl::Status Snapshot::damaged(std::string_view what) const {
  return absl::DataLossError(concat(path_, ": ", what, "; make it again (loopwright db snapshot)"));
}

absl::StatusOr<std::unique_ptr<Snapshot>> Snapshot::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto refuse = [&](const char* verb) {
    const std::string text = concat("cannot ", verb, " ", path, ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
  };
  if (file < 0) return refuse("open");
  struct stat info {};
  void* map = MAP_FAILED;
  const bool known = fstat(file, &info) == 0;
  const size_t size = known ? static_cast<size_t>(info.st_size) : 0;
  if (known && size > 0) map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  const int error = errno;
  ::close(file);
  errno = error;
  if (known && size == 0) return absl::DataLossError(concat(path, " is empty"));
  if (map == MAP_FAILED) return refuse("read");
  std::unique_ptr<Snapshot> snapshot(new Snapshot());
  snapshot->path_ = path;
  snapshot->map_ = map;
  snapshot->bytes_ = {static_cast<const char*>(map), size};
  RETURN_IF_ERROR(snapshot->read_header());
  return snapshot;
}

absl::StatusOr<std::unique_ptr<Snapshot>> Snapshot::over(std::string_view bytes) {
  std::unique_ptr<Snapshot> snapshot(new Snapshot());
  snapshot->path_ = "snapshot";
  snapshot->bytes_ = bytes;
  RETURN_IF_ERROR(snapshot->read_header());
  return snapshot;
}

Snapshot::~Snapshot() {
  if (map_ != nullptr) munmap(map_, bytes_.size());
}

absl::Status Snapshot::read_header() {
  SnapshotHeader header;
  if (bytes_.size() < sizeof header) return damaged("is cut short");
  std::memcpy(&header, bytes_.data(), sizeof header);
  if (std::memcmp(header.magic, kSnapshotMagic, sizeof header.magic) != 0) {
    return absl::FailedPreconditionError(concat(path_, " is no snapshot of Loopwright"));
  }
  if (header.version < 1 || header.version > kSnapshotVersion) {
    return absl::FailedPreconditionError(concat(path_, " has version ", header.version,
                                                ", this program reads 1 to ", kSnapshotVersion));
  }
  if (header.checksum != checksum({bytes_.data(), sizeof header - sizeof header.checksum})) {
    return damaged("its header is damaged");
  }
  if (header.file_bytes != bytes_.size()) return damaged("is cut short");
  for (const auto& [place, table] :
       {std::pair(&header.tables[0], &records_), std::pair(&header.tables[1], &structures_),
        std::pair(&header.tables[2], &targets_)}) {
    if (place->offset > bytes_.size() ||
        place->count > (bytes_.size() - place->offset) / sizeof(SnapshotEntry)) {
      return damaged("its tables are damaged");
    }
    *table = {bytes_.data() + place->offset, place->count};
  }
  unix_ms_ = header.unix_ms;
  version_ = header.version;
  withdrawn_at_ = header.withdrawn;
  return absl::OkStatus();
}

absl::Status Snapshot::verify() const {
  SnapshotHeader header;
  std::memcpy(&header, bytes_.data(), sizeof header);
  const std::string sum = sha256(bytes_.substr(sizeof header));
  if (sum != std::string_view(header.sha256, sizeof header.sha256)) {
    return damaged("its content does not have its sha256");
  }
  return absl::OkStatus();
}

SnapshotStats Snapshot::stats() const {
  return {static_cast<int64_t>(records_.count), static_cast<int64_t>(structures_.count),
          static_cast<int64_t>(targets_.count), static_cast<int64_t>(bytes_.size()), unix_ms_};
}

absl::StatusOr<std::string_view> Snapshot::payload(uint64_t offset) const {
  uint64_t head[2];  // length, checksum
  if (offset > bytes_.size() || bytes_.size() - offset < sizeof head) {
    return damaged("an offset points outside");
  }
  std::memcpy(head, bytes_.data() + offset, sizeof head);
  const std::string_view rest = bytes_.substr(offset + sizeof head);
  if (head[0] > rest.size()) return damaged("a length reaches outside");
  const std::string_view found = rest.substr(0, head[0]);
  if (checksum(found) != head[1]) return damaged("a record is damaged");
  return found;
}

absl::StatusOr<std::string_view> Snapshot::find(const Table& table, std::string_view name) const {
  const uint64_t hash = checksum(name);
  const auto entry = [&](size_t i) {
    SnapshotEntry value;
    std::memcpy(&value, table.entries + i * sizeof value, sizeof value);
    return value;
  };
  size_t low = 0, high = table.count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (entry(middle).hash < hash)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < table.count; ++low) {
    const SnapshotEntry at = entry(low);
    if (at.hash != hash) break;
    ASSIGN_OR_RETURN(const std::string_view found, payload(at.offset));
    ByteReader reader(found);
    if (reader.text() == name && reader.ok()) {
      return found.substr(sizeof(uint64_t) + name.size());
    }
  }
  return absl::NotFoundError("not in the snapshot");
}

absl::StatusOr<std::vector<Key>> Snapshot::keys() const {
  std::vector<Key> keys;
  for (size_t i = 0; i < records_.count; ++i) {
    SnapshotEntry entry;
    std::memcpy(&entry, records_.entries + i * sizeof entry, sizeof entry);
    ASSIGN_OR_RETURN(const std::string_view found, payload(entry.offset));
    ByteReader reader(found);
    reader.text();
    keys.push_back(decode_record(reader, version_).key);
    if (!reader.finished()) return damaged("a record is damaged");
  }
  return keys;
}

absl::Status Snapshot::read_withdrawn(WithdrawnList* list, WithdrawnReasons* reasons) const {
  if (withdrawn_at_ == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string_view found, payload(withdrawn_at_));
  return decode_withdrawn(found, list, reasons) ? absl::OkStatus()
                                                : damaged("what is withdrawn is damaged");
}

absl::StatusOr<std::shared_ptr<const WithdrawnList>> Snapshot::withdrawn() const {
  const std::lock_guard guard(mutex_);
  if (withdrawn_ != nullptr) return withdrawn_;
  WithdrawnList list;
  RETURN_IF_ERROR(read_withdrawn(&list, nullptr));
  return withdrawn_ = std::make_shared<const WithdrawnList>(std::move(list));
}

absl::StatusOr<WithdrawnReasons> Snapshot::withdrawn_reasons() const {
  WithdrawnList list;
  WithdrawnReasons reasons;
  RETURN_IF_ERROR(read_withdrawn(&list, &reasons));
  return reasons;
}

absl::StatusOr<std::shared_ptr<const ScheduleRecord>> Snapshot::record(const Key& key) const {
  ASSIGN_OR_RETURN(const std::string_view found, find(records_, key_text(key)));
  ByteReader reader(found);
  auto record = std::make_shared<ScheduleRecord>(decode_record(reader, version_));
  if (!reader.finished() || !(record->key == key)) return damaged("a record is damaged");
  if (!record->verified) return absl::NotFoundError("not verified");
  return std::shared_ptr<const ScheduleRecord>(std::move(record));
}

absl::Status Snapshot::with_structure(const std::string& structure,
                                      absl::FunctionRef<void(const StructureIndex&)> look) const {
  std::shared_ptr<const StructureIndex> index;
  {
    const std::lock_guard guard(mutex_);
    std::shared_ptr<const StructureIndex>& kept = decoded_[structure];
    if (kept == nullptr) {
      auto decoded = std::make_shared<StructureIndex>();
      const absl::StatusOr<std::string_view> found = find(structures_, structure);
      if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
      if (found.ok() && !decode_structure(*found, decoded.get())) {
        return damaged("a family is damaged");
      }
      // Structures that are not there are not remembered: names come from outside.
      if (!found.ok()) {
        decoded_.erase(structure);
        return absl::OkStatus();
      }
      kept = std::move(decoded);
    }
    index = kept;
  }
  look(*index);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Target>> Snapshot::target(const std::string& id) const {
  const std::lock_guard guard(mutex_);
  const auto known = parsed_.find(id);
  if (known != parsed_.end()) return known->second;
  ASSIGN_OR_RETURN(const std::string_view text, find(targets_, id));
  ByteReader reader(text);
  absl::StatusOr<Target> target = read_target(reader.text());
  if (!reader.finished() || !target.ok()) return damaged("a target is damaged");
  return parsed_[id] = std::make_shared<const Target>(*std::move(target));
}

}  // namespace lw
