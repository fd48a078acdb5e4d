// Winograd's algorithm for the convolutions of a program (steps/winograd.cc), asked for by
// Nest::winograd: every reduction is cut along all axes that the step takes, so a convolution of
// images becomes a batch of matrix products, one for each pair of points, between transforms along
// one axis each:
//
//   X -> C.d -> C.p.d -> C.p.p -> C.p -> C       and, before the timed calls, F -> C.w -> C.p.w
//
// The products are tiled as any other reduction. A transform has one row of constants for each of
// its results, chosen by the number of an axis or by its remainder: all of them are unrolled, with
// lanes along another axis, so that what is read is read once and every choice is made here. Of two
// transforms in a row the first is computed at the second's loops over what both have in common, an
// image's row of tiles, so that it is still in a near cache. The products and their data can stand
// there too, at a block of rows of tiles: then nothing between the image and the result is whole.
#include <algorithm>

#include "schedules/space/rule.h"
#include "src/base/message.h"

namespace lw::rules {
namespace {

// The axis whose number, or its remainder by `count`, chooses what is computed.
struct Cases {
  int axis = -1;                           // -1: none
  int64_t count = 0;
};

Cases cases_of(const Nest& nest, int stage) {
  Cases cases;
  if (!is_map(nest, stage)) return cases;
  const Stage& s = nest.stages[stage];
  visit(effective_body(nest, stage), [&](const ExprNode& node) {
    if (node.op != ExprOp::kSelect || node.args[0]->op != ExprOp::kEq) return;
    const Expr& number = node.args[0]->args[0];
    const bool remainder = number->op == ExprOp::kMod;
    const Expr& axis = remainder ? number->args[0] : number;
    if (axis->op != ExprOp::kAxis || node.args[0]->args[1]->op != ExprOp::kConst) return;
    cases = {axis->index,
             remainder ? number->args[1]->integer : s.axes[axis->index].extent};
  });
  return cases;
}

// A map of which an axis chooses the weights, as those into and out of the transformed space.
bool is_transform(const Nest& nest, int stage) { return cases_of(nest, stage).axis >= 0; }

std::vector<int> transforms(const Nest& nest) {
  std::vector<int> list;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    if (nest.stages[s].place == Place::kRoot && is_transform(nest, s)) list.push_back(s);
  }
  return list;
}

// Axes of `host` along which it reads of `source` only what lies at their own point, or tile of
// points: -1 for a dimension where there is none.
int common_axis(const Nest& nest, int host, int source, int dim) {
  int axis = -1;
  bool plain = true;
  const Cases cases = cases_of(nest, host);
  visit(effective_body(nest, host), [&](const ExprNode& node) {
    if (node.op != ExprOp::kRead || node.index != source) return;
    const ExprNode* index = node.args[dim].get();
    if (index->op == ExprOp::kDiv && index->args[1]->integer == cases.count) {
      index = index->args[0].get();
      plain = plain && index->index == cases.axis;
    }
    plain = plain && index->op == ExprOp::kAxis && (axis < 0 || axis == index->index);
    axis = index->index;
  });
  return plain ? axis : -1;
}

// Computes `source`, which only `host` reads, at the host's loops over what they have in common.
void attach(Draft& d, int source, int host) {
  const std::string name = d.nest.stages[source].name, at = d.nest.stages[host].name;
  const int tensor = d.nest.stages[source].tensor;
  const Cases own = cases_of(d.nest, source), cases = cases_of(d.nest, host);
  const int last = static_cast<int>(d.nest.stages[source].axes.size()) - 1;
  std::vector<std::string> loops{at};
  for (int dim = 0; dim < last; ++dim) {
    const int axis = dim == own.axis ? -1 : common_axis(d.nest, host, tensor, dim);
    if (axis < 0) continue;
    const Stage& h = d.nest.stages[find_stage(d.nest, at)];
    if (axis == cases.axis && h.axes[axis].extent <= cases.count) continue;  // one tile
    std::string loop = loop_of(h, axis);
    if (axis == cases.axis) {
      fixed(d, "split", {at, loop}, {cases.count, 0});
      loop += ".0";
    }
    loops.push_back(loop);
  }
  const int64_t depth = static_cast<int64_t>(loops.size()) - 1;
  if (depth == 0 || d.failed) return;
  for (const Loop& loop : d.nest.stages[find_stage(d.nest, at)].loops) {
    if (std::find(loops.begin() + 1, loops.end(), loop.name) == loops.end())
      loops.push_back(loop.name);
  }
  fixed(d, "reorder", loops, {0});
  fixed(d, "compute_at", {name, at}, {depth});
}

// F(results, 3) along every axis of every convolution that takes it. Returns whether one does.
bool transform_convolutions(Draft& d, int64_t results) {
  bool any = false;
  // The products of a cut convolution come after it in the list of what is left to cut.
  std::vector<std::string> names;
  for (const Stage& stage : d.nest.stages) names.push_back(stage.name);
  for (size_t n = 0; n < names.size(); ++n) {
    const Stage& stage = d.nest.stages[find_stage(d.nest, names[n])];
    const std::vector<NestAxis> axes = stage.axes;
    for (const NestAxis& axis : axes) {
      Draft attempt = d;
      fixed(attempt, "winograd", {names[n], axis.name}, {results});
      // Without a sum that is left there is no product of matrices.
      const int products = attempt.failed ? -1 : find_stage(attempt.nest, names[n] + ".p");
      if (products < 0 || !has_reuse(attempt.nest, products)) continue;
      d = std::move(attempt);
      names.push_back(names[n] + ".p");
      any = true;
      break;
    }
  }
  return any;
}

// Of two transforms in a row, the first.
bool feeds_transform(const Nest& nest, int stage) {
  if (!is_transform(nest, stage)) return false;
  const std::vector<int> users = readers(nest, nest.stages[stage].tensor);
  return std::any_of(users.begin(), users.end(),
                     [&](int user) { return is_transform(nest, user); });
}

// Such at the loops of the second.
void attach_transforms(Draft& d) {
  std::vector<std::string> names;
  for (int s : transforms(d.nest)) names.push_back(d.nest.stages[s].name);
  for (const std::string& name : names) {
    const int source = find_stage(d.nest, name);
    const std::vector<int> users = readers(d.nest, d.nest.stages[source].tensor);
    const bool one = users.size() == 1 && d.nest.stages[users[0]].place == Place::kRoot;
    if (one && is_transform(d.nest, users[0])) attach(d, source, users[0]);
    if (d.failed) return;
  }
}

// Then the products between two of them, at blocks of those loops.
bool attach_products(Draft& d) {
  for (int p = 0; p < static_cast<int>(d.nest.stages.size()); ++p) {
    const Stage& products = d.nest.stages[p];
    if (products.place != Place::kRoot || is_map(d.nest, p)) continue;
    const std::vector<int> users = readers(d.nest, products.tensor);
    if (users.size() != 1 || d.nest.stages[users[0]].place != Place::kAt) continue;
    const Stage& back = d.nest.stages[users[0]];
    const Stage& host = d.nest.stages[back.host];
    if (!is_transform(d.nest, users[0]) || host.place != Place::kRoot) continue;
    const int64_t depth = find_loop(host, back.loop) + 1;
    std::vector<std::string> names{products.name};
    for (int s : transforms(d.nest)) {
      if (readers(d.nest, d.nest.stages[s].tensor) == std::vector<int>{p})
        names.push_back(d.nest.stages[s].name);
    }
    const std::string at = host.name, loop = back.loop;
    open(d, "split", {at, loop}, {1, 0});
    for (const std::string& name : names) fixed(d, "compute_at", {name, at}, {depth});
    return !d.failed;
  }
  return false;
}

// The draft without, then with F(2, 3), then with F(4, 3).
void branch(Draft draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  if (!draft.nest.winograd) return;
  for (const int64_t results : {2, 4}) {
    Draft cut = draft;
    if (!transform_convolutions(cut, results)) continue;
    cut.transformed = cut.chosen = true;
    cut.name = concat("winograd F(", results, ", 3)");
    inline_maps(cut, feeds_transform);
    fuse_epilogues(cut);
    attach_transforms(cut);
    for (const bool blocks : {false, true}) {
      Draft d = cut;
      if (blocks && !attach_products(d)) continue;
      for (int s = static_cast<int>(d.nest.stages.size()) - 1; s >= 0 && !d.failed; --s) {
        if (d.nest.stages[s].place == Place::kRoot && is_map(d.nest, s)) attach_rows(d, s, false);
      }
      if (blocks) d.name += ", blocks of tiles";
      drafts.push_back(std::move(d));
    }
  }
}

bool takes(const Draft& d, int stage) { return d.transformed && is_transform(d.nest, stage); }

void tile(Draft& d, int stage) {
  const Stage s = d.nest.stages[stage];
  const Cases cases = cases_of(d.nest, stage);
  int lanes = -1;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (a != cases.axis && s.axes[a].extent > 1) lanes = a;
  }
  if (lanes < 0) return;
  const int64_t width = std::min<int64_t>(stage_lanes(d.nest, stage), s.axes[lanes].extent);
  const int64_t count = std::min(cases.count, s.axes[cases.axis].extent);
  fixed(d, "register_tile", {s.name, loop_of(s, cases.axis), loop_of(s, lanes)},
        {count, width, 0, 0});
  if (d.nest.threads > 1 && s.place == Place::kRoot) open(d, "parallel", {s.name}, {0, 0});
}

}  // namespace

const Rule& winograd() {
  static constexpr Rule rule = {"winograd", Phase::kRewrite, branch, takes, tile, "cpu"};
  return rule;
}

}  // namespace lw::rules
