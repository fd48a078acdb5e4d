// deal(C, k; 64, 4)
//   before  C[i: 8, k: 1000 sum]     after  C.rf[k.part: 64, i: 8, k.turn: 4 sum, k.run: 4 sum]
//             i: 8                            k.part: 64
//               k: 1000                         i: 8
//                                                 k.turn: 4      k = (k.turn * 64 + k.part) * 4
//                                                   k.run: 4         + k.run
//                                           C[i: 8, k.part: 64 sum]
//                                             i: 8
//                                               k.part: 64
// A reduction's points are dealt in turn to so many partial results, as many points at once as the
// second number says. Items that compute a part each then read neighbouring runs at the same time,
// or, where the run is all of a part's points, each a piece of its own. What the last turn has too
// many is left out. As of rfactor, the parts are added by a stage of their own, which stands where
// the reduction does.
#include <algorithm>

#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int64_t kMostRunVectors = 4;     // of a run that is not all of a part

int64_t rounds(int64_t points, int64_t each) { return (points + each - 1) / each; }

Expr dealt_number(int64_t value) { return make_int(Type::kI64, value); }

// Whether nothing has been done to its loops.
bool is_untouched(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const bool plain = std::all_of(s.loops.begin(), s.loops.end(), is_plain);
  return plain && s.copies.empty() && s.prefetches.empty() && !s.non_temporal &&
         s.axis_value.empty() && s.factored_axis < 0 && s.dot_axis < 0 &&
         std::none_of(nest.stages.begin(), nest.stages.end(), [&](const Stage& other) {
           return other.place == Place::kAt && other.host == stage;
         });
}

// The loop's axis among the tensor's reductions.
absl::StatusOr<int> dealt_axis(const Nest& nest, int stage, const std::string& loop) {
  const Stage& s = nest.stages[stage];
  if (s.copy_of >= 0 || (s.place != Place::kRoot && s.place != Place::kAt)) {
    return infeasible(concat(s.name, " is neither at the root nor at a loop"));
  }
  if (!is_untouched(nest, stage)) return infeasible(concat(s.name, " is scheduled already"));
  ASSIGN_OR_RETURN(const int position, loop_position(s, loop));
  if (!is_reduction(s, s.loops[position])) {
    return infeasible(concat(loop, " is no reduction loop"));
  }
  if (find_tensor(*nest.program, concat(s.name, ".rf")) >= 0) {
    return infeasible("partial results exist");
  }
  const int axes = static_cast<int>(nest.program->tensors[s.tensor].axes.size());
  return s.loops[position].parts[0].axis - axes;
}

// A reduction of a tensor of `rank` axes, the first of `reductions`, that is dealt.
struct Deal {
  int rank, reductions, which;
  int64_t points, parts, run;
  int64_t turns() const { return rounds(points, parts * run); }
};

// The term at the axes of the partial results: part, the tensor's, reductions with turn and run in
// the place of the one dealt.
Expr dealt_term(const Expr& term, Reduce reduce, const Deal& deal) {
  const int turn = deal.rank + 1 + deal.which;
  const Expr run = make_binary(
      ExprOp::kAdd, make_binary(ExprOp::kMul, make_axis(turn), dealt_number(deal.parts)),
      make_axis(0));
  const Expr point = make_binary(
      ExprOp::kAdd, make_binary(ExprOp::kMul, run, dealt_number(deal.run)), make_axis(turn + 1));
  std::vector<Expr> values;
  for (int a = 0; a < deal.rank + deal.reductions; ++a) {
    const int dealt = deal.rank + deal.which;
    values.push_back(a == dealt ? point : make_axis(a + 1 + (a > dealt)));
  }
  const Expr body = substitute(term, values);
  if (deal.turns() * deal.parts * deal.run == deal.points) return body;
  // Whole runs are there or are not, if they come out even.
  const bool even = deal.points % deal.run == 0;
  const Expr there = make_binary(ExprOp::kLt, even ? run : point,
                                 dealt_number(even ? deal.points / deal.run : deal.points));
  const Type type = body->type;
  return make_select(there, body,
                     is_float(type) ? make_const(type, identity_float(reduce))
                                    : make_int(type, identity_int(reduce, type)));
}

Tensor dealt_partials(const Tensor& whole, const Deal& deal) {
  const Axis axis = whole.reduce_axes[deal.which];
  Tensor partial = whole;
  partial.name = concat(whole.name, ".rf");
  partial.role = Role::kTemp;
  partial.shape.insert(partial.shape.begin(), deal.parts);
  partial.axes.insert(partial.axes.begin(), Axis{concat(axis.name, ".part"), deal.parts});
  partial.reduce_axes[deal.which] = Axis{concat(axis.name, ".turn"), deal.turns()};
  partial.reduce_axes.insert(partial.reduce_axes.begin() + deal.which + 1,
                             Axis{concat(axis.name, ".run"), deal.run});
  partial.body = dealt_term(whole.body, whole.reduce, deal);
  return partial;
}

absl::Status apply_deal(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 2, 2}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  ASSIGN_OR_RETURN(const int axis, dealt_axis(nest, stage, step.names[1]));
  const int tensor = nest.stages[stage].tensor;
  const Tensor& whole = nest.program->tensors[tensor];
  const Reduce reduce = whole.reduce;
  const Deal deal = {static_cast<int>(whole.axes.size()),
                     static_cast<int>(whole.reduce_axes.size()), axis,
                     whole.reduce_axes[axis].extent, step.numbers[0], step.numbers[1]};
  if (deal.parts < 2 || deal.parts > deal.points || deal.run < 1 ||
      deal.run > rounds(deal.points, deal.parts)) {
    return infeasible(concat("no ", deal.parts, " parts of runs of ", deal.run, " of ",
                             deal.points, " points"));
  }
  insert_partials(nest, tensor, dealt_partials(whole, deal));
  Stage& old = nest.stages[stage];
  Stage made = make_stage(*nest.program, tensor);
  made.body = make_body(dealt_term(old.body->value, reduce, deal));
  made.place = old.place;
  made.host = old.host;
  made.loop = old.loop;
  made.epilogue = old.epilogue;
  old = std::move(made);
  insert_combining_stage(nest, stage);
  return check_legal(nest, stage);
}

std::vector<Decision> deal_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || step.names.size() != 2) return {};
  const absl::StatusOr<int> axis = dealt_axis(nest, *stage, step.names[1]);
  if (!axis.ok()) return {};
  const Tensor& tensor = nest.program->tensors[nest.stages[*stage].tensor];
  const int64_t points = tensor.reduce_axes[*axis].extent;
  const int64_t vectors = kMostRunVectors * lanes(*nest.target, tensor.type);
  std::vector<Decision> domain;
  for (const int64_t parts : ladder(points)) {
    if (parts < 2 || parts > simt(*nest.target).group_items) continue;
    const int64_t all = rounds(points, parts);
    for (int64_t run = 1; run < all && run <= vectors; run *= 2) domain.push_back({parts, run});
    domain.push_back({parts, all});
  }
  return domain;
}

}  // namespace

const StepKind& deal() {
  static constexpr StepKind kind = {"deal", 1, apply_deal, deal_domain, "simt"};
  return kind;
}

}  // namespace lw
