#include "src/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace lw {

absl::StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  // Nothing inserted is a failure of its own: an empty file is asked for first.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.is_open() && !file.bad() && text) return text.str();
  return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
}

absl::Status write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status replace_file(const std::string& path, std::string_view bytes) {
  const std::string beside = absl::StrCat(path, ".new.", getpid());
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool good = file >= 0;
  while (good && !bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    good = written >= 0;
    if (good) bytes.remove_prefix(static_cast<size_t>(written));
  }
  good = good && fsync(file) == 0;
  int error = errno;
  if (file >= 0) ::close(file);
  if (good && rename(beside.c_str(), path.c_str()) != 0) {
    good = false;
    error = errno;
  }
  if (!good) {
    unlink(beside.c_str());
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
  }
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

}  // namespace lw
