// libFuzzer target for what travels between a host and lw_runner (cmake/fuzz.cmake): any bytes
// decode or are refused; what decodes encodes back to itself, and lies where it says.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/runner/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lw::runner;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto header = decode_header(bytes)) CHECK(encode_header(*header) == bytes);
  if (const auto greeting = decode_greeting(bytes)) CHECK(encode_greeting(*greeting) == bytes);
  if (const auto job = decode_job(bytes)) {
    CHECK(encode_job(*job) == bytes);
    for (const Job::Code& c : job->codes) {
      for (const Job::Segment& s : c.segments) CHECK(s.offset + s.bytes <= c.image_bytes);
    }
    for (const Job::Argument& a : job->arguments) CHECK(a.offset + a.bytes <= a.pages);
  }
  if (const auto result = decode_result(bytes)) CHECK(encode_result(*result) == bytes);
  if (const auto crash = decode_crash(bytes)) {
    const std::string again = encode_crash(*crash);
    CHECK(decode_crash(again).has_value());
  }
  return 0;
}
