// Plain C loops (bench/plain/NAME.c) by clang -O3 -march=native -ffast-math: what an operator costs
// whose user writes it down and leaves the rest to the compiler.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

// One order of the loops, ready to run.
struct PlainContender {
  std::string compiler, order;             // "clang 19.1.7", "ikj"
  std::function<void()> run;
};

// Compiles `source` for this host into `folder`, with the parameters in `words` ("M=512") as
// macros, and loads it; all of its orders, on `arguments`. Fails where the compiler does.
absl::StatusOr<std::vector<PlainContender>> plain_contenders(const std::string& source,
                                                             const std::vector<std::string>& words,
                                                             const std::string& folder,
                                                             void* const* arguments);

}  // namespace lw
