// The backend of the architectures "x86_64" and "aarch64". Internal to src/build; find_backend and
// load are the entrances.
#pragma once

#include <memory>

#include "src/build/build.h"

namespace lw {

const Backend& llvm_backend();
// kFailedPrecondition: the object is of an architecture that this process is not.
absl::StatusOr<std::unique_ptr<Loaded>> load_object(const Artifact& artifact);

}  // namespace lw
