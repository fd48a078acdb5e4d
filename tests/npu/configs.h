// The shipped configurations. Thread-safe.
#pragma once

#include <string>

#include "src/base/check.h"
#include "src/npu/config.h"

namespace lw::npu {

// REQUIRES: it is one of them.
inline Config config_of(const std::string& name) {
  absl::StatusOr<Config> config = find_config(name);
  CHECK(config.ok());
  return *std::move(config);
}

}  // namespace lw::npu
