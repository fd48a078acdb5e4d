// vector_tile(Y, i, j; 16, 256, 2)
//   before  i: 500          after  i.0: 32 of 16, compose
//             j: 1000                j.0: 4 of 256, compose
//                                      unroll i.1: 16, j.1: 256
// A stage that an NPU's vector engine computes: all its loops, as they stand, are cut into boxes,
// which are fetched, computed and stored one after the other; sums over boxes are held until they
// are complete. The numbers: the box's extents, and the slots of operands and of results, so that
// one box is fetched or stored while another is computed.
//
// The domain holds what the memories have room for: rows from a vector on, in powers of two.
#include <algorithm>
#include <functional>

#include "schedules/domains.h"
#include "schedules/legality.h"
#include "schedules/npu/vector.h"
#include "schedules/targets/npu/machine.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr int64_t kMostBoxSlots = 3;
constexpr int64_t kMostRow = 4095;         // elements that one instruction reduces
constexpr int64_t kMostBoxes = int64_t{1} << 16;
constexpr size_t kMostDecisions = 512;

struct Boxes {
  int stage;
  VectorCode code;
};

absl::StatusOr<Boxes> boxes_of(const Nest& nest, const Step& step) {
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  const Stage& s = nest.stages[stage];
  ASSIGN_OR_RETURN(VectorCode code, vector_code(nest, stage));
  if (s.loops.size() + 1 != step.names.size()) return infeasible("all loops are to be named");
  for (size_t l = 0; l < s.loops.size(); ++l) {
    const Loop& loop = s.loops[l];
    if (loop.name != step.names[l + 1]) return infeasible("the loops are not listed as they stand");
    if (!is_plain(loop)) {
      return infeasible(concat(loop.name, " does not run over single points of one axis"));
    }
  }
  return Boxes{stage, std::move(code)};
}

// Rows are reduced by one instruction.
bool too_long(const npu::Config& config, const VectorCode& code, int64_t row) {
  const bool reduced = code.by_rows || is_whole(code, code.vector_axis);
  return reduced && padded_to(row, vector_padding(config)) > kMostRow;
}

absl::Status check_box(const Nest& nest, const Boxes& boxes, const std::vector<int64_t>& extents,
                       int64_t slots) {
  const npu::Config& config = npu_config(*nest.target);
  const int along = boxes.code.vector_axis;
  if (along >= 0 && too_long(config, boxes.code, extents[static_cast<size_t>(along)])) {
    return infeasible(concat("rows of more than ", kMostRow, " elements"));
  }
  if (!holds_whole(boxes.code, extents)) {
    return infeasible("boxes cut an axis along which they reduce");
  }
  const VectorBytes bytes = vector_room(config, boxes.code, extents).with(slots);
  if (fits(config, bytes)) return absl::OkStatus();
  return infeasible(concat("the memories have no room for ", bytes.spm, " and ", bytes.acc,
                           " bytes of a box"));
}

absl::Status apply_vector_tile(Nest& nest, const Step& step) {
  const int named = static_cast<int>(step.names.size());
  RETURN_IF_ERROR(expect(step, {1, named, named, named}));
  ASSIGN_OR_RETURN(const Boxes boxes, boxes_of(nest, step));
  Stage& s = nest.stages[boxes.stage];
  std::vector<int64_t> extents(s.axes.size());
  for (size_t l = 0; l < s.loops.size(); ++l) {
    const size_t axis = static_cast<size_t>(s.loops[l].parts[0].axis);
    if (step.numbers[l] < 1) return infeasible(concat("a box of ", step.numbers[l]));
    extents[axis] = std::min(step.numbers[l], s.axes[axis].extent);
  }
  const int64_t slots = step.numbers.back();
  if (slots < 1 || slots > kMostBoxSlots) return infeasible(concat(slots, " slots"));
  RETURN_IF_ERROR(check_box(nest, boxes, extents, slots));
  for (size_t l = 1; l < step.names.size(); ++l) {
    ASSIGN_OR_RETURN(const int position, loop_position(s, step.names[l]));
    const int64_t size = extents[static_cast<size_t>(s.loops[position].parts[0].axis)];
    RETURN_IF_ERROR(split_loop(nest, boxes.stage, position, {&size, 1}, Tail::kCompose));
  }
  // Boxes of results, then those that add up, then the box.
  std::stable_sort(s.loops.begin(), s.loops.end(), [&](const Loop& a, const Loop& b) {
    const auto rank = [&](const Loop& loop) {
      const bool inner = loop.parts[0].tile == 1 && loop.name.ends_with(".1");
      return inner ? 2 : s.axes[static_cast<size_t>(loop.parts[0].axis)].reduction ? 1 : 0;
    };
    return rank(a) < rank(b);
  });
  for (Loop& loop : s.loops) {
    if (loop.name.ends_with(".1")) loop.kind = LoopKind::kUnroll;
    else if (!s.axes[static_cast<size_t>(loop.parts[0].axis)].reduction) s.held = loop.name;
  }
  s.variant = kNpuVector;
  s.memory = kNpuAcc;
  s.slots = static_cast<int>(slots);
  return check_legal(nest, boxes.stage);
}

// Extents of a box along one axis, ascending.
std::vector<int64_t> extents_along(const npu::Config& config, const VectorCode& code, int axis,
                                   int64_t extent) {
  const int64_t padding = vector_padding(config);
  const int64_t least = is_whole(code, axis) ? extent : axis == code.vector_axis ? padding : 1;
  std::vector<int64_t> extents;
  for (int64_t e = least; e < extent; e *= 2) extents.push_back(e);
  extents.push_back(extent);
  if (axis == code.vector_axis) {
    std::erase_if(extents, [&](int64_t row) { return too_long(config, code, row); });
  }
  return extents;
}

std::vector<Decision> vector_tile_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<Boxes> boxes = boxes_of(nest, step);
  if (!boxes.ok()) return {};
  const Stage& s = nest.stages[boxes->stage];
  const npu::Config& config = npu_config(*nest.target);
  std::vector<Decision> domain;
  Decision decision(s.loops.size(), 1);
  std::vector<int64_t> extents(s.axes.size(), 1);
  // From the innermost loop on, so that what is contiguous grows first; larger boxes do not fit
  // either.
  const std::function<bool(size_t, double)> choose = [&](size_t left, double count) {
    if (left == 0) {
      const VectorRoom room = vector_room(config, boxes->code, extents);
      for (int64_t slots = 1; slots <= kMostBoxSlots && count <= kMostBoxes; ++slots) {
        if (!fits(config, room.with(slots))) break;
        domain.push_back(decision);
        domain.back().push_back(slots);
      }
      return fits(config, room.with(1));
    }
    const size_t l = left - 1, axis = static_cast<size_t>(s.loops[l].parts[0].axis);
    const int64_t extent = s.axes[axis].extent;
    bool any = false;
    for (const int64_t e : extents_along(config, boxes->code, static_cast<int>(axis), extent)) {
      decision[l] = extents[axis] = e;
      const double times = static_cast<double>((extent + e - 1) / e);
      if (!choose(left - 1, count * times)) break;
      any = true;
    }
    decision[l] = extents[axis] = 1;
    return any;
  };
  choose(s.loops.size(), 1);
  thin(domain, kMostDecisions);
  return domain;
}

}  // namespace

const StepKind& vector_tile() {
  static constexpr StepKind kind = {"vector_tile", 1, apply_vector_tile, vector_tile_domain, "npu"};
  return kind;
}

}  // namespace lw
