#include "src/measure/runner.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/base/check.h"

namespace lw {
namespace {

int64_t round64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Memory flush with the upper guard page; null when `bytes` is 0.
absl::StatusOr<GuardedMap> flush_map(int64_t bytes) {
  if (bytes == 0) return GuardedMap();
  return GuardedMap::create(bytes, -1, true);
}

void* flush_start(const GuardedMap& map, int64_t bytes) {
  return bytes == 0 ? nullptr : map.data() + map.bytes() - bytes;
}

void poison_map(const GuardedMap& map) {
  if (map.data() != nullptr) std::memset(map.data(), kPoison, static_cast<size_t>(map.bytes()));
}

bool map_intact(const GuardedMap& map, int64_t bytes) {
  return bytes == 0 || outside_intact(map.data(), map.bytes(), map.bytes() - bytes, bytes);
}

}  // namespace

int64_t workspace_needed(const Artifact& artifact, int workers) {
  return round64(artifact.workspace_bytes) + workers * round64(artifact.private_bytes);
}

absl::StatusOr<std::unique_ptr<Runner>> Runner::create(const Artifact& artifact, ParallelPool* pool,
                                                       int64_t memory_limit, Loader loader) {
  std::unique_ptr<Runner> runner = std::make_unique<Runner>();
  const int workers = pool == nullptr ? 1 : pool->workers();
  runner->workspace_bytes_ = workspace_needed(artifact, workers);
  runner->packed_bytes_ = round64(artifact.packed_bytes);
  runner->packs_ = artifact.packed_bytes > 0;
  const int64_t needed = runner->workspace_bytes_ + runner->packed_bytes_;
  if (runner->workspace_bytes_ < 0 || needed < 0 || needed > memory_limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the kernel needs ", needed, " bytes of workspace, the limit is ", memory_limit));
  }
  ASSIGN_OR_RETURN(runner->workspace_, flush_map(runner->workspace_bytes_));
  ASSIGN_OR_RETURN(runner->packed_, flush_map(runner->packed_bytes_));
  ASSIGN_OR_RETURN(runner->loaded_, loader != nullptr ? loader(artifact) : load(artifact));
  runner->context_.parallel_for = workers > 1 ? &ParallelPool::parallel_for : nullptr;
  runner->context_.pool = pool;
  runner->context_.workers = workers;
  runner->context_.workspace = flush_start(runner->workspace_, runner->workspace_bytes_);
  runner->context_.packed = flush_start(runner->packed_, runner->packed_bytes_);
  return runner;
}

void Runner::poison() {
  poison_map(workspace_);
  poison_map(packed_);
}

bool Runner::intact() const {
  return map_intact(workspace_, workspace_bytes_) && map_intact(packed_, packed_bytes_);
}

}  // namespace lw
