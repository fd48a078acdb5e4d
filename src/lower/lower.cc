#include "src/lower/lower.h"

#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/lower/family.h"

namespace lw {
namespace {

// REQUIRES: the nest's target is of a family that is known here, as every nest's is.
const lowering::Family& family_of(const Nest& nest) {
  const std::string_view name = nest.target->part.family()->name;
  for (const lowering::Family* family : lowering::lw_lowering_family_table()) {
    if (family->name == name) return *family;
  }
  CHECK(false);
}

}  // namespace

absl::StatusOr<Kernel> lower(const Nest& nest, const LowerOptions& options) {
  ASSIGN_OR_RETURN(Kernel kernel, family_of(nest).lower(nest, options));
#ifndef NDEBUG
  RETURN_IF_ERROR(verify(kernel));
#endif
  return kernel;
}

absl::StatusOr<int64_t> count_statements(const Nest& nest, const LowerOptions& options) {
  return family_of(nest).count_statements(nest, options);
}

}  // namespace lw
