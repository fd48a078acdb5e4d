// The parts of an exported launcher that are alike for all kernels for NVIDIA's GPUs. Internal to
// src/build/simt/ptx/export. $name and $NAME stand for the kernel's name, other words with a $ for what
// they say.
#pragma once

namespace lw {

// Behind a comment that export_nvidia() begins.
extern const char* const kNvidiaLauncherHeader;
// Before the tables of launches, the text and the cubin.
extern const char* const kNvidiaLauncherStart;
// Behind them. Its parameter_of() is where a launch's parameter gets its value: what is no address
// (a tensor map, which is encoded anew when its buffer's address changes, and kept in the kernel
// meanwhile) gets it there, and its driver's function a line in `driver` and `driver_names`.
extern const char* const kNvidiaLauncherCode;

}  // namespace lw
