// Buffers of an NPU's memories, and blocks on them, as a kernel gets them from a stage's lowering.
// Internal to src/lower/npu.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "schedules/nest.h"
#include "src/base/message.h"
#include "src/kernel/kernel.h"

namespace lw::lowering {

// Where each axis of a stage begins, and how many points it has from there, so many apart; the
// least and the most that `begin` becomes.
struct BoxRange {
  Affine begin;
  int64_t count;
  int64_t least = 0, most = 0;
  int64_t apart = 1;                       // of a finish's: those of a phase
};
using BoxRanges = std::vector<BoxRange>;

class BlockWriter {
 protected:
  // At most so many statements. `spm`, `acc`: bytes of the memories that are in use.
  BlockWriter(int64_t most, Kernel& kernel, int64_t* spm, int64_t* acc)
      : kernel_(kernel), most_(most), ends_{spm, acc} {}

  int add_managed(std::string name, Type type, int memory, int64_t elements, int64_t offset) {
    Buffer buffer;
    buffer.name = std::move(name);
    buffer.type = type;
    buffer.elements = elements;
    buffer.scope = Scope::kManaged;
    buffer.memory = memory;
    buffer.offset = offset;
    return add_buffer(std::move(buffer));
  }
  int add_buffer(Buffer buffer) {
    kernel_.buffers.push_back(std::move(buffer));
    return static_cast<int>(kernel_.buffers.size()) - 1;
  }
  // Where `bytes` of a memory begin that nobody else has.
  int64_t take(int memory, int64_t bytes) {
    return std::exchange(*ends_[memory], *ends_[memory] + bytes);
  }
  int add_scratch(std::string name, Type type, int64_t elements) {
    Buffer buffer;
    buffer.name = std::move(name);
    buffer.type = type;
    buffer.elements = elements;
    buffer.scope = Scope::kWorkspace;
    buffer.offset = kernel_.workspace_bytes;
    kernel_.workspace_bytes += aligned_bytes(elements * size_of(type));
    return add_buffer(std::move(buffer));
  }

  // A buffer with the same number in each of its elements, made of zeros. It is `owner`'s.
  int make_numbers(const std::string& owner, Type type, int memory, int64_t elements,
                   double number);
  // `ones` ones and then zeros, of i32 in ACC.
  int make_mask(const std::string& owner, int64_t elements, int64_t ones);

  void add(Stmt statement, std::vector<Stmt>& out) {
    if (++statements_ > most_ && failure_.ok()) {
      failure_ = infeasible(concat("more than ", most_, " statements"));
    }
    out.push_back(std::move(statement));
  }
  void add(Block block, std::vector<Stmt>& out) {
    Stmt statement;
    statement.kind = Stmt::Kind::kBlock;
    statement.block = std::make_shared<const Block>(std::move(block));
    add(std::move(statement), out);
  }

  // Where the slot of this iteration begins, of slots of so many elements: `turn` counts them.
  Affine slot_offset(int64_t slots, int64_t elements, const Affine& turn,
                     std::vector<Stmt>& out) {
    if (slots == 1) return affine(0);
    if (turn.is_constant()) return affine(turn.constant % slots * elements);
    Stmt slot;
    slot.kind = Stmt::Kind::kInt;
    slot.int_op = Stmt::IntOp::kMod;
    slot.var = kernel_.variables++;
    slot.a = turn;
    slot.divisor = slots;
    const Affine number = variable(slot.var);
    add(std::move(slot), out);
    return number * elements;
  }

  // The iterations of the stage's loop at `position`, whole tiles and then the rest:
  // emit(ranges, turn, statements) for each kind of them.
  template <class Emit>
  void loop(const Stage& stage, int position, const BoxRanges& ranges, const Affine& turn,
            std::vector<Stmt>& out, const Emit& emit) {
    const LoopPart part = stage.loops[position].parts[0];
    const size_t axis = static_cast<size_t>(part.axis);
    const BoxRange range = ranges[axis];
    const int64_t whole = range.count / part.tile, rest = range.count % part.tile;
    const Affine turns = turn * trips(stage, position);
    // Iterations `first` to `last`.
    const auto run = [&](const Affine& number, int64_t first, int64_t last, int64_t count,
                         std::vector<Stmt>& body) {
      BoxRanges inner = ranges;
      inner[axis] = {range.begin + number * part.tile, count, range.least + first * part.tile,
                     range.most + last * part.tile};
      emit(inner, turns + number, body);
    };
    if (whole == 1) run(affine(0), 0, 0, part.tile, out);
    if (whole > 1) {
      Stmt loop;
      loop.kind = Stmt::Kind::kFor;
      loop.var = kernel_.variables++;
      loop.count = whole;
      run(variable(loop.var), 0, whole - 1, part.tile, loop.body);
      add(std::move(loop), out);
    }
    if (rest > 0) run(affine(whole), whole, whole, rest, out);
  }

  // A dimension of a copy from DRAM of which the box may leave the tensor: the position in it of
  // the copy's first, from `least` to `most`, and how many the tensor has.
  struct Border {
    int dim;
    Affine first;
    int64_t least, most, size;
  };
  // Leaves out of the copy what lies beyond its borders, which are in the order of its dimensions.
  // The copy pads with `number` what its instruction can: an i8, at most 15 rows at either end of
  // the two dimensions outside the runs, where some of the box is always there.
  void clip(const std::vector<Border>& borders, double number, Block& copy) const;

  // The least and the most that a position becomes: of steps by axis, from `constant` on.
  static std::pair<int64_t, int64_t> bounds(const std::vector<int64_t>& steps,
                                            const BoxRanges& ranges, int64_t constant) {
    std::pair<int64_t, int64_t> bounds = {constant, constant};
    for (size_t a = 0; a < steps.size(); ++a) {
      bounds.first += steps[a] * ranges[a].least;
      bounds.second += steps[a] * ranges[a].most;
    }
    return bounds;
  }

  static std::vector<int64_t> counts(const BoxRanges& ranges) {
    std::vector<int64_t> counts;
    for (const BoxRange& range : ranges) counts.push_back(range.count);
    return counts;
  }

  template <class Strides>
  static View view(int buffer, Affine index, const Strides& strides) {
    View view;
    view.buffer = buffer;
    view.index = std::move(index);
    view.strides.assign(strides.begin(), strides.end());
    return view;
  }

  static Block block_of(BlockOp op, View dst, std::vector<View> srcs,
                        const std::vector<int64_t>& extents) {
    Block block;
    block.op = op;
    block.dst = std::move(dst);
    for (size_t i = 0; i < srcs.size(); ++i) block.srcs[i] = std::move(srcs[i]);
    block.extents.assign(extents.begin(), extents.end());
    return block;
  }

  Kernel& kernel_;
  absl::Status failure_;                   // the first

 private:
  const int64_t most_;
  int64_t* const ends_[2];
  int64_t statements_ = 0;
};

}  // namespace lw::lowering
