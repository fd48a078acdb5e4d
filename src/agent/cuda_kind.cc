#include "src/agent/cuda_kind.h"

#include "schedules/targets/target.h"
#include "src/agent/describe.h"
#include "src/agent/driven_kind.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/cuda/cuda_devices.h"
#include "src/measure/cuda/cuda_target.h"
#include "src/search/measurer.h"

namespace lw {

absl::Status describe_cuda_device(const DeviceSpec& spec, loopwright::v1::Device* device) {
  ASSIGN_OR_RETURN(const CudaDevice driven, find_cuda_device(spec.which));
  ASSIGN_OR_RETURN(const Target target, target_of_cuda(driven));
  RETURN_IF_ERROR(describe_target(target, device));
  device->set_facts(cuda_facts(driven));
  return absl::OkStatus();
}

// Another release of the driver has other clocks and another compiler; another device of the name
// another bin and another place in its case.
std::string cuda_identity(const DeviceSpec& spec) {
  const absl::StatusOr<CudaDevice> driven = find_cuda_device(spec.which);
  if (!driven.ok()) return concat("cuda ", spec.which);
  const absl::StatusOr<Target> target = target_of_cuda(*driven);
  return concat("cuda ", driven->uuid, " ", driven->driver_text(), " ", driven->power_limit_w, " ",
                target.ok() ? to_text(*target) : "");
}

// Of what a name means: numbers change with what else is there. One that is not there needs none.
std::vector<std::string> cuda_locks(const DeviceSpec& spec) {
  const absl::StatusOr<CudaDevice> driven = find_cuda_device(spec.which);
  if (!driven.ok()) return {};
  return {concat(kCudaPrefix, driven->uuid)};
}

absl::StatusOr<std::unique_ptr<Measurer>> cuda_measurer(const DeviceSpec& spec, const Task& task,
                                                        uint64_t seed) {
  ASSIGN_OR_RETURN(const Target target, cuda_target(spec.which));
  return driven_measurer(target, task, seed);
}

}  // namespace lw
