// The values of a stage's code while it is written: which axis is the vectors', how each value
// lies, which copies of operands there are. Internal to schedules/npu.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedules/npu/vector.h"
#include "schedules/npu/vector_reads.h"
#include "src/expr/expr.h"

namespace lw {

class VectorValues {
 public:
  using Axes = uint64_t;                   // a set of them

 protected:
  VectorValues(const Nest& nest, int stage);
  // Forgets all values.
  void begin();

  Axes has(int axis) const {
    return stage_.axes[static_cast<size_t>(axis)].extent > 1 ? Axes{1} << axis : 0;
  }
  absl::Status refuse(const std::string& why) const;
  std::string name(const ExprNode& read) const;

  // Of the body, and of the reductions that are inlined in it.
  absl::Status find_reads(const Expr& body);
  // The stage whose reduction is read there, inlined; -1: the tensor is in DRAM.
  int inlined(const ExprNode& read) const;
  // The vectors' axis: the result's last if operands are contiguous along it, or, of a reduction,
  // the one along which they are. None where one that varies along it is not: all are columns then.
  void choose_axes();

  Axes axes_of(int value) const;
  Axes axes_of(const ExprNode& read) const;
  Type type_of(int value) const { return code_.values[static_cast<size_t>(value)].tile.type; }
  int add(VectorValue value);
  // A dimension for each axis; the last one is the vectors', which may not vary.
  VectorTile tile_of(Type type, int memory, Axes axes) const;
  int computed(Type type, Axes axes);
  int emit(VectorOp op, Type type, Axes axes);
  // The value along all of these axes; and a value of its own.
  int spread(int value, Axes axes);
  int copied(int value, Axes axes);
  // Operations on values of one type, which give another of it.
  int scalar(ExprOp op, double number, int value);
  int function(ExprOp op, int value);
  int combined(ExprOp op, int a, int b);
  int constant(Type type, double number);
  // The points' positions along the axis, i32.
  int indices(int axis);
  // A tile of what is read, perhaps padded, in `memory` as `type`.
  int operand(const ExprNode& node, Type type, int memory);
  // The product's results, which lie as the array wants them (result_layout()).
  absl::Status check_held() const;
  int held(Type type);

  const Nest& nest_;
  const int index_;
  const Stage& stage_;
  const Tensor& tensor_;
  const npu::Config& config_;
  VectorCode code_;
  Axes spatial_ = 0, all_ = 0;
  bool moved_ = false;                     // only copied
  int held_ = -1;                          // the tensor whose results it finishes
  std::unordered_map<const ExprNode*, VectorRead> reads_;
  std::vector<std::pair<int, Expr>> inlined_;  // stages, and what they reduce, over the stage's axes

 private:
  std::vector<std::pair<const ExprNode*, int>> operands_;
  std::vector<std::pair<int, int>> indices_;  // by axis
};

bool has_type(Type type);

double number_of(const ExprNode& constant);

// Where values of the type are computed with.
int memory_of(Type type);

}  // namespace lw
