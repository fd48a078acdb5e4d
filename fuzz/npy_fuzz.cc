// libFuzzer target for the reader of NumPy's headers (cmake/fuzz.cmake): any bytes are a header or are
// refused with a reason.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/api/run/npy.h"
#include "src/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<lw::NpyHeader> header =
      lw::parse_npy_header(std::string_view(reinterpret_cast<const char*>(data), size));
  if (header.ok()) CHECK(header->data_offset <= size);
  else CHECK(!header.status().message().empty());
  return 0;
}
