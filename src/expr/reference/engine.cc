// The compiler of strips, and the walk over points. The loops are in strips.cc.
#include "src/expr/reference/engine.h"

#include <algorithm>
#include <cmath>

#include "src/expr/bounds.h"
#include "src/expr/scalar.h"

namespace lw {

Engine::Engine(const Program& program, int tensor, bool errors)
    : program_(program), tensor_(program.tensors[static_cast<size_t>(tensor)]),
      tracks_errors_(errors), sources_(program.tensors.size()) {
  for (const std::vector<Axis>* axes : {&tensor_.axes, &tensor_.reduce_axes}) {
    for (const Axis& axis : *axes) extents_.push_back(axis.extent);
  }
  index_.resize(extents_.size());
  slots_ = static_cast<int>(extents_.size());  // the axes' slots
  result_ = compile(tensor_.body, -1);
  const size_t size = static_cast<size_t>(slots_) * kStrip;
  floats_.resize(size);
  ints_.resize(size);
  if (tracks_errors_) errors_.resize(size);
  in_bounds_.resize(kStrip);
  addresses_.resize(kStrip);
  wanted_.resize(kStrip);
  fetched_.resize(kStrip);
  for (const auto& [slot, e] : constants_) {
    std::fill_n(floats(slot), kStrip, e->number);
    std::fill_n(ints(slot), kStrip, e->integer);
  }
  if (tracks_errors_) find_uncertain();
}

// Appends the step unless an equal one exists; returns the slot of its result.
int Engine::emit(Step step) {
  for (const Step& have : steps_) {
    if (have.op == step.op && have.type == step.type && have.from == step.from &&
        have.a == step.a && have.b == step.b && have.c == step.c && have.mask == step.mask &&
        have.load == step.load && have.terms == step.terms && have.offset == step.offset) {
      return have.dst;
    }
  }
  step.dst = new_slot();
  steps_.push_back(std::move(step));
  return steps_.back().dst;
}

int Engine::compile(const Expr& e, int mask) {
  if (e->type == Type::kI64 && e->op != ExprOp::kRead) return compile_index(e, mask);
  switch (e->op) {
    case ExprOp::kConst: {
      for (const auto& [slot, have] : constants_) {
        if (same(have, e)) return slot;
      }
      constants_.emplace_back(new_slot(), e);
      return constants_.back().first;
    }
    case ExprOp::kAxis: return e->index;
    case ExprOp::kRead: return compile_read(e, -1, mask);
    case ExprOp::kPad: return compile_read(e->args[0], compile(e->args[1], mask), mask);
    case ExprOp::kSelect: return compile_select(e, mask);
    default: break;
  }
  const int a = compile(e->args[0], mask);
  const int b = e->args.size() > 1 ? compile(e->args[1], mask) : -1;
  return emit({e->op, e->type, e->args[0]->type, 0, a, b});
}

int Engine::compile_select(const Expr& e, int mask) {
  const int condition = compile(e->args[0], mask);
  const int denied = emit({ExprOp::kNot, Type::kBool, Type::kBool, 0, condition});
  auto under = [&](int side) {
    if (mask < 0) return side;
    return emit({ExprOp::kAnd, Type::kBool, Type::kBool, 0, mask, side});
  };
  const int a = compile(e->args[1], under(condition));
  const int b = compile(e->args[2], under(denied));
  return emit({ExprOp::kSelect, e->type, e->type, 0, condition, a, b});
}

// i64 arithmetic: linear forms first, so an address costs a few loops.
int Engine::compile_index(const Expr& index, int mask) {
  Linear form = linear_form(index);
  std::vector<std::pair<int, int64_t>> terms;
  for (const Linear::Term& term : form.terms) {
    const Expr& atom = term.atom;
    int slot;
    if (atom->op == ExprOp::kAxis) {
      slot = atom->index;
    } else if (atom->op == ExprOp::kRead) {
      slot = compile_read(atom, -1, mask);
    } else if (atom->op == ExprOp::kPad) {
      slot = compile_read(atom->args[0], compile(atom->args[1], mask), mask);
    } else if (atom->op == ExprOp::kSelect) {
      slot = compile_select(atom, mask);
    } else {
      const int a = compile(atom->args[0], mask);
      const int b = atom->args.size() > 1 ? compile(atom->args[1], mask) : -1;
      slot = emit({atom->op, Type::kI64, atom->args[0]->type, 0, a, b});
    }
    terms.emplace_back(slot, term.factor);
  }
  return linear(std::move(terms), form.constant);
}

int Engine::linear(std::vector<std::pair<int, int64_t>> terms, int64_t offset) {
  if (terms.size() == 1 && terms[0].second == 1 && offset == 0) return terms[0].first;
  Step step{ExprOp::kAxis, Type::kI64, Type::kI64, 0};
  step.terms = std::move(terms);
  step.offset = offset;
  return emit(std::move(step));
}

int Engine::compile_read(const Expr& read, int fill, int mask) {
  const std::vector<int64_t>& shape = program_.tensors[static_cast<size_t>(read->index)].shape;
  std::vector<Axis> axes = tensor_.axes;
  axes.insert(axes.end(), tensor_.reduce_axes.begin(), tensor_.reduce_axes.end());
  const Facts facts = facts_of(axes);
  Load load{read->index, true, false, fill, -1, {}, shape};
  Linear address;
  std::vector<std::pair<int, int64_t>> terms;
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const Expr& index = read->args[d];
    Interval range = interval_of(index, facts);
    load.safe &= range.lo >= 0 && range.hi < shape[d];
    load.gather |= is_gather(index);
    const int slot = compile_index(index, mask);
    load.indices.insert(load.indices.begin(), slot);
    terms.emplace_back(slot, stride);
    stride *= shape[d];
  }
  if (load.safe) {
    load.fill = -1;
    // One linear form of the axes instead of one per dimension.
    Expr flat = make_int(Type::kI64, 0);
    stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      flat = make_binary(ExprOp::kAdd, flat,
                         make_binary(ExprOp::kMul, read->args[d], make_int(Type::kI64, stride)));
      stride *= shape[d];
    }
    load.address = compile_index(flat, mask);
    load.indices.clear();
  }
  for (size_t i = 0; i < loads_.size(); ++i) {
    const Load& have = loads_[i];
    if (have.tensor != load.tensor || have.fill != load.fill || have.address != load.address ||
        have.indices != load.indices) {
      continue;
    }
    for (const Step& step : steps_) {
      if (step.load == static_cast<int>(i) && step.mask == (load.safe ? -1 : mask)) return step.dst;
    }
  }
  Step step{ExprOp::kRead, read->type, read->type, 0};
  step.mask = load.safe ? -1 : mask;
  step.load = static_cast<int>(loads_.size());
  loads_.push_back(std::move(load));
  return emit(std::move(step));
}

void Engine::start_point(int64_t point) {
  const size_t spatial = tensor_.axes.size();
  std::fill(index_.begin() + static_cast<long>(spatial), index_.end(), 0);
  if (point == last_point_ + 1) {  // the usual case needs no division
    for (size_t d = spatial; d-- > 0;) {
      if (++index_[d] < extents_[d]) break;
      index_[d] = 0;
    }
  } else {
    for (size_t d = spatial, rest = static_cast<size_t>(point); d-- > 0;) {
      index_[d] = static_cast<int64_t>(rest % static_cast<size_t>(extents_[d]));
      rest /= static_cast<size_t>(extents_[d]);
    }
  }
  last_point_ = point;
}

// Writes up to n lanes of the axes' slots from lane `at` on, for the indices from index_ on along
// the innermost reduction axis; moves index_ past them. Returns how many.
int Engine::fill_axes(int at, int n) {
  const size_t spatial = tensor_.axes.size(), all = extents_.size();
  int run = 1;
  if (all > spatial) {
    run = static_cast<int>(std::min<int64_t>(n, extents_[all - 1] - index_[all - 1]));
  }
  for (size_t d = 0; d < all; ++d) std::fill_n(ints(static_cast<int>(d)) + at, run, index_[d]);
  if (all == spatial) return run;
  int64_t* inner = ints(static_cast<int>(all - 1)) + at;
  for (int i = 0; i < run; ++i) inner[i] = index_[all - 1] + i;
  index_[all - 1] += run;
  for (size_t d = all; d-- > spatial + 1 && index_[d] == extents_[d];) {
    index_[d] = 0;
    ++index_[d - 1];
  }
  return run;
}

// Neighbours read the same cache lines: each strip holds a few terms of every point, so a line is
// used by all of them while it is at hand. Point by point, the columns of a large matrix would be
// fetched from memory once for each.
void Engine::evaluate_together(const int64_t* points, int count, int64_t terms, Element* out) {
  std::vector<std::vector<int64_t>> at;
  for (int p = 0; p < count; ++p) {
    start_point(points[p]);
    at.push_back(index_);
  }
  for (int64_t done = 0; done < terms;) {
    const int share = static_cast<int>(std::min<int64_t>(kStrip / count, terms - done));
    for (int p = 0; p < count; ++p) {
      index_.swap(at[static_cast<size_t>(p)]);
      for (int n = 0; n < share;) n += fill_axes(p * share + n, share - n);
      index_.swap(at[static_cast<size_t>(p)]);
    }
    run_strip(count * share);
    for (int p = 0; p < count; ++p) accumulate(p * share, share, &out[p]);
    done += share;
  }
  for (int p = 0; p < count; ++p) finish(&out[p]);
}

void Engine::evaluate(const int64_t* points, int64_t count, Element* out) {
  int64_t terms = 1;
  for (const Axis& axis : tensor_.reduce_axes) terms *= axis.extent;
  const bool integer = !is_float(tensor_.type);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = {identity_float(tensor_.reduce),
              integer ? identity_int(tensor_.reduce, tensor_.type) : 0};
    if (tensor_.reduce == Reduce::kProd) out[i].scale = 1;
  }
  last_point_ = -2;
  if (terms >= kStrip) {
    for (int64_t i = 0; i < count; i += kTogether) {
      const int some = static_cast<int>(std::min<int64_t>(kTogether, count - i));
      evaluate_together(points + i, some, terms, out + i);
    }
    return;
  }
  // Lanes of one strip may belong to several points: `started` is the next to begin, `stored` the
  // one that the next result belongs to, each with how many of its terms are left.
  int64_t started = 0, to_start = 0, stored = 0, to_store = terms;
  while (stored < count) {
    int n = 0;
    while (n < kStrip && (to_start > 0 || started < count)) {
      if (to_start == 0) {
        start_point(points[started++]);
        to_start = terms;
      }
      const int run = fill_axes(n, static_cast<int>(std::min<int64_t>(kStrip - n, to_start)));
      n += run;
      to_start -= run;
    }
    run_strip(n);
    for (int at = 0; at < n;) {
      const int run = static_cast<int>(std::min<int64_t>(n - at, to_store));
      accumulate(at, run, &out[stored]);
      at += run;
      to_store -= run;
      if (to_store > 0) continue;
      finish(&out[stored++]);
      to_store = terms;
    }
  }
}

void Engine::finish(Element* element) const {
  if (tracks_errors_) finish_errors(element);
  if (is_float(tensor_.type)) {
    element->number = round_to(tensor_.type, element->number);
  } else {
    element->integer = wrap(tensor_.type, element->integer);
    element->number = static_cast<double>(element->integer);
  }
}

}  // namespace lw
