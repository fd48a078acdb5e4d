#include "src/lower/values/memory.h"

#include <algorithm>
#include <cstdlib>

#include "src/base/message.h"

namespace lw::lowering {

const Storage& Memory::storage_of(int tensor) const {
  for (const Stage::Copy& copy : stage_.copies) {
    if (copy.tensor == tensor) return e_.copies[copy.stage];
  }
  return e_.home[tensor];
}

Stmt Memory::load_statement(int buffer, const Index& address, int lanes, int mask) {
  Stmt stmt;
  stmt.op = Op::kLoad;
  stmt.buffer = buffer;
  stmt.index = address.base;
  stmt.stride = address.lane;
  stmt.mask = mask;
  if (!address.terms.empty()) {
    Index varying = address;
    varying.base = {};
    stmt.indices = registers().of_index(varying, Type::kI64, lanes).reg;
    stmt.stride = 0;
  }
  return stmt;
}

Value Memory::loaded(Value value) {
  return raw_ ? value : registers().cast(registers().type_of(value), value);
}

Value Memory::load(int buffer, const Index& address, int lanes, int mask) {
  Stmt stmt = load_statement(buffer, address, lanes, mask);
  stmt.dst = e_.new_register(type_of(buffer), lanes);
  const Value value{stmt.dst, lanes};
  e_.emit(std::move(stmt));
  return loaded(value);
}

Value Memory::load_scalar(int buffer, const Index& address) {
  for (const Scalar& known : scalars_) {
    if (known.buffer == buffer && known.raw == raw_ && known.address == address.base)
      return known.value;
  }
  const Value value = load(buffer, address, 1, -1);
  scalars_.push_back({buffer, raw_, address.base, value});
  return value;
}

Value Memory::load_element(const Storage& storage, int tensor, std::vector<Index> local,
                           const Point& point) {
  // A scalar past a masked tail: some element inside is read, and dropped with the rest of the
  // point.
  const bool exists = std::all_of(point.valid.begin(), point.valid.end(),
                                  [](const Index& v) { return v.range.lo >= 0; });
  const bool scalar =
      std::all_of(local.begin(), local.end(), [](const Index& i) { return i.uniform(); });
  for (size_t d = 0; scalar && !exists && d < local.size(); ++d) {
    const Affine last = affine(storage.shape[d] - 1);
    if (known_at_least_zero(e_, last - local[d].base)) continue;
    local[d] = make_index(e_, e_.emit_int(Stmt::IntOp::kMin, local[d].base, last, 1), 0, 1);
  }
  const Index address = addressing_.flatten(storage, local, point);
  prefetch(tensor, storage.buffer, address);
  if (address.uniform()) return load_scalar(storage.buffer, address);
  return load(storage.buffer, address, point.chunk.lanes, point_mask(registers(), point));
}

Value Memory::load_either(int buffer, const std::vector<Affine>& needs, const Index& then,
                          const Index& otherwise, int lanes, int mask) {
  Stmt choice;
  choice.kind = Stmt::Kind::kIf;
  choice.conditions = needs;
  Stmt one = load_statement(buffer, then, lanes, mask);
  Stmt other = load_statement(buffer, otherwise, lanes, mask);
  one.dst = other.dst = e_.new_register(type_of(buffer), lanes);
  const Value value{one.dst, lanes};
  choice.body.push_back(std::move(one));
  choice.otherwise.push_back(std::move(other));
  e_.count(2);
  e_.emit(std::move(choice));
  return loaded(value);
}

void Memory::prefetch(int tensor, int buffer, const Index& address) {
  for (const Stage::Prefetch& p : stage_.prefetches) {
    if (p.tensor != tensor || p.distance == 0) continue;
    // How far each of the loops around moves the address, from inside out.
    std::vector<int64_t> moves;
    for (auto var = vars_.rbegin(); var != vars_.rend(); ++var) {
      for (const Affine::Term& term : address.base.terms) {
        if (term.var == *var) moves.push_back(term.coefficient);
      }
    }
    if (p.loop >= static_cast<int>(moves.size())) continue;
    const Affine ahead = address.base + affine(p.distance * moves[p.loop]);
    const int64_t line = 64 / size_of(type_of(buffer));
    const bool done = std::any_of(prefetched_.begin(), prefetched_.end(), [&](const auto& seen) {
      if (seen.first != buffer) return false;
      const Affine apart = ahead - seen.second;
      return apart.is_constant() && std::abs(apart.constant) < line;
    });
    if (done) continue;
    prefetched_.emplace_back(buffer, ahead);
    Stmt stmt;
    stmt.op = Op::kPrefetch;
    stmt.buffer = buffer;
    stmt.index = ahead;
    stmt.integer = 3;
    e_.emit(std::move(stmt));
  }
}

std::vector<Index> Memory::localized(const Storage& storage, const Point& point) const {
  std::vector<Index> local;
  for (size_t d = 0; d < storage.shape.size(); ++d)
    local.push_back(localize(e_, storage, d, point.axis[d], point));
  return local;
}

void Memory::store(const Storage& storage, const Point& point, Value value, bool non_temporal) {
  const Index address = addressing_.flatten(storage, localized(storage, point), point);
  if (!address.terms.empty()) {
    // Lanes along a fused axis whose parts do not lie in memory in its order.
    if (e_.failure.ok()) {
      e_.failure = infeasible(concat("a vector of ", e_.kernel.buffers[storage.buffer].name,
                                     " would be stored to scattered places"));
    }
    return;
  }
  const int lanes = address.uniform() ? 1 : point.chunk.lanes;
  value = registers().convert(type_of(storage.buffer), value);
  value = registers().broadcast(value, std::max(lanes, value.lanes));
  Stmt stmt;
  stmt.op = Op::kStore;
  stmt.buffer = storage.buffer;
  stmt.index = address.base;
  stmt.stride = lanes == 1 ? 0 : address.lane;
  stmt.srcs[0] = value.reg;
  stmt.non_temporal = non_temporal && lanes > 1 && address.lane == 1;
  e_.kernel.buffers[storage.buffer].written = true;
  if (lanes == 1) return store_scalar(std::move(stmt), point);
  stmt.mask = point_mask(registers(), point);
  e_.emit(std::move(stmt));
}

// Guarded where it may lie past a masked tail.
void Memory::store_scalar(Stmt store, const Point& point) {
  Stmt guard;
  guard.kind = Stmt::Kind::kIf;
  for (const Index& valid : point.valid) {
    if (valid.range.hi < 0) return;
    if (valid.range.lo < 0) guard.conditions.push_back(valid.base);
  }
  if (guard.conditions.empty()) {
    e_.emit(std::move(store));
  } else {
    guard.body.push_back(std::move(store));
    e_.emit(std::move(guard));
  }
}

bool Memory::store_group(const Storage& storage, absl::Span<const Point> points,
                         const std::vector<Value>& values) {
  std::vector<Index> places;
  for (const Point& point : points) {
    places.push_back(addressing_.flatten(storage, localized(storage, point), point));
    if (!places.back().terms.empty()) return false;
  }
  const Point& first = points[0];
  const int64_t group = static_cast<int64_t>(points.size());
  const bool lanes_follow =
      places[0].uniform() ? first.chunk.lanes == 1 : places[0].lane == group;
  const std::optional<int> mask = group_mask(registers(), first, group, {});
  if (!lanes_follow || even_step(places) != 1 || !mask) return false;
  std::vector<Value> vectors;
  for (const Value& value : values) {
    vectors.push_back(registers().broadcast(value, first.chunk.lanes));
  }
  Stmt stmt;
  stmt.op = Op::kStore;
  stmt.buffer = storage.buffer;
  stmt.index = places[0].base;
  stmt.stride = 1;
  stmt.srcs[0] = registers().interleave(vectors).reg;
  stmt.mask = *mask;
  e_.kernel.buffers[storage.buffer].written = true;
  e_.emit(std::move(stmt));
  return true;
}

int64_t even_step(const std::vector<Index>& places) {
  int64_t step = 0;
  for (size_t i = 1; i < places.size(); ++i) {
    const Affine apart = places[i].base - places[0].base;
    if (!apart.is_constant() || places[i].lane != places[0].lane) return 0;
    if (i == 1) step = apart.constant;
    if (apart.constant != step * static_cast<int64_t>(i)) return 0;
  }
  return step;
}

}  // namespace lw::lowering
