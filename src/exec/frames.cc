#include "src/exec/frames.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw::exec {
namespace {

void put(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t get(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

// Fewer than `size` where the input ends.
absl::StatusOr<size_t> read_all(int descriptor, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = read(descriptor, data + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::InvalidArgumentError(concat("the input: ", strerror(errno)));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

// In steps, so that an announcement alone takes no memory.
absl::Status read_part(int descriptor, uint64_t bytes, std::string* part) {
  constexpr uint64_t kStep = uint64_t{16} << 20;
  while (part->size() < bytes) {
    const size_t begin = part->size();
    part->resize(begin + std::min(bytes - begin, kStep));
    ASSIGN_OR_RETURN(const size_t done,
                     read_all(descriptor, part->data() + begin, part->size() - begin));
    if (begin + done < part->size()) {
      return absl::InvalidArgumentError("the input ends within a frame");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string encode_frame_header(const FrameHeader& header) {
  std::string bytes(kMagic);
  put(header.head_bytes, 4, &bytes);
  put(header.body_bytes, 8, &bytes);
  return bytes;
}

absl::StatusOr<FrameHeader> decode_frame_header(std::string_view bytes, uint64_t most_body_bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() != kFrameHeaderBytes) {
    const std::string text(bytes.substr(0, kFrameHeaderBytes));
    return absl::InvalidArgumentError(concat("no frame begins with '", absl::CEscape(text), "'"));
  }
  const FrameHeader header = {get(bytes.substr(4, 4)), get(bytes.substr(8, 8))};
  if (header.head_bytes > kMostHeadBytes) {
    return absl::InvalidArgumentError(concat("a frame's head of ", header.head_bytes,
                                             " bytes; there may be ", kMostHeadBytes));
  }
  if (header.body_bytes > most_body_bytes) {
    return absl::InvalidArgumentError(concat("a frame's body of ", header.body_bytes,
                                             " bytes; there may be ", most_body_bytes));
  }
  return header;
}

absl::StatusOr<std::optional<Frame>> read_frame(int descriptor) {
  char bytes[kFrameHeaderBytes];
  ASSIGN_OR_RETURN(const size_t done, read_all(descriptor, bytes, sizeof bytes));
  if (done == 0) return std::nullopt;
  ASSIGN_OR_RETURN(const FrameHeader header, decode_frame_header({bytes, done}));
  Frame frame;
  RETURN_IF_ERROR(read_part(descriptor, header.head_bytes, &frame.head));
  RETURN_IF_ERROR(read_part(descriptor, header.body_bytes, &frame.body));
  return frame;
}

absl::Status write_frame(int descriptor, std::string_view head, std::string_view body) {
  const std::string header = encode_frame_header({head.size(), body.size()});
  for (std::string_view part : {std::string_view(header), head, body}) {
    while (!part.empty()) {
      const ssize_t n = write(descriptor, part.data(), part.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return absl::UnavailableError(concat("the output: ", strerror(errno)));
      part.remove_prefix(static_cast<size_t>(n));
    }
  }
  return absl::OkStatus();
}

}  // namespace lw::exec
