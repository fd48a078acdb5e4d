// Where the values of a vector stage's code lie while its kernel is written, and what is made once,
// before its boxes. Internal to src/lower/npu.
#pragma once

#include <string>
#include <vector>

#include "schedules/npu/vector.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/lower/lower.h"
#include "src/lower/npu/block_writer.h"

namespace lw::lowering {

class VectorMemory : protected BlockWriter {
 protected:
  // A value in its memory.
  struct Placed {
    int buffer = -1;
    BoxLayout layout;
    int64_t slots = 1;
    int depth = 0;                           // loops outside of where it is filled, of operands
    int numbers = -1;                        // a buffer: a vector of what its borders are
    int words = -1;                          // the buffer's words as i32
    Affine offset;                           // of the slot of the iteration at hand
  };

  // `buffers`: of tensors.
  VectorMemory(const Nest& nest, int stage, const std::vector<int>& buffers,
               const LowerOptions& options, Kernel& kernel, int64_t* spm, int64_t* acc)
      : BlockWriter(options.max_statements, kernel, spm, acc),
        nest_(nest),
        stage_(nest.stages[stage]),
        buffers_(buffers),
        config_(npu_config(*nest.target)) {}

  int count() const { return static_cast<int>(code_.values.size()); }
  const VectorValue& value(int v) const { return code_.values[static_cast<size_t>(v)]; }
  Placed& placed(int v) { return placed_[static_cast<size_t>(v)]; }
  // By how much the axis moves in the value's tile.
  int64_t step_in(int v, int axis) const;
  std::string named(const std::string& name) const { return concat(stage_.name, ".", name); }

  // Finds places for the values of boxes of these extents, those that are held apart.
  void place_values(const std::vector<int64_t>& extents, int64_t slots);
  void make_once();
  // The words of the value, which are in ACC, as i32.
  int words_of(int v);

  const Nest& nest_;
  const Stage& stage_;
  const std::vector<int>& buffers_;
  const npu::Config& config_;
  VectorCode code_;
  int tile_begin_ = 0;                     // loops outside the boxes
  // Buffers: a vector of what rows are filled up with; of ragged rows the mask of what is theirs,
  // and the bits beyond by kind, -1 where these are zeros.
  int identity_ = -1;
  int ones_ = -1;
  std::vector<int> rest_bits_;
  int numbers_ = -1;                       // 0, 1, 2, ..., i32 in DRAM

 private:
  std::string name_of(int v) const;
  int innermost(const std::vector<int64_t>& steps) const;
  void make_row(int v);
  void make_identity();
  void make_ragged();
  void make_indices();
  int make_rest(int64_t elements, int32_t bits);

  std::vector<Placed> placed_;             // by value
};

}  // namespace lw::lowering
