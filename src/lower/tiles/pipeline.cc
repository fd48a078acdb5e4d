// The pipeline from a nest to a kernel: buffers for arguments, stages at the root in program order,
// everything else where those stages' loops hold it, then the layout of the workspace.
#include "src/lower/tiles/pipeline.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/lower/arguments.h"
#include "src/lower/emitter.h"

namespace lw {
namespace {

using lowering::Emitter;
using lowering::Storage;

void add_arguments(Emitter& e) {
  const Program& program = *e.nest.program;
  e.home.resize(program.tensors.size());
  const std::vector<int> buffers = lowering::add_arguments(program, e.kernel);
  for (size_t t = 0; t < buffers.size(); ++t) {
    if (buffers[t] < 0) continue;
    const Tensor& tensor = program.tensors[t];
    Storage& storage = e.home[t];
    storage.buffer = buffers[t];
    storage.origin.assign(tensor.shape.size(), affine(0));
    storage.shape = tensor.shape;
  }
}

// A program of many stages, or of large bodies, is larger before anything is unrolled.
LowerOptions for_size_of(const Nest& nest, LowerOptions options) {
  constexpr int64_t kStages = 16, kNodes = 4000;
  int64_t stages = 0, nodes = 0;
  for (const Stage& stage : nest.stages) {
    if (stage.place == Place::kInlined || stage.copy_of >= 0) continue;
    ++stages;
    visit(stage.body->value, [&](const ExprNode&) { ++nodes; });
  }
  options.max_statements *= std::max({int64_t{1}, stages / kStages, nodes / kNodes});
  return options;
}

// Everything but the layout of the workspace.
absl::Status emit(Emitter& e) {
  const Nest& nest = e.nest;
  e.kernel.name = nest.program->name;
  e.kernel.error_growth = nest.error_growth;
  for (size_t s = 0; s < nest.stages.size(); ++s) {
    e.bodies.push_back(effective_body(nest, static_cast<int>(s)));
    RETURN_IF_ERROR(e.stop.status("lowering"));
  }
  e.copies.resize(nest.stages.size());
  add_arguments(e);

  // The nest keeps its stages in an order in which they may run.
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Place place = nest.stages[s].place;
    if (nest.stages[s].along >= 0) lowering::allocate(e, s, {});  // whole, before its host begins
    if (place != Place::kRoot && place != Place::kPrepack) continue;
    e.out = nest.stages[s].place == Place::kPrepack ? &e.kernel.prepack : &e.kernel.body;
    lowering::allocate(e, s, {});
    lowering::emit_stage(e, s, lowering::whole_axes(nest, s));
    RETURN_IF_ERROR(e.failure);
    RETURN_IF_ERROR(e.stop.status("lowering"));
  }
  return absl::OkStatus();
}

Nest without_stop(Nest nest) {
  nest.stop = Stop();
  return nest;
}

}  // namespace

namespace lowering {

absl::StatusOr<Kernel> lower_tiles(const Nest& nest, const LowerOptions& limits) {
  const LowerOptions options = for_size_of(nest, limits);
  const Nest kept = without_stop(nest);
  Emitter e(kept, options, nest.stop);
  RETURN_IF_ERROR(emit(e));
  return std::move(e.kernel);
}

absl::StatusOr<int64_t> count_statements_of_tiles(const Nest& nest, const LowerOptions& limits) {
  const LowerOptions options = for_size_of(nest, limits);
  const Nest kept = without_stop(nest);
  Emitter e(kept, options, nest.stop);
  e.counting = true;
  RETURN_IF_ERROR(emit(e));
  return e.statements;
}

absl::Status lay_out_workspace(Kernel& kernel, const LowerOptions& options) {
  for (Buffer& buffer : kernel.buffers) {
    if (buffer.scope == Scope::kArgument) continue;
    if (buffer.scope == Scope::kManaged) {
      const size_t memories = std::max(kernel.managed_bytes.size(), size_t(buffer.memory) + 1);
      kernel.managed_bytes.resize(memories);
    }
    int64_t& end = buffer.scope == Scope::kWorkspace ? kernel.workspace_bytes
                   : buffer.scope == Scope::kPrivate ? kernel.private_bytes
                   : buffer.scope == Scope::kManaged ? kernel.managed_bytes[buffer.memory]
                                                     : kernel.packed_bytes;
    buffer.offset = end;
    end += aligned_bytes(buffer.elements * size_of(buffer.type));
  }
  const int64_t total = kernel.workspace_bytes + kernel.private_bytes + kernel.packed_bytes;
  if (total > options.max_workspace_bytes) return infeasible("the workspace is too large");
  return absl::OkStatus();
}

}  // namespace lowering
}  // namespace lw
