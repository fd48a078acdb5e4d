// A kernel that many threads may call at once: its code never changes, and each call has a workspace
// of its own. What is wrong with a call's arguments is said by their names before anything runs.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "loopwright/context.h"
#include "src/runtime/failure.h"
#include "src/runtime/workspaces.h"

namespace lw {

struct InstanceCall {
  void* const* buffers = nullptr;          // one pointer an argument
  void* packed = nullptr;                  // what prepack() wrote
  void* workspace = nullptr;               // workspace_bytes(workers), 64-byte aligned; null: ours
  int workers = 0;                         // 0: those it was tuned for, if the pool has as many
  // Threads: parallel_for with `pool`, as lw_context has them; or `schedule` with `pool`, a task at a
  // time (foreign_pool.h); neither: the process' pool (process_pool.h).
  void (*parallel_for)(void* pool, int64_t count,
                       void (*body)(void* closure, int64_t index, int64_t worker),
                       void* closure) = nullptr;
  void (*schedule)(void* pool, void (*task)(void* argument), void* argument) = nullptr;
  void* pool = nullptr;
};

class KernelInstance {
 public:
  // `code` keeps alive what `kernel` points to. kBadRequest: another version of the ABI, a table that
  // is none; kEnvironment: this processor lacks what the kernel uses.
  static Failure create(const lw_kernel* kernel, std::shared_ptr<const void> code,
                        std::unique_ptr<KernelInstance>* instance);

  const lw_kernel& kernel() const { return *kernel_; }
  // What one call needs, 0 for none; of a call with `workers` = 0 what it needs at most.
  int64_t workspace_bytes(int workers) const;
  // The workers that a call with `workers` = 0 and no pool of its own has.
  int own_workers() const;

  // Reads the const inputs and writes packed_bytes at `packed`, which is 64-byte aligned.
  Failure prepack(void* const* buffers, void* packed) const;
  Failure run(const InstanceCall& call) const;

 private:
  KernelInstance(const lw_kernel* kernel, std::shared_ptr<const void> code)
      : kernel_(kernel), code_(std::move(code)) {}
  Failure check(void* const* buffers, const void* packed, bool packing) const;

  const lw_kernel* kernel_;
  std::shared_ptr<const void> code_;
  mutable Workspaces spare_;
};

}  // namespace lw
