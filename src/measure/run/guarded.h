// Memory that notices: pages between two inaccessible ones, and where in them to put a tensor so
// that reading or writing beside it cannot go unseen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace lw {

// How a tensor lies in its pages. Beyond the pages every access faults; bytes inside the pages but
// outside the tensor hold poison (NaN in every float type), which is checked after each run.
enum class Placement {
  kEnd,        // at the end, moved down to a multiple of 64: the normal,
               // aligned case; flush with the guard if the size allows
  kStart,      // right behind the lower guard page, aligned, and kRoomBehind at least before the
               // upper one
  kUnaligned,  // at the end, aligned to its element only
};
constexpr int kPoison = 0xff;
// Bytes: as far as idle lanes reach. Whole vectors of a masked tile may lie behind the last element;
// touching a guard page they would be charged a fault that the processor suppresses, some 200 ns.
constexpr int64_t kRoomBehind = 4096;

// Bytes of pages for a tensor of `size` bytes in any placement, and its offset in them.
int64_t pages_for(int64_t size);
int64_t offset_for(Placement placement, int64_t size, int64_t element_bytes);

// Whole pages between two inaccessible ones.
class GuardedMap {
 public:
  GuardedMap() = default;
  // The descriptor's memory from its start, or anonymous memory (fd < 0), which gets huge pages
  // where the system grants them. kResourceExhausted: the system refuses.
  static absl::StatusOr<GuardedMap> create(int64_t bytes, int fd, bool writable);
  GuardedMap(GuardedMap&& other) noexcept { *this = static_cast<GuardedMap&&>(other); }
  GuardedMap& operator=(GuardedMap&& other) noexcept;
  ~GuardedMap();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* reserved_ = nullptr;
  int64_t reserved_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Whether all bytes of [data, data + bytes) but those of [offset, offset + size) hold poison.
bool outside_intact(const std::byte* data, int64_t bytes, int64_t offset, int64_t size);

}  // namespace lw
