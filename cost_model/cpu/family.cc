#include "cost_model/family.h"

#include "cost_model/cpu/features.h"

namespace lw::cost {

const Family& cpu_family() {
  static constexpr Family family = {"cpu", cpu::table, cpu::features, cpu::draft_us, cpu::kind};
  return family;
}

}  // namespace lw::cost
