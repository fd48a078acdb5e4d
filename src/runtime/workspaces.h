// Workspaces that calls of a kernel leave for those that follow (workspace.h). Thread-safe.
#pragma once

#include <cstdint>

#include "src/runtime/workspace.h"

namespace lw {

class Workspaces {
 public:
  Workspaces() = default;
  ~Workspaces() { lw_free_all(slots_); }
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  // At least so many bytes, 64-byte aligned; null: the system has none. REQUIRES: bytes > 0.
  void* take(int64_t bytes) { return lw_take(slots_, bytes); }
  // What take() gave.
  void give(void* block) { lw_give(slots_, block); }

 private:
  void* slots_[LW_SLOTS] = {};
};

}  // namespace lw
