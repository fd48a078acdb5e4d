// One process of this host at a time measures on a device.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lw {

// Held while it lives; the system takes it back from a process that dies. The lock is a file in a
// folder of this user ($XDG_RUNTIME_DIR/loopwright, else /run/lock/loopwright-UID, else
// /tmp/loopwright-UID), which nobody else may write: root and a user, or two users, exclude each
// other only if they are given the same `folder`. Thread-safe; a second lock in the same process is
// refused as well. Not inherited by programs that are started; a forked child keeps it, so take it
// last.
class DeviceLock {
 public:
  // `device`: any name ("cpu:0-3"). kUnavailable: somebody holds it; the message names process and
  // start. kFailedPrecondition: no folder that is safe to use.
  static absl::StatusOr<DeviceLock> acquire(std::string_view device,
                                            const std::string& folder = "");
  DeviceLock(DeviceLock&& other) noexcept;
  DeviceLock& operator=(DeviceLock&& other) noexcept;
  ~DeviceLock();

  const std::string& path() const { return path_; }

 private:
  DeviceLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
};

}  // namespace lw
