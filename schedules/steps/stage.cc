// stage(C, B; 2, 1, 48)
//   before  C[..] reading B                after  C[..], B from B.copy
//             j.0: 11 of 48                         j.0: 11 of 48
//               k.0: 2 of 256                         k.0: 2 of 256    <- B.copy runs here
//                 ...                                   ...
//                                                 B.copy[..] at C k.0, blocks of 48 along d1
// C reads TENSOR from a copy (a packed panel). Numbers: depth, the number of C's loops around the
// copy (0: the whole tensor at the root, once before the timed calls where it is const; -1: no
// copy); then the layout (nest.h): block_dim and block, or -1 and 0 for row-major. With a fourth
// number the loops are another stage's than C's: 1 those of the stage at whose loop C runs, 2 those
// of that one's host, and so on. So keys are packed once a head for scores computed once a block of
// rows:  stage(P, K; 2, 2, 48, 1). The rest of the layout follows: for operands of dot products
// group_dim and group (-1 and 0: none), for 16-bit floats 1 for a copy as f32.
//
// The copy's own loops go in the order of the layout. Its last is a vector loop; where the source
// is contiguous in another dimension than the layout, that dimension is unrolled by the lanes just
// outside, so that blocks of lanes x lanes are transposed in registers. A grouped dimension is
// unrolled too: the vectors of a group are stored interleaved.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/copy_bytes.h"
#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/targets/family.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// Vectors that one iteration of the innermost serial loop of a copy moves.
constexpr int64_t kCopyVectors = 4;
constexpr int64_t kMostGroup = 8;  // elements of a byte in the 64 bits that are broadcast at once

struct Layout {
  int block_dim = -1;
  int64_t block = 0;
  int group_dim = -1;
  int64_t group = 0;
  bool wide = false;
};

Stage make_copy(const Nest& nest, int tensor, const Layout& layout) {
  const Tensor& source = nest.program->tensors[tensor];
  const int rank = static_cast<int>(source.shape.size());
  Stage copy;
  copy.tensor = copy.copy_of = tensor;
  copy.block_dim = layout.block_dim;
  copy.block = layout.block;
  copy.group_dim = layout.group_dim;
  copy.group = layout.group;
  copy.wide = layout.wide;
  for (int n = 1; copy.name.empty() || find_stage(nest, copy.name) >= 0; ++n) {
    copy.name = n == 1 ? concat(source.name, ".copy") : concat(source.name, ".copy", n);
  }
  for (int d = 0; d < rank; ++d) copy.axes.push_back({concat("d", d), source.shape[d], false});
  if (rank == 0) return copy;
  const int64_t group = std::max<int64_t>(1, layout.group);
  const int size = layout.wide ? size_of(Type::kF32) : size_of(source.type);
  const int64_t lanes = lanes_of(*nest.target, static_cast<int>(size * group));
  const Tail tail = Tail::kCompose;  // full blocks run without masks, transposes included
  int innermost = layout.block > 0 ? layout.block_dim : rank - 1;
  if (innermost == layout.group_dim) innermost = rank > 1 ? rank - 2 : -1;
  std::vector<Loop> inner;
  const auto add = [&](int d, int64_t tile, LoopKind kind) {
    const int64_t inside = std::min(tile, source.shape[d]);
    copy.loops.push_back({concat("d", d, ".0"), {{d, inside}}, LoopKind::kSerial, tail});
    inner.push_back({concat("d", d, ".1"), {{d, 1}}, kind, Tail::kCompose});
  };
  if (layout.block > 0) add(layout.block_dim, layout.block, LoopKind::kVector);
  for (int d = 0; d < rank; ++d) {
    if (d == layout.block_dim && layout.block > 0) continue;
    if (d == innermost) {
      add(d, kCopyVectors * lanes, LoopKind::kVector);
    } else if (d == rank - 1) {
      add(d, (lanes + group - 1) / group * group, LoopKind::kUnroll);
    } else if (d == layout.group_dim) {
      add(d, group, LoopKind::kUnroll);
    } else {
      copy.loops.push_back({concat("d", d), {{d, 1}}, LoopKind::kSerial, Tail::kCompose});
    }
  }
  std::stable_partition(inner.begin(), inner.end(),
                        [](const Loop& loop) { return loop.kind == LoopKind::kUnroll; });
  copy.loops.insert(copy.loops.end(), inner.begin(), inner.end());
  return copy;
}

// A copy must be taken of what is complete: an input, what the root computed before, or what an
// enclosing loop has computed.
bool is_final(const Nest& nest, int tensor, int stage, int depth) {
  int source = stage_of_tensor(nest, tensor);
  if (source >= 0 && nest.stages[source].place == Place::kEpilogue)
    source = nest.stages[source].host;
  if (source < 0) return true;
  const Stage& computed = nest.stages[source];
  if (computed.place == Place::kRoot || computed.place == Place::kPrepack) return true;
  if (computed.place != Place::kAt || depth == 0) return false;
  const int around = computed.host == stage ? depth : depth_within(nest, stage, computed.host);
  return around > find_loop(nest.stages[computed.host], computed.loop);
}

// The stage whose loops are counted: `up` hosts above the reader; -1 where there are fewer.
int counted_stage(const Nest& nest, int reader, int64_t up) {
  int at = reader;
  for (int64_t n = 0; n < up; ++n) {
    if (at < 0 || nest.stages[at].place != Place::kAt) return -1;
    at = nest.stages[at].host;
  }
  return at;
}

// Whether a copy may stand within the first `depth` loops of `counted`, the reader or its host.
absl::Status check_depth(const Nest& nest, int tensor, int reader, int counted, int depth) {
  const Stage& c = nest.stages[counted];
  int most = c.place == Place::kPrepack ? 0 : tile_begin(c);
  if (counted != reader) most = depth_within(nest, reader, counted);
  if (depth < (counted != reader) || depth > most) {
    return infeasible(concat("no place for a copy at depth ", depth, " of ", c.name));
  }
  const bool complete = counted == reader ? is_final(nest, tensor, reader, depth)
                                          : is_final(nest, tensor, reader, 0);
  if (!complete && nest.checks(Legality::kStageReadsFinal)) {
    return infeasible(concat(nest.program->tensors[tensor].name, " is not complete at depth ",
                             depth, " of ", c.name));
  }
  return absl::OkStatus();
}

absl::Status apply_stage(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {2, 2, 1, 7}));
  ASSIGN_OR_RETURN(const int reader, target_stage(nest, step));
  const int64_t depth = step.numbers[0];
  if (depth == -1) return absl::OkStatus();
  const Stage& s = nest.stages[reader];
  const int tensor = find_tensor(*nest.program, step.names[1]);
  const std::vector<int> reads = body_reads(nest, reader);
  const bool read = std::find(reads.begin(), reads.end(), tensor) != reads.end();
  if (!read || s.copy_of >= 0) return infeasible(concat(s.name, " does not read ", step.names[1]));
  for (const Stage::Copy& copy : s.copies) {
    if (copy.tensor == tensor) return infeasible(concat(step.names[1], " is copied already"));
  }
  const int64_t up = number_or(step, 3, 0);
  const int counted = up < 0 ? -1 : counted_stage(nest, reader, up);
  if (counted < 0) return infeasible(concat(s.name, " runs inside fewer than ", up, " stages"));
  if (depth < 0 || depth > static_cast<int64_t>(nest.stages[counted].loops.size())) {
    return infeasible(concat("no place for a copy at depth ", depth));
  }
  RETURN_IF_ERROR(check_depth(nest, tensor, reader, counted, static_cast<int>(depth)));
  const int64_t block_dim = number_or(step, 1, -1), block = number_or(step, 2, 0);
  const std::vector<int64_t>& shape = nest.program->tensors[tensor].shape;
  const bool plain = block_dim == -1 && block == 0;
  if (!plain && (block_dim < 0 || block_dim >= static_cast<int64_t>(shape.size()) || block < 1 ||
                 block > shape[block_dim])) {
    return infeasible(concat("no layout with blocks of ", block, " along dimension ", block_dim));
  }
  const int64_t group_dim = number_or(step, 4, -1), group = number_or(step, 5, 0);
  const bool whole = group_dim == -1 && group == 0;
  if (!whole && (group_dim < 0 || group_dim >= static_cast<int64_t>(shape.size()) || group < 2 ||
                 group > kMostGroup || (!plain && group_dim == block_dim))) {
    return infeasible(concat("no layout with groups of ", group, " along dimension ", group_dim));
  }
  const bool wide = number_or(step, 6, 0) == 1;
  if (wide && !is_narrow(nest.program->tensors[tensor].type)) {
    return infeasible(concat(step.names[1], " holds no 16-bit floats"));
  }
  if (wide && s.matrix >= 0) {
    return infeasible(concat(s.name, " multiplies 16-bit floats"));
  }
  Stage copy = make_copy(nest, tensor, {static_cast<int>(block_dim), block,
                                        static_cast<int>(group_dim), group, wide});
  if (depth > 0) {
    copy.place = Place::kAt;
    copy.host = counted;
    copy.loop = nest.stages[counted].loops[depth - 1].name;
  } else if (nest.program->tensors[tensor].is_const) {
    copy.place = Place::kPrepack;
  }
  // Before its reader, whose number and whose host's grow by one.
  insert_stage(nest, reader, std::move(copy));
  if (depth > 0) nest.stages[reader].host = counted + 1;
  nest.stages[reader + 1].copies.push_back({tensor, reader});
  RETURN_IF_ERROR(check_loops(nest, reader));
  return check_blocks(nest);
}

// The layouts as operands of dot products want them: every one in groups, but for a broadcast
// operand whose groups lie together already.
std::vector<Decision> grouped(const Nest& nest, int stage, int tensor,
                              std::vector<Decision> layouts) {
  const Stage& s = nest.stages[stage];
  const int rank = static_cast<int>(nest.program->tensors[tensor].shape.size());
  const bool vector = !s.loops.empty() && s.loops.back().kind == LoopKind::kVector;
  int dim = -1;
  bool follows_lanes = false;
  for (int d = 0; d < rank; ++d) {
    const int axis = index_axis(nest, stage, tensor, d);
    if (axis == s.dot_axis) dim = d;
    follows_lanes = follows_lanes || (vector && axis == s.loops.back().parts[0].axis);
  }
  for (Decision& layout : layouts) {
    const bool together = dim == rank - 1 && layout[1] == 0 && !follows_lanes;
    const bool grouped = dim >= 0 && !together;
    layout.push_back(grouped ? dim : -1);
    layout.push_back(grouped ? s.dot_group : 0);
  }
  return layouts;
}

// The step's numbers, as few as say it: `layout` holds block_dim, block and perhaps more.
Decision placed(int64_t depth, int64_t up, const Decision& layout) {
  Decision numbers = {depth, layout[0], layout[1]};
  if (up > 0 || layout.size() > 2) numbers.push_back(up);
  numbers.insert(numbers.end(), layout.begin() + 2, layout.end());
  return numbers;
}

// Whether a loop inside of `depth` cuts the axis into parts that are no multiple of the tile (the
// channels of a group): blocks of a tile's size would then be read across.
bool cuts_across(const Stage& stage, int axis, int64_t tile, int depth) {
  for (size_t l = static_cast<size_t>(depth); l < stage.loops.size(); ++l) {
    for (const LoopPart& part : stage.loops[l].parts) {
      if (part.axis == axis && part.tile > tile && part.tile % tile != 0) return true;
    }
  }
  return false;
}

std::vector<Decision> stage_domain(const Nest& nest, const Step& step) {
  std::vector<Decision> domain = {{-1, -1, 0}};
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || step.names.size() != 2) return {};
  const int tensor = find_tensor(*nest.program, step.names[1]);
  if (tensor < 0) return domain;
  const Stage& s = nest.stages[*stage];
  for (const Stage::Copy& copy : s.copies) {
    if (copy.tensor == tensor) return domain;
  }
  const int tile = tile_begin(s);
  const std::vector<int64_t> in_tile = read_region(nest, *stage, tensor, tile);
  if (in_tile.empty()) return domain;  // not read
  std::vector<Decision> layouts = {{-1, 0}};
  for (int d = 0; d < static_cast<int>(in_tile.size()); ++d) {
    const int axis = index_axis(nest, *stage, tensor, d);
    const bool in_lanes = !s.loops.empty() && s.loops.back().kind == LoopKind::kVector &&
                          s.loops.back().parts[0].axis == axis;
    if (axis < 0 || (s.axes[axis].reduction && !in_lanes) || in_tile[d] <= 1) continue;
    bool shifts = false;
    for (const Loop& loop : s.loops) {
      for (const LoopPart& part : loop.parts)
        shifts = shifts || (part.axis == axis && loop.tail == Tail::kShift);
    }
    if (!shifts) layouts.push_back({d, in_tile[d]});
  }
  const bool reduces = nest.program->tensors[s.tensor].reduce != Reduce::kNone;
  if (s.dot_axis >= 0) {
    layouts = grouped(nest, *stage, tensor, std::move(layouts));
  } else if (s.matrix >= 0) {
    layouts = {{-1, 0}};                   // rows, whose parts items read by themselves
  } else if (reduces && is_narrow(nest.program->tensors[tensor].type)) {
    const std::vector<Decision> narrow = std::move(layouts);
    layouts.clear();
    for (const int64_t wide : {0, 1}) {
      for (const Decision& layout : narrow) layouts.push_back({layout[0], layout[1], -1, 0, wide});
    }
  }
  std::vector<int64_t> outer;
  for (int depth = 0; depth <= tile; ++depth) {
    std::vector<int64_t> region = read_region(nest, *stage, tensor, depth);
    // A loop around the copy that leaves its region as it is only repeats the copy.
    if (depth > 0 && region == outer) continue;
    outer = std::move(region);
    if (!is_final(nest, tensor, *stage, depth)) continue;
    bool fits[2] = {true, true};  // as it is, wide
    for (int wide = 0; depth > 0 && wide < 2; ++wide)
      fits[wide] = copy_fits(nest, *stage, tensor, depth, wide == 1);
    for (const Decision& layout : layouts) {
      if (!fits[layout.size() > 4 && layout[4] == 1]) continue;
      const int dim = static_cast<int>(layout[0]);
      const bool across =
          dim >= 0 && cuts_across(s, index_axis(nest, *stage, tensor, dim), layout[1], depth);
      if (!across) domain.push_back(placed(depth, 0, layout));
    }
  }
  // Outside the loop at which the reader runs a copy serves several of its runs.
  for (int64_t up = 1, at = s.host; s.place == Place::kAt && at >= 0; ++up) {
    const int host = static_cast<int>(at);
    for (int depth = 1; depth <= depth_within(nest, *stage, host); ++depth) {
      if (trips(nest.stages[host], depth - 1) == 1) continue;
      if (!check_depth(nest, tensor, *stage, host, depth).ok()) continue;
      for (const Decision& layout : layouts) domain.push_back(placed(depth, up, layout));
    }
    at = nest.stages[host].place == Place::kAt ? nest.stages[host].host : -1;
  }
  return domain;
}

}  // namespace

const StepKind& stage() {
  static constexpr StepKind kind = {"stage", 1, apply_stage, stage_domain};
  return kind;
}

}  // namespace lw
