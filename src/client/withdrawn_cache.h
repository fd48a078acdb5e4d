// What is withdrawn, as a server said last: in the cache's folder, for all compilers of a user, so
// that no entry of it is given out for long after its record was withdrawn, not by a build that
// asks no server either.
//
// One file, written beside and renamed; its time is when a server was asked last. What is damaged,
// or of another version, is as good as none, and is written again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "src/client/source.h"

namespace lw {

// Thread-safe, and safe between processes.
class WithdrawnCache {
 public:
  // The folder is made when something is written to it. "": it is kept in memory alone.
  explicit WithdrawnCache(std::string folder);

  // Never null. Looks at the file, and reads it again when another process has replaced it.
  std::shared_ptr<const WithdrawnSaid> known() const;
  // When a server was asked last; 0: never.
  int64_t asked_ms() const;
  // A server says this now; nothing: it is as it was. Failures (disk full, read-only) leave the
  // file as it was; this process knows.
  void put(std::optional<WithdrawnSaid> said, int64_t now_ms);
  const std::string& path() const { return path_; }

 private:
  struct Seen {                            // of the file that was read last
    uint64_t inode = 0;
    int64_t time_ns = 0, bytes = 0;
    bool operator==(const Seen&) const = default;
  };
  // REQUIRE: mutex_ held.
  std::optional<Seen> look() const;        // nothing: no file
  bool catch_up() const;                   // whether the file is there, whole, and what is known

  const std::string path_;                 // "": none
  mutable std::mutex mutex_;
  mutable std::optional<Seen> seen_;
  mutable bool seen_is_good_ = false;
  mutable std::shared_ptr<const WithdrawnSaid> known_;
  int64_t asked_ms_ = 0;                   // by this process
};

// The file's bytes; nothing for any others.
std::string encode_said(const WithdrawnSaid& said);
std::optional<WithdrawnSaid> decode_said(std::string_view bytes);

}  // namespace lw
