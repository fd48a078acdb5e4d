// What travels between this program and an exec device (docs/exec.md), one frame after the other:
//
//   "LWEX"            4 bytes
//   head_bytes        32 bits, little-endian: of the head, at most kMostHeadBytes
//   body_bytes        64 bits, little-endian: of the body
//   head              an object of JSON (heads.h)
//   body              what the head says
//
// Pure functions, but for those that take a descriptor, which block. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lw::exec {

inline constexpr std::string_view kMagic = "LWEX";
inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr uint64_t kMostHeadBytes = uint64_t{4} << 20;
inline constexpr uint64_t kMostBodyBytes = uint64_t{1} << 36;

struct FrameHeader {
  uint64_t head_bytes = 0, body_bytes = 0;
};
std::string encode_frame_header(const FrameHeader& header);
// kInvalidArgument: it is none ("no frame begins with 'Hello, wor'"), or announces more than there
// may be, of a body `most_body_bytes`.
absl::StatusOr<FrameHeader> decode_frame_header(std::string_view bytes,
                                                uint64_t most_body_bytes = kMostBodyBytes);

struct Frame {
  std::string head, body;
};
// For a device's side: the next frame; none where the input ends in front of one. kInvalidArgument:
// what comes is no frame, or the input ends within one.
absl::StatusOr<std::optional<Frame>> read_frame(int descriptor);
// kUnavailable: nobody reads it.
absl::Status write_frame(int descriptor, std::string_view head, std::string_view body);

}  // namespace lw::exec
