#include "cost_model/cpu/processor.h"

#include "schedules/targets/cpu/cpu_target.h"
#include "schedules/targets/family.h"

namespace lw::cost::cpu {
namespace {

// The latest one asked for: a search asks thousands of times for one.
struct Likeness {
  std::shared_ptr<const Target> of, processor;
  double parallel_us = 0;
};

}  // namespace

Nest as_on_processors(Nest nest, double parallel_us) {
  thread_local Likeness latest;
  if (latest.of != nest.target || latest.parallel_us != parallel_us) {
    const RegisterFile file = register_file(*nest.target);
    CpuTarget part;
    part.vector_bytes = file.vector_bytes;
    part.vector_registers = file.vectors;
    part.fma = file.fma;
    part.masks = file.masks;
    part.loads_per_cycle = file.loads_per_cycle;
    part.parallel_overhead_us = parallel_us;
    Target processor = *nest.target;
    set_cpu(&processor, std::move(part));
    latest = {nest.target, std::make_shared<const Target>(std::move(processor)), parallel_us};
  }
  nest.target = latest.processor;
  return nest;
}

}  // namespace lw::cost::cpu
