#include "src/measure/run/runner.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"

namespace lw {
namespace {

// Tensors start with a page; what starts like them is taken for them by the check of loads against
// earlier stores, which looks at the last 12 bits of addresses.
constexpr int64_t kStagger = 17 * 64;

// No memory when `bytes` is 0.
absl::StatusOr<GuardedMap> map_for(int64_t bytes) {
  if (bytes == 0) return GuardedMap();
  return GuardedMap::create(kStagger + bytes + kRoomBehind, -1, true);
}

void poison_map(const GuardedMap& map) {
  if (map.data() != nullptr) std::memset(map.data(), kPoison, static_cast<size_t>(map.bytes()));
}

bool map_intact(const GuardedMap& map, const void* start, int64_t bytes) {
  if (bytes == 0) return true;
  return outside_intact(map.data(), map.bytes(), static_cast<const std::byte*>(start) - map.data(),
                        bytes);
}

}  // namespace

int64_t workspace_needed(const Artifact& artifact, int workers) {
  return aligned_bytes(artifact.workspace_bytes) + workers * aligned_bytes(artifact.private_bytes);
}

absl::StatusOr<std::unique_ptr<Runner>> Runner::create(const Artifact& artifact, ParallelPool* pool,
                                                       int64_t memory_limit, Loader loader) {
  std::unique_ptr<Runner> runner = std::make_unique<Runner>();
  const int workers = pool == nullptr ? 1 : pool->workers();
  runner->workspace_bytes_ = workspace_needed(artifact, workers);
  runner->packed_bytes_ = aligned_bytes(artifact.packed_bytes);
  runner->packs_ = artifact.packed_bytes > 0;
  const int64_t needed = runner->workspace_bytes_ + runner->packed_bytes_;
  if (runner->workspace_bytes_ < 0 || needed < 0 || needed > memory_limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the kernel needs ", needed, " bytes of workspace, the limit is ", memory_limit));
  }
  ASSIGN_OR_RETURN(runner->workspace_, map_for(runner->workspace_bytes_));
  ASSIGN_OR_RETURN(runner->packed_, map_for(runner->packed_bytes_));
  ASSIGN_OR_RETURN(runner->loaded_, loader != nullptr ? loader(artifact) : load(artifact));
  runner->context_.parallel_for = workers > 1 ? &ParallelPool::parallel_for : nullptr;
  runner->context_.pool = pool;
  runner->context_.workers = workers;
  runner->place();
  return runner;
}

void Runner::place() {
  const auto start = [this](const GuardedMap& map, int64_t bytes) -> void* {
    return bytes == 0 ? nullptr : map.data() + (tight_ ? map.bytes() - bytes : kStagger);
  };
  context_.workspace = start(workspace_, workspace_bytes_);
  context_.packed = start(packed_, packed_bytes_);
}

void Runner::guard(bool tight) {
  if (tight == tight_) return;
  tight_ = tight;
  place();
  poison();
}

void Runner::poison() {
  poison_map(workspace_);
  poison_map(packed_);
}

bool Runner::intact() const {
  return map_intact(workspace_, context_.workspace, workspace_bytes_) &&
         map_intact(packed_, context_.packed, packed_bytes_);
}

}  // namespace lw
