// pad(READ, edge | reflect | wrap): the read of another element, inside the tensor, instead of a
// value. It becomes an index, so whatever follows (bounds, schedules, kernels) knows indices only:
//   edge      e -> min(max(e, 0), n - 1)                     a b c | c c c
//   reflect   e -> (n - 1) - |(n - 1) - |e||                 a b c | b a (b ...
//   wrap      e -> e % n                                     a b c | a b c
// each only as far as the index can leave [0, n): what is shown to stay inside is left alone.
// Reflections of reflections have a period of 2 (n - 1).
#include "src/expr/language/border.h"

namespace lw {
namespace {

constexpr std::string_view kNames[] = {"", "edge", "reflect", "wrap"};

Expr number(int64_t value) { return make_int(Type::kI64, value); }

// last - |last - index|
Expr reflected(const Expr& index, int64_t last) {
  const Expr beyond = make_binary(ExprOp::kSub, number(last), index);
  return make_binary(ExprOp::kSub, number(last), make_unary(ExprOp::kAbs, beyond));
}

}  // namespace

std::string_view border_name(Border border) { return kNames[static_cast<int>(border)]; }

Border border_named(std::string_view name) {
  for (Border border : {Border::kEdge, Border::kReflect, Border::kWrap}) {
    if (border_name(border) == name) return border;
  }
  return Border::kNone;
}

Expr index_inside(const Expr& index, int64_t extent, Border border, const Facts& facts) {
  const int64_t last = extent - 1;
  const Interval range = interval_of(index, facts);
  const bool below = range.lo < 0, above = range.hi > last;
  if (!below && !above) return index;
  if (extent == 1) return number(0);
  Expr e = index;
  switch (border) {
    case Border::kNone: break;
    case Border::kEdge:
      if (below) e = make_binary(ExprOp::kMax, e, number(0));
      if (above) e = make_binary(ExprOp::kMin, e, number(last));
      break;
    case Border::kReflect:
      if (range.lo < -last || range.hi > 2 * last) {
        return reflected(make_binary(ExprOp::kMod, e, number(2 * last)), last);
      }
      if (below) e = make_unary(ExprOp::kAbs, e);
      if (above) e = reflected(e, last);
      break;
    case Border::kWrap: e = make_binary(ExprOp::kMod, e, number(extent)); break;
  }
  return e;
}

}  // namespace lw
