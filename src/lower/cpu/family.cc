#include "src/lower/family.h"

#include "src/lower/cpu/lower_cpu.h"

namespace lw::lowering {

const Family& cpu_family() {
  static constexpr Family family = {"cpu", lower_cpu, count_statements_cpu};
  return family;
}

}  // namespace lw::lowering
