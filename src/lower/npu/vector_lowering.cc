#include "src/lower/npu/vector_lowering.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedules/targets/npu/machine.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/lower/npu/phases.h"
#include "src/lower/npu/vector_memory.h"

namespace lw::lowering {
namespace {

using Kind = VectorValue::Kind;

BlockOp block_op(VectorOp::Kind kind) {
  switch (kind) {
    case VectorOp::Kind::kZero: return BlockOp::kFill;
    case VectorOp::Kind::kCopy: return BlockOp::kCopy;
    case VectorOp::Kind::kUnary: return BlockOp::kUnary;
    case VectorOp::Kind::kBinary: return BlockOp::kBinary;
    case VectorOp::Kind::kScalar: return BlockOp::kScalar;
    case VectorOp::Kind::kRequantise: return BlockOp::kRequantise;
    case VectorOp::Kind::kReduce: return BlockOp::kReduce;
  }
  return BlockOp::kCopy;
}

class VectorLowering : private VectorMemory {
 public:
  VectorLowering(const Nest& nest, int stage, const std::vector<int>& buffers,
                 const LowerOptions& options, Kernel& kernel, int64_t* spm, int64_t* acc)
      : VectorMemory(nest, stage, buffers, options, kernel, spm, acc), index_(stage) {}

  absl::Status run() {
    ASSIGN_OR_RETURN(code_, vector_code(nest_, index_));
    if (stage_.variant != kNpuVector) {
      return infeasible(concat(stage_.name, " has no boxes of the NPU's vector engine"));
    }
    tile_begin_ = tile_begin(stage_);
    held_ = stage_.held.empty() ? 0 : find_loop(stage_, stage_.held) + 1;
    place_values(inner_extents(stage_, tile_begin_), stage_.slots);
    make_once();
    BoxRanges whole;
    for (const NestAxis& axis : stage_.axes) whole.push_back({affine(0), axis.extent});
    emit(0, whole, affine(0), kernel_.body);
    return failure_;
  }

  absl::Status prepare_finish(const std::vector<int64_t>& extents, int64_t slots, int buffer,
                              const BoxLayout& layout) {
    ASSIGN_OR_RETURN(code_, vector_code(nest_, index_));
    place_values(extents, slots);
    for (int v = 0; v < count(); ++v) {
      if (value(v).kind != Kind::kHeld) continue;
      placed(v).buffer = buffer;
      placed(v).layout = layout;
    }
    make_once();
    return failure_;
  }
  absl::Status finish(const BoxRanges& ranges, const Affine& turn, const Affine& offset,
                      std::vector<Stmt>& out) {
    for (int v = 0; v < count(); ++v) {
      if (value(v).kind == Kind::kOperand) load(v, ranges, turn, out);
      if (value(v).kind == Kind::kHeld) placed(v).offset = offset;
    }
    hold(ranges, turn, out);
    compute(ranges, out);
    store(ranges, out);
    return failure_;
  }

 private:
  // ---------------------------------------------------------------------------- statements

  // An operation on values: over the axes along which any of them varies, and along rows, which are
  // padded; what does not vary along these is a column, alone a vector each.
  Block operation(BlockOp op, int dst, const std::vector<int>& srcs, const BoxRanges& ranges) {
    std::vector<int> values = srcs;
    values.insert(values.begin(), dst);
    const auto any_varies = [&](int axis) {
      return std::any_of(values.begin(), values.end(),
                         [&](int v) { return varies(value(v).tile, axis); });
    };
    const int along = code_.vector_axis;
    const bool vectors = along >= 0 && any_varies(along);
    std::vector<int64_t> extents;
    std::vector<int> axes;
    for (const int a : code_.order) {
      if (a == along || !any_varies(a)) continue;
      axes.push_back(a);
      extents.push_back(ranges[static_cast<size_t>(a)].count);
    }
    const int64_t row = vectors ? ranges[static_cast<size_t>(along)].count : 1;
    extents.push_back(padded_to(row, vector_padding(config_)));
    const auto view_of = [&](int v) {
      std::vector<int64_t> strides;
      for (const int a : axes) strides.push_back(step_in(v, a));
      const bool in_row = !vectors || value(v).kind == Kind::kRow || varies(value(v).tile, along);
      strides.push_back(in_row);
      return view(placed(v).buffer, placed(v).offset, strides);
    };
    std::vector<View> views;
    for (const int v : srcs) views.push_back(view_of(v));
    return block_of(op, view_of(dst), std::move(views), extents);
  }

  // ---------------------------------------------------------------------------- loops

  void emit(int position, const BoxRanges& ranges, const Affine& turn, std::vector<Stmt>& out) {
    if (!failure_.ok()) return;
    for (int v = 0; v < count(); ++v) {
      if (value(v).kind == Kind::kOperand && placed(v).depth == position) {
        load(v, ranges, turn, out);
      }
    }
    if (held_ == position) hold(ranges, turn, out);
    if (position == tile_begin_) {
      compute(ranges, out);
    } else {
      loop(stage_, position, ranges, turn, out,
           [&](const BoxRanges& inner, const Affine& turns, std::vector<Stmt>& body) {
             emit(position + 1, inner, turns, body);
           });
    }
    if (held_ == position) store(ranges, out);
  }

  void load(int v, const BoxRanges& ranges, const Affine& turn, std::vector<Stmt>& out) {
    const VectorValue& operand = value(v);
    Placed& p = placed(v);
    p.offset = slot_offset(p.slots, p.layout.elements, turn, out);
    if (code_.by_rows && v == code_.rows) fill_up(v, ranges, out);
    std::vector<int64_t> extents;
    for (const std::vector<int64_t>& dim : operand.tile.steps) {
      extents.push_back(box_extent(dim, counts(ranges)));
    }
    Affine begin = affine(operand.source_begin);
    for (size_t a = 0; a < ranges.size(); ++a) {
      begin = begin + ranges[a].begin * operand.source_steps[a];
    }
    const int source = operand.tensor < 0 ? numbers_ : buffers_[operand.tensor];
    const absl::StatusOr<std::vector<int64_t>> strides = source_strides(operand, ranges);
    if (!strides.ok()) return failure_.Update(strides.status());
    Block copy = block_of(BlockOp::kCopy, view(p.buffer, p.offset, p.layout.strides),
                          {view(source, begin, *strides)}, extents);
    if (!operand.borders.empty()) {
      clip(borders_of(operand, ranges), operand.number, copy);
      if (!copy.clips.empty() && !copy.pads) fill_borders(v, copy, out);
    }
    add(std::move(copy), out);
  }

  static std::vector<Border> borders_of(const VectorValue& operand, const BoxRanges& ranges) {
    std::vector<Border> borders;
    for (const VectorBorder& border : operand.borders) {
      const auto [least, most] = bounds(border.steps, ranges, border.begin);
      Affine first = affine(border.begin);
      for (size_t a = 0; a < ranges.size(); ++a) first = first + ranges[a].begin * border.steps[a];
      borders.push_back({border.dim, std::move(first), least, most, border.size});
    }
    return borders;
  }

  // The number all over the operand's slot, where the copy does not fill all of its box.
  void fill_borders(int v, const Block& copy, std::vector<Stmt>& out) {
    const Placed& p = placed(v);
    const int64_t unit = tile_padding(config_, value(v).tile);
    Stmt choice;
    choice.kind = Stmt::Kind::kIf;
    for (const Clip& clip : copy.clips) {
      const int64_t room = clip.size - copy.extents[static_cast<size_t>(clip.dim)];
      choice.conditions.push_back(clip.first);
      choice.conditions.push_back(affine(room) - clip.first);
    }
    if (p.numbers < 0) {
      const std::vector<int64_t> all = {1};
      add(block_of(BlockOp::kFill, view(p.buffer, p.offset, all), {}, {p.layout.elements}),
          choice.otherwise);
    } else {
      const std::vector<int64_t> vectors = {unit, 1}, repeated = {0, 1};
      add(block_of(BlockOp::kCopy, view(p.buffer, p.offset, vectors),
                   {view(p.numbers, affine(0), repeated)}, {p.layout.elements / unit, unit}),
          choice.otherwise);
    }
    add(std::move(choice), out);
  }

  // The last vectors of the value's rows become what changes no reduction; beginning with the one
  // that the row's last elements are in.
  struct Rest {
    std::vector<int64_t> extents, strides;  // to the end of vectors
    std::vector<int64_t> repeated;          // strides of a row that is the same for all of them
    int64_t begin, used, padded;            // elements of a row
  };
  Rest rest_of(int v, const BoxRanges& ranges) {
    const VectorTile& tile = value(v).tile;
    const BoxLayout& layout = placed(v).layout;
    const std::vector<int64_t> box = counts(ranges);
    Rest rest;
    for (size_t d = 0; d + 1 < tile.steps.size(); ++d) {
      rest.extents.push_back(box_extent(tile.steps[d], box));
      rest.strides.push_back(layout.strides[d]);
    }
    const int64_t row = box_extent(tile.steps.back(), box), unit = tile_padding(config_, tile);
    rest.begin = row / unit * unit;
    rest.used = row - rest.begin;
    rest.padded = padded_to(rest.used, vector_padding(config_));
    rest.repeated.assign(rest.extents.size(), 0);
    rest.extents.push_back(rest.padded);
    rest.strides.push_back(1);
    rest.repeated.push_back(1);
    return rest;
  }
  void fill_up(int v, const BoxRanges& ranges, std::vector<Stmt>& out) {
    const Rest rest = rest_of(v, ranges);
    if (rest.used == rest.padded) return;
    const Affine begin = placed(v).offset + affine(rest.begin);
    add(block_of(BlockOp::kCopy, view(placed(v).buffer, begin, rest.strides),
                 {view(identity_, affine(0), rest.repeated)}, rest.extents),
        out);
  }

  // The same before an inlined reduction, whatever the words are: as integers they are multiplied
  // with ones and zeros, and the identity's bits are added.
  void fill_ragged(int v, Reduce reduce, const BoxRanges& ranges, std::vector<Stmt>& out) {
    const auto kind = std::find(code_.ragged.begin(), code_.ragged.end(),
                                VectorCode::Ragged{reduce, value(v).tile.type});
    if (kind == code_.ragged.end()) return;
    const Rest rest = rest_of(v, ranges);
    const View words = view(words_of(v), placed(v).offset + affine(rest.begin), rest.strides);
    const auto change = [&](ExprOp op, int by) {
      Block block = block_of(BlockOp::kBinary, words, {words, view(by, affine(0), rest.repeated)},
                             rest.extents);
      block.expr_op = op;
      add(std::move(block), out);
    };
    change(ExprOp::kMul, ones_);
    const int added = rest_bits_[static_cast<size_t>(kind - code_.ragged.begin())];
    if (added >= 0) change(ExprOp::kAdd, added);
  }

  // The same of what is computed: what rows end with is in DRAM meanwhile.
  void fill_up_computed(int v, const BoxRanges& ranges, std::vector<Stmt>& out) {
    const Rest rest = rest_of(v, ranges);
    if (rest.used == rest.padded) return;
    std::vector<int64_t> extents = rest.extents;
    extents.back() = rest.used;
    std::vector<int64_t> packed(extents.size(), 1);
    for (size_t d = extents.size(); d-- > 1;) packed[d - 1] = packed[d] * extents[d];
    const int scratch = add_scratch(named("scratch"), value(v).tile.type, packed[0] * extents[0]);
    const View there = view(scratch, affine(0), packed);
    const View here = view(placed(v).buffer, placed(v).offset + affine(rest.begin), rest.strides);
    add(block_of(BlockOp::kCopy, there, {here}, extents), out);
    fill_up(v, ranges, out);
    add(block_of(BlockOp::kCopy, here, {there}, extents), out);
  }

  void hold(const BoxRanges& ranges, const Affine& turn, std::vector<Stmt>& out) {
    held_ranges_ = ranges;
    const auto begin = [&](int v) {
      Placed& p = placed(v);
      if (value(v).kind != Kind::kComputed) return;
      p.offset = slot_offset(p.slots, p.layout.elements, turn, out);
    };
    begin(code_.result);
    if (code_.stored != code_.result) begin(code_.stored);
  }

  void compute(const BoxRanges& ranges, std::vector<Stmt>& out) {
    for (const VectorOp& op : code_.ops) {
      std::vector<int> srcs;
      for (const int v : op.srcs) {
        if (v >= 0) srcs.push_back(v);
      }
      if (op.kind == VectorOp::Kind::kReduce && reduces_rows(code_, op)) {
        fill_ragged(op.srcs[0], op.reduce, ranges, out);
      }
      Block block = operation(block_op(op.kind), op.dst, srcs, ranges);
      block.expr_op = op.expr_op;
      block.reduce = op.reduce;
      block.number = op.number;
      block.zero = op.zero, block.lo = op.lo, block.hi = op.hi;
      if (op.words) {
        block.dst.buffer = words_of(op.dst);
        for (size_t i = 0; i < srcs.size(); ++i) block.srcs[i].buffer = words_of(srcs[i]);
      }
      add(std::move(block), out);
    }
    if (code_.reduce != Reduce::kNone) reduce(ranges, out);
  }

  void reduce(const BoxRanges& ranges, std::vector<Stmt>& out) {
    if (code_.rows != code_.body) combine(code_.rows, code_.body, false, ranges, out);
    if (code_.by_rows && value(code_.rows).kind == Kind::kComputed) {
      fill_up_computed(code_.rows, ranges, out);
    }
    // The first box of a sum begins it, others add: by how far the reduction's axes have come.
    Affine come = affine(0);
    for (size_t a = 0; a < ranges.size(); ++a) {
      if (stage_.axes[a].reduction) come = come + ranges[a].begin - held_ranges_[a].begin;
    }
    const auto first = [&](std::vector<Stmt>& list) {
      combine(code_.result, code_.rows, false, ranges, list);
    };
    const auto others = [&](std::vector<Stmt>& list) {
      if (code_.by_rows) combine(code_.partial, code_.rows, false, ranges, list);
      combine(code_.result, code_.partial, true, ranges, list);
    };
    if (come.is_constant()) return come.constant > 0 ? others(out) : first(out);
    Stmt choice;
    choice.kind = Stmt::Kind::kIf;
    choice.conditions = {come - affine(1)};
    others(choice.body);
    first(choice.otherwise);
    add(std::move(choice), out);
  }

  void combine(int dst, int src, bool accumulate, const BoxRanges& ranges, std::vector<Stmt>& out) {
    Block block = operation(BlockOp::kReduce, dst, {src}, ranges);
    block.reduce = code_.reduce;
    block.accumulate = accumulate;
    add(std::move(block), out);
  }

  void store(const BoxRanges& ranges, std::vector<Stmt>& out) {
    const int v = code_.stored;
    if (v != code_.result) add(operation(BlockOp::kCopy, v, {code_.result}, ranges), out);
    const std::vector<int64_t>& shape = nest_.program->tensors[stage_.tensor].shape;
    std::vector<int64_t> extents, here, there;
    Affine begin = affine(0);
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
      extents.insert(extents.begin(), ranges[d].count);
      here.insert(here.begin(), step_in(v, static_cast<int>(d)));
      there.insert(there.begin(), stride * ranges[d].apart);
      begin = begin + ranges[d].begin * stride;
    }
    if (extents.empty()) extents = here = there = {1};
    add(block_of(BlockOp::kCopy, view(buffers_[stage_.tensor], begin, there),
                 {view(placed(v).buffer, placed(v).offset, here)}, extents),
        out);
  }

  const int index_;
  int held_ = 0;                           // loops outside of what is held
  BoxRanges held_ranges_;
};

}  // namespace

absl::Status lower_vector(const Nest& nest, int stage, const std::vector<int>& buffers,
                          const LowerOptions& options, Kernel& kernel, int64_t* spm, int64_t* acc) {
  return VectorLowering(nest, stage, buffers, options, kernel, spm, acc).run();
}

absl::StatusOr<Finish> make_finish(const Nest& nest, int epilogue,
                                   const std::vector<int64_t>& extents, int64_t slots, int buffer,
                                   const BoxLayout& layout, const std::vector<int>& buffers,
                                   const LowerOptions& options, Kernel& kernel, int64_t* spm,
                                   int64_t* acc) {
  const auto lowering =
      std::make_shared<VectorLowering>(nest, epilogue, buffers, options, kernel, spm, acc);
  RETURN_IF_ERROR(lowering->prepare_finish(extents, slots, buffer, layout));
  return [lowering](const BoxRanges& ranges, const Affine& turn, const Affine& offset,
                    std::vector<Stmt>& out) {
    return lowering->finish(ranges, turn, offset, out);
  };
}

}  // namespace lw::lowering
