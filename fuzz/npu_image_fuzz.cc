// libFuzzer target for images of programs for the simulated NPU (cmake/fuzz.cmake): any bytes are
// refused with a reason, or read as a program that writes the same bytes (npu_programs.h says what
// else becomes of it).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/npu_programs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lw::npu;
  static const absl::StatusOr<Config> config = find_config("mid32");
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<Program> program = read_image(bytes);
  if (!program.ok()) {
    CHECK(absl::IsInvalidArgument(program.status()) && !program.status().message().empty());
    return 0;
  }
  CHECK(*make_image(*program) == bytes);
  exercise(*config, *program);
  return 0;
}
