// The devices of CPUs: this machine's processors, and an emulator of another architecture's.
#pragma once

#include "src/measure/cpu/emulator.h"
#include "src/measure/workers/device.h"

namespace lw {

// Machine code (or what the interpreter interprets) in the device's own process.
DeviceDriver host_driver();
// An emulator's clock says nothing about the processor, so there is none: times are the cost
// model's.
DeviceDriver emulated_driver(Emulator emulator);

}  // namespace lw
