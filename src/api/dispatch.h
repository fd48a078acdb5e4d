// A function in C over several exported kernels of one op: it takes the parameters by which they
// differ, chooses the one that this processor can run, the first in order, and calls it. Pure;
// thread-safe.
//
//   int32_t dense(int64_t M, const float* A, const float* B, const float* bias, float* D,
//                 const void* packed);
//
// What is generated needs a compiler of C11 (GCC or Clang) and nothing else: no library of ours.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

struct DispatchInstance {
  // By which it is chosen, in the order of the function's parameters: {"M", 8}. Of several instances
  // with equal ones the first whose features the processor has is called.
  std::vector<std::pair<std::string, int64_t>> parameters;
  std::string json;                        // of NAME.json
};
struct DispatchSource {
  std::string header, source;              // NAME.h, NAME.c
};
// `name`: of the function. `hook`: it takes an lw_context too, whose parallel_for runs the kernels'
// loops. kInvalidArgument: an instance is none, or no object, has other arguments or parameters than
// the first, or the same parameters and target as another.
absl::StatusOr<DispatchSource> dispatch_source(const std::string& name,
                                               const std::vector<DispatchInstance>& instances,
                                               bool hook);

}  // namespace lw
