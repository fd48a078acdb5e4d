#include "src/npu/function/memory.h"

#include <algorithm>

#include "src/base/message.h"
#include "src/base/rng.h"

namespace lw::npu {

absl::StatusOr<Memory> make_memory(const Config& config, std::vector<Buffer> dram, uint64_t seed) {
  Memory memory;
  std::sort(dram.begin(), dram.end(),
            [](const Buffer& a, const Buffer& b) { return a.address < b.address; });
  constexpr uint64_t kMost = uint64_t{1} << 40;
  uint64_t end = 0;
  for (const Buffer& buffer : dram) {
    if (buffer.address < end) {
      return absl::InvalidArgumentError(
          concat("two buffers of DRAM overlap at address ", buffer.address));
    }
    if (buffer.address > kMost || buffer.bytes.size() > kMost - buffer.address) {
      return absl::InvalidArgumentError(concat("a buffer of ", buffer.bytes.size(),
                                               " bytes at address ", buffer.address,
                                               " of DRAM ends beyond 2^40"));
    }
    end = buffer.address + buffer.bytes.size();
  }
  memory.dram = std::move(dram);
  memory.spm.resize(config.spm.bytes);
  memory.acc.resize(config.acc.bytes / 4);
  if (seed == 0) return memory;
  Rng rng(seed);
  for (uint8_t& byte : memory.spm) byte = static_cast<uint8_t>(rng.next());
  for (uint32_t& word : memory.acc) word = static_cast<uint32_t>(rng.next());
  return memory;
}

uint8_t* find_bytes(const Memory& memory, uint64_t address, int64_t length, bool write) {
  auto buffer = std::upper_bound(
      memory.dram.begin(), memory.dram.end(), address,
      [](uint64_t wanted, const Buffer& one) { return wanted < one.address; });
  if (buffer == memory.dram.begin()) return nullptr;
  --buffer;
  const uint64_t offset = address - buffer->address;
  if (offset + length > buffer->bytes.size() || (write && !buffer->writable)) return nullptr;
  return buffer->bytes.data() + offset;
}

}  // namespace lw::npu
