#include "src/measure/run/guarded.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lw {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kAlignment = 64;

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

bool all_poison(const std::byte* begin, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    if (begin[i] != static_cast<std::byte>(kPoison)) return false;
  }
  return true;
}

}  // namespace

int64_t pages_for(int64_t size) {
  return round_up(std::max<int64_t>(size, 1) + kAlignment, kPage) + kRoomBehind;
}

int64_t offset_for(Placement placement, int64_t size, int64_t element_bytes) {
  const int64_t end = pages_for(size) - size;
  switch (placement) {
    case Placement::kStart: return 0;
    case Placement::kEnd: return end / kAlignment * kAlignment;
    case Placement::kUnaligned: return end % kAlignment != 0 ? end : end - element_bytes;
  }
  return 0;
}

absl::StatusOr<GuardedMap> GuardedMap::create(int64_t bytes, int fd, bool writable) {
  GuardedMap map;
  map.bytes_ = round_up(std::max<int64_t>(bytes, 1), kPage);
  // Huge pages need an aligned start: reserve enough to choose one.
  const bool huge = fd < 0 && map.bytes_ >= kHugePage;
  if (huge) map.bytes_ = round_up(map.bytes_, kHugePage);
  map.reserved_bytes_ = map.bytes_ + 2 * kPage + (huge ? kHugePage : 0);
  void* reserved = mmap(nullptr, static_cast<size_t>(map.reserved_bytes_), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes: ", std::strerror(errno)));
  }
  map.reserved_ = static_cast<std::byte*>(reserved);
  int64_t skip = kPage;
  if (huge) {
    const int64_t start = static_cast<int64_t>(reinterpret_cast<intptr_t>(map.reserved_));
    skip = round_up(start + kPage, kHugePage) - start;
  }
  void* data = mmap(map.reserved_ + skip, static_cast<size_t>(map.bytes_),
                    writable ? PROT_READ | PROT_WRITE : PROT_READ,
                    (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes: ", std::strerror(errno)));
  }
  map.data_ = static_cast<std::byte*>(data);
  if (huge) madvise(data, static_cast<size_t>(map.bytes_), MADV_HUGEPAGE);
  return map;
}

GuardedMap& GuardedMap::operator=(GuardedMap&& other) noexcept {
  std::swap(reserved_, other.reserved_);
  std::swap(reserved_bytes_, other.reserved_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedMap::~GuardedMap() {
  if (reserved_ != nullptr) munmap(reserved_, static_cast<size_t>(reserved_bytes_));
}

bool outside_intact(const std::byte* data, int64_t bytes, int64_t offset, int64_t size) {
  return all_poison(data, offset) && all_poison(data + offset + size, bytes - offset - size);
}

}  // namespace lw
