// Walking over statements. Internal to src/lower.
#pragma once

#include <vector>

#include "src/kernel/kernel.h"

namespace lw::lowering {

inline bool is_op(const Stmt& s, Op op) { return s.kind == Stmt::Kind::kOp && s.op == op; }

// Each of a list (const or not) and then what stands inside it.
template <class List, class Visit>
void for_each(List& list, const Visit& visit) {
  for (auto& s : list) {
    visit(s);
    for_each(s.body, visit);
    for_each(s.otherwise, visit);
  }
}

}  // namespace lw::lowering
