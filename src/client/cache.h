// What a server has said, on disk, for all compilers of a user at once.
//
// One small file a key, named by the sha256 of the key, written beside and renamed: readers see a
// whole entry or the one before, whoever else writes. No lock, no index: an entry that is cut
// short, damaged or of another version is no entry, and is written again. Misses are entries too.
// Nothing is deleted here; entries are a few KB and the folder may be deleted at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner_db/ladder/ladder.h"

namespace lw {

struct CacheEntry {
  std::vector<Match> candidates;  // empty: the server had none
  int64_t unix_ms = 0;            // when the server said so
  std::string etag;               // sha256 of the candidates
};

// Thread-safe, and safe between processes.
class ScheduleCache {
 public:
  // The folder is made when something is written to it.
  explicit ScheduleCache(std::string folder) : folder_(std::move(folder)) {}
  std::optional<CacheEntry> read(const Key& key) const;
  // Failures (disk full, read-only) leave the cache as it was: it is only a cache.
  absl::Status write(const Key& key, const std::vector<Match>& candidates, int64_t unix_ms) const;
  std::string path(const Key& key) const;

 private:
  std::string folder_;
};

// The entry's bytes; nothing for any others.
std::string encode_entry(const Key& key, const std::vector<Match>& candidates, int64_t unix_ms);
std::optional<CacheEntry> decode_entry(const Key& key, std::string_view bytes);

}  // namespace lw
