// Vectors that overlap. Internal to src/lower.
//
// Where taps of a window move a read along its lanes, neighbouring vectors are loaded once, and
// those that lie between are slid out of two in registers: a load that crosses a cache line costs
// more than a shuffle.
#pragma once

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "src/lower/values/memory.h"

namespace lw::lowering {

class Slides {
 public:
  using Key = std::vector<int64_t>;        // of a read at a point

  // Whether nobody has asked for it before; from now on it is known to be in no overlap.
  bool first_asked(const Key& key) { return overlap_at_.try_emplace(key, -1, 0).second; }
  // All places of one read that a gap smaller than a vector parts from the one at `address` become
  // known. `around`: vectors of `lanes` points that all exist.
  void add(int buffer, const Affine& address, int lanes, std::vector<Neighbour> around,
           absl::FunctionRef<Key(const Point&)> key_of);
  // No register where sliding does not save loads. REQUIRES: it was asked for first.
  Value load(Memory& memory, const Key& key, int lanes);

 private:
  // Places of one read of which neighbours overlap.
  struct Overlap {
    int buffer = -1;
    Affine origin;                         // where a vector is loaded; others are lanes apart
    int64_t first = 0, last = 0;           // from there: elements that exist, the last excluded
    absl::flat_hash_map<int64_t, Value> loaded;  // by their places from the origin
  };
  static Value load_part(Memory& memory, Overlap& overlap, int64_t at, int lanes);

  std::vector<Overlap> overlaps_;
  absl::flat_hash_map<Key, std::pair<int, int64_t>> overlap_at_;  // -1: in none
};

}  // namespace lw::lowering
