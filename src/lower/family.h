// The lowering of each family of machines, found by its folder: src/lower/NAME/family.cc defines
// `const lowering::Family& NAME_family()`. Internal to src/lower. Pure functions; thread-safe.
#pragma once

#include <vector>

#include "src/lower/lower.h"

namespace lw::lowering {

struct Family {
  const char* name;                        // as schedules/targets/family.h has it
  absl::StatusOr<Kernel> (*lower)(const Nest& nest, const LowerOptions& options);
  absl::StatusOr<int64_t> (*count_statements)(const Nest& nest, const LowerOptions& options);
};

// All of them, by name (generated table).
const std::vector<const Family*>& lw_lowering_family_table();

}  // namespace lw::lowering
