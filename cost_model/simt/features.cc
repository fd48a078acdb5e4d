#include "cost_model/simt/features.h"

#include "cost_model/cpu/features.h"
#include "cost_model/cpu/processor.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::cost::simt {
namespace {

Nest as_processor(const Nest& nest) {
  return cpu::as_on_processors(nest, lw::simt(*nest.target).launch_us);
}

}  // namespace

const std::vector<Feature>& table() { return cpu::table(); }
std::vector<float> features(const Nest& nest) { return cpu::features(as_processor(nest)); }
double draft_us(const Nest& nest) { return cpu::draft_us(as_processor(nest)); }

}  // namespace lw::cost::simt
