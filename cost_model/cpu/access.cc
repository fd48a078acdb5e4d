#include "cost_model/cpu/access.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "schedules/costs.h"
#include "schedules/dot.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/lower/guards.h"
#include "src/lower/outside.h"

namespace lw::cost {
namespace {

class BodyReader {
 public:
  BodyReader(const Nest& nest, int stage, bool epilogue, Body& body)
      : nest_(nest), index_(stage), stage_(nest.stages[stage]), machine_(costs(*nest.target)),
        epilogue_(epilogue), body_(body) {}

  void read(const Expr& expr, bool combined) {
    root_ = &expr;
    combined_ = combined;
    walk_term(expr);
  }

 private:
  // Padding that a reduction leaves out is decided outside the tile (src/lower/guards.h), and so is
  // which points are multiples, and on which side of a line a block lies.
  bool vanishes(const ExprNode& pad) const {
    const Tensor& tensor = nest_.program->tensors[stage_.tensor];
    return !epilogue_ && stage_.copy_of < 0 && !has_fused_axes(stage_) && root_ != nullptr &&
           tensor.reduce != Reduce::kNone &&
           lowering::vanishes_with(*root_, &pad, tensor.reduce, tensor.type);
  }

  bool add_multiples(const Expr& condition) {
    std::vector<std::pair<Expr, int64_t>> multiples;
    if (!lowering::multiples_of(condition, &multiples)) return false;
    for (const auto& [index, n] : multiples) {
      const Expr own =
          stage_.axis_value.empty() ? index : substitute(index, stage_.axis_value);
      const std::vector<int64_t> factors = lowering::remainder_of(own, n, stage_.axes.size());
      AxisMask axes = 0;
      for (size_t a = 0; a < stage_.axes.size(); ++a) {
        if (factors[a] != 0) axes |= AxisMask{1} << (a & 63);
      }
      body_.multiples.push_back({axes, static_cast<double>(n)});
    }
    return true;
  }

  // The term of a sum, whose product is part of the step.
  AxisMask walk_term(const Expr& e) {
    return combined_ && e->op == ExprOp::kMul ? walk_args(*e) : walk(e);
  }

  bool reads_wide_copy(const ExprNode& e) const {
    const ExprNode& read = e.op == ExprOp::kPad ? *e.args[0] : e;
    return read.op == ExprOp::kRead &&
           std::any_of(stage_.copies.begin(), stage_.copies.end(), [&](const Stage::Copy& copy) {
             return copy.tensor == read.index && nest_.stages[copy.stage].wide;
           });
  }

  AxisMask walk_args(const ExprNode& e) {
    AxisMask axes = 0;
    for (const Expr& arg : e.args) axes |= walk(arg);
    return axes;
  }

  // `read(e)`, once for what has several owners: it is computed once.
  using Known = absl::flat_hash_map<const ExprNode*, AxisMask>;
  template <class Read>
  static AxisMask once(const Expr& e, Known& known, const Read& read) {
    if (e.use_count() < 2 || e->args.empty()) return read(*e);
    if (auto it = known.find(e.get()); it != known.end()) return it->second;
    const AxisMask axes = read(*e);
    known[e.get()] = axes;
    return axes;
  }

  // The axes that the value depends on.
  AxisMask walk(const Expr& expr) {
    if (expr->op == ExprOp::kAxis) return axes_of_index(expr);
    return once(expr, values_, [&](const ExprNode& e) { return walk_node(e); });
  }

  AxisMask walk_node(const ExprNode& e) {
    switch (e.op) {
      case ExprOp::kConst: return 0;
      case ExprOp::kRead: return add_access(e, false);
      case ExprOp::kPad: return add_access(*e.args[0], !vanishes(e)) | walk(e.args[1]);
      case ExprOp::kSelect: {
        std::vector<Expr> sides;
        const bool outside_the_tile =
            vanishes(e) &&
            (add_multiples(e.args[0]) || lowering::add_comparisons(e.args[0], &sides));
        if (outside_the_tile) return walk_term(e.args[1]);
        const AxisMask axes = axes_of_condition(e.args[0]) | walk(e.args[1]) | walk(e.args[2]);
        add_ops(axes, machine_.of(e.op).slots);
        body_.branches += 1;
        return axes;
      }
      default: break;
    }
    const AxisMask axes = walk_args(e);
    // A dot product converts and multiplies its factors itself.
    bool taken = body_.dot != nullptr && !epilogue_ && e.type == dot_type_ &&
                 (e.op == ExprOp::kCast || e.op == ExprOp::kMul);
    taken = taken || (e.op == ExprOp::kCast && reads_wide_copy(*e.args[0]));
    if (e.type != Type::kI64 && !taken) add_ops(axes, machine_.of(e.op).slots);
    return axes;
  }

  AxisMask axes_of_condition(const Expr& expr) {
    const bool combines = expr->op == ExprOp::kAnd || expr->op == ExprOp::kOr ||
                          expr->op == ExprOp::kNot || compares_indices(*expr);
    if (!combines) return walk(expr);
    return once(expr, conditions_, [&](const ExprNode& e) { return walk_condition(e); });
  }

  static bool compares_indices(const ExprNode& e) {
    return e.op >= ExprOp::kEq && e.op <= ExprOp::kGe && e.args[0]->type == Type::kI64;
  }

  AxisMask walk_condition(const ExprNode& e) {
    AxisMask axes = 0;
    const bool compares = compares_indices(e);
    for (const Expr& arg : e.args) axes |= compares ? axes_of_index(arg) : axes_of_condition(arg);
    if (compares) add_ops(axes, 1);
    return axes;
  }

  AxisMask axes_of_index(const Expr& index) const {
    return axes_of(index_form(nest_, index_, index));
  }

  AxisMask add_access(const ExprNode& read, bool padded) {
    Access access;
    access.tensor = read.index;
    access.epilogue = epilogue_;
    const Tensor& tensor = nest_.program->tensors[read.index];
    for (size_t d = 0; d < read.args.size(); ++d) {
      IndexForm form = index_form(nest_, index_, read.args[d]);
      if (form.gather) access.axes |= walk_gather(read.args[d]);
      access.gathers = access.gathers || form.gather;
      access.axes |= axes_of(form);
      const bool outside = leaves(form, static_cast<double>(tensor.shape[d]));
      access.leaves = access.leaves || outside;
      if (padded && outside) {
        access.guarded = true;
        // The interior of a map asks once for all of it.
        if (body_.reduces) {
          add_ops(axes_of(form), machine_.guard_slots);
          body_.branches += 1;
        }
      }
      access.dims.push_back(std::move(form));
    }
    const bool known = std::any_of(body_.accesses.begin(), body_.accesses.end(),
                                   [&](const Access& other) { return same(other, access); });
    const AxisMask axes = access.axes;
    if (!known) body_.accesses.push_back(std::move(access));
    return axes;
  }

  // Reads within an index.
  AxisMask walk_gather(const Expr& expr) {
    return once(expr, gathers_, [&](const ExprNode& e) {
      AxisMask axes = 0;
      if (e.op == ExprOp::kRead) return add_access(e, false);
      for (const Expr& arg : e.args) axes |= walk_gather(arg);
      return axes;
    });
  }

  bool leaves(const IndexForm& form, double size) const {
    double lo = static_cast<double>(form.constant), hi = lo;
    for (const IndexForm::Term& t : form.terms) {
      int64_t last = (stage_.axes[t.axis].extent - 1) / t.divisor;
      if (t.modulus > 0) last = std::min(last, t.modulus - 1);
      (t.factor > 0 ? hi : lo) += t.coefficient() * static_cast<double>(last);
    }
    return lo < 0 || hi > size - 1;
  }

  static bool same(const Access& a, const Access& b) {
    if (a.tensor != b.tensor || a.gathers || b.gathers || a.epilogue != b.epilogue) return false;
    for (size_t d = 0; d < a.dims.size(); ++d) {
      const IndexForm &x = a.dims[d], &y = b.dims[d];
      if (x.constant != y.constant || x.terms.size() != y.terms.size()) return false;
      for (size_t t = 0; t < x.terms.size(); ++t) {
        const IndexForm::Term &u = x.terms[t], &v = y.terms[t];
        const bool equal = u.axis == v.axis && u.coefficient() == v.coefficient() &&
                           u.divisor == v.divisor && u.modulus == v.modulus;
        if (!equal) return false;
      }
    }
    return true;
  }

  void add_ops(AxisMask axes, double slots) {
    if (slots == 0) return;
    for (Ops& known : body_.ops) {
      if (known.axes != axes || known.epilogue != epilogue_) continue;
      known.slots += slots;
      return;
    }
    body_.ops.push_back({axes, slots, epilogue_});
  }

  const Nest& nest_;
  const int index_;
  const Stage& stage_;
  const Costs& machine_;
  const bool epilogue_;
  bool combined_ = false;       // its product with the step of the reduction
  const Expr* root_ = nullptr;  // what is being read
  Known values_, conditions_, gathers_;
  const Type dot_type_ = nest_.program->tensors[stage_.tensor].type;
  Body& body_;
};

}  // namespace

AxisMask axes_of(const IndexForm& form) {
  AxisMask axes = 0;
  for (const IndexForm::Term& term : form.terms) axes |= AxisMask{1} << (term.axis & 63);
  return axes;
}

double extent(const IndexForm& form, const double* box, double size) {
  if (form.gather) return size;
  double values = 1;
  for (const IndexForm::Term& t : form.terms) {
    double points = box[t.axis];
    if (t.divisor != 1) points = std::ceil(points / static_cast<double>(t.divisor));
    if (t.modulus > 0) points = std::min(points, static_cast<double>(t.modulus));
    values += std::abs(t.coefficient()) * (points - 1);
  }
  if (form.limit > 0) values = std::min(values, static_cast<double>(form.limit));
  return std::min(std::ceil(values), size);
}

double stride_of(const IndexForm& form, int axis) {
  double stride = 0;
  for (const IndexForm::Term& t : form.terms) {
    if (t.axis == axis && t.divisor == 1) stride += t.coefficient();
  }
  return stride;
}

bool keeps_quotient(const Stage& stage, int axis, int64_t divisor) {
  const int tile = tile_begin(stage);
  for (int l = 0; l < tile; ++l) {
    for (const LoopPart& part : stage.loops[l].parts) {
      if (part.axis == axis && divisor % part.tile == 0) return true;
    }
  }
  return false;
}

double overlapping(const IndexForm& form, int vector_axis, AxisMask axes, const double* size,
                   double lanes) {
  double places = 1, span = 1;
  bool follows = false;
  for (const IndexForm::Term& t : form.terms) {
    const double step = std::abs(t.coefficient());
    if (t.axis == vector_axis) {
      follows = step == 1 && t.divisor == 1;
    } else if ((axes >> (t.axis & 63) & 1) != 0 && step < lanes) {
      places *= size[t.axis];
      span += step * (size[t.axis] - 1);
    }
  }
  return follows ? std::min(places, span) : 1;
}

double rows_between(const Access& earlier, const Access& later, int axis) {
  if (earlier.tensor != later.tensor || earlier.gathers || later.gathers) return 0;
  double rows = 0;
  for (size_t d = 0; d < later.dims.size(); ++d) {
    const IndexForm &a = earlier.dims[d], &b = later.dims[d];
    if (a.terms.size() != b.terms.size()) return 0;
    for (size_t t = 0; t < a.terms.size(); ++t) {
      const bool same = a.terms[t].axis == b.terms[t].axis &&
                        a.terms[t].coefficient() == b.terms[t].coefficient();
      if (!same) return 0;
    }
    if (a.constant == b.constant) continue;
    const double step = stride_of(b, axis);
    if (rows != 0 || step == 0 || b.terms.size() != 1) return 0;
    rows = static_cast<double>(b.constant - a.constant) / step;
  }
  return rows == std::floor(rows) ? rows : 0;
}

Body make_body(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  Body body;
  const Expr expr = effective_body(nest, stage);
  const Tensor& tensor = nest.program->tensors[s.tensor];
  body.reduces = s.copy_of < 0 && tensor.reduce != Reduce::kNone;
  const ExprNode* term = expr.get();  // what is left of it where it counts
  while (term->op == ExprOp::kSelect && body.reduces &&
         lowering::vanishes_with(expr, term, tensor.reduce, tensor.type)) {
    term = term->args[1].get();
  }
  // An AVX-512 or AVX2 machine multiplies and adds in one instruction; without it the product
  // counts.
  body.fma = body.reduces && tensor.reduce == Reduce::kSum && term->op == ExprOp::kMul &&
             term->type == tensor.type && cpu(*nest.target).fma && is_float(tensor.type);
  const bool product = term->op == ExprOp::kMul && term->args[0] != term->args[1];
  body.drifts = body.reduces && tensor.reduce == Reduce::kSum && is_float(tensor.type) && !product;
  if (s.dot_axis >= 0) {
    const std::optional<DotFactors> factors = dot_factors(*nest.target, expr, tensor.type);
    if (factors) body.dot = factors->atom;
  }
  BodyReader(nest, stage, false, body).read(expr, body.fma);
  for (int e : s.epilogue) {
    // Its axes are the host's spatial ones.
    Body fused;
    BodyReader(nest, stage, true, fused).read(effective_body(nest, e), false);
    for (const Ops& ops : fused.ops) body.ops.push_back(ops);
    for (Access& access : fused.accesses) {
      // The host's value, and those of earlier epilogues, are at hand.
      const bool at_hand = access.tensor == s.tensor ||
                           std::any_of(s.epilogue.begin(), s.epilogue.end(), [&](int f) {
                             return nest.stages[f].tensor == access.tensor;
                           });
      if (!at_hand) body.accesses.push_back(std::move(access));
    }
    body.branches += fused.branches;
  }
  return body;
}

}  // namespace lw::cost
