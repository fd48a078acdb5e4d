#include "src/lower/family.h"

#include "src/lower/simt/lower_simt.h"
#include "src/lower/tiles/pipeline.h"

namespace lw::lowering {

const Family& simt_family() {
  static constexpr Family family = {"simt", lower_simt, count_statements_of_tiles};
  return family;
}

}  // namespace lw::lowering
