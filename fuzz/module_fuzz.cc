// libFuzzer target for modules of the simulated NPU (cmake/fuzz.cmake): any bytes are refused as
// what they are, or read as a module that writes the same bytes and lies where it says.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/npu/isa/check.h"
#include "src/npu/module.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lw::npu;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<Module> module = read_module(bytes);
  if (!module.ok()) {
    CHECK(absl::IsInvalidArgument(module.status()) && !module.status().message().empty());
    return 0;
  }
  const absl::StatusOr<std::string> again = make_module(*module);
  CHECK(again.ok() && *again == bytes);
  for (const ModuleArgument& argument : module->arguments) {
    CHECK(argument.range.address + argument.range.bytes <= module->dram_bytes);
  }
  (void)check_program(module->config, module->program);
  return 0;
}
