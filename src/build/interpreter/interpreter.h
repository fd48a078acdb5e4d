// The backend of architecture "interpreter". Internal to src/build; find_backend and load are the
// entrances.
#pragma once

#include <memory>

#include "src/build/build.h"

namespace lw {

const Backend& interpreter_backend();
absl::StatusOr<std::unique_ptr<Loaded>> load_interpreted(const Artifact& artifact);

}  // namespace lw
