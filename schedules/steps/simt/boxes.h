// Of which tensors an engine copies boxes. Internal to schedules/steps/simt. Pure.
#pragma once

#include "absl/status/status.h"
#include "schedules/legality.h"
#include "schedules/nest.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/message.h"
#include "src/expr/expr.h"

namespace lw {

// Of an input, which lies row after row; its rows, but of one, are multiples of 16 bytes apart.
inline absl::Status check_box(const Nest& nest, int tensor_number) {
  constexpr int kMostDimensions = 5, kUnitBytes = 16;
  const Tensor& tensor = nest.program->tensors[tensor_number];
  if (!simt(*nest.target).box_copies) {
    return infeasible(concat(nest.target->name, " has no engine that copies boxes"));
  }
  if (tensor.role != Role::kInput) {
    return infeasible(concat(tensor.name, " is computed: boxes are copied of inputs"));
  }
  const uint64_t rank = tensor.shape.size();
  if (rank > kMostDimensions) {
    return infeasible(concat(tensor.name, " has ", rank, " dimensions, a box ", kMostDimensions,
                             " at most"));
  }
  const int64_t row = tensor.shape.back() * size_of(tensor.type);
  if (rank > 1 && row % kUnitBytes != 0) {
    return infeasible(concat("rows of ", tensor.name, " are ", row, " bytes apart, no multiple of ",
                             kUnitBytes));
  }
  return absl::OkStatus();
}

}  // namespace lw
