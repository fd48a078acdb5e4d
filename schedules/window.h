// Windows that slide: where a reduction and the rows of a register tile move a read along the same
// dimension (the taps and the pixels of a depthwise convolution), one place is in the windows of
// several results. In the order of the places, each is loaded once for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "schedules/access.h"
#include "src/expr/expr.h"

namespace lw {

// Whether a reduction and a spatial axis of which a tile has several points move one of the reads
// along the same dimension. `points`: of each axis of the stage, vectors of `vector_axis` (-1:
// none), which do not count.
bool slides(const Stage& stage, absl::Span<const ReadSteps> reads,
            absl::Span<const int64_t> points, int vector_axis);

struct Window {
  int read = -1;                           // that slides: index into the reads
  double loads = 0;                        // vectors (or elements) of the whole tile, of all reads
  int64_t registers = 0;                   // accumulators, what does not slide, one that does
};
// Of a tile of so many points. nullopt: nothing slides, or the target has too few registers to hold
// what serves all places.
std::optional<Window> window_of(const Nest& nest, int stage, absl::Span<const ReadSteps> reads,
                                absl::Span<const int64_t> points, int vector_axis);
// Vectors that a read takes on that tile, those at one place once; those of other places of the
// vector axis apart.
int64_t places_of(const ReadSteps& read, absl::Span<const int64_t> points, int vector_axis);

// n of a condition `index % n == c`; of anything else 1.
int64_t modulus_of(const ExprNode& condition);
// After how many points of the axis the same conditions `index % n == 0` hold again; 1: at once. A
// tile of other sizes starts at another remainder each time, so that its rows decide at run time.
int64_t period(const Nest& nest, int stage, int axis);

// Whether reductions of a tile of so many points move a read along the lanes, to places where its
// vectors overlap. `points`: of each axis of the stage.
bool overlaps(const Nest& nest, int stage, absl::Span<const int64_t> points, int vector_axis);
bool overlaps(const Nest& nest, int stage);  // in the register tile that the stage has

}  // namespace lw
