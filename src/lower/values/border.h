// Reads at clamped, mirrored or periodic places: pad(READ, edge | reflect | wrap), and what a user
// writes alike. Internal to src/lower.
//
// Such an index is the plain one wherever the whole vector lies inside, which is nearly everywhere:
//   min(x, c), max(x, c), |x|, c - |c - x|, x % n  are x where  x <= c, x >= c, x >= 0, x <= c,
//   0 <= x < n
// so the vector is loaded from consecutive places there, and lane by lane only at the borders.
#pragma once

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "src/lower/values/addressing.h"

namespace lw::lowering {

// Where the read is one at plain places.
struct PlainPlace {
  Index address;
  std::vector<Affine> needs;               // where all of these are >= 0
};

// `local`: the indices of the read within the storage's box; `index_of`: of an expression at the
// point. Nothing where the read has another form, or is plain nowhere.
std::optional<PlainPlace> plain_place(Addressing& addressing, const Storage& storage,
                                      const Expr& read, std::vector<Index> local,
                                      const Point& point,
                                      absl::FunctionRef<Index(const Expr&)> index_of);

}  // namespace lw::lowering
