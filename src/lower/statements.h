// Walking over statements. Internal to src/lower.
#pragma once

#include <vector>

#include "src/kernel/ops.h"

namespace lw::lowering {

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
