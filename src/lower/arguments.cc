#include "src/lower/arguments.h"

#include "src/expr/expr.h"

namespace lw::lowering {

std::vector<int> add_arguments(const Program& program, Kernel& kernel) {
  std::vector<int> buffers(program.tensors.size(), -1);
  const std::vector<int> args = arguments(program);
  for (size_t slot = 0; slot < args.size(); ++slot) {
    const Tensor& tensor = program.tensors[args[slot]];
    Buffer buffer;
    buffer.name = tensor.name;
    buffer.type = tensor.type;
    buffer.elements = elements(tensor);
    buffer.slot = static_cast<int>(slot);
    buffer.written = tensor.role == Role::kOutput;
    buffers[args[slot]] = static_cast<int>(kernel.buffers.size());
    kernel.buffers.push_back(std::move(buffer));
  }
  kernel.arguments = static_cast<int>(args.size());
  return buffers;
}

}  // namespace lw::lowering
