#include "cost_model/family.h"

#include "cost_model/npu/model.h"

namespace lw::cost {

const Family& npu_family() {
  static constexpr Family family = {"npu", npu::table, npu::features, npu::draft_us, npu::kind,
                                    /*begins_shipped=*/true};
  return family;
}

}  // namespace lw::cost
