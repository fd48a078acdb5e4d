#include "src/lower/npu/product_lowering.h"

#include <algorithm>
#include <numeric>

#include "schedules/npu/vector.h"
#include "schedules/npu/windows.h"
#include "schedules/targets/npu/machine.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/lower/npu/block_writer.h"
#include "src/lower/npu/phases.h"
#include "src/lower/npu/vector_lowering.h"

namespace lw::lowering {
namespace {

using Range = BoxRange;
using Ranges = BoxRanges;

// A tile in a managed memory, and where in the nest it is filled.
struct Tile {
  int buffer;
  BoxLayout layout;
  int64_t slots;
  int depth;                  // loops outside
  std::vector<Affine> begin;  // of its box, in the tensor, of the iteration at hand
  Affine offset;              // of its slot
};

class ProductLowering : private BlockWriter {
 public:
  ProductLowering(const Nest& nest, int stage, Kernel& kernel, const std::vector<int>& buffers,
                  const LowerOptions& options, int64_t* spm, int64_t* acc)
      : BlockWriter(options.max_statements, kernel, spm, acc),
        nest_(nest),
        stage_(nest.stages[stage]),
        index_(stage),
        buffers_(buffers),
        options_(options),
        spm_(spm),
        acc_(acc),
        config_(npu_config(*nest.target)) {}

  absl::Status run() {
    std::optional<NpuProduct> product = product_of(nest_, index_);
    if (!product) return infeasible(no_product(nest_, index_));
    if (stage_.variant < 0) {
      return infeasible(concat(stage_.name,
                               " has no tile of the NPU's instructions: where there can be none, the "
                               "memories have no room for the least, or mx.R sums and mx.C columns "
                               "are no multiples of spm.align and acc.align"));
    }
    product_ = *std::move(product);
    tile_begin_ = tile_begin(stage_);
    RETURN_IF_ERROR(add_tile(product_.a->index, false));
    RETURN_IF_ERROR(add_tile(product_.b->index, true));
    if (product_.packs) add_packed();
    add_results();
    ASSIGN_OR_RETURN(phases_, find_phases(stage_, product_.limits, held_.depth));
    if (!stage_.epilogue.empty()) {
      const std::vector<int64_t> kept =
          result_box(product_, inner_extents(stage_, held_.depth));
      ASSIGN_OR_RETURN(finish_, make_finish(nest_, stage_.epilogue[0], kept, held_.slots,
                                            held_.buffer, held_of_tensor(), buffers_, options_,
                                            kernel_, spm_, acc_));
    }
    Ranges whole;
    for (const NestAxis& axis : stage_.axes) whole.push_back({affine(0), axis.extent});
    if (has_points(phases_, product_.limits, whole)) emit(0, whole, affine(0), kernel_.body);
    return failure_;
  }

 private:
  int add_box(std::string name, Type type, const BoxLayout& layout, int64_t slots, int memory) {
    const int64_t elements = layout.elements * slots;  // they end where the next may begin
    return add_managed(std::move(name), type, memory, elements,
                       take(memory, elements * size_of(type)));
  }

  absl::Status add_tile(int tensor, bool b) {
    const auto served =
        std::find_if(stage_.copies.begin(), stage_.copies.end(),
                     [&](const Stage::Copy& copy) { return copy.tensor == tensor; });
    if (served == stage_.copies.end()) {
      return infeasible(concat(nest_.program->tensors[tensor].name, " is not copied into SPM"));
    }
    const Stage& copy = nest_.stages[served->stage];
    Tile& tile = copied(b);
    tile.depth = copy.place == Place::kAt ? find_loop(stage_, copy.loop) + 1 : 0;
    tile.slots = copy.slots;
    const std::vector<int64_t> extents = inner_extents(stage_, tile.depth);
    tile.layout = &tile == &picture_ ? picture_layout(config_, product_, extents)
                                     : operand_layout(config_, product_, b, extents);
    tile.buffer = add_box(copy.name, nest_.program->tensors[tensor].type, tile.layout, tile.slots,
                          kNpuSpm);
    return absl::OkStatus();
  }

  // Where the operand is copied to.
  Tile& copied(bool b) { return !b && product_.packs ? picture_ : tiles_[b]; }

  // Windows beside the picture, in as many slots. What lies behind a window's end is multiplied by
  // zeros, and of floats so has to be a number: zeros, which packing leaves as they are.
  void add_packed() {
    Tile& rows = tiles_[0];
    rows.depth = picture_.depth;
    rows.slots = picture_.slots;
    const std::vector<int64_t> extents = inner_extents(stage_, rows.depth);
    rows.layout = operand_layout(config_, product_, false, extents);
    const Type type = product_.a->type;
    rows.buffer = add_box(kernel_.buffers[picture_.buffer].name + ".windows", type, rows.layout,
                          rows.slots, kNpuSpm);
    if (!is_float(type) || stage_.axes[product_.sum].extent % config_.align.k == 0) return;
    Block zeros;
    zeros.op = BlockOp::kFill;
    zeros.extents = {rows.layout.elements * rows.slots};
    zeros.dst = view(rows.buffer, affine(0), std::vector<int64_t>{1});
    add(std::move(zeros), kernel_.body);
  }

  void add_results() {
    held_.depth = stage_.held.empty() ? 0 : find_loop(stage_, stage_.held) + 1;
    held_.slots = stage_.slots;
    held_.layout = result_layout(config_, product_, inner_extents(stage_, held_.depth));
    held_.buffer = add_box(stage_.name + ".sums", nest_.program->tensors[stage_.tensor].type,
                           held_.layout, held_.slots, kNpuAcc);
  }

  // By the tensor's dimensions: of remainders one is held at a time.
  BoxLayout held_of_tensor() const {
    BoxLayout layout = held_.layout;
    for (size_t d = product_.dst_dims.size(); d-- > 1;) {
      if (product_.dst_dims[d] != product_.dst_dims[d - 1]) continue;
      layout.extents.erase(layout.extents.begin() + static_cast<int64_t>(d));
      layout.strides.erase(layout.strides.begin() + static_cast<int64_t>(d));
    }
    return layout;
  }

  // ---------------------------------------------------------------------------- statements

  // Where a dimension's box begins that these steps give.
  static Affine box_begin(const std::vector<int64_t>& steps, const Ranges& ranges,
                          int64_t constant) {
    Affine begin = affine(constant);
    for (size_t a = 0; a < steps.size(); ++a) {
      const int64_t first = steps[a] < 0 ? ranges[a].count - 1 : 0;
      begin = begin + (ranges[a].begin + affine(first)) * steps[a];
    }
    return begin;
  }

  static Affine dot(const std::vector<Affine>& position, const std::vector<int64_t>& strides) {
    Affine index = affine(0);
    for (size_t d = 0; d < strides.size(); ++d) index = index + position[d] * strides[d];
    return index;
  }

  // The operand's box of these ranges comes into the tile's next slot.
  void fill(bool b, Ranges ranges, const Affine& turn, std::vector<Stmt>& out) {
    Tile& tile = copied(b);
    const bool picture = !b && !product_.window.empty();
    const auto& steps = b         ? product_.b_steps
                        : picture ? product_.picture_steps
                                  : product_.a_steps;
    if (picture) {
      for (const NpuProduct::WindowAxis& axis : product_.window) {
        ranges.push_back({affine(0), axis.extent});
      }
    }
    const std::vector<int64_t>& constants = b ? product_.b_begin : product_.a_begin;
    const int tensor = (b ? product_.b : product_.a)->index;
    const std::vector<int64_t>& shape =
        b ? product_.b_shape : nest_.program->tensors[tensor].shape;
    tile.offset = slot_offset(tile.slots, tile.layout.elements, turn, out);
    tile.begin.clear();
    Block copy;
    copy.op = BlockOp::kCopy;
    for (size_t d = 0; d < steps.size(); ++d) {
      tile.begin.push_back(box_begin(steps[d], ranges, constants[d]));
      copy.extents.push_back(box_extent(steps[d], counts(ranges)));
    }
    const std::vector<int64_t> strides = b ? product_.b_strides : row_major(shape);
    copy.srcs[0] = view(buffers_[tensor], dot(tile.begin, strides), strides);
    copy.dst = view(tile.buffer, tile.offset, tile.layout.strides);
    const bool is_float_tile = is_float(kernel_.buffers[tile.buffer].type);
    if (b ? product_.b_padded : product_.a_padded) {
      clip(borders_of(steps, constants, ranges, shape, tile.begin), 0, copy);
    }
    if (!copy.clips.empty() && !copy.pads) {
      clear(tile, out);
    } else if (b || (is_float_tile && !picture)) {
      pad(tile, steps, ranges, copy.extents, out);
    }
    add(std::move(copy), out);
  }

  // Where the box begins in each dimension of what is copied.
  static std::vector<Border> borders_of(const std::vector<std::vector<int64_t>>& steps,
                                        const std::vector<int64_t>& constants,
                                        const Ranges& ranges, const std::vector<int64_t>& shape,
                                        const std::vector<Affine>& begin) {
    std::vector<Border> borders;
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto [least, most] = bounds(steps[d], ranges, constants[d]);
      borders.push_back({static_cast<int>(d), begin[d], least, most, shape[d]});
    }
    return borders;
  }

  // The windows of the picture that was copied come into their next slot.
  void pack(const Ranges& ranges, const Affine& turn, std::vector<Stmt>& out) {
    Tile& rows = tiles_[0];
    rows.offset = slot_offset(rows.slots, rows.layout.elements, turn, out);
    rows.begin.clear();
    Block copy;
    copy.op = BlockOp::kCopy;
    copy.variant = kNpuPacker;
    std::vector<int64_t> from, to;
    const auto add_extent = [&](int64_t extent, int64_t of_picture, int64_t of_rows) {
      copy.extents.push_back(extent);
      from.push_back(of_picture);
      to.push_back(of_rows);
    };
    const size_t last = product_.a_steps.size() - 1;
    for (size_t d = 0; d <= last; ++d) {
      const std::vector<int64_t>& dim = product_.a_steps[d];
      rows.begin.push_back(box_begin(dim, ranges, product_.a_begin[d]));
      if (d == last) break;
      add_extent(box_extent(dim, counts(ranges)),
                 product_.pitch[d] * picture_.layout.strides[d], rows.layout.strides[d]);
    }
    for (const int level : levels_of(product_)) {
      if (level < 0) {
        add_extent(1, 0, 0);
        continue;
      }
      const size_t axis = ranges.size() + static_cast<size_t>(level);
      int64_t stride = 0;
      for (size_t d = 0; d <= last; ++d) {
        stride += product_.picture_steps[d][axis] * picture_.layout.strides[d];
      }
      add_extent(product_.window[level].extent, stride, product_.window[level].unit);
    }
    copy.srcs[0] = view(picture_.buffer, picture_.offset, from);
    copy.dst = view(rows.buffer, rows.offset, to);
    add(std::move(copy), out);
  }

  // Zeros all over the tile's slot.
  void clear(const Tile& tile, std::vector<Stmt>& out) {
    Block zeros;
    zeros.op = BlockOp::kFill;
    zeros.extents = {tile.layout.elements};
    zeros.dst = view(tile.buffer, tile.offset, std::vector<int64_t>{1});
    add(std::move(zeros), out);
  }

  // Zeros where an instruction reads beyond the end of a sum: whole rows of what lies contiguous,
  // as the vector engine writes them.
  void pad(const Tile& tile, const std::vector<std::vector<int64_t>>& steps, const Ranges& ranges,
           const absl::InlinedVector<int64_t, 4>& extents, std::vector<Stmt>& out) {
    const int sum = product_.sum;
    if (sum < 0 || ranges[sum].count % config_.align.k == 0) return;
    for (size_t d = 0; d < steps.size(); ++d) {
      if (steps[d][sum] == 0) continue;
      // The rows of the rest, and the last one before: the copy then comes after the zeros, and who
      // waits for it need not wait for them too. All of the tile where rows run along sums, or what
      // is read lies otherwise.
      const int64_t unit = std::lcm(config_.ve.lanes, config_.spm.align);
      const bool alone = std::accumulate(steps[d].begin(), steps[d].end(), int64_t{0}) == 1;
      const bool rows = d == 0 && steps.size() > 1 && alone;
      const int64_t row = tile.layout.strides[d];
      const int64_t begin = rows ? (extents[d] - 1) * row / unit * unit : 0;
      const int64_t end = rows ? padded_to(padded_to(extents[d], config_.align.k) * row, unit)
                               : tile.layout.elements;
      Block zeros;
      zeros.op = BlockOp::kFill;
      zeros.extents = {std::min(end, tile.layout.elements) - begin};
      zeros.dst = view(tile.buffer, tile.offset + affine(begin), std::vector<int64_t>{1});
      add(std::move(zeros), out);
      return;
    }
  }

  // ---------------------------------------------------------------------------- loops

  void emit(int position, const Ranges& ranges, const Affine& turn, std::vector<Stmt>& out) {
    if (!failure_.ok()) return;
    const bool empty = has_no_taps(ranges);
    for (const bool b : {false, true}) {
      if (tiles_[b].depth != position || empty) continue;
      fill(b, ranges, turn, out);
      if (!b && product_.packs) pack(ranges, turn, out);
    }
    if (held_.depth == position) hold(ranges, turn, out);
    if (held_.depth == position && empty) {
      clear(held_, out);
    } else if (position == tile_begin_) {
      multiply(ranges, out);
    } else if (phases_.is_phase[static_cast<size_t>(position)]) {
      emit_phases(position, ranges, turn, out);
    } else {
      loop(stage_, position, ranges, turn, out,
           [&](const Ranges& inner, const Affine& turns, std::vector<Stmt>& body) {
             emit(position + 1, inner, turns, body);
           });
    }
    if (held_.depth == position) store(ranges, turn, out);
  }

  // Each phase by itself, of which it is known what points and taps it has.
  void emit_phases(int position, const Ranges& ranges, const Affine& turn,
                   std::vector<Stmt>& out) {
    const size_t axis = static_cast<size_t>(stage_.loops[position].parts[0].axis);
    const int64_t count = stage_.axes[axis].extent;
    for (int64_t phase = 0; phase < count; ++phase) {
      Ranges inner = ranges;
      inner[axis] = {affine(phase), 1, phase, phase};
      if (!has_points(phases_, product_.limits, inner)) continue;
      emit(position + 1, inner, turn * count + affine(phase), out);
    }
  }

  bool has_no_taps(const Ranges& ranges) const {
    for (size_t a = 0; a < ranges.size(); ++a) {
      if (stage_.axes[a].reduction && ranges[a].count == 0) return true;
    }
    return false;
  }

  void hold(const Ranges& ranges, const Affine& turn, std::vector<Stmt>& out) {
    held_.offset = slot_offset(held_.slots, held_.layout.elements, turn, out);
    held_.begin.clear();
    for (size_t d = 0; d < product_.dst_steps.size(); ++d) {
      held_.begin.push_back(box_begin(product_.dst_steps[d], ranges, product_.dst_begin[d]));
    }
    held_ranges_ = ranges;
  }

  // One instruction: every axis of the tile is a dimension, in the order of its loops.
  void multiply(const Ranges& ranges, std::vector<Stmt>& out) {
    Block block;
    block.op = BlockOp::kProduct;
    block.variant = stage_.variant;
    block.dst.buffer = held_.buffer;
    std::vector<std::vector<int64_t>> strides(3);
    std::vector<Affine> index(3, affine(0));
    const std::vector<std::vector<int64_t>>* steps[3] = {&product_.dst_steps, &product_.a_steps,
                                                         &product_.b_steps};
    const std::vector<int64_t>* begins[3] = {&product_.dst_begin, &product_.a_begin,
                                             &product_.b_begin};
    const Tile* tiles[3] = {&held_, &tiles_[0], &tiles_[1]};
    for (int v = 0; v < 3; ++v) {
      index[v] = tiles[v]->offset;
      for (size_t d = 0; d < steps[v]->size(); ++d) {
        const std::vector<int64_t>& dim = (*steps[v])[d];
        const int64_t constant = (*begins[v])[d];
        index[v] = index[v] + (box_begin(dim, ranges, constant) - tiles[v]->begin[d]) *
                                  tiles[v]->layout.strides[d];
      }
    }
    for (size_t l = static_cast<size_t>(tile_begin_); l < stage_.loops.size(); ++l) {
      const size_t a = static_cast<size_t>(stage_.loops[l].parts[0].axis);
      int64_t extent = ranges[a].count;
      if (product_.roles[a] == AxisRole::kSum) extent = padded_to(extent, config_.align.k);
      if (product_.roles[a] == AxisRole::kColumn) extent = padded_to(extent, config_.align.n);
      block.extents.push_back(extent);
      for (int v = 0; v < 3; ++v) {
        int64_t stride = 0;
        for (size_t d = 0; d < steps[v]->size(); ++d) {
          stride += (*steps[v])[d][a] * tiles[v]->layout.strides[d];
        }
        strides[v].push_back(stride);
      }
    }
    block.dst = view(held_.buffer, index[0], strides[0]);
    block.srcs[0] = view(tiles_[0].buffer, index[1], strides[1]);
    block.srcs[1] = view(tiles_[1].buffer, index[2], strides[2]);
    accumulate(std::move(block), ranges, out);
  }

  // The first product of a sum begins it, others add: by how far the sums' axes have come.
  void accumulate(Block block, const Ranges& ranges, std::vector<Stmt>& out) {
    Affine come = affine(0);
    for (size_t a = 0; a < ranges.size(); ++a) {
      if (!stage_.axes[a].reduction) continue;
      come = come + ranges[a].begin - held_ranges_[a].begin;
    }
    block.accumulate = !come.is_constant() || come.constant > 0;
    if (come.is_constant() || come.constant > 0) return add(std::move(block), out);
    Stmt choice;
    choice.kind = Stmt::Kind::kIf;
    choice.conditions = {come - affine(1)};
    Block first = block;
    first.accumulate = false;
    add(std::move(block), choice.body);
    add(std::move(first), choice.otherwise);
    add(std::move(choice), out);
  }

  void store(const Ranges& ranges, const Affine& turn, std::vector<Stmt>& out) {
    if (finish_) {
      failure_.Update(finish_(box_of_tensor(ranges), turn, held_.offset, out));
      return;
    }
    Block copy;
    copy.op = BlockOp::kCopy;
    for (const std::vector<int64_t>& dim : product_.dst_steps) {
      copy.extents.push_back(box_extent(dim, counts(ranges)));
    }
    const std::vector<int64_t>& strides = product_.dst_strides;
    copy.srcs[0] = view(held_.buffer, held_.offset, held_.layout.strides);
    copy.dst = view(buffers_[stage_.tensor], dot(held_.begin, strides), strides);
    add(std::move(copy), out);
  }

  // What is held, by the tensor's dimensions.
  Ranges box_of_tensor(const Ranges& ranges) const {
    const std::vector<int64_t> whole = row_major(nest_.program->tensors[stage_.tensor].shape);
    Ranges box(whole.size(), Range{affine(0), 1});
    for (size_t d = 0; d < product_.dst_steps.size(); ++d) {
      const size_t t = static_cast<size_t>(product_.dst_dims[d]);
      const int64_t unit = product_.dst_strides[d] / whole[t];
      const auto [least, most] = bounds(product_.dst_steps[d], ranges, product_.dst_begin[d]);
      box[t].begin = box[t].begin + held_.begin[d] * unit;
      box[t].count *= box_extent(product_.dst_steps[d], counts(ranges));
      box[t].least += least * unit;
      box[t].most += most * unit;
      box[t].apart = std::max(box[t].apart, unit);
    }
    return box;
  }

  const Nest& nest_;
  const Stage& stage_;
  const int index_;
  const std::vector<int>& buffers_;  // of tensors
  const LowerOptions& options_;
  int64_t *const spm_, *const acc_;  // bytes in use
  const npu::Config& config_;
  Finish finish_;                // of its epilogue, if it has one
  NpuProduct product_;
  Phases phases_;
  int tile_begin_ = 0;
  Tile tiles_[2], held_;  // of a, of b; of the results
  Tile picture_;          // of which a's tile is packed, where it is
  Ranges held_ranges_;
};

}  // namespace

absl::Status lower_product(const Nest& nest, int stage, const std::vector<int>& buffers,
                           const LowerOptions& options, Kernel& kernel, int64_t* spm,
                           int64_t* acc) {
  return ProductLowering(nest, stage, kernel, buffers, options, spm, acc).run();
}

}  // namespace lw::lowering
