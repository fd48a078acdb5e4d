// Modules behind their handles.
#include <cstdlib>

#include "src/base/message.h"
#include "src/npu/c/handles.h"
#include "src/npu/isa/check.h"
#include "src/npu/module.h"

using namespace lw::npu;  // NOLINT: all that follows is of it

struct loopwright_npu_module {
  loopwright_npu machine;
  loopwright_npu_program program;
  DramRange workspace;
  std::vector<ModuleArgument> arguments;
};

int32_t loopwright_npu_module_open(const void* bytes, size_t size, loopwright_npu_module** module,
                                   char* error, size_t error_size) {
  const Reply reply = {error, error_size};
  if (module == nullptr) return reply.lacks("module");
  *module = nullptr;
  if (bytes == nullptr) return reply.lacks("bytes");
  absl::StatusOr<Module> read = read_module({static_cast<const char*>(bytes), size});
  if (!read.ok()) return reply.say(read.status());
  if (const absl::Status taken = check_program(read->config, read->program); !taken.ok()) {
    return reply.say(taken);
  }
  *module = new loopwright_npu_module{
      {std::make_shared<const Config>(std::move(read->config)), {}},
      {std::make_shared<const Program>(std::move(read->program)), {}, {}},
      read->workspace,
      std::move(read->arguments)};
  return LOOPWRIGHT_NPU_OK;
}

void loopwright_npu_module_close(loopwright_npu_module* module) { delete module; }

const loopwright_npu* loopwright_npu_module_machine(const loopwright_npu_module* module) {
  return &module->machine;
}
const loopwright_npu_program* loopwright_npu_module_program(const loopwright_npu_module* module) {
  return &module->program;
}
size_t loopwright_npu_module_arguments(const loopwright_npu_module* module) {
  return module->arguments.size();
}
uint64_t loopwright_npu_module_argument_bytes(const loopwright_npu_module* module, size_t argument) {
  return argument < module->arguments.size() ? module->arguments[argument].range.bytes : 0;
}
int32_t loopwright_npu_module_argument_written(const loopwright_npu_module* module,
                                               size_t argument) {
  return argument < module->arguments.size() && module->arguments[argument].written;
}

int32_t loopwright_npu_module_run(const loopwright_npu_module* module, void* const* arguments,
                                  size_t count, int32_t races, loopwright_npu_report** report,
                                  char* error, size_t error_size) {
  const Reply reply = {error, error_size};
  if (report != nullptr) *report = nullptr;
  if (module == nullptr) return reply.lacks("module");
  if (count != module->arguments.size()) {
    return reply.say(LOOPWRIGHT_NPU_BAD_REQUEST,
                     lw::concat("the module has ", module->arguments.size(), " arguments, not ",
                                count));
  }
  if (count > 0 && arguments == nullptr) return reply.lacks("arguments");
  std::vector<Buffer> dram;
  // What a module says may be more memory than there is.
  const uint64_t bytes = module->workspace.bytes;
  const std::unique_ptr<uint8_t, decltype(&std::free)> workspace(
      static_cast<uint8_t*>(std::calloc(bytes, 1)), std::free);
  if (bytes > 0 && workspace == nullptr) {
    return reply.say(LOOPWRIGHT_NPU_ENVIRONMENT,
                     lw::concat("no memory for the workspace of ", bytes, " bytes"));
  }
  if (bytes > 0) dram.push_back({module->workspace.address, {workspace.get(), bytes}, true});
  for (size_t i = 0; i < count; ++i) {
    const ModuleArgument& argument = module->arguments[i];
    if (argument.range.bytes == 0) continue;
    if (arguments[i] == nullptr) return reply.lacks(lw::concat("argument ", i).c_str());
    dram.push_back({argument.range.address,
                    {static_cast<uint8_t*>(arguments[i]), argument.range.bytes},
                    argument.written});
  }
  return execute_on(module->machine, module->program, std::move(dram), races != 0, report, reply);
}
