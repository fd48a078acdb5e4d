#include "src/serve/daemon_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "src/base/check.h"
#include "src/base/file_lock.h"
#include "src/base/message.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

constexpr std::chrono::seconds kEndingDaemon{3};

}  // namespace

absl::StatusOr<DaemonLock> DaemonLock::take(const std::string& database) {
  DaemonLock lock;
  if (is_postgres_url(database)) return lock;
  RETURN_IF_ERROR(check_database_url(database));
  // The file's own name: a link to it is the same database.
  std::error_code failure;
  std::filesystem::path file = std::filesystem::weakly_canonical(database, failure);
  if (failure) file = database;
  const std::string path = file.string() + ".serve";
  lock.descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock.descriptor_ < 0) {
    return absl::UnavailableError(concat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  // One that was killed a moment ago holds it until the system has taken its memory back.
  if (!lock_within(lock.descriptor_, kEndingDaemon)) {
    return absl::FailedPreconditionError(concat(database, ": another daemon serves it"));
  }
  return lock;
}

DaemonLock::~DaemonLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace lw
