// What runs this program, if that is no processor of its own.
#pragma once

#include <string>

namespace lw::runner {

// "": a processor. Else the emulator's name, or "unknown" where that cannot be told.
//
// An emulator of programs (qemu-user, and what works like it) shows its program its own view of
// /proc/self, and is itself what the system runs: so the system is asked under another name,
// /proc/thread-self, which program this process is, and that must begin with the bytes that this
// one begins with. An emulator of machines is known where its processor says so: QEMU's own model
// has no implementer, or a name.
std::string emulator();

}  // namespace lw::runner
