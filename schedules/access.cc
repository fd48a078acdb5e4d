#include "schedules/access.h"

#include <algorithm>

#include "src/expr/bounds.h"

namespace lw {
namespace {

constexpr int kMostParts = 4096;           // of a sum, what is shared as often as it occurs

// The reads in a body of the stage: those that it keeps where it is the stage's own, else in `found`.
using Reads = std::vector<const ExprNode*>;
const Reads& reads_of(const Stage& stage, const Expr& body, Reads& found) {
  if (stage.body != nullptr && stage.body->value == body) return stage.body->read_nodes;
  return found = reads_in(body);
}

int64_t times(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// Writes an index as a form.
class FormWriter {
 public:
  // Of the stage's tensor; null: the axes are what they are.
  FormWriter(const Nest* nest, const Stage* stage) : nest_(nest), stage_(stage) {}

  IndexForm write(const Expr& index) {
    IndexForm form;
    add(index, 1, stage_ == nullptr, form);
    return form;
  }

 private:
  // Adds factor * index. `own`: its axes are those of the loops.
  void add(const Expr& index, int64_t factor, bool own, IndexForm& form) {
    const auto summand = [&](const Expr& atom, int64_t f) { add_atom(*atom, f, own, form); };
    if (!add_summands(index, factor, form.constant, left_, summand)) open(form);
  }

  // What is not linear bounds the form's values instead.
  void add_atom(const ExprNode& e, int64_t factor, bool own, IndexForm& form) {
    if (e.op == ExprOp::kAxis) return add_axis(e.index, factor, own, form);
    form.affine = false;
    switch (e.op) {
      case ExprOp::kCast:
      case ExprOp::kAbs: return add(e.args[0], factor, own, form);
      case ExprOp::kDiv:
      case ExprOp::kMod:
        if (e.args[1]->op != ExprOp::kConst || e.args[1]->integer <= 0) break;
        return add_quotient(e, factor, own, form);
      case ExprOp::kMin:
      case ExprOp::kMax:
        // A clamp keeps the shape of what it clamps.
        return add(e.args[e.args[0]->op == ExprOp::kConst ? 1 : 0], factor, own, form);
      default: break;
    }
    open(form);
  }

  void add_quotient(const ExprNode& e, int64_t factor, bool own, IndexForm& form) {
    const int64_t n = e.args[1]->integer;
    IndexForm inner;
    add(e.args[0], 1, own, inner);
    form.gather = form.gather || inner.gather;
    const bool plain = inner.terms.size() == 1 && inner.terms[0].factor == inner.terms[0].over;
    for (IndexForm::Term term : inner.terms) {
      if (e.op == ExprOp::kDiv && plain && term.modulus == 0) {
        term.divisor = times(term.divisor, n);
      } else if (e.op == ExprOp::kMod && plain) {
        term.modulus = term.modulus > 0 ? std::min(term.modulus, n) : n;
      } else if (e.op == ExprOp::kDiv) {
        term.over = times(term.over, n);
      } else {
        form.limit = times(factor < 0 ? sub_wrapping(0, factor) : factor, n);
      }
      term.factor = mul_wrapping(term.factor, factor);
      form.terms.push_back(term);
    }
    const int64_t constant =
        e.op == ExprOp::kDiv ? floor_div(inner.constant, n) : inner.constant;
    form.constant = add_wrapping(form.constant, mul_wrapping(factor, constant));
  }

  void add_axis(int axis, int64_t factor, bool own, IndexForm& form) {
    if (!own && !stage_->axis_value.empty()) {
      return add(stage_->axis_value[axis], factor, true, form);
    }
    IndexForm::Term term{axis, factor};
    if (!own && stage_->factored_axis >= 0 && stage_->copy_of < 0) {
      const Tensor& tensor = nest_->program->tensors[stage_->tensor];
      const size_t axes = tensor.axes.size() + tensor.reduce_axes.size();
      if (axis == 0) {
        form.affine = false;
        term.axis = stage_->factored_axis;
        term.divisor = stage_->factored_tile;
      } else if (stage_->axes.size() < axes) {
        --term.axis;  // the partial axis has no entry of its own
      }
    }
    for (IndexForm::Term& known : form.terms) {
      if (known.axis != term.axis || known.divisor != term.divisor || known.modulus != 0) continue;
      known.factor = add_wrapping(known.factor, mul_wrapping(factor, known.over));
      return;
    }
    form.terms.push_back(term);
  }

  static void open(IndexForm& form) {
    form.gather = true;
    form.affine = false;
  }

  const Nest* const nest_;
  const Stage* const stage_;
  int left_ = kMostParts;
};

}  // namespace

Expr body_over_loops(const Nest& nest, int stage) {
  const Expr body = effective_body(nest, stage);
  const std::vector<Expr>& values = nest.stages[stage].axis_value;
  return values.empty() ? body : substitute(body, values);
}

IndexForm index_form(const Expr& index) { return FormWriter(nullptr, nullptr).write(index); }

IndexForm index_form(const Nest& nest, int stage, const Expr& index) {
  return FormWriter(&nest, &nest.stages[stage]).write(index);
}

int64_t step_of(const IndexForm& form, int axis) {
  int64_t step = 0;
  for (const IndexForm::Term& term : form.terms) {
    if (term.axis == axis) step += term.factor;
  }
  return step;
}

bool add_steps(const Expr& index, int64_t factor, absl::Span<int64_t> per_axis) {
  bool affine = true;
  const auto summand = [&](const Expr& atom, int64_t f) {
    if (atom->op == ExprOp::kAxis) {
      per_axis[atom->index] += f;
      return;
    }
    affine = false;
    if (atom->op == ExprOp::kMul) return;
    visit(atom, [&](const ExprNode& node) {
      if (node.op == ExprOp::kAxis) per_axis[node.index] += f;
    });
  };
  int64_t constant = 0;
  int left = kMostParts;
  return add_summands(index, factor, constant, left, summand) && affine;
}

std::vector<ReadSteps> read_steps(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const Expr body = body_over_loops(nest, stage);
  Reads found;
  std::vector<ReadSteps> reads;
  for (const ExprNode* read : reads_of(s, body, found)) {
    ReadSteps steps;
    for (const Expr& index : read->args) {
      steps.emplace_back(s.axes.size(), 0);
      add_steps(index, 1, absl::MakeSpan(steps.back()));
    }
    reads.push_back(std::move(steps));
  }
  return reads;
}

bool moves(const ReadSteps& read, size_t axis) {
  return std::any_of(read.begin(), read.end(),
                     [&](const std::vector<int64_t>& steps) { return steps[axis] != 0; });
}

namespace {

// factor * (floor(of / divisor) modulo `modulus`, where that is not 0).
struct Digit {
  Expr of;
  int64_t divisor = 1, modulus = 0, factor = 0;
};

bool by_constant(const Expr& e, ExprOp op) {
  return e->op == op && e->args[1]->op == ExprOp::kConst && e->args[1]->integer > 0;
}

Digit digit_of(const Expr& atom, int64_t factor) {
  Digit digit{atom, 1, 0, factor};
  if (by_constant(atom, ExprOp::kMod)) {
    digit.modulus = atom->args[1]->integer;
    digit.of = atom->args[0];
  }
  while (by_constant(digit.of, ExprOp::kDiv)) {
    if (__builtin_mul_overflow(digit.divisor, digit.of->args[1]->integer, &digit.divisor)) {
      return {atom, 1, 0, factor};
    }
    digit.of = digit.of->args[0];
  }
  return digit;
}

// Two digits of one number that follow each other are one: f / 12 * 12 + f / 3 % 4 * 3 is
// f / 3 * 3. Returns whether `high` continues `low`, which then is both.
bool join(Digit& low, const Digit& high) {
  if (low.modulus == 0 || !same(low.of, high.of)) return false;
  if (high.divisor % low.modulus != 0 || high.divisor / low.modulus != low.divisor) return false;
  if (high.factor % low.modulus != 0 || high.factor / low.modulus != low.factor) return false;
  if (__builtin_mul_overflow(low.modulus, high.modulus, &low.modulus)) return false;
  return true;
}

// The address of a read, in elements. An index that was flattened and is taken apart again comes
// together here.
bool add_address(const Expr& address, int64_t factor, std::vector<int64_t>& stride) {
  std::vector<Digit> digits;
  for (const Linear::Term& term : linear_form(address).terms) {
    digits.push_back(digit_of(term.atom, factor * term.factor));
  }
  bool affine = true;
  for (bool joined = true; joined;) {
    joined = false;
    for (size_t i = 0; i < digits.size() && !joined; ++i) {
      for (size_t j = 0; j < digits.size() && !joined; ++j) {
        if (i == j || !join(digits[i], digits[j])) continue;
        digits.erase(digits.begin() + static_cast<long>(j));
        joined = true;
      }
    }
  }
  for (const Digit& digit : digits) {
    const bool plain = digit.divisor == 1 && digit.modulus == 0;
    const Linear form = linear_form(digit.of);
    const bool sum = form.terms.size() != 1 || !same(form.terms[0].atom, digit.of);
    if (plain && sum) affine = add_address(digit.of, digit.factor, stride) && affine;
    else affine = add_steps(digit.of, digit.factor, absl::MakeSpan(stride)) && plain && affine;
  }
  return affine;
}

Address address_of(const Nest& nest, const ExprNode& read, size_t axes, bool guarded) {
  const Tensor& tensor = nest.program->tensors[read.index];
  Address address{read.index, std::vector<int64_t>(axes, 0), true, guarded};
  const size_t rank = tensor.shape.size();
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0; stride *= tensor.shape[d]) {
    if (!add_steps(read.args[d], stride, absl::MakeSpan(address.stride))) address.affine = false;
  }
  if (address.affine) return address;
  // What its digits are the sum shows.
  Expr sum = make_int(Type::kI64, 0);
  stride = 1;
  for (size_t d = rank; d-- > 0; stride *= tensor.shape[d]) {
    sum = make_binary(ExprOp::kAdd, sum,
                      make_binary(ExprOp::kMul, read.args[d], make_int(Type::kI64, stride)));
  }
  address.stride.assign(axes, 0);
  address.affine = add_address(sum, 1, address.stride);
  return address;
}

struct Walk {
  Visited plain, guarded;
};

void add_addresses(const Nest& nest, const Expr& expr, size_t axes, bool guarded, Walk& walk,
                   std::vector<Address>& list) {
  if (!(guarded ? walk.guarded : walk.plain).first(expr)) return;
  guarded = guarded || expr->op == ExprOp::kPad || expr->op == ExprOp::kSelect;
  if (expr->op == ExprOp::kRead) list.push_back(address_of(nest, *expr, axes, guarded));
  for (const Expr& arg : expr->args) add_addresses(nest, arg, axes, guarded, walk, list);
}

}  // namespace

std::vector<Address> addresses(const Nest& nest, int stage) {
  std::vector<Address> list;
  Walk walk;
  add_addresses(nest, body_over_loops(nest, stage), nest.stages[stage].axes.size(), false, walk,
                list);
  return list;
}

bool uses(const Address& address, int axis) { return address.stride[axis] != 0; }

bool reused(const Stage& stage, const Address& address) {
  for (size_t a = 0; a < stage.axes.size(); ++a) {
    const NestAxis& axis = stage.axes[a];
    if (!axis.reduction && axis.extent > 1 && !uses(address, static_cast<int>(a))) return true;
  }
  return false;
}

bool has_reuse(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  if (nest.program->tensors[s.tensor].reduce == Reduce::kNone) return false;
  for (const Address& address : addresses(nest, stage)) {
    bool reduces = false;
    for (size_t a = 0; a < s.axes.size(); ++a) {
      reduces = reduces || (s.axes[a].reduction && uses(address, static_cast<int>(a)));
    }
    if (reduces && reused(s, address)) return true;
  }
  return false;
}

namespace {

// Position among the stage's axes of the tensor's axis `axis`; -1 for what is no plain axis.
int stage_axis(const Stage& stage, int axis) {
  if (stage.axis_value.empty()) return axis;
  const Expr& value = stage.axis_value[axis];
  return value->op == ExprOp::kAxis ? value->index : -1;
}

// Of the tensor's axes, inside the loops before position `loop`.
std::vector<Interval> axis_ranges(const Stage& stage, int loop) {
  std::vector<Interval> ranges;
  for (int64_t extent : inner_extents(stage, loop)) ranges.push_back({0, extent - 1});
  if (stage.axis_value.empty()) return ranges;
  std::vector<Interval> values;
  for (const Expr& value : stage.axis_value) values.push_back(bounds(value, ranges));
  return values;
}

}  // namespace

std::vector<int64_t> box_of(absl::Span<const ExprNode* const> reads, int tensor,
                            const std::vector<int64_t>& shape,
                            const std::vector<Interval>& axis_range) {
  std::vector<Interval> hull;
  for (const ExprNode* read : reads) {
    if (read->index != tensor) continue;
    hull.resize(shape.size(), {INT64_MAX, INT64_MIN});
    for (size_t d = 0; d < shape.size(); ++d) {
      const Interval range = bounds(read->args[d], axis_range);
      hull[d] = {std::min(hull[d].lo, range.lo), std::max(hull[d].hi, range.hi)};
    }
  }
  std::vector<int64_t> box;
  for (size_t d = 0; d < hull.size(); ++d) {
    const __int128 size = static_cast<__int128>(hull[d].hi) - hull[d].lo + 1;
    box.push_back(size > shape[d] ? shape[d] : static_cast<int64_t>(size));
  }
  return box;
}

std::vector<int64_t> read_region(const Nest& nest, int stage, int tensor, int loop) {
  const Stage& s = nest.stages[stage];
  const Expr body = effective_body(nest, stage);
  Reads found;
  return box_of(reads_of(s, body, found), tensor, nest.program->tensors[tensor].shape,
                axis_ranges(s, loop));
}

std::vector<int64_t> read_box(const Nest& nest, int stage, int tensor,
                              const std::vector<int64_t>& extents) {
  std::vector<Interval> ranges;
  for (const int64_t extent : extents) ranges.push_back({0, extent - 1});
  const Expr body = body_over_loops(nest, stage);
  Reads found;
  return box_of(reads_of(nest.stages[stage], body, found), tensor,
                nest.program->tensors[tensor].shape, ranges);
}

int index_axis(const Nest& nest, int stage, int tensor, int dim) {
  const Stage& s = nest.stages[stage];
  const Expr body = effective_body(nest, stage);
  Reads found;
  int axis = -1;
  bool plain = true;
  for (const ExprNode* read : reads_of(s, body, found)) {
    if (read->index != tensor) continue;
    const ExprNode& index = *read->args[dim];
    const int own = index.op == ExprOp::kAxis ? stage_axis(s, index.index) : -1;
    plain = plain && own >= 0 && (axis < 0 || axis == own);
    axis = own;
  }
  return plain ? axis : -1;
}

bool alike_along(const Nest& nest, const Stage& copy, int axis) {
  if (!copy.boxed) return false;
  const std::vector<Address> list = addresses(nest, copy.host);
  return std::none_of(list.begin(), list.end(), [&](const Address& address) {
    return address.tensor == copy.copy_of && (!address.affine || uses(address, axis));
  });
}

bool reads_at_prefix(const Nest& nest, int stage, int tensor, int dims) {
  const Expr body = effective_body(nest, stage);
  Reads found;
  bool prefix = true;
  for (const ExprNode* read : reads_of(nest.stages[stage], body, found)) {
    if (read->index != tensor) continue;
    if (static_cast<int>(read->args.size()) < dims) prefix = false;
    for (int d = 0; prefix && d < dims; ++d) {
      prefix = read->args[d]->op == ExprOp::kAxis && read->args[d]->index == d;
    }
  }
  return prefix;
}

}  // namespace lw
