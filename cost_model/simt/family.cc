#include "cost_model/family.h"

#include "cost_model/cpu/features.h"
#include "cost_model/simt/features.h"

namespace lw::cost {

const Family& simt_family() {
  static constexpr Family family = {"simt", simt::table, simt::features, simt::draft_us, cpu::kind};
  return family;
}

}  // namespace lw::cost
