#include "src/measure/npu/program_facts.h"

#include "src/base/check.h"
#include "src/npu/module.h"
#include "src/npu/timing/bounds.h"

namespace lw {

absl::StatusOr<NpuProgramFacts> npu_program_facts(const Artifact& artifact) {
  ASSIGN_OR_RETURN(const npu::Module module, npu::read_module(artifact.bytes));
  const npu::Bounds bounds = npu::find_bounds(module.config, module.program);
  NpuProgramFacts facts;
  facts.clock_mhz = module.config.clock_mhz;
  facts.least_cycles = bounds.mac < bounds.dma ? bounds.dma : bounds.mac;
  facts.set_by = bounds.mac < bounds.dma ? "dma" : "mac";
  return facts;
}

}  // namespace lw
