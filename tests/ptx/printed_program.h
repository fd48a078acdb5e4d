// Programs of PTX on the interpreter, as a driver runs them.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/build/simt/ptx/interpreter/interpret.h"
#include "src/build/simt/program.h"
#include "src/kernel/kernel.h"

namespace lw {

// Memory from an address that the driver's would have, whose bytes say nothing.
class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t bytes) : bytes_(bytes), all_(static_cast<size_t>(bytes) + 256) {
    std::memset(all_.data(), 0x7f, all_.size());
  }
  std::byte* data() {
    const auto address = reinterpret_cast<uintptr_t>(all_.data());
    return all_.data() + (-address & 255);
  }
  PtxMemory memory(bool writable) {
    return {reinterpret_cast<uint64_t>(data()), bytes_, writable};
  }

 private:
  int64_t bytes_;
  std::vector<std::byte> all_;
};

// What a driver would encode.
inline PtxTensorMap tensor_map_at(const SimtProgram::TensorMap& map, const std::byte* buffer) {
  PtxTensorMap asked;
  asked.type = static_cast<uint8_t>(map.element_bytes == 8 ? 4 : map.element_bytes / 2);
  asked.rank = static_cast<uint8_t>(map.sizes.size());
  asked.swizzle = map.swizzled ? 3 : 0;
  asked.address = reinterpret_cast<uint64_t>(buffer) + static_cast<uint64_t>(map.offset);
  for (size_t d = 0; d < map.sizes.size(); ++d) {
    asked.dims[d] = static_cast<uint64_t>(map.sizes[d]);
    asked.box[d] = static_cast<uint16_t>(map.box[d]);
    if (d > 0) asked.strides[d - 1] = static_cast<uint64_t>(map.strides[d - 1]);
  }
  return asked;
}

// Runs the launches of a program, once the prepack's; arguments: inputs, then outputs. Fails as the
// interpreter does.
inline absl::Status run_printed(const SimtProgram& program, void* const* arguments,
                                const PtxOptions& options = {}) {
  ASSIGN_OR_RETURN(const PtxModule module, parse_ptx(program.source));
  std::vector<DeviceBytes> buffers;
  for (const SimtProgram::Argument& argument : program.arguments) {
    buffers.emplace_back(argument.bytes);
    const void* given = arguments[buffers.size() - 1];
    if (!argument.written) std::memcpy(buffers.back().data(), given, argument.bytes);
  }
  DeviceBytes workspace(program.workspace_bytes), packed(program.packed_bytes);
  const auto run = [&](const SimtProgram::Launch& launch, bool prepack) -> absl::Status {
    PtxLaunch asked;
    asked.entry = launch.kernel;
    asked.groups = {launch.groups, 1, 1};
    asked.items = {launch.items, 1, 1};
    asked.shared_bytes = launch.local_bytes;
    const PtxEntry* const entry = module.find(launch.kernel);
    if (entry != nullptr && entry->cluster[0] > 0) asked.cluster = entry->cluster;
    std::vector<PtxMemory> memory;
    for (const SimtProgram::Parameter& p : launch.parameters) {
      using Kind = SimtProgram::Parameter::Kind;
      DeviceBytes& buffer = p.kind == Kind::kArgument    ? buffers[p.slot]
                            : p.kind == Kind::kWorkspace ? workspace
                                                         : packed;
      const bool writable = p.kind == Kind::kArgument    ? program.arguments[p.slot].written
                            : p.kind == Kind::kWorkspace ? true
                                                         : prepack;
      memory.push_back(buffer.memory(writable));
      if (!p.map.has_value()) {
        asked.parameters.push_back(ptx_pointer(buffer.data()));
        continue;
      }
      ASSIGN_OR_RETURN(std::string map, encode_tensor_map(tensor_map_at(*p.map, buffer.data())));
      asked.parameters.push_back(std::move(map));
    }
    return interpret_ptx(module, asked, memory, options);
  };
  for (const SimtProgram::Launch& launch : program.prepack) RETURN_IF_ERROR(run(launch, true));
  for (const SimtProgram::Launch& launch : program.launches) RETURN_IF_ERROR(run(launch, false));
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!program.arguments[i].written) continue;
    std::memcpy(arguments[i], buffers[i].data(), program.arguments[i].bytes);
  }
  return absl::OkStatus();
}

}  // namespace lw
