#include "src/lower/family.h"

#include "src/base/check.h"
#include "src/lower/hoist.h"
#include "src/lower/interiors.h"
#include "src/lower/tiles/pipeline.h"

namespace lw::lowering {
namespace {

absl::StatusOr<Kernel> lower_cpu(const Nest& nest, const LowerOptions& options) {
  ASSIGN_OR_RETURN(Kernel kernel, lower_tiles(nest, options));
  version_interiors(kernel);
  hoist(kernel);
  RETURN_IF_ERROR(lay_out_workspace(kernel, options));
  return kernel;
}

}  // namespace

const Family& cpu_family() {
  static constexpr Family family = {"cpu", lower_cpu, count_statements_of_tiles};
  return family;
}

}  // namespace lw::lowering
