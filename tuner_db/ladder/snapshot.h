// A read-only snapshot: the best records of every key in one immutable file, for look-ups inside a
// compiler's process without a database or a daemon.
//
// File (.lws, version 3, numbers little-endian, offsets from its beginning):
//   header    160 bytes: magic, version, size of the file, when made, place and length of the three
//             tables, sha256 of all that follows the header, checksum of the header
//   tables    of records, structures and targets: pairs (64-bit hash of the name, offset), sorted
//   payloads  length, checksum, bytes; each holds its full name, so a hash that collides is no
//   error; and one of what was withdrawn from the database, and why: whoever has an older file, a
//   cache or a lock file beside this one must not use that any more. Readers of before there was
//   such a payload pass over it.
// Opening maps the file and checks the header only: its cost does not grow with the file. A payload
// is checked by its checksum whenever it is read; verify() checks the sha256. SQLite opened
// immutable was the simpler alternative: it needs 5 us for an exact look-up and 80 us to open,
// this 1.8 us and 30 us (20,000 records, on the development machine under load), and nearest shapes
// would still have to be added. The first nearest look-up in a structure decodes its shapes: 12 ms
// for 10,000, once.
//
// Replaced atomically: written beside, synced, renamed. Whoever has the old file mapped keeps it.
// Truncating a mapped file in place kills its readers (SIGBUS): never write to one.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "tuner_db/ladder/ladder.h"
#include "tuner_db/ladder/withdrawn_list.h"

namespace lw {

struct Target;

struct SnapshotStats {
  int64_t records = 0, structures = 0, targets = 0, bytes = 0, unix_ms = 0;
};

// Writes the best `count` traces of every key. kUnavailable: what the file system says.
absl::StatusOr<SnapshotStats> write_snapshot(const Store& store, const std::string& path, int count,
                                             int64_t unix_ms);
// The same as bytes, from records in any order (the last of a key counts) and targets by id.
std::string snapshot_bytes(const std::vector<ScheduleRecord>& records,
                           const std::vector<std::pair<std::string, Target>>& targets,
                           int64_t unix_ms, const WithdrawnReasons& withdrawn = {});

// Thread-safe.
class Snapshot : public RecordSource {
 public:
  // kNotFound: no such file; kFailedPrecondition: not a snapshot, or of a newer version;
  // kDataLoss: damaged.
  static absl::StatusOr<std::unique_ptr<Snapshot>> open(const std::string& path);
  // Over bytes that outlive it: tests and fuzzing.
  static absl::StatusOr<std::unique_ptr<Snapshot>> over(std::string_view bytes);
  ~Snapshot() override;

  // kDataLoss: the content is not what was written. Reads all of the file.
  absl::Status verify() const;
  SnapshotStats stats() const;
  // Every record's key, in no order; kDataLoss for damaged payloads.
  absl::StatusOr<std::vector<Key>> keys() const;
  // What was withdrawn when it was made; nothing that it holds is. Read at the first call.
  // kDataLoss.
  absl::StatusOr<std::shared_ptr<const WithdrawnList>> withdrawn() const;
  absl::StatusOr<WithdrawnReasons> withdrawn_reasons() const;

  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record(const Key& key) const override;
  absl::Status with_structure(const std::string& structure,
                              absl::FunctionRef<void(const StructureIndex&)> look) const override;
  absl::StatusOr<std::shared_ptr<const Target>> target(const std::string& id) const override;

 private:
  struct Table {
    const char* entries = nullptr;
    size_t count = 0;
  };
  Snapshot() = default;
  absl::Status read_header();
  absl::StatusOr<std::string_view> payload(uint64_t offset) const;
  // The payload whose name (its first text) is `name`; kNotFound.
  absl::StatusOr<std::string_view> find(const Table& table, std::string_view name) const;
  absl::Status read_withdrawn(WithdrawnList* list, WithdrawnReasons* reasons) const;
  absl::Status damaged(std::string_view what) const;

  std::string path_;
  std::string_view bytes_;
  void* map_ = nullptr;
  Table records_, structures_, targets_;
  int64_t unix_ms_ = 0;
  uint64_t version_ = 0, withdrawn_at_ = 0;
  mutable std::mutex mutex_;  // of what was decoded
  mutable std::map<std::string, std::shared_ptr<const StructureIndex>> decoded_;
  mutable std::map<std::string, std::shared_ptr<const Target>> parsed_;
  mutable std::shared_ptr<const WithdrawnList> withdrawn_;
};

}  // namespace lw
