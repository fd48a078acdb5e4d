#include "src/measure/process/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/clock.h"

namespace lw {
namespace {

struct Header {
  uint32_t type = 0;
  uint32_t has_fd = 0;
  uint64_t bytes = 0;
  uint64_t tag = 0;
};
constexpr uint64_t kMaxPayload = uint64_t{1} << 30;

absl::Status gone(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", errno ? std::strerror(errno) : "closed"));
}

absl::Status send_all(int socket, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = send(socket, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return gone("send");
    data += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// Fills `data`; a descriptor that comes along is stored in *fd when fd is given, else dropped.
absl::Status receive_all(int socket, char* data, size_t size, double deadline, int* fd) {
  while (size > 0) {
    pollfd wait{socket, POLLIN, 0};
    int patience_ms = -1;
    if (deadline >= 0) {
      patience_ms = static_cast<int>(std::clamp(std::ceil((deadline - now()) * 1e3), 0.0, 1e9));
    }
    const int ready = poll(&wait, 1, patience_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return absl::DeadlineExceededError("no answer in time");
    iovec part{data, size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (fd != nullptr) {
      header.msg_control = control;
      header.msg_controllen = sizeof control;
    }
    errno = 0;
    const ssize_t n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return gone("receive");
    const cmsghdr* extra = fd != nullptr ? CMSG_FIRSTHDR(&header) : nullptr;
    if (extra != nullptr && extra->cmsg_type == SCM_RIGHTS) {
      std::memcpy(fd, CMSG_DATA(extra), sizeof *fd);
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status send_header(int socket, const Header& header, int fd) {
  iovec part{const_cast<Header*>(&header), sizeof header};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* extra = CMSG_FIRSTHDR(&message);
    extra->cmsg_level = SOL_SOCKET;
    extra->cmsg_type = SCM_RIGHTS;
    extra->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(extra), &fd, sizeof fd);
  }
  // 24 bytes into an empty socket go as a whole or not at all.
  ssize_t n;
  do {
    n = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n == sizeof header ? absl::OkStatus() : gone("send");
}

}  // namespace

absl::Status send_message(int socket, uint32_t type, std::string_view payload, int fd,
                          uint64_t tag) {
  CHECK(payload.size() <= kMaxPayload);
  RETURN_IF_ERROR(send_header(socket, {type, fd >= 0 ? 1u : 0u, payload.size(), tag}, fd));
  return send_all(socket, payload.data(), payload.size());
}

bool has_input(int socket) {
  char first;
  return recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

absl::StatusOr<Message> receive_message(int socket, double timeout_s, uint64_t max_bytes,
                                        bool take_fd) {
  const double deadline = timeout_s < 0 ? -1 : now() + timeout_s;
  Message message;
  Header header;
  RETURN_IF_ERROR(
      receive_all(socket, reinterpret_cast<char*>(&header), sizeof header, deadline,
                  take_fd ? &message.fd : nullptr));
  if (header.bytes > std::min(max_bytes, kMaxPayload))
    return absl::UnavailableError("a message of impossible size");
  message.type = header.type;
  message.tag = header.tag;
  message.payload.resize(header.bytes);
  RETURN_IF_ERROR(receive_all(socket, message.payload.data(), header.bytes, deadline, nullptr));
  return message;
}

absl::StatusOr<std::pair<int, int>> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return gone("socketpair");
  // Workers are sent work only while they wait for it: a send that blocks has lost its reader.
  const timeval patience{10, 0};
  setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  return std::make_pair(ends[0], ends[1]);
}

absl::StatusOr<SharedMemory> SharedMemory::create(int64_t bytes, bool sealed) {
  SharedMemory memory;
  memory.bytes_ = bytes;
  memory.fd_ = memfd_create("loopwright", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.fd_ < 0 || ftruncate(memory.fd_, bytes) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no shared memory of ", bytes, " bytes: ", std::strerror(errno)));
  }
  void* data =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd_, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes: ", std::strerror(errno)));
  }
  memory.data_ = static_cast<std::byte*>(data);
  // A shorter file would be a fault for whoever reads it here. Old systems do not know the seal
  // against writing: then the filter (isolation.h) keeps workers from opening memory again.
  fcntl(memory.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  if (sealed) fcntl(memory.fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  fcntl(memory.fd_, F_ADD_SEALS, F_SEAL_SEAL);
  return memory;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(data_, other.data_);
  return *this;
}

SharedMemory::~SharedMemory() {
  unmap();
  if (fd_ >= 0) close(fd_);
}

void SharedMemory::unmap() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
  data_ = nullptr;
}

}  // namespace lw
