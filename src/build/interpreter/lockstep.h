// Of items that run side by side: in which order they come, and where they meet. Internal to
// src/build/interpreter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "src/base/rng.h"
#include "src/kernel/groups.h"

namespace lw {

// Which of a group's items comes first between two barriers, and which group of a loop where these
// run one after another. Kernels compute the same in every order.
struct ItemOrder {
  enum class Kind : uint8_t { kAscending, kDescending, kShuffled } kind = Kind::kAscending;
  uint64_t seed = 0;                       // kShuffled: anew for each loop and after each barrier
};

// Numbers below `count` in the order of the run. `stream`: one's draws are independent of another's.
class Sequence {
 public:
  Sequence(const ItemOrder& order, int64_t count, uint64_t stream)
      : order_(order), rng_(Rng(order.seed).split(stream)), numbers_(count) {
    std::iota(numbers_.begin(), numbers_.end(), int64_t{0});
    if (order.kind == ItemOrder::Kind::kDescending) std::reverse(numbers_.begin(), numbers_.end());
  }
  const std::vector<int64_t>& next() {
    if (order_.kind == ItemOrder::Kind::kShuffled) rng_.shuffle(&numbers_);
    return numbers_;
  }

 private:
  const ItemOrder& order_;
  Rng rng_;
  std::vector<int64_t> numbers_;
};

// Adds the statements in which items meet, at a barrier or to exchange registers, and says whether
// there are any.
inline bool find_meetings(const std::vector<Stmt>& list, absl::flat_hash_set<const Stmt*>* with) {
  bool any = false;
  for (const Stmt& s : list) {
    const bool own =
        s.kind == Stmt::Kind::kOp && (is_barrier(s.op) || exchanges_registers(s.op));
    const bool body = find_meetings(s.body, with), otherwise = find_meetings(s.otherwise, with);
    if (!own && !body && !otherwise) continue;
    with->insert(&s);
    any = true;
  }
  return any;
}

}  // namespace lw
