// Reads and writes at a point: addresses, masks at the edges, in-register transposes, prefetches.
//
// A read whose index may leave the tensor (under `pad` or `where`) is masked by its own bounds, so
// no lane ever touches memory outside. Where the lanes of a read are a stride apart but an unrolled
// axis of the tile runs along memory, lanes x lanes blocks are loaded along memory and transposed
// in registers: log2(lanes) shuffles a vector instead of `lanes` element loads.
#include <algorithm>

#include "src/base/check.h"
#include "src/lower/evaluate.h"

namespace lw::lowering {
// A dimension's index within the storage's box, with the tightest range that is known.
Index Evaluator::localize(const Storage& s, size_t d, const Index& index, const Point& point) {
  Index local = add(index, make_index(e_, s.origin[d], 0, 1), -1);
  if (!local.terms.empty()) return local;
  const Interval exact =
      make_index(e_, local.base, local.lane, local.lane == 0 ? 1 : point.chunk.active).range;
  local.range = {std::max(local.range.lo, exact.lo), std::min(local.range.hi, exact.hi)};
  local.range.hi = std::max(local.range.hi, local.range.lo);
  return local;
}

// Address of a point in elements, given its indices within the box: row-major, or in blocks and
// groups.
Index Evaluator::flatten(const Storage& s, const std::vector<Index>& local, const Point& point) {
  Index address;
  int64_t stride = 1;
  if (s.group_dim >= 0) {
    address = divide(local[s.group_dim], s.group, true, point);
    stride = s.group;
  }
  // A box within one block has no others: what is read of it needs no remainder, and none could be
  // shown to stay inside where the box moves.
  const bool one_block = s.block_dim >= 0 && s.shape[s.block_dim] <= s.block;
  if (s.block_dim >= 0) {
    const Index& at = local[s.block_dim];
    address = add(address, one_block ? at : divide(at, s.block, true, point), stride);
    stride *= s.block;
  }
  for (int d = static_cast<int>(local.size()) - 1; d >= 0; --d) {
    if (d == s.block_dim) continue;
    const bool groups = d == s.group_dim;
    address = add(address, groups ? divide(local[d], s.group, false, point) : local[d], stride);
    stride *= groups ? (s.shape[d] + s.group - 1) / s.group : s.shape[d];
  }
  if (s.block_dim >= 0 && !one_block) {
    address = add(address, divide(local[s.block_dim], s.block, false, point), stride);
  }
  cancel_quotients(address);
  return address;
}

Value Evaluator::read(const Expr& expr, const Point& point, Truth* in_bounds) {
  const int t = expr->index;
  if (auto over = overlay_.find(t); over != overlay_.end() && in_bounds == nullptr)
    return over->second;
  const Storage* storage = &e_.home[t];
  for (const Stage::Copy& copy : e_.nest.stages[stage_].copies) {
    if (copy.tensor == t) storage = &e_.copies[copy.stage];
  }
  CHECK(storage->buffer >= 0);
  const Tensor& tensor = e_.tensor(t);
  std::vector<Index> indices;
  Truth rows{true, {}}, lanes{true, {}};   // the bounds that all lanes share, and the others
  const auto bound = [&](const Index& index, int64_t extent) {
    Truth& of = index.uniform() ? rows : lanes;
    of = both(of, at_least_zero(index, point));
    const Index last = make_index(e_, affine(extent - 1), 0, 1);
    of = both(of, at_least_zero(add(last, index, -1), point));
  };
  for (size_t d = 0; d < expr->args.size(); ++d) {
    const bool gather = in_bounds == nullptr && reads_tensor(expr->args[d]);
    Index i =
        gather ? gather_index(expr->args[d], point, tensor.shape[d]) : index(expr->args[d], point);
    // Lanes past the chunk's end do not count: they are masked anyway.
    Index active = i;
    if (i.terms.empty() && i.lane != 0 && point.chunk.active < point.chunk.lanes) {
      active.range = make_index(e_, i.base, i.lane, point.chunk.active).range;
    }
    bound(active, tensor.shape[d]);
    indices.push_back(std::move(i));
  }
  if (in_bounds != nullptr) *in_bounds = both(rows, lanes);
  // The box of a copy or an attached producer holds all that is read inside the tensor; where
  // ranges do not show it, the address is checked too.
  std::vector<Index> local;
  for (size_t d = 0; d < indices.size(); ++d) {
    local.push_back(localize(*storage, d, indices[d], point));
    if (storage->shape[d] != tensor.shape[d]) bound(local[d], storage->shape[d]);
  }
  if (rows.known == false || lanes.known == false) return immediate(tensor.type, 0, 0, 1);
  // Where a bound that all lanes share is not known, the nearest element inside is read instead and
  // dropped: even a load whose lanes are all off takes a fault beside memory that is not there.
  for (size_t d = 0; d < local.size() && !rows.known; ++d) {
    if (local[d].uniform())
      local[d] = make_index(e_, e_.clamp(local[d].base, storage->shape[d]), 0, 1);
  }
  const Value value = read_inside(*storage, expr, local, lanes, rows.known.has_value(), point);
  return rows.known ? value : select(rows.value, value, zero_like(value));
}

// A read of which only single lanes may be outside. `settled`: its address is not a clamped one.
Value Evaluator::read_inside(const Storage& storage, const Expr& expr,
                             const std::vector<Index>& local, Truth inside, bool settled,
                             const Point& point) {
  const bool uniform =
      std::all_of(local.begin(), local.end(), [](const Index& i) { return i.uniform(); });
  if (uniform) return load(storage, expr->index, local, point, true);
  const Index address = flatten(storage, local, point);
  const Buffer& buffer = e_.kernel.buffers[storage.buffer];
  int mask = -1;
  const Truth lanes_on = both(inside, point.bounded ? exists(point) : lanes_exist(point));
  if (!lanes_on.known) mask = broadcast(lanes_on.value, point.chunk.lanes).reg;
  prefetch(expr->index, storage.buffer, address, buffer.type);
  if (address.uniform()) {
    if (mask < 0) return load_scalar(storage.buffer, buffer.type, address);
    // One element for all lanes, though their indices differ: it exists if any lane is on.
    const Affine clamped = e_.clamp(address.base, buffer.elements);
    const Value scalar =
        emit_load(storage.buffer, buffer.type, make_index(e_, clamped, 0, 1), 1, -1);
    return select({mask, point.chunk.lanes}, scalar, zero_like(scalar));
  }
  if (settled && mask < 0 && address.terms.empty() && tile_ != nullptr) {
    Value value;
    if (std::abs(address.lane) > 1) value = transposed_load(storage, address, point, expr);
    else if (address.lane == 1 && e_.nest.stages[stage_].slide)
      value = slid_load(storage, address, point, expr);
    if (value.reg >= 0) return value;
  }
  if (!address.terms.empty()) {
    if (const std::optional<Interior> inside = interior(storage, expr, local, point))
      return border_load(storage.buffer, buffer.type, *inside, address, point.chunk.lanes, mask);
  }
  return emit_load(storage.buffer, buffer.type, address, point.chunk.lanes, mask);
}

// As it was loaded: copies keep 16-bit floats.
Value Evaluator::zero_like(Value value) {
  const Type type = type_of(value);
  return convert(type, immediate(type, 0, 0, 1));
}

Value Evaluator::load(const Storage& storage, int t, std::vector<Index> local, const Point& point,
                      bool prefetches) {
  // A scalar past a masked tail: some element inside is read, and dropped with the rest of the
  // point.
  const bool exists = std::all_of(point.valid.begin(), point.valid.end(),
                                  [](const Index& v) { return v.range.lo >= 0; });
  const bool scalar =
      std::all_of(local.begin(), local.end(), [](const Index& i) { return i.uniform(); });
  for (size_t d = 0; scalar && !exists && d < local.size(); ++d) {
    const Affine last = affine(storage.shape[d] - 1);
    if (known_at_least_zero(e_, last - local[d].base)) continue;
    const Affine inside =
        e_.emit_int(Stmt::IntOp::kMin, local[d].base, last, 1);
    local[d] = make_index(e_, inside, 0, 1);
  }
  const Index address = flatten(storage, local, point);
  const Type type = e_.kernel.buffers[storage.buffer].type;
  if (prefetches) prefetch(t, storage.buffer, address, type);
  if (address.uniform()) return load_scalar(storage.buffer, type, address);
  return emit_load(storage.buffer, type, address, point.chunk.lanes, point_mask(point));
}

// Points whose indices differ may share an element, such as the channels of one group.
Value Evaluator::load_scalar(int buffer, Type type, const Index& address) {
  for (const Scalar& known : scalars_) {
    if (known.buffer == buffer && known.raw == raw_ && known.address == address.base)
      return known.value;
  }
  const Value value = emit_load(buffer, type, address, 1, -1);
  scalars_.push_back({buffer, raw_, address.base, value});
  return value;
}

// Into no register yet.
Stmt Evaluator::load_statement(int buffer, const Index& address, int lanes, int mask) {
  Stmt stmt;
  stmt.op = Op::kLoad;
  stmt.buffer = buffer;
  stmt.index = address.base;
  stmt.stride = address.lane;
  stmt.mask = mask;
  if (!address.terms.empty()) {
    Index varying = address;
    varying.base = {};
    stmt.indices = vector_index(varying, lanes);
    stmt.stride = 0;
  }
  return stmt;
}

Value Evaluator::emit_load(int buffer, Type type, const Index& address, int lanes, int mask) {
  Stmt stmt = load_statement(buffer, address, lanes, mask);
  stmt.dst = e_.new_register(type, lanes);
  const Value value{stmt.dst, lanes};
  e_.emit(std::move(stmt));
  return raw_ ? value : cast(register_type(type), value);
}

std::optional<Index> Evaluator::address_inside(const Storage& storage, const Expr& expr,
                                               const Point& point) {
  std::vector<Index> local;
  for (size_t d = 0; d < expr->args.size(); ++d) {
    if (reads_tensor(expr->args[d])) return std::nullopt;
    const Index at = index(expr->args[d], point);
    if (at.range.lo < 0 || at.range.hi >= e_.tensor(expr->index).shape[d]) return std::nullopt;
    local.push_back(localize(storage, d, at, point));
  }
  return flatten(storage, local, point);
}

// Finds, among the tile's points, `lanes` whose addresses for this read follow each other by one
// element (an unrolled axis along memory), loads along that axis and transposes.
Value Evaluator::transposed_load(const Storage& storage, const Index& address, const Point& point,
                                 const Expr& expr) {
  const int buffer = storage.buffer;
  const Type type = e_.kernel.buffers[buffer].type;
  const int lanes = point.chunk.lanes;
  if ((lanes & (lanes - 1)) != 0 || lanes < 2) return {};
  std::vector<std::pair<int64_t, const Point*>> candidates;
  for (const Point& other : *tile_) {
    if (other.chunk.offset != point.chunk.offset || other.chunk.lanes != lanes) continue;
    // With all its lanes: whole rows are loaded.
    const std::optional<Index> place = address_inside(storage, expr, other);
    if (!place) continue;
    const Index there = add(*place, address, -1);
    if (!there.base.is_constant() || !there.uniform()) continue;
    if (std::any_of(candidates.begin(), candidates.end(),
                    [&](const auto& c) { return c.first == there.base.constant; })) {
      continue;
    }
    candidates.emplace_back(there.base.constant, &other);
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  // The aligned group of `lanes` consecutive offsets that holds offset 0.
  const auto self = std::find_if(candidates.begin(), candidates.end(),
                                 [](const auto& c) { return c.first == 0; });
  const size_t first = (self - candidates.begin()) / lanes * lanes;
  if (first + lanes > candidates.size()) return {};
  for (int i = 0; i < lanes; ++i) {
    if (candidates[first + i].first != candidates[first].first + i) return {};
    if (!candidates[first + i].second->valid.empty()) return {};
  }
  std::vector<int> loaded;
  for (int l = 0; l < lanes; ++l) {
    Index row;
    row.base = address.base + affine(candidates[first].first + l * address.lane);
    row.lane = 1;
    loaded.push_back(emit_load(buffer, type, row, lanes, -1).reg);
  }
  Stmt transpose;
  transpose.op = Op::kTranspose;
  transpose.many = loaded;
  for (int i = 0; i < lanes; ++i) {
    const int dst = e_.new_register(e_.kernel.registers[loaded[0]].type, lanes);
    transpose.many.push_back(dst);
    cache_[cache_key(expr, *candidates[first + i].second)] = {dst, lanes};
  }
  const int mine = transpose.many[lanes + (self - candidates.begin()) % lanes];
  e_.emit(std::move(transpose));
  return {mine, lanes};
}

// Asks for what the same read will need `distance` iterations of a loop later, once per cache line.
void Evaluator::prefetch(int t, int buffer, const Index& address, Type type) {
  for (const Stage::Prefetch& p : e_.nest.stages[stage_].prefetches) {
    if (p.tensor != t || p.distance == 0) continue;
    // How far each of the loops around moves the address, from inside out.
    std::vector<int64_t> moves;
    for (auto var = vars_.rbegin(); var != vars_.rend(); ++var) {
      for (const Affine::Term& term : address.base.terms) {
        if (term.var == *var) moves.push_back(term.coefficient);
      }
    }
    if (p.loop >= static_cast<int>(moves.size())) continue;
    const Affine ahead = address.base + affine(p.distance * moves[p.loop]);
    const int64_t line = 64 / size_of(type);
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

void Evaluator::store(const Storage& storage, const Tensor& tensor, const Point& point, Value value,
                      bool non_temporal) {
  std::vector<Index> local;
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    local.push_back(localize(storage, d, point.axis[d], point));
  const Index address = flatten(storage, local, point);
  if (!address.terms.empty()) {
    // Lanes along a fused axis whose parts do not lie in memory in its order.
    if (e_.failure.ok()) e_.failure = infeasible("a vector would be stored to scattered places");
    return;
  }
  const int lanes = address.uniform() ? 1 : point.chunk.lanes;
  const Buffer& buffer = e_.kernel.buffers[storage.buffer];
  value = convert(buffer.type, value);
  value = broadcast(value, std::max(lanes, value.lanes));
  Stmt stmt;
  stmt.op = Op::kStore;
  stmt.buffer = storage.buffer;
  stmt.index = address.base;
  stmt.stride = lanes == 1 ? 0 : address.lane;
  stmt.srcs[0] = value.reg;
  stmt.non_temporal = non_temporal && lanes > 1 && address.lane == 1;
  e_.kernel.buffers[storage.buffer].written = true;
  if (lanes > 1) {
    stmt.mask = point_mask(point);
    e_.emit(std::move(stmt));
    return;
  }
  // A scalar that may lie past a masked tail: guarded.
  Stmt guard;
  guard.kind = Stmt::Kind::kIf;
  for (const Index& valid : point.valid) {
    if (valid.range.hi < 0) return;
    if (valid.range.lo < 0) guard.conditions.push_back(valid.base);
  }
  if (guard.conditions.empty()) {
    e_.emit(std::move(stmt));
  } else {
    guard.body.push_back(std::move(stmt));
    e_.emit(std::move(guard));
  }
}

}  // namespace lw::lowering
