// The ladder's source for a daemon: every key of a Store in memory, and its best record while there
// is room.
//
// Problem: a batch of 500 lookups, misses included, in a database of a million measurements within
// 30 ms. Reading one best from SQLite takes tens of microseconds, a family of 10,000 shapes half a
// second. Here a miss costs a hash look-up and a vector scan of its family's shapes
// (shape_table.h). bench/service measures.
//
// Memory: about 350 bytes a key and the records (their traces, about 1 KB each) up to
// resident_bytes; records beyond are read from the Store each time. Keys beyond max_keys are
// answered when they are asked for exactly, but are near to nothing.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "tuner_db/ladder.h"

namespace lw {

struct LadderIndexOptions {
  size_t resident_bytes = size_t{256} << 20;
  size_t max_keys = 2'000'000;
};

// Thread-safe. The store must outlive it.
class LadderIndex : public RecordSource {
 public:
  explicit LadderIndex(const Store& store, LadderIndexOptions options = {});

  // Reads what the store has; again: the keys that others have added since, not what they measured
  // of known ones.
  absl::Status refresh();
  // The key's best has changed: to be called after Store::append(), prune() and the like. OK also
  // when the key has no best.
  absl::Status update(const Key& key);

  // The trace is not given out for the key any more (a replay failed, a kernel was wrong); the next
  // best takes its place. Lasts while this object does: who stores it calls this on start.
  absl::Status withdraw(const Key& key, const std::string& trace);
  absl::Status restore(const Key& key, const std::string& trace);

  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record(const Key& key) const override;
  absl::Status with_family(const std::string& family,
                           absl::FunctionRef<void(const FamilyIndex&)> look) const override;
  absl::StatusOr<std::shared_ptr<const Target>> target(const std::string& id) const override;

  struct Stats {
    size_t keys = 0, families = 0, targets = 0, resident = 0, resident_bytes = 0, withdrawn = 0;
  };
  Stats stats() const;

 private:
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  // A record that is not there: not resident (to be read), or the key has none.
  struct Entry {
    std::shared_ptr<const ScheduleRecord> record;
    bool none = false;
  };

  bool is_withdrawn(const Key& key, const std::string& trace) const;
  // REQUIRE: writing_ held, mutex_ not.
  absl::Status update_as_writer(const Key& key);
  absl::Status reload(const Key& key, const WorkloadRow& workload);
  // Reads the store. kNotFound: the key has no best. REQUIRES: writing_ or mutex_ held (what was
  // withdrawn changes under both).
  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> read(const Key& key,
                                                             const WorkloadRow& workload) const;
  // Puts what read() gave. REQUIRES: mutex_ held exclusively.
  void keep(const Key& key, const WorkloadRow& workload,
            std::shared_ptr<const ScheduleRecord> record);
  absl::Status set_withdrawn(const Key& key, const std::string& trace, bool withdrawn);

  const Store& store_;
  const LadderIndexOptions options_;
  std::mutex writing_;  // writers one after the other; before mutex_
  mutable std::shared_mutex mutex_;
  absl::flat_hash_map<Key, Entry, KeyHash> entries_;
  absl::flat_hash_map<std::string, FamilyIndex> families_;
  mutable absl::flat_hash_map<std::string, std::shared_ptr<const Target>> targets_;
  absl::flat_hash_set<std::string> withdrawn_;  // record digests
  absl::flat_hash_set<Key, KeyHash> touched_;   // keys with a withdrawn trace
  size_t resident_ = 0, resident_bytes_ = 0;
};

}  // namespace lw
