// The ladder's source for a daemon: every key of a Store in memory, and its best record while there
// is room.
//
// Problem: a batch of 500 lookups, misses included, in a database of a million measurements within
// 30 ms. Reading one best from SQLite takes tens of microseconds, a structure of 10,000 shapes half
// a second. Here a miss costs a hash look-up and a vector scan of its structure's shapes
// (shape_table.h). bench/service measures.
//
// Memory: about 350 bytes a key and the records (four traces of about 1 KB each) up to
// resident_bytes; records beyond are read from the Store each time. Keys beyond max_keys are
// answered when they are asked for exactly, but are near to nothing.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tuner_db/ladder/ladder.h"
#include "tuner_db/ladder/withdrawn_list.h"

namespace lw {

struct Target;

struct LadderIndexOptions {
  size_t resident_bytes = size_t{256} << 20;
  size_t max_keys = 2'000'000;
};

// Thread-safe. The store must outlive it.
class LadderIndex : public RecordSource {
 public:
  explicit LadderIndex(const Store& store, LadderIndexOptions options = {});

  // Reads what the store has; again: the keys that are not here yet.
  absl::Status refresh();
  // Keys to update(): those that any process changed since the first refresh(), each change once.
  // Costs a look at the keys that changed within the last half minute.
  absl::StatusOr<std::vector<Key>> follow();
  // The key's best has changed: to be called after Store::append(), prune() and the like. OK also
  // when the key has no best.
  absl::Status update(const Key& key);

  // Reads anew the keys of what was withdrawn or restored (Store::withdraw) since the last call,
  // whoever did it. Costs a look at one number while nothing was.
  absl::Status refresh_withdrawn();
  // What was withdrawn as of the last refresh_withdrawn(); null before the first.
  struct Withdrawn {
    WithdrawnList list;
    std::string etag;                      // sha256 of its bytes
  };
  std::shared_ptr<const Withdrawn> withdrawn() const;

  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> record(const Key& key) const override;
  absl::Status with_structure(const std::string& structure,
                              absl::FunctionRef<void(const StructureIndex&)> look) const override;
  absl::StatusOr<std::shared_ptr<const Target>> target(const std::string& id) const override;

  struct Stats {
    size_t keys = 0, structures = 0, targets = 0, resident = 0, resident_bytes = 0;
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

  // REQUIRE: writing_ held, mutex_ not.
  absl::Status update_as_writer(const Key& key);
  absl::Status reload(const Key& key, const WorkloadRow& workload);
  // Reads the store. kNotFound: the key has no best.
  absl::StatusOr<std::shared_ptr<const ScheduleRecord>> read(const Key& key,
                                                             const WorkloadRow& workload) const;
  // Puts what read() gave. REQUIRES: mutex_ held exclusively.
  void keep(const Key& key, const WorkloadRow& workload,
            std::shared_ptr<const ScheduleRecord> record);

  const Store& store_;
  const LadderIndexOptions options_;
  std::mutex writing_;  // writers one after the other; before mutex_
  std::atomic<bool> complete_ = false;  // the store was read once: what is not here is not there
  mutable std::shared_mutex mutex_;
  absl::flat_hash_map<Key, Entry, KeyHash> entries_;
  absl::flat_hash_map<std::string, StructureIndex> structures_;
  mutable absl::flat_hash_map<std::string, std::shared_ptr<const Target>> targets_;
  absl::flat_hash_map<Key, int64_t, KeyHash> revisions_;  // that follow() saw of late; of writing_
  int64_t followed_ms_ = 0;                // to here, by the database's clock; of writing_
  absl::flat_hash_map<std::string, Key> withdrawn_keys_;  // by record digest; of writing_
  int64_t withdrawn_revision_ = 0;         // as of these; of writing_
  std::shared_ptr<const Withdrawn> withdrawn_;
  size_t resident_ = 0, resident_bytes_ = 0;
};

}  // namespace lw
