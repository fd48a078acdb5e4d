#include "src/agent/driven_kind.h"

#include <utility>

#include "src/api/run/tune_task.h"
#include "src/base/check.h"
#include "src/measure/local.h"
#include "src/measure/simt/common/device_target.h"

namespace lw {

absl::StatusOr<std::unique_ptr<Measurer>> driven_measurer(const Target& device, const Task& task,
                                                          uint64_t seed) {
  RETURN_IF_ERROR(check_same_device(device, *task.target()));
  LocalOptions options;
  options.seed = seed;
  return make_measurer(task, std::move(options));
}

}  // namespace lw
