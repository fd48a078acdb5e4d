#include "src/lower/values/slide.h"

#include <algorithm>
#include <set>

namespace lw::lowering {
namespace {

int64_t floor_to(int64_t value, int64_t multiple) {
  return value - (value % multiple + multiple) % multiple;
}

// The place, among those that are `lanes` apart, at which vectors are loaded whole: where the
// address is a multiple of them, if its loops keep it so, else the first that is asked for.
int64_t first_load(const Affine& address, int64_t first, int64_t lanes) {
  for (const Affine::Term& term : address.terms)
    if (term.coefficient % lanes != 0) return first;
  return floor_to(address.constant + first, lanes) - address.constant;
}

}  // namespace

void Slides::add(int buffer, const Affine& address, int lanes, std::vector<Neighbour> around,
                 absl::FunctionRef<Key(const Point&)> key_of) {
  std::sort(around.begin(), around.end());
  auto begin = std::find_if(around.begin(), around.end(),
                            [](const Neighbour& n) { return n.apart == 0; });
  if (begin == around.end()) return;
  auto end = begin + 1;
  while (begin != around.begin() && begin->apart - (begin - 1)->apart < lanes) --begin;
  while (end != around.end() && end->apart - (end - 1)->apart < lanes) ++end;
  const int64_t origin = first_load(address, begin->apart, lanes);
  std::set<int64_t> wanted, loaded;
  for (auto place = begin; place != end; ++place) {
    wanted.insert(place->apart);
    const int64_t below = floor_to(place->apart - origin, lanes);
    loaded.insert(below);
    if (origin + below != place->apart) loaded.insert(below + lanes);
  }
  const bool worth = loaded.size() < wanted.size();
  const int at = worth ? static_cast<int>(overlaps_.size()) : -1;
  for (auto place = begin; place != end; ++place)
    overlap_at_[key_of(*place->point)] = {at, place->apart - origin};
  if (!worth) return;
  overlaps_.push_back({buffer, address + affine(origin), begin->apart - origin,
                       (end - 1)->apart + lanes - origin, {}});
}

// The vector at a place from the origin, of which only what is asked for by some read need exist.
Value Slides::load_part(Memory& memory, Overlap& overlap, int64_t at, int lanes) {
  const auto [known, fresh] = overlap.loaded.try_emplace(at);
  if (!fresh) return known->second;
  Registers& registers = memory.registers();
  int mask = -1;
  if (at < overlap.first) {
    mask = registers.lane_mask(affine(at - overlap.first), 1, lanes).reg;
  } else if (at + lanes > overlap.last) {
    mask = registers.lane_mask(affine(overlap.last - at - 1), -1, lanes).reg;
  }
  Index address;
  address.base = overlap.origin + affine(at);
  address.lane = 1;
  return known->second = memory.load(overlap.buffer, address, lanes, mask);
}

Value Slides::load(Memory& memory, const Key& key, int lanes) {
  const auto [which, at] = overlap_at_.at(key);
  if (which < 0) return {};
  Overlap& overlap = overlaps_[which];
  const int64_t below = floor_to(at, lanes);
  const Value low = load_part(memory, overlap, below, lanes);
  if (at == below) return low;
  const Value high = load_part(memory, overlap, below + lanes, lanes);
  return memory.registers().slide(low, high, at - below);
}

}  // namespace lw::lowering
