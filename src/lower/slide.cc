// Vectors that overlap: where taps of a window move a read along its lanes, neighbouring vectors are
// loaded once, and those that lie between are slid out of two in registers: a load that crosses a
// cache line costs more than a shuffle.
#include <algorithm>
#include <set>

#include "src/lower/evaluate.h"

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

// All places of this read at the tile's points that a gap smaller than a vector parts from this one.
void Evaluator::find_overlap(const Storage& storage, const Index& address, const Point& point,
                             const Expr& expr) {
  const int64_t lanes = point.chunk.lanes;
  std::vector<std::pair<int64_t, const Point*>> places;
  for (const Point& other : *tile_) {
    const bool whole = other.chunk.lanes == lanes && other.chunk.active == lanes;
    if (!whole || !other.valid.empty()) continue;
    const std::optional<Index> place = address_inside(storage, expr, other);
    if (!place) continue;
    const Index apart = add(*place, address, -1);
    if (apart.base.is_constant() && apart.uniform())
      places.emplace_back(apart.base.constant, &other);
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  auto begin = std::find_if(places.begin(), places.end(), [](const auto& p) { return p.first == 0; });
  if (begin == places.end()) return;
  auto end = begin + 1;
  while (begin != places.begin() && begin->first - (begin - 1)->first < lanes) --begin;
  while (end != places.end() && end->first - (end - 1)->first < lanes) ++end;
  const int64_t origin = first_load(address.base, begin->first, lanes);
  std::set<int64_t> wanted, loaded;
  for (auto place = begin; place != end; ++place) {
    wanted.insert(place->first);
    const int64_t below = floor_to(place->first - origin, lanes);
    loaded.insert(below);
    if (origin + below != place->first) loaded.insert(below + lanes);
  }
  const bool worth = loaded.size() < wanted.size();
  const int at = worth ? static_cast<int>(overlaps_.size()) : -1;
  for (auto place = begin; place != end; ++place)
    overlap_at_[cache_key(expr, *place->second)] = {at, place->first - origin};
  if (!worth) return;
  overlaps_.push_back({storage.buffer, e_.kernel.buffers[storage.buffer].type,
                       address.base + affine(origin), begin->first - origin,
                       (end - 1)->first + lanes - origin, {}});
}

// The vector at a place from the origin, of which only what is asked for by some read need exist.
Value Evaluator::load_part(Overlap& overlap, int64_t at, int lanes) {
  const auto [known, fresh] = overlap.loaded.try_emplace(at);
  if (!fresh) return known->second;
  Stmt mask;
  mask.op = Op::kLaneMask;
  if (at < overlap.first) {
    mask.index = affine(at - overlap.first);
    mask.stride = 1;
  } else if (at + lanes > overlap.last) {
    mask.index = affine(overlap.last - at - 1);
    mask.stride = -1;
  }
  if (mask.stride != 0) {
    mask.dst = e_.new_register(Type::kBool, lanes);
    e_.emit(mask);
  }
  Index address;
  address.base = overlap.origin + affine(at);
  address.lane = 1;
  return known->second = emit_load(overlap.buffer, overlap.type, address, lanes, mask.dst);
}

Value Evaluator::slid_load(const Storage& storage, const Index& address, const Point& point,
                           const Expr& expr) {
  const std::vector<int64_t> key = cache_key(expr, point);
  if (overlap_at_.try_emplace(key, -1, 0).second) find_overlap(storage, address, point, expr);
  const auto [which, at] = overlap_at_.at(key);
  if (which < 0) return {};
  Overlap& overlap = overlaps_[which];
  const int lanes = point.chunk.lanes;
  const int64_t below = floor_to(at, lanes);
  const Value low = load_part(overlap, below, lanes);
  if (at == below) return low;
  const Value high = load_part(overlap, below + lanes, lanes);
  Stmt slide;
  slide.op = Op::kSlide;
  slide.srcs[0] = low.reg;
  slide.srcs[1] = high.reg;
  slide.integer = at - below;
  slide.dst = e_.new_register(type_of(low), lanes);
  const Value value{slide.dst, lanes};
  e_.emit(std::move(slide));
  return value;
}

}  // namespace lw::lowering
