// libFuzzer target for the assembler of the simulated NPU (cmake/fuzz.cmake): any text is refused,
// each error with its place, or read as a program (npu_programs.h says what becomes of that).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "fuzz/npu_programs.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lw::npu;
  static const absl::StatusOr<Config> config = find_config("mid32");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Config* const machine : {static_cast<const Config*>(nullptr), &*config}) {
    const absl::StatusOr<Program> program = parse_program(text, "fuzz.s", machine);
    if (program.ok()) {
      exercise(*config, *program);
      continue;
    }
    for (const absl::string_view line : absl::StrSplit(program.status().message(), '\n')) {
      CHECK(absl::StartsWith(line, "fuzz.s:"));
    }
  }
  return 0;
}
