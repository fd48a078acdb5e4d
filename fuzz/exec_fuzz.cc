// libFuzzer target for what exec devices are asked and answer (cmake/fuzz.cmake): any bytes are
// heads and frames or are refused with a reason; what is read prints back to itself.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/exec/frames.h"
#include "src/exec/heads.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lw::exec;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto header = decode_frame_header(bytes.substr(0, kFrameHeaderBytes));
  if (header.ok()) {
    CHECK(encode_frame_header(*header) == bytes.substr(0, kFrameHeaderBytes));
    CHECK(header->head_bytes <= kMostHeadBytes && header->body_bytes <= kMostBodyBytes);
  }
  if (const auto request = parse_request(bytes); request.ok()) {
    const std::string text = print(*request);
    CHECK(print(*parse_request(text)) == text);
  } else {
    CHECK(!request.status().message().empty());
  }
  if (const auto answer = parse_answer(bytes); answer.ok()) {
    const std::string text = print(*answer);
    if (const Greeting* const greeting = std::get_if<Greeting>(&answer->what)) {
      if (greeting->version != kVersion) return 0;   // of which nothing else was read
    }
    CHECK(print(*parse_answer(text)) == text);
    if (const Result* const result = std::get_if<Result>(&answer->what)) {
      for (const double sample : result->samples) CHECK(sample > 0);
    }
  } else {
    CHECK(!answer.status().message().empty());
  }
  return 0;
}
