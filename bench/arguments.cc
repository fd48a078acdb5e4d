#include "bench/arguments.h"

#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/expr/reference/interpret.h"

namespace lw {
namespace {

constexpr uint64_t kSeed = 1;

}  // namespace

absl::StatusOr<HostArguments> host_arguments(const Program& program) {
  HostArguments all;
  for (const int t : arguments(program)) {
    ASSIGN_OR_RETURN(GuardedMap map, GuardedMap::create(bytes(program.tensors[t]), -1, true));
    if (program.tensors[t].role == Role::kInput) {
      fill_random_input(program, t, kSeed, false, map.data());
    }
    all.pointers.push_back(map.data());
    all.maps.push_back(std::move(map));
  }
  return all;
}

}  // namespace lw
