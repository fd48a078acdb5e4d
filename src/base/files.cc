#include "src/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"

namespace lw {
namespace {

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

absl::Status cannot_write(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
}

// Writes it to `beside`, opened with these flags, and renames that. On failure nothing of it stays.
absl::Status write_beside(const std::string& beside, int flags, bool durable,
                          const std::string& path, std::string_view bytes) {
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (file < 0) return cannot_write(path, errno);
  bool good = write_all(file, bytes) && (!durable || fsync(file) == 0);
  int error = errno;
  ::close(file);
  if (good && rename(beside.c_str(), path.c_str()) != 0) {
    good = false;
    error = errno;
  }
  if (good) return absl::OkStatus();
  unlink(beside.c_str());
  return cannot_write(path, error);
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

absl::StatusOr<std::string> read_file(const std::string& path) {
  constexpr size_t kPiece = 1 << 16;
  const auto cannot_read = [&](int error) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(error)));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_read(errno);
  struct stat info {};
  std::string bytes;                       // at once where its size is known
  if (fstat(file, &info) == 0) bytes.resize(static_cast<size_t>(info.st_size) + 1);
  size_t size = 0;
  ssize_t got = 0;
  do {
    if (size == bytes.size()) bytes.resize(size + kPiece);
    got = ::read(file, bytes.data() + size, bytes.size() - size);
    if (got > 0) size += static_cast<size_t>(got);
  } while (got > 0 || (got < 0 && errno == EINTR));
  const int error = errno;
  ::close(file);
  if (got < 0) return cannot_read(error);
  bytes.resize(size);
  return bytes;
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return cannot_write(path, errno);
}

absl::Status replace_file(const std::string& path, std::string_view bytes) {
  RETURN_IF_ERROR(write_beside(absl::StrCat(path, ".new.", getpid()), O_TRUNC, /*durable=*/true,
                               path, bytes));
  // The name is durable when its folder is; a file system that cannot sync folders keeps the file.
  const std::string folder = std::filesystem::path(path).parent_path();
  const int directory =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    fsync(directory);
    ::close(directory);
  }
  return absl::OkStatus();
}

absl::Status place_file(const std::string& path, std::string_view bytes) {
  static std::atomic<uint64_t> number{0};
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  return write_beside(absl::StrCat(path, ".", getpid(), ".", number++), O_EXCL, /*durable=*/false,
                      path, bytes);
}

std::string default_state_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return absl::StrCat(state, "/loopwright");
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == 0 ? "" : absl::StrCat(home, "/.local/state/loopwright");
}

}  // namespace lw
