#include "src/runtime/workspaces.h"

#include <cstdlib>

namespace lw {
namespace {

// A line in front of each block says how large it is.
constexpr int64_t kLine = 64;

int64_t& size_of_block(void* block) {
  return *reinterpret_cast<int64_t*>(static_cast<char*>(block) - kLine);
}

void free_block(void* block) {
  if (block != nullptr) std::free(static_cast<char*>(block) - kLine);
}

}  // namespace

Workspaces::~Workspaces() {
  for (std::atomic<void*>& slot : slots_) free_block(slot.load(std::memory_order_relaxed));
}

void* Workspaces::take(int64_t bytes) {
  for (std::atomic<void*>& slot : slots_) {
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    void* block = slot.exchange(nullptr, std::memory_order_acquire);
    if (block == nullptr) continue;
    if (size_of_block(block) >= bytes) return block;
    free_block(block);                     // of a call with fewer workers
  }
  const int64_t rounded = (bytes + kLine - 1) / kLine * kLine;
  void* memory = std::aligned_alloc(kLine, static_cast<size_t>(kLine + rounded));
  if (memory == nullptr) return nullptr;
  void* block = static_cast<char*>(memory) + kLine;
  size_of_block(block) = rounded;
  return block;
}

void Workspaces::give(void* block) {
  for (std::atomic<void*>& slot : slots_) {
    void* empty = nullptr;
    if (slot.compare_exchange_strong(empty, block, std::memory_order_release,
                                     std::memory_order_relaxed)) {
      return;
    }
  }
  free_block(block);
}

}  // namespace lw
