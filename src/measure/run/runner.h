// One loaded kernel with all it needs besides its arguments: workspace, packed operands, threads.
// The measurer, `run`, `bench` and the doctor run kernels through this, so that all time the same.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "src/base/parallel_pool.h"
#include "src/build/build.h"
#include "src/measure/run/guarded.h"

namespace lw {

// Thread-compatible.
class Runner {
 public:
  // `pool` (null: serial) outlives the Runner. kResourceExhausted: the workspace is larger than
  // `memory_limit` bytes or the system refuses it; otherwise what `loader` says (null: load()).
  static absl::StatusOr<std::unique_ptr<Runner>> create(const Artifact& artifact,
                                                        ParallelPool* pool,
                                                        int64_t memory_limit = int64_t{8} << 30,
                                                        Loader loader = nullptr);

  // buffers: the arguments in order. 0, or what the kernel returned. REQUIRES: prepack before run.
  int prepack(void* const* buffers) { return packs_ ? loaded_->prepack(&context_, buffers) : 0; }
  int run(void* const* buffers) { return loaded_->run(&context_, buffers); }

  // Where workspace and packed memory lie: flush with a guard page, where nothing beyond can be
  // touched unseen, or (as created) some lines into a page with kRoomBehind behind them, as memory
  // usually comes (a small one across two pages would have each masked store that reaches over pay
  // for both). What they held is poison after a change: prepack again.
  void guard(bool tight);
  // Fills workspace and packed memory with poison; whether the bytes beside them still hold it.
  void poison();
  bool intact() const;

  // The memory it brought, for descriptions of faults.
  const GuardedMap& workspace() const { return workspace_; }
  const GuardedMap& packed() const { return packed_; }
  const std::byte* workspace_start() const {
    return static_cast<const std::byte*>(context_.workspace);
  }
  const std::byte* packed_start() const { return static_cast<const std::byte*>(context_.packed); }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  int64_t packed_bytes() const { return packed_bytes_; }

 private:
  void place();

  std::unique_ptr<Loaded> loaded_;
  GuardedMap workspace_, packed_;
  int64_t workspace_bytes_ = 0, packed_bytes_ = 0;
  bool packs_ = false, tight_ = false;
  lw_context context_{};
};

// The workspace that a context with `workers` workers needs (loopwright/context.h).
int64_t workspace_needed(const Artifact& artifact, int workers);

}  // namespace lw
