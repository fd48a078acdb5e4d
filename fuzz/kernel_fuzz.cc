// libFuzzer target for the reader of kernels (cmake/fuzz.cmake): any bytes parse or are refused; what
// parses prints back to itself, and is verified without harm.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/kernel/kernel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<lw::Kernel> kernel =
      lw::parse_kernel(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!kernel.ok()) return 0;
  const std::string text = lw::print(*kernel);
  const absl::StatusOr<lw::Kernel> again = lw::parse_kernel(text);
  CHECK(again.ok());
  CHECK(lw::print(*again) == text);
  lw::verify(*kernel).IgnoreError();
  return 0;
}
