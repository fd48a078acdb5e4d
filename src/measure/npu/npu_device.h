// The simulated NPU (src/npu) as a device: its artifacts are modules (src/npu/module.h) that carry
// the machine they are for, and its times are exact. A race, a deadlock, tokens that overflow or an
// access beside the tensors is a wrong result that begins with its name ("race: instruction 3 ...").
// Counters are npu::timing_counters.
#pragma once

#include "src/measure/workers/device.h"

namespace lw {

// `entry` and the sizes of such an artifact say nothing here.
inline constexpr char kNpuArchitecture[] = "npu";

DeviceDriver npu_driver();

}  // namespace lw
