// The points of one register tile: rows, each of which is cut into vectors. Internal.
#pragma once

#include <cstdint>
#include <vector>

#include "src/kernel/kernel.h"
#include "src/lower/tiles/tile.h"
#include "src/lower/values/evaluate.h"

namespace lw::lowering {

// One point of the unrolled loops.
struct Row {
  std::vector<AxisState> axes;
  std::vector<int64_t> offset;             // of each axis, from the tile's first point

  void move(int axis, int64_t by) {
    axes[axis].base = axes[axis].base + affine(by);
    offset[axis] += by;
  }
};

bool is_vector(const Loop& loop);
int vector_axis(const Frame& f);           // -1: the stage has no vector loop

bool vector_reduces(const Frame& f);       // its lanes run along the reduction
// All rows of the tile. `reductions` false: of its spatial loops only.
std::vector<Row> rows_of(const Frame& f, bool reductions);

// Whether the tile holds several points of the axis.
bool unrolled(const Frame& f, int axis);
// Points of each axis that the tile unrolls; vectors of the vector axis.
std::vector<int64_t> unrolled_points(const Frame& f, bool reductions);

// Where a window slides over the rows: into the order of the places that it reads.
void order_by_place(const Frame& f, std::vector<Row>& rows);

// Indices into `rows`: runs of `group` that follow each other along `axis` from a multiple of it
// and agree elsewhere, each where its first row stands, and single rows.
std::vector<std::vector<size_t>> bundles_of(const std::vector<Row>& rows, int axis, int64_t group);

// The vectors of a row (one point where the stage has none), and those that hold its results: where
// the lanes run along the reduction, as many as any row of the tile has.
std::vector<Chunk> chunks_of(const Frame& f, const Row& row);
std::vector<Chunk> result_chunks(const Frame& f, const Row& row);
// A result's place within the tile: its row's in the spatial axes, and its chunk's.
std::vector<int64_t> position(const Frame& f, const Row& row, const Chunk& chunk);

// The chunk of a row as a point over the tensor's axes. `va`: the axis it lies along, -1: none.
Point make_point(const Frame& f, Evaluator& evaluator, const Row& row, int va, const Chunk& chunk);

// Whether items answer differently what the guard asks around the stage's loops from `l` on, and all
// of them meet inside of these, where they fetch together.
bool parts_items(const Frame& f, int l, const Guard& guard);

}  // namespace lw::lowering
