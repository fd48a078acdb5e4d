#include "src/lower/npu/lower_npu.h"

#include <algorithm>

#include "schedules/npu/vector.h"
#include "schedules/targets/npu/machine.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/lower/arguments.h"
#include "src/lower/npu/product_lowering.h"
#include "src/lower/npu/vector_lowering.h"

namespace lw {
namespace {

// Whether the tensor's elements are never in DRAM: computed where they are read, or finished where
// they are held.
bool is_nowhere(const Nest& nest, int tensor) {
  const int number = stage_of_tensor(nest, tensor);
  if (number < 0) return false;
  const Stage& stage = nest.stages[number];
  return stage.place == Place::kInlined || !stage.epilogue.empty();
}

bool runs(const Stage& stage) {
  return stage.copy_of < 0 && stage.place != Place::kEpilogue && stage.place != Place::kInlined;
}

// Of what no engine computes, before of others that they only have no tile.
absl::Status check_stages(const Nest& nest) {
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    if (!runs(nest.stages[s]) || nest.stages[s].variant >= 0) continue;
    const std::optional<NpuProduct> product = product_of(nest, s);
    if (product && is_for_array(*product)) continue;
    RETURN_IF_ERROR(vector_code(nest, s).status());
  }
  return absl::OkStatus();
}

// By the array where it can, unless the stage has boxes of the vector engine.
absl::Status lower_stage(const Nest& nest, int stage, const std::vector<int>& buffers,
                         const LowerOptions& options, Kernel& kernel, int64_t* spm, int64_t* acc) {
  if (nest.stages[stage].variant != kNpuVector && product_of(nest, stage)) {
    return lowering::lower_product(nest, stage, buffers, options, kernel, spm, acc);
  }
  return lowering::lower_vector(nest, stage, buffers, options, kernel, spm, acc);
}

}  // namespace

absl::StatusOr<Kernel> lower_npu(const Nest& nest, const LowerOptions& options) {
  const Program& program = *nest.program;
  Kernel kernel;
  kernel.name = program.name;
  kernel.error_growth = nest.error_growth;
  std::vector<int> buffers = lowering::add_arguments(program, kernel);
  // What is computed and is no argument lies in DRAM too.
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    if (buffers[t] >= 0 || is_nowhere(nest, static_cast<int>(t))) continue;
    Buffer buffer;
    buffer.name = program.tensors[t].name;
    buffer.type = program.tensors[t].type;
    buffer.elements = elements(program.tensors[t]);
    buffer.scope = Scope::kWorkspace;
    buffer.offset = kernel.workspace_bytes;
    kernel.workspace_bytes += aligned_bytes(buffer.elements * size_of(buffer.type));
    buffers[t] = static_cast<int>(kernel.buffers.size());
    kernel.buffers.push_back(std::move(buffer));
  }
  RETURN_IF_ERROR(check_stages(nest));
  int64_t spm = 0, acc = 0;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    if (!runs(nest.stages[s])) continue;
    // One stage after the other: each has the memories for itself.
    int64_t own_spm = 0, own_acc = 0;
    RETURN_IF_ERROR(lower_stage(nest, s, buffers, options, kernel, &own_spm, &own_acc));
    RETURN_IF_ERROR(nest.stop.status("lowering"));
    spm = std::max(spm, own_spm);
    acc = std::max(acc, own_acc);
  }
  if (kernel.workspace_bytes > options.max_workspace_bytes) {
    return infeasible("the workspace is too large");
  }
  kernel.managed_bytes = {spm, acc};
  return kernel;
}

namespace {

int64_t count(const std::vector<Stmt>& list) {
  int64_t sum = static_cast<int64_t>(list.size());
  for (const Stmt& s : list) sum += count(s.body) + count(s.otherwise);
  return sum;
}

}  // namespace

absl::StatusOr<int64_t> count_statements_npu(const Nest& nest, const LowerOptions& options) {
  ASSIGN_OR_RETURN(const Kernel kernel, lower_npu(nest, options));
  return count(kernel.body);
}

}  // namespace lw
