// A job's memory, as the host's own measuring has it: between two pages that nobody may touch,
// poisoned, inputs read-only; and its code, at its address.
#pragma once

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/runner/protocol.h"

namespace lw::runner {

inline constexpr int kPoison = 0xff;

inline size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
inline size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Whole pages between two that nobody may touch; null data: the system refused.
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(size_t bytes) : bytes_(round_up(bytes, page_size())) {
    const size_t guard = page_size();
    void* all =
        mmap(nullptr, bytes_ + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return;
    low_ = static_cast<char*>(all);
    // (No bytes are none to protect; qemu 7.2 answers ENOMEM then.)
    if (bytes_ > 0 && mprotect(low_ + guard, bytes_, PROT_READ | PROT_WRITE) != 0) return;
    data_ = low_ + guard;
    memset(data_, kPoison, bytes_);
  }
  Guarded(Guarded&& other) noexcept { *this = static_cast<Guarded&&>(other); }
  Guarded& operator=(Guarded&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(low_, other.low_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Guarded() {
    if (low_ != nullptr) munmap(low_, bytes_ + 2 * page_size());
  }

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  char* end() const { return data_ + bytes_; }
  bool make_read_only() { return mprotect(data_, bytes_, PROT_READ) == 0; }
  // Whether all bytes but the `size` from `begin` on still hold poison.
  bool intact_beside(const char* begin, size_t size) const {
    const auto is_poison = [](char c) { return c == static_cast<char>(kPoison); };
    const char *const first = data_, *const last = end();
    return std::all_of(first, begin, is_poison) && std::all_of(begin + size, last, is_poison);
  }
  Region region(int32_t argument, const char* begin, size_t size) const {
    Region r;
    r.argument = argument;
    r.low = reinterpret_cast<uint64_t>(low_);
    r.begin = reinterpret_cast<uint64_t>(begin);
    r.end = r.begin + size;
    r.high = reinterpret_cast<uint64_t>(end() + page_size());
    return r;
  }

 private:
  size_t bytes_ = 0;
  char* low_ = nullptr;
  char* data_ = nullptr;
};

// The image at its address, for as long as the process lives.
inline bool map_image(const Job::Code& code) {
  // A kernel that does not know the flag takes the address for a hint.
  void* wanted = reinterpret_cast<void*>(code.base);
  void* got = mmap(wanted, code.image_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) return false;
  char* const base = static_cast<char*>(got);
  for (const Job::Segment& s : code.segments) {
    memcpy(base + s.offset, s.content.data(), s.content.size());
    const int protection =
        PROT_READ | (s.writable ? PROT_WRITE : 0) | (s.executable ? PROT_EXEC : 0);
    if (mprotect(base + s.offset, s.bytes, protection) != 0) return false;
  }
  __builtin___clear_cache(base, base + code.image_bytes);
  return true;
}

}  // namespace lw::runner
