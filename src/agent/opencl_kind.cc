#include "src/agent/opencl_kind.h"

#include <mutex>
#include <set>

#include "schedules/targets/target.h"
#include "src/agent/describe.h"
#include "src/agent/driven_kind.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/measure/simt/opencl_devices.h"
#include "src/measure/simt/opencl_probe.h"
#include "src/measure/simt/opencl_target.h"
#include "src/search/measurer.h"

namespace lw {
namespace {

// Once for a device and a release of its driver: what it may do is a part of its target. A driver that
// does not survive it is not asked again, nor, in this process, one whose probe cannot be kept.
void probe_once(const OpenClDevice& driven) {
  static std::mutex mutex;
  static std::set<std::string> tried;
  const std::lock_guard<std::mutex> lock(mutex);
  if (kept_probe(driven) || !tried.insert(driven.release()).second) return;
  const absl::StatusOr<OpenClProbe> probe = probe_opencl(driven);
  absl::Status kept = probe.status();
  kept.Update(keep_probe(driven, probe.value_or(OpenClProbe())));
  if (!kept.ok()) log(Level::kWarning, "device_not_probed", {{"why", std::string(kept.message())}});
}

}  // namespace

absl::Status describe_opencl(const DeviceSpec& spec, loopwright::v1::Device* device) {
  ASSIGN_OR_RETURN(const OpenClDevice driven, find_opencl_device(spec.which));
  probe_once(driven);
  ASSIGN_OR_RETURN(const Target target, opencl_target(spec.which));
  RETURN_IF_ERROR(describe_target(target, device));
  device->set_facts(opencl_facts(driven));
  return absl::OkStatus();
}

// Another release of the driver compiles otherwise.
std::string opencl_identity(const DeviceSpec& spec) {
  const absl::StatusOr<OpenClDevice> driven = find_opencl_device(spec.which);
  if (driven.ok()) probe_once(*driven);
  const absl::StatusOr<Target> target = opencl_target(spec.which);
  if (!driven.ok() || !target.ok()) return concat("opencl ", spec.which);
  return concat("opencl ", driven->name, " ", driven->driver, " ", to_text(*target));
}

// By its name, since numbers change with what else is there. One that is not there needs none.
std::vector<std::string> opencl_locks(const DeviceSpec& spec) {
  const absl::StatusOr<OpenClDevice> driven = find_opencl_device(spec.which);
  if (!driven.ok()) return {};
  return {concat(kOpenClPrefix, driven->name)};
}

absl::StatusOr<std::unique_ptr<Measurer>> opencl_measurer(const DeviceSpec& spec, const Task& task,
                                                          uint64_t seed) {
  ASSIGN_OR_RETURN(const Target target, opencl_target(spec.which));
  return driven_measurer(target, task, seed);
}

}  // namespace lw
