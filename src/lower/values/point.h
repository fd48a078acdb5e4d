// A point of a register tile, or a vector of them, and the masks of those that exist. Internal to
// src/lower.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "src/lower/values/registers.h"

namespace lw::lowering {

// A vector of consecutive points of the vector axis: `active` of `lanes` lanes exist.
struct Chunk {
  int64_t offset = 0;
  int lanes = 1;
  int active = 1;
};

// One point (or vector of points) of a stage: the value of every axis of its TENSOR there, and a
// key for each axis that equals another point's key exactly when the values are equal within the
// tile.
struct Point {
  std::vector<Index> axis;
  std::vector<int64_t> key;
  std::vector<bool> varies;                // the axis differs between lanes
  std::vector<Index> valid;                // exists only where all of these are >= 0,
  std::vector<bool> dropped;               // of which these, where they fail, are not stored
  bool bounded = false;                    // the ranges of its axes hold only where it exists
  Chunk chunk;
};

// What a read finds at a point of the tile, `apart` elements from what it finds at another. In
// order of that, and of the tile's points.
struct Neighbour {
  int64_t apart;
  const Point* point;
  auto operator<=>(const Neighbour&) const = default;
};

// A condition: known here already, or a register.
struct Truth {
  std::optional<bool> known;
  Value value;
};
Truth both(Registers& registers, const Truth& a, const Truth& b);
Truth at_least_zero(Registers& registers, const Index& index, int lanes);

Truth lanes_exist(Registers& registers, const Point& point);  // the chunk's active lanes
Truth exists(Registers& registers, const Point& point);       // those at which the point is valid
// Its validity as a mask of its lanes; -1 where all lanes exist.
int point_mask(Registers& registers, const Point& point);
// The mask with each lane `group` times, on only where also all `needs` are >= 0; nothing where it
// has another form.
std::optional<int> group_mask(Registers& registers, const Point& point, int64_t group,
                              const std::vector<Index>& needs);

}  // namespace lw::lowering
