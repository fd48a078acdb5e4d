// Machines by name, in a process without drivers: those that a driver would have to describe are not
// known.
#include <string_view>

#include "absl/status/statusor.h"
#include "schedules/targets/named_machine.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"

namespace lw {

absl::StatusOr<Target> named_machine(std::string_view name) {
  if (!name.starts_with("opencl:") && !name.starts_with("cuda:")) return find_target(name);
  return absl::UnimplementedError(
      concat("target '", name, "': this build asks no driver what it has; give the target's text, ",
             "which `loopwright targets ", name, " --json` prints"));
}

}  // namespace lw
