// A kernel that a driver runs, for whoever has its arguments in this process's memory, and what there
// is to say of the driver's device.
#pragma once

#include <string>
#include <utility>
#include <vector>

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

struct DrivenReport {
  struct Figure {
    std::string what;                      // "copy, vectors of 4"
    double value = 0;
    std::string unit;
  };
  std::string device, driver;
  std::vector<Figure> figures;
  std::vector<std::pair<std::string, std::string>> facts;  // "compute capability", "9.0"
  double took_s = 0;                       // 0: nothing was measured
  std::string problem;                     // why what was measured is not kept; "": it is
};

}  // namespace lw
