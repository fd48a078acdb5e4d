// How points along the lanes are cut into vectors.
#pragma once

#include <bit>
#include <cstdint>

#include "schedules/targets/family.h"

namespace lw {

// Of the points that do not fill a last vector.
enum class Rest {
  kNone,
  kNarrow,   // one vector each for the powers of two that they are the sum of
  kMasked,   // one whole vector, some of whose lanes are off
  kOverlaps  // one whole vector that ends with them: what it shares with its neighbour is made twice
};

// `reduces`: the lanes run along a reduction, where no point may count twice and all partial sums are of
// one width. `anywhere`: a vector may begin at any point, not only at multiples of the lanes.
inline Rest rest_of(const RegisterFile& file, int64_t points, int lanes, bool reduces,
                    bool anywhere) {
  const int64_t rest = points % lanes;
  if (rest == 0) return Rest::kNone;
  if (reduces) return Rest::kMasked;
  if ((rest & (rest - 1)) == 0) return Rest::kNarrow;
  if (file.masks) return Rest::kMasked;
  return anywhere && file.processor && points >= lanes ? Rest::kOverlaps : Rest::kNarrow;
}

// How many vectors so many points take.
inline int64_t vectors_for(const RegisterFile& file, int64_t points, int lanes, bool reduces,
                           bool anywhere) {
  const int64_t whole = points / lanes;
  switch (rest_of(file, points, lanes, reduces, anywhere)) {
    case Rest::kNone: return whole;
    case Rest::kNarrow: return whole + std::popcount(static_cast<uint64_t>(points % lanes));
    case Rest::kMasked:
    case Rest::kOverlaps: break;
  }
  return whole + 1;
}

}  // namespace lw
