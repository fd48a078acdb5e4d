// One daemon for a database file: two would each think that they own all studies. A PostgreSQL
// database needs none: its daemons share it.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace lw {

// Held until it is destroyed, or its process ends.
class DaemonLock {
 public:
  // kFailedPrecondition: a daemon serves the file, under this name or another (a symbolic link's).
  static absl::StatusOr<DaemonLock> take(const std::string& database);
  DaemonLock() = default;
  DaemonLock(DaemonLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  DaemonLock& operator=(DaemonLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~DaemonLock();

 private:
  int descriptor_ = -1;
};

}  // namespace lw
