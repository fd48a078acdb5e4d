// The backend of family "x86_64". Internal to src/build; find_backend and load are the entrances.
#pragma once

#include <memory>

#include "src/build/build.h"

namespace lw {

const Backend& llvm_backend();
absl::StatusOr<std::unique_ptr<Loaded>> load_object(const Artifact& artifact);

}  // namespace lw
