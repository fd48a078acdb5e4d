// A kernel that a driver runs, for whoever has its arguments in this process's memory.
#pragma once

#include "absl/status/statusor.h"

namespace lw {

// Thread-compatible. `arguments`: as Executable's.
class DrivenKernel {
 public:
  virtual ~DrivenKernel() = default;
  virtual absl::Status prepack(void* const* arguments) = 0;
  virtual absl::Status run(void* const* arguments) = 0;
  // Of the last run: the kernel alone, without what carries its arguments there and back.
  virtual double last_us() const = 0;
};

}  // namespace lw
