#include "src/lower/family.h"

#include "src/lower/npu/lower_npu.h"

namespace lw::lowering {

const Family& npu_family() {
  static constexpr Family family = {"npu", lower_npu, count_statements_npu};
  return family;
}

}  // namespace lw::lowering
