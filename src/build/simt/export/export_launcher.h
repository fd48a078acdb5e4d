// The parts of an exported launcher that are alike for all kernels of OpenCL. Internal to
// src/build/simt/export. $name and $NAME stand for the kernel's name, other words with a $ for what
// they say.
#pragma once

namespace lw {

// Behind a comment that export_opencl() begins.
extern const char* const kLauncherHeader;
// Behind the tables of launches and the lines of the source.
extern const char* const kLauncherCode;

}  // namespace lw
