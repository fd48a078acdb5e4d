// Copies of operands in the layout that a schedule gives them (packed panels), as tensors of their
// own: made before what reads them, of which a script puts into loops what stands there; or once
// before all calls, where the operand is const.
//
// A copy in blocks holds [position / block][other dimensions][position % block]. For a reader to
// find it by multiples of axes, the axis that runs along these positions is cut: over blocks, and
// over the points of each.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/nest.h"
#include "src/export/fidelity.h"

namespace lw {

struct Packing {
  int copy;                                // of Nest::stages
  int tensor;                              // of Nest::program: what is copied
  int dim = -1;                            // of it: cut into blocks; -1: row-major
  int64_t block = 0;
  int axis = -1;                           // of its reader: along the blocks; -1: none
  int depth = 0;                           // loops of its reader around it
  std::vector<int64_t> shape;              // of the copy
  bool once = false;                       // it is an argument, made by SYMBOL_prepack
  Fidelity fidelity;                       // lost: it is not made
};

inline bool is_made(const Packing& packing) { return packing.fidelity.grade != Grade::kLost; }

// Of each copy that the stage reads, in order.
std::vector<Packing> packings_of(const Nest& nest, int stage);

// Whether each loop over the axis runs over whole blocks, or inside of one.
bool cuts_at_blocks(const Stage& stage, int axis, int64_t block);

// Whether it is an axis divided by a constant, or what remains.
bool is_part_of_axis(const ExprNode& e);

// Into blocks of how many points each axis of the stage is cut, largest first, whole ones of the next
// in each: as its own indices divide the axis, and as copies for it are packed. Of what finishes the
// results of another stage, that one's. Empty: the axis is not cut.
std::vector<std::vector<int64_t>> axis_blocks(const Nest& nest, int stage);

}  // namespace lw
