// Frames on the runner's standard input and output.
#pragma once

#include <errno.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "src/runner/protocol.h"

namespace lw::runner {

inline constexpr int kIn = 0, kOut = 1;

// False: the other end is gone.
inline bool read_all(char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = read(kIn, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// Async-signal-safe.
inline bool write_all(const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(kOut, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

inline bool send(Frame type, std::string_view payload) {
  Header header;
  header.type = type;
  header.bytes = payload.size();
  const std::string head = encode_header(header);
  return write_all(head.data(), head.size()) && write_all(payload.data(), payload.size());
}

}  // namespace lw::runner
