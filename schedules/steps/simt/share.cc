// share(A.copy; 1): the copy lies in memory that the items of a group share. They fetch it
// together, each a part, and meet before it is read and before it is overwritten. 0: it stays each
// item's own. 2: its rows are a word longer, so that neighbours who read a column of it find each
// other's words in other banks, where such memory has banks. 3, of what products of matrices read:
// by 16 bytes, so that vectors stay aligned, and eight rows of a matrix lie in different banks. 4: as
// four sub-groups that multiply together read it, swizzled: rows of 128 bytes along k, or panels of
// 128 bytes of columns. 5: the same, copied by the machine's engine for boxes of tensors, at once.
#include <algorithm>

#include "schedules/access.h"
#include "schedules/copy_bytes.h"
#include "schedules/dot.h"
#include "schedules/legality.h"
#include "schedules/steps/simt/boxes.h"
#include "schedules/targets/family.h"
#include "schedules/targets/matrix_shape.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int64_t kPadded = 2, kPaddedVector = 3, kSwizzled = 4, kBoxed = 5;
constexpr int kWordBytes = 4, kVectorBytes = 16;  // of a bank; of the widest access

absl::Status check_shared_copy(const Nest& nest, int copy) {
  const Stage& c = nest.stages[copy];
  if (c.copy_of < 0 || c.place != Place::kAt) return infeasible(concat(c.name, " is no such copy"));
  const Stage& host = nest.stages[c.host];
  if (host.place != Place::kRoot || !has_items(host)) {
    return infeasible(concat("no group reads ", c.name));
  }
  return check_group_reads(host, find_loop(host, c.loop));
}

// Items in step move a vector each, side by side; a run of several would lie between neighbours.
void move_vectors(const Nest& nest, Stage& copy, int element_bytes) {
  const Loop& last = copy.loops.back();
  if (is_processor(simt(*nest.target)) || copy.block > 0 || last.kind != LoopKind::kVector) return;
  const int64_t lanes = lanes_of(*nest.target, element_bytes);
  for (Loop& loop : copy.loops) {
    for (LoopPart& part : loop.parts) {
      if (part.axis == last.parts[0].axis) part.tile = std::min(part.tile, lanes);
    }
  }
}

// Whether four sub-groups multiply what lies there, of which items make no factor.
bool is_multiplied(const Nest& nest, const Stage& c) {
  const Stage& host = nest.stages[c.host];
  if (host.matrix < 0 || !is_wide(nest, host)) return false;
  const int rank = static_cast<int>(c.axes.size());
  for (int d = 0; host.made && d < rank; ++d) {
    if (index_axis(nest, c.host, c.copy_of, d) == host.matrix_axes[1]) return true;
  }
  return !host.made;
}

// Of an operand's box nothing has several points but its rows and k, and its last dimension is one of
// these.
absl::Status swizzle(Nest& nest, Stage& c) {
  const Stage& host = nest.stages[c.host];
  if (!is_multiplied(nest, c)) {
    return infeasible(concat("no four sub-groups multiply ", c.name));
  }
  const MatrixShape& shape = matrix_shape_of(nest, host);
  const Type type = nest.program->tensors[c.copy_of].type;
  const int64_t row = kWideRowBytes / size_of(type);
  const std::vector<int64_t> box = group_copy_box(nest, c.host, c);
  const bool read = !box.empty() && box.back() % row == 0 && !c.wide && c.group == 0 &&
                    c.block == 0 && (type == shape.a || type == shape.b);
  int64_t several = 0;
  for (const int64_t points : box) several += points > 1;
  const int64_t most = host.rows_over < 0 ? 2 : 3;
  if (!read || several > most) return infeasible(concat(c.name, " is no matrix of such rows"));
  const int last = static_cast<int>(box.size()) - 1;
  const bool along_k = index_axis(nest, c.host, c.copy_of, last) == host.matrix_axes[2];
  if (along_k && box.back() != row) return infeasible(concat("rows of ", c.name, " are longer"));
  if (!along_k && box.back() > row) c.block_dim = last, c.block = row;
  c.swizzled = true;
  return absl::OkStatus();
}

// Where tiles reach beyond an end, or read zeros around a tensor, only boxes say what is there.
absl::Status check_ends(const Nest& nest, const Stage& c) {
  const Stage& host = nest.stages[c.host];
  if (has_tail(host, Tail::kMask)) {
    return infeasible(concat(host.name, " has tiles that end early: ", c.name, " must be boxes"));
  }
  const DotFactors factors = factors_of_tile(nest, host, effective_body(nest, c.host));
  for (const Expr& factor : {factors.a, factors.b}) {
    bool padded = false;
    const ExprNode* const read = read_of_factor(factor, &padded);
    if (read != nullptr && read->index == c.copy_of && padded) {
      return infeasible(concat(host.name, " reads zeros around ", c.name, ", which must be boxes"));
    }
  }
  return absl::OkStatus();
}

absl::Status apply_share(Nest& nest, const Step& step) {
  RETURN_IF_ERROR(expect(step, {1, 1, 1, 1}));
  if (step.numbers[0] == 0) return absl::OkStatus();
  if (step.numbers[0] < 0 || step.numbers[0] > kBoxed) {
    return infeasible(concat("nothing is shared in way ", step.numbers[0]));
  }
  ASSIGN_OR_RETURN(const int copy, target_stage(nest, step));
  RETURN_IF_ERROR(check_shared_copy(nest, copy));
  Stage& c = nest.stages[copy];
  if (step.numbers[0] == kPaddedVector && nest.stages[c.host].matrix < 0) {
    return infeasible(concat(nest.stages[c.host].name, " multiplies no matrices of ", c.name));
  }
  const int size = c.wide ? size_of(Type::kF32) : size_of(nest.program->tensors[c.copy_of].type);
  move_vectors(nest, c, size);
  const int outer = tile_begin(c);
  if (outer == 0) return infeasible("a single tile is nothing to share");
  for (int n = 1; n < outer; ++n) RETURN_IF_ERROR(merge_loops(nest, copy, 0));
  c.loops[0].kind = LoopKind::kItem;
  c.memory = kLocalMemory;
  if (step.numbers[0] >= kSwizzled) {
    RETURN_IF_ERROR(swizzle(nest, c));
    if (step.numbers[0] == kBoxed) RETURN_IF_ERROR(check_box(nest, c.copy_of));
    else RETURN_IF_ERROR(check_ends(nest, c));
    c.boxed = step.numbers[0] == kBoxed;
  } else if (step.numbers[0] >= kPadded) {
    if (c.group > 0) return infeasible(concat("groups of ", c.name, " lie together"));
    c.pad = std::max(1, (step.numbers[0] == kPadded ? kWordBytes : kVectorBytes) / size);
  }
  return check_legal(nest, copy);
}

bool group_holds(const Nest& nest, const Step& step, int64_t way, int host) {
  Nest shared = nest;
  Step drawn = step;
  drawn.numbers = {way};
  return apply_share(shared, drawn).ok() &&
         copies_bytes(shared, host, true) <= simt(*nest.target).local_bytes;
}

// What is too large for the one is left to the other; what is for both, to the lowering.
std::vector<Decision> share_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> copy = target_stage(nest, step);
  if (!copy.ok() || nest.stages[*copy].place != Place::kAt) return {{0}};
  const SimtTarget& target = simt(*nest.target);
  const int host = nest.stages[*copy].host;
  std::vector<Decision> domain;
  if (is_multiplied(nest, nest.stages[*copy])) {
    const bool boxed = group_holds(nest, step, kBoxed, host);
    if (boxed) domain.push_back({kBoxed});
    // They lie alike.
    const bool swizzled = boxed ? check_ends(nest, nest.stages[*copy]).ok()
                                : group_holds(nest, step, kSwizzled, host);
    if (swizzled) domain.push_back({kSwizzled});
    return domain;
  }
  if (!group_holds(nest, step, 1, host)) return {{0}};
  if (copies_bytes(nest, host, false) <= kPrivateRegisters * target.register_bytes) {
    domain.push_back({0});
  }
  domain.push_back({1});
  const bool banks = target.local_real && !is_processor(target);
  const int64_t padded = nest.stages[host].matrix >= 0 ? kPaddedVector : kPadded;
  if (banks && group_holds(nest, step, padded, host)) domain.push_back({padded});
  return domain;
}

}  // namespace

const StepKind& share() {
  static constexpr StepKind kind = {"share", 1, apply_share, share_domain, "simt"};
  return kind;
}

}  // namespace lw
