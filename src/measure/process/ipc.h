// How the parent and its workers talk: length-prefixed messages over socket pairs, tensors through
// shared memory. Both ends are the same binary on the same machine: native byte order, no versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/statusor.h"

namespace lw {

struct Message {
  uint32_t type = 0;
  std::string payload;
  uint64_t tag = 0;
  int fd = -1;  // a descriptor that came along; the receiver owns it
};

// Payloads: fields one after the other, strings length-prefixed. A reader past the end gives zeros
// and !ok(): a worker that ran a wild kernel may send anything.
class Writer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T> Writer& put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& put_string(std::string_view text) {
    put<uint64_t>(text.size());
    bytes_.append(text);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string get_string() {
    const uint64_t size = get<uint64_t>();
    if (rest_.size() < size) {
      ok_ = false;
      return "";
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// kUnavailable: the other end is gone. kDeadlineExceeded (receive only): nothing whole came within
// `timeout_s` (negative: waits for ever).
absl::Status send_message(int socket, uint32_t type, std::string_view payload, int fd = -1,
                          uint64_t tag = 0);
// A message longer than `max_bytes` is kUnavailable too, read or not; a descriptor that comes along
// is dropped unless `take_fd`: the sender may have run a wild kernel.
absl::StatusOr<Message> receive_message(int socket, double timeout_s = -1,
                                        uint64_t max_bytes = uint64_t{1} << 30,
                                        bool take_fd = false);
// Whether there is something to read.
bool has_input(int socket);

// A connected pair of sockets, close-on-exec.
absl::StatusOr<std::pair<int, int>> socket_pair();

// Anonymous shared memory, mapped read-write here; forked processes inherit descriptor and mapping.
class SharedMemory {
 public:
  SharedMemory() = default;
  // `sealed`: its size is fixed, and it can be written through this mapping (and those that forks
  // inherit) only: mappings made later are read-only and stay so.
  static absl::StatusOr<SharedMemory> create(int64_t bytes, bool sealed = false);
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }
  // Gives up this process's mapping (a worker must not be able to write what it may only read).
  void unmap();

 private:
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace lw
