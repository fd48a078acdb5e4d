// Objects as libraries for dlopen(), by a linker of this machine. Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lw {

// Links `object`, a kernel of that entry with its facts in it (build_described()), into `library`,
// where `loopwright_kernel` is another name of its lw_kernel. $LOOPWRIGHT_LINKER names the linker;
// else it is the first there is of LLD and what the architecture's is called. kUnavailable: there is
// none, or what it says.
// With `stub`, a text in C, compiled into it too: by $CC or cc of this machine, which then links.
absl::Status link_shared(const std::string& object, const std::string& entry,
                         const std::string& architecture, const std::string& library,
                         const std::string& stub = "");

}  // namespace lw
