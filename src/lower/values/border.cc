#include "src/lower/values/border.h"

#include <algorithm>

#include "src/expr/bounds.h"

namespace lw::lowering {
namespace {

bool is_constant(const Expr& e) { return e->op == ExprOp::kConst; }

// `e` where all `needs` are at least 0.
Expr plain(const Expr& e, std::vector<Expr>* needs) {
  const auto difference = [](const Expr& a, const Expr& b) {
    return make_binary(ExprOp::kSub, a, b);
  };
  switch (e->op) {
    case ExprOp::kMin:
    case ExprOp::kMax: {
      const int limit = is_constant(e->args[1]) ? 1 : 0;
      if (!is_constant(e->args[limit])) return e;
      const Expr x = plain(e->args[1 - limit], needs);
      const Expr& c = e->args[limit];
      needs->push_back(e->op == ExprOp::kMin ? difference(c, x) : difference(x, c));
      return x;
    }
    case ExprOp::kAbs: {
      const Expr x = plain(e->args[0], needs);
      needs->push_back(x);
      return x;
    }
    case ExprOp::kMod: {
      if (!is_constant(e->args[1]) || e->args[1]->integer < 1) return e;
      const Expr x = plain(e->args[0], needs);
      needs->push_back(x);
      needs->push_back(difference(make_int(Type::kI64, e->args[1]->integer - 1), x));
      return x;
    }
    case ExprOp::kSub: {
      const Expr &c = e->args[0], &mirrored = e->args[1];
      if (!is_constant(c) || mirrored->op != ExprOp::kAbs) return e;
      const Expr& beyond = mirrored->args[0];
      if (beyond->op != ExprOp::kSub || !is_constant(beyond->args[0]) ||
          beyond->args[0]->integer != c->integer) {
        return e;
      }
      const Expr x = plain(beyond->args[1], needs);
      needs->push_back(difference(c, x));
      return x;
    }
    default: return e;
  }
}

// The least value of an affine index over the lanes that exist.
Affine least(const Index& index, const Point& point) {
  return index.base + affine(std::min<int64_t>(0, index.lane * (point.chunk.active - 1)));
}

}  // namespace

// Of `local` one may vary over the lanes: with two, what both need would have to be weighed
// together to see that the address stays inside.
std::optional<PlainPlace> plain_place(Addressing& addressing, const Storage& storage,
                                      const Expr& read, std::vector<Index> local,
                                      const Point& point,
                                      absl::FunctionRef<Index(const Expr&)> index_of) {
  const Emitter& e = addressing.emitter();
  PlainPlace inside;
  const auto varies = [](const Index& i) { return !i.uniform(); };
  if (std::count_if(local.begin(), local.end(), varies) > 1) return std::nullopt;
  for (size_t d = 0; d < read->args.size(); ++d) {
    if (local[d].terms.empty()) continue;
    if (is_gather(read->args[d])) return std::nullopt;
    std::vector<Expr> needs;
    const Index at = index_of(plain(read->args[d], &needs));
    if (!at.terms.empty()) return std::nullopt;
    for (const Expr& need : needs) {
      const Index value = index_of(need);
      if (!value.terms.empty()) return std::nullopt;
      const Affine lowest = least(value, point);
      const Interval range = range_of(e, lowest);
      if (range.hi < 0) return std::nullopt;
      if (range.lo < 0) inside.needs.push_back(lowest);
    }
    local[d] = localize(e, storage, d, at, point);
  }
  for (const Affine& a : inside.needs) {
    for (const Affine& b : inside.needs) {
      if (range_of(e, a + b).hi < 0) return std::nullopt;  // not both at once
    }
  }
  inside.address = addressing.flatten(storage, local, point);
  if (!inside.address.terms.empty() || inside.needs.empty()) return std::nullopt;
  return inside;
}

}  // namespace lw::lowering
