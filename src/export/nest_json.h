// The nest as JSON: facts for those who generate code of their own. docs/mlir.md says what each field
// means; schedules/nest.h says what nests are.
#pragma once

#include "nlohmann/json.hpp"
#include "schedules/nest.h"

namespace lw {

// Raised when a field's meaning changes or a field goes, not when one is added.
constexpr int kNestJsonVersion = 1;

// Of any verified nest of any target. Extents, tiles, trips and distances count points or
// iterations; indices of loops and dimensions count from 0, outermost first. Never fails;
// thread-safe.
nlohmann::ordered_json nest_json(const Nest& nest);

}  // namespace lw
