// Workspaces that calls of a kernel leave for those that follow. Lock-free: a few slots, each empty or
// with a block; who finds all empty asks the system, who finds all full gives back. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace lw {

class Workspaces {
 public:
  Workspaces() = default;
  ~Workspaces();
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  // At least so many bytes, 64-byte aligned; null: the system has none. REQUIRES: bytes > 0.
  void* take(int64_t bytes);
  // What take() gave.
  void give(void* block);

 private:
  std::array<std::atomic<void*>, 16> slots_{};
};

}  // namespace lw
