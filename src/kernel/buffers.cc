#include "src/kernel/buffers.h"

namespace lw {
namespace {

constexpr int64_t kMostManagedBytes = int64_t{1} << 30;  // the interpreter makes room for them

// What is wrong with the buffer; null when nothing.
const char* buffer_defect(const Kernel& kernel, const Buffer& b) {
  if (b.elements < 0 || b.elements >= (int64_t{1} << 50)) return "bad number of elements";
  if (b.swizzled && (b.scope != Scope::kManaged || b.offset % kSwizzle != 0)) {
    return "swizzled memory is a group's, from a multiple of 1024 bytes on";
  }
  if (b.scope == Scope::kArgument) {
    return b.slot >= 0 && b.slot < kernel.arguments ? nullptr : "no such argument";
  }
  const bool managed = b.scope == Scope::kManaged;
  const int memories = static_cast<int>(kernel.managed_bytes.size());
  if (managed && (b.memory < 0 || b.memory >= memories)) return "no such memory";
  const int64_t whole = managed                        ? kernel.managed_bytes[b.memory]
                        : b.scope == Scope::kWorkspace ? kernel.workspace_bytes
                        : b.scope == Scope::kPrivate   ? kernel.private_bytes
                                                       : kernel.packed_bytes;
  // What more a managed memory asks of offsets is its machine's.
  const int64_t alignment = managed ? size_of(b.type) : kWorkspaceAlignment;
  if (b.offset < 0 || b.offset % alignment != 0) {
    return managed ? "offset must be a multiple of an element's size"
                   : "offset must be a multiple of 64";
  }
  return b.offset <= whole && b.elements * size_of(b.type) <= whole - b.offset
             ? nullptr : "reaches outside its scope";
}

}  // namespace

std::string buffers_defect(const Kernel& kernel) {
  for (const Buffer& b : kernel.buffers) {
    if (const char* defect = buffer_defect(kernel, b)) return "buffer " + b.name + ": " + defect;
  }
  int64_t left = kMostManagedBytes;
  for (int64_t bytes : kernel.managed_bytes) {
    if (bytes < 0 || bytes > left) return "managed memories: must have 0 bytes to 1 GiB together";
    left -= bytes;
  }
  return "";
}

}  // namespace lw
