// Operands of dot products: for each lane the elements of `g` points that follow each other along
// the reduction.
//
//   what the points have in memory          becomes
//   one run of g, the same for all lanes    a load of g elements (the caller broadcasts it)
//   a run of g for each lane, one after     one load of lanes x g elements: a copy in groups
//     the other
//   anything else                           the points' vectors, interleaved
//
// What the addresses are is decided here, point by point, so no layout is required for a result to
// be right: a copy whose box does not start at a whole group, a row-major operand, a window under
// padding only cost more.
#include <algorithm>

#include "src/base/check.h"
#include "src/lower/evaluate.h"

namespace lw::lowering {
namespace {

bool is_zero(const Expr& expr) {
  return expr->op == ExprOp::kConst && (is_float(expr->type) ? expr->number : expr->integer) == 0;
}

// How far apart the places of the group's points are; 0 where not evenly, or lanes move otherwise.
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

}  // namespace

// Where a plain read of a tensor finds its element.
Evaluator::Place Evaluator::place_of(const Expr& read, const Point& point) {
  const int t = read->index;
  const Storage* storage = &e_.home[t];
  for (const Stage::Copy& copy : e_.nest.stages[stage_].copies) {
    if (copy.tensor == t) storage = &e_.copies[copy.stage];
  }
  Place place;
  place.buffer = storage->buffer;
  place.affine = true;
  std::vector<Index> local;
  const auto check = [&](const Index& i, int64_t extent) {
    Index active = i;                      // lanes past the chunk's end are masked anyway
    if (i.terms.empty() && i.lane != 0 && point.chunk.active < point.chunk.lanes) {
      active.range = make_index(e_, i.base, i.lane, point.chunk.active).range;
    }
    const Index last = make_index(e_, lw::affine(extent - 1), 0, 1);
    if (active.range.lo < 0) place.needs.push_back(active);
    if (active.range.hi >= extent) place.needs.push_back(add(last, active, -1));
  };
  for (size_t d = 0; d < read->args.size(); ++d) {
    const Index i = index(read->args[d], point);
    place.affine = place.affine && i.terms.empty();
    place.uniform = place.uniform && i.uniform();
    check(i, e_.tensor(t).shape[d]);
    local.push_back(localize(*storage, d, i, point));
    if (storage->shape[d] != e_.tensor(t).shape[d]) check(local.back(), storage->shape[d]);
  }
  place.address = flatten(*storage, local, point);
  place.affine = place.affine && place.address.terms.empty();
  return place;
}

// The mask of a point's lanes, each `group` times, also of what its place needs; nothing where it
// has another form.
std::optional<int> Evaluator::group_mask(const Point& point, int64_t group,
                                         const std::vector<Index>& needs) {
  const int lanes = point.chunk.lanes * static_cast<int>(group);
  int mask = -1;
  const auto require = [&](const Affine& base, int64_t stride) {
    Stmt stmt;
    stmt.op = Op::kLaneMask;
    stmt.dst = e_.new_register(Type::kBool, lanes);
    stmt.index = base;
    stmt.stride = stride;
    const Value all{stmt.dst, lanes};
    e_.emit(std::move(stmt));
    mask = mask < 0 ? all.reg : binary(ExprOp::kAnd, Type::kBool, {mask, lanes}, all).reg;
  };
  if (point.chunk.active < point.chunk.lanes) {
    require(affine(point.chunk.active * group - 1), -1);
  }
  std::vector<Index> all = point.valid;
  all.insert(all.end(), needs.begin(), needs.end());
  for (size_t i = 0; i < all.size(); ++i) {
    const Index& need = all[i];
    const bool known = std::any_of(all.begin(), all.begin() + i, [&](const Index& other) {
      return other.base == need.base && other.lane == need.lane;
    });
    if (need.range.lo >= 0 || known) continue;
    if (!need.terms.empty() || std::abs(need.lane) > 1) return std::nullopt;
    // base - l / group >= 0 is base * group + group - 1 - l >= 0, base + l / group >= 0 is
    // base * group + l >= 0.
    if (need.lane == 0) require(need.base, 0);
    else if (need.lane == 1) require(need.base * group, 1);
    else require(need.base * group + affine(group - 1), -1);
  }
  return mask;
}

Value Evaluator::load_group(const Expr& read, Group points) {
  if (std::any_of(read->args.begin(), read->args.end(), reads_tensor)) return {};
  std::vector<Index> places;
  const Place start = place_of(read, points[0]);
  const int buffer = start.buffer;
  for (const Point& point : points) {
    const Place place = place_of(read, point);
    if (!place.affine || place.needs.size() != start.needs.size()) return {};
    for (size_t i = 0; i < place.needs.size(); ++i) {
      const Index &mine = place.needs[i], &first = start.needs[i];
      if (!(mine.base == first.base) || mine.lane != first.lane) return {};
    }
    places.push_back(place.address);
  }
  const int64_t group = static_cast<int64_t>(points.size());
  const int64_t step = even_step(places);
  const Type type = e_.kernel.buffers[buffer].type;
  if (type != read->type) return {};
  const Point& first = points[0];
  Index address = places[0];
  if (address.uniform()) {
    if (step == 0 || !start.needs.empty()) return {};
    prefetch(read->index, buffer, address, type);
    address.lane = step;
    return emit_load(buffer, type, address, static_cast<int>(group), -1);
  }
  if (address.lane != group || step != 1) return {};
  const std::optional<int> mask = group_mask(first, group, start.needs);
  if (!mask) return {};
  prefetch(read->index, buffer, address, type);
  address.lane = 1;
  return emit_load(buffer, type, address, first.chunk.lanes * static_cast<int>(group), *mask);
}

Value Evaluator::interleave(std::vector<Value> values) {
  int lanes = 1;
  for (const Value& value : values) lanes = std::max(lanes, value.lanes);
  Stmt stmt;
  stmt.op = Op::kInterleave;
  for (const Value& value : values) stmt.many.push_back(broadcast(value, lanes).reg);
  const int all = lanes * static_cast<int>(values.size());
  stmt.dst = e_.new_register(type_of(values[0]), all);
  const Value result{stmt.dst, all};
  e_.emit(std::move(stmt));
  return result;
}

// Whether reading at the point is one load, with nothing selected afterwards.
bool Evaluator::loads_whole(const Expr& read, const Point& point) {
  if (std::any_of(read->args.begin(), read->args.end(), reads_tensor)) return false;
  const Place place = place_of(read, point);
  const bool exists = std::all_of(point.valid.begin(), point.valid.end(),
                                  [](const Index& v) { return v.range.lo >= 0; });
  const bool all = exists && point.chunk.active == point.chunk.lanes;
  return place.affine && place.needs.empty() &&
         (all || place.uniform || !place.address.uniform());
}

Value Evaluator::grouped(const Expr& expr, Group points, Type type) {
  std::vector<int64_t> key = cache_key(expr, points[0]);
  key.push_back(-static_cast<int64_t>(points.size()));
  if (auto it = cache_.find(key); it != cache_.end()) return it->second;
  // A pad that nothing here reaches is its read; where one does, zeros may stand for it.
  const Expr* read = &expr;
  if (expr->op == ExprOp::kPad && is_zero(expr->args[1])) read = &expr->args[0];
  const bool plain = (*read)->op == ExprOp::kRead && !overlay_.contains((*read)->index);
  const std::vector<Point>* tile = tile_;
  raw_ = true;
  Value result;
  if (plain) result = load_group(*read, points);
  if (result.reg < 0) {
    // Blocks transposed for one read serve others, which may want what raw loads do not give.
    if (register_type(type) != type) tile_ = nullptr;
    std::vector<Value> values;
    for (const Point& point : points) {
      raw_ = plain && expr->op == ExprOp::kRead && loads_whole(expr, point);
      const Value value = raw_ ? this->read(expr, point, nullptr) : evaluate(expr, point);
      values.push_back(convert(type, value));
    }
    result = interleave(std::move(values));
    tile_ = tile;
  }
  raw_ = false;
  cache_[key] = result;
  return result;
}

bool Evaluator::store_group(const Storage& storage, const Tensor& tensor, Group points,
                            const std::vector<Value>& values) {
  std::vector<Index> places;
  for (const Point& point : points) {
    std::vector<Index> local;
    for (size_t d = 0; d < tensor.shape.size(); ++d)
      local.push_back(localize(storage, d, point.axis[d], point));
    places.push_back(flatten(storage, local, point));
    if (!places.back().terms.empty()) return false;
  }
  const int64_t group = static_cast<int64_t>(points.size());
  const bool lanes_follow = places[0].uniform() ? points[0].chunk.lanes == 1
                                                : places[0].lane == group;
  const std::optional<int> mask = group_mask(points[0], group, {});
  if (!lanes_follow || even_step(places) != 1 || !mask) return false;
  std::vector<Value> vectors;
  for (const Value& value : values) vectors.push_back(broadcast(value, points[0].chunk.lanes));
  Stmt stmt;
  stmt.op = Op::kStore;
  stmt.buffer = storage.buffer;
  stmt.index = places[0].base;
  stmt.stride = 1;
  stmt.srcs[0] = interleave(std::move(vectors)).reg;
  stmt.mask = *mask;
  e_.kernel.buffers[storage.buffer].written = true;
  e_.emit(std::move(stmt));
  return true;
}

}  // namespace lw::lowering
