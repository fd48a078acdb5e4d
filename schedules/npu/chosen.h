// Which values of a tensor anybody reads. Internal to schedules/npu.
#pragma once

#include "loopwright/program.h"
#include "src/expr/expr.h"

namespace lw {

// Whether all that read the tensor, which is no output, do so where the condition, over its axes,
// holds at the point that is read: what a where gives elsewhere matters to nobody.
bool is_read_where(const Program& program, int tensor, const Expr& condition);

}  // namespace lw
