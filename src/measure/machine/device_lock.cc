#include "src/measure/machine/device_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"

namespace lw {
namespace {

// Makes the folder if need be; its descriptor, or why it cannot be trusted. The descriptor is what
// is judged and used: the name may change its meaning meanwhile.
absl::StatusOr<int> open_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(concat(folder, ": ", std::strerror(errno)));
  }
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return absl::FailedPreconditionError(concat(folder, ": ", std::strerror(errno)));
  struct stat facts {};
  if (fstat(fd, &facts) == 0 && facts.st_uid == geteuid() && (facts.st_mode & 022) == 0) return fd;
  close(fd);
  return absl::FailedPreconditionError(concat(folder, ": others own it or may write there"));
}

std::vector<std::string> usual_folders() {
  std::vector<std::string> folders;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') folders.push_back(concat(runtime, "/loopwright"));
  for (const char* parent : {"/run/lock", "/tmp"}) {
    folders.push_back(concat(parent, "/loopwright-", geteuid()));
  }
  return folders;
}

// Readable where the name allows, different wherever names differ.
std::string file_name(std::string_view device) {
  std::string name;
  for (char c : device.substr(0, 40)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return concat(name, "-", sha256(device).substr(0, 12), ".lock");
}

std::string describe_self() {
  char when[32] = "";
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return concat("process ", getpid(), " since ", when);
}

// What the holder wrote; it may just be writing.
std::string holder(int fd) {
  char text[96] = "";
  const ssize_t size = pread(fd, text, sizeof text - 1, 0);
  std::string words(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return words.empty() ? "another process" : words;
}

}  // namespace

absl::StatusOr<DeviceLock> DeviceLock::acquire(std::string_view device, const std::string& folder) {
  absl::StatusOr<int> opened = absl::FailedPreconditionError("no folder");
  std::string path;
  for (const std::string& candidate :
       folder.empty() ? usual_folders() : std::vector<std::string>{folder}) {
    path = candidate;
    opened = open_folder(candidate);
    if (opened.ok()) break;
  }
  if (!opened.ok()) return opened.status();
  const std::string name = file_name(device);
  path = concat(path, "/", name);
  const int fd =
      openat(*opened, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  const int error = errno;
  close(*opened);
  if (fd < 0) return absl::FailedPreconditionError(concat(path, ": ", std::strerror(error)));
  DeviceLock lock(fd, path);
  // The file stays when the lock goes: whoever removed it could leave two holders of two files.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return absl::FailedPreconditionError(concat(path, ": ", std::strerror(errno)));
    }
    return absl::UnavailableError(
        concat("device '", device, "' is in use by ", holder(fd), " (", path, ")"));
  }
  const std::string self = describe_self() + "\n";
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, self.data(), self.size(), 0) != static_cast<ssize_t>(self.size())) {
    return absl::FailedPreconditionError(concat(path, ": ", std::strerror(errno)));
  }
  return lock;
}

DeviceLock::DeviceLock(DeviceLock&& other) noexcept { *this = std::move(other); }

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

DeviceLock::~DeviceLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace lw
