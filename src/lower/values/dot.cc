#include "src/lower/values/dot.h"

#include <algorithm>

namespace lw::lowering {

ReadPlace place_of(Memory& memory, const Expr& read, const Point& point,
                   absl::FunctionRef<Index(const Expr&)> index_of) {
  const Emitter& e = memory.emitter();
  const std::vector<int64_t>& shape = e.tensor(read->index).shape;
  const Storage& storage = memory.storage_of(read->index);
  ReadPlace place;
  place.buffer = storage.buffer;
  std::vector<Index> local;
  const auto check = [&](const Index& i, int64_t extent) {
    Index active = i;                      // lanes past the chunk's end are masked anyway
    if (i.terms.empty() && i.lane != 0 && point.chunk.active < point.chunk.lanes) {
      active.range = make_index(e, i.base, i.lane, point.chunk.active).range;
    }
    const Index last = make_index(e, affine(extent - 1), 0, 1);
    if (active.range.lo < 0) place.needs.push_back(active);
    if (active.range.hi >= extent) place.needs.push_back(add(last, active, -1));
  };
  for (size_t d = 0; d < read->args.size(); ++d) {
    const Index i = index_of(read->args[d]);
    place.affine = place.affine && i.terms.empty();
    place.uniform = place.uniform && i.uniform();
    check(i, shape[d]);
    local.push_back(localize(e, storage, d, i, point));
    if (storage.shape[d] != shape[d]) check(local.back(), storage.shape[d]);
  }
  place.address = memory.addressing().flatten(storage, local, point);
  place.affine = place.affine && place.address.terms.empty();
  return place;
}

bool loads_whole(const ReadPlace& place, const Point& point) {
  const bool exists = std::all_of(point.valid.begin(), point.valid.end(),
                                  [](const Index& v) { return v.range.lo >= 0; });
  const bool all = exists && point.chunk.active == point.chunk.lanes;
  return place.affine && place.needs.empty() &&
         (all || place.uniform || !place.address.uniform());
}

Value load_group(Memory& memory, const Expr& read, absl::Span<const Point> points,
                 absl::FunctionRef<ReadPlace(const Point&)> place_at) {
  const Point& first = points[0];
  const ReadPlace start = place_at(first);
  std::vector<Index> places;
  for (const Point& point : points) {
    const ReadPlace place = place_at(point);
    if (!place.affine || place.needs.size() != start.needs.size()) return {};
    for (size_t i = 0; i < place.needs.size(); ++i) {
      const Index &mine = place.needs[i], &need = start.needs[i];
      if (!(mine.base == need.base) || mine.lane != need.lane) return {};
    }
    places.push_back(place.address);
  }
  if (memory.type_of(start.buffer) != read->type) return {};
  const int64_t group = static_cast<int64_t>(points.size());
  const int64_t step = even_step(places);
  Index address = places[0];
  if (address.uniform()) {
    if (step == 0 || !start.needs.empty()) return {};
    memory.prefetch(read->index, start.buffer, address);
    address.lane = step;
    return memory.load(start.buffer, address, static_cast<int>(group), -1);
  }
  if (address.lane != group || step != 1) return {};
  const std::optional<int> mask = group_mask(memory.registers(), first, group, start.needs);
  if (!mask) return {};
  memory.prefetch(read->index, start.buffer, address);
  address.lane = 1;
  return memory.load(start.buffer, address, first.chunk.lanes * static_cast<int>(group), *mask);
}

}  // namespace lw::lowering
