// A program's arguments in the host's memory, for all who run it in turn.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "src/measure/run/guarded.h"

namespace lw {

struct Program;

struct HostArguments {
  std::vector<GuardedMap> maps;
  std::vector<void*> pointers;             // inputs, which are filled, then outputs
};
absl::StatusOr<HostArguments> host_arguments(const Program& program);

}  // namespace lw
