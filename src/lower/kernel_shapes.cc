#include "src/lower/kernel_shapes.h"

#include <algorithm>

namespace lw {

bool interleaves(const Kernel& kernel, const Stmt& s) {
  const Register& dst = kernel.registers[s.dst];
  const int count = static_cast<int>(s.many.size());
  return count >= 2 && std::all_of(s.many.begin(), s.many.end(), [&](int i) {
    const Register& part = kernel.registers[i];
    return part.type == dst.type && part.lanes * count == dst.lanes;
  });
}

bool takes_lanes_between(const Kernel& kernel, const Stmt& s) {
  const Register& dst = kernel.registers[s.dst];
  return s.integer > 0 && s.integer < dst.lanes && std::all_of(s.srcs, s.srcs + 2, [&](int i) {
    const Register& part = kernel.registers[i];
    return part.type == dst.type && part.lanes == dst.lanes;
  });
}

bool multiplies_groups(const Kernel& kernel, const Stmt& s) {
  const Register &dst = kernel.registers[s.dst], &sum = kernel.registers[s.srcs[2]];
  const Register &a = kernel.registers[s.srcs[0]], &b = kernel.registers[s.srcs[1]];
  const auto fits = [&](Type type) {
    return type != Type::kBool && is_float(type) == is_float(dst.type);
  };
  return a.lanes == b.lanes && a.lanes % dst.lanes == 0 && sum.lanes == dst.lanes &&
         sum.type == dst.type && dst.type != Type::kBool && fits(a.type) && fits(b.type);
}

bool transposes(const Kernel& kernel, const Stmt& s) {
  const size_t half = s.many.size() / 2;
  for (size_t i = 0; i < s.many.size(); ++i) {
    const Register& r = kernel.registers[s.many[i]];
    if (r.lanes != static_cast<int>(half)) return false;
    if (r.type != kernel.registers[s.many[0]].type) return false;
    if (i >= half && std::count(s.many.begin() + half, s.many.end(), s.many[i]) > 1) return false;
  }
  return true;
}

const char* buffer_defect(const Kernel& kernel, const Buffer& b) {
  if (b.elements < 0 || b.elements >= (int64_t{1} << 50)) return "bad number of elements";
  if (b.scope == Scope::kArgument) {
    return b.slot >= 0 && b.slot < kernel.arguments ? nullptr : "no such argument";
  }
  const int64_t whole = b.scope == Scope::kWorkspace ? kernel.workspace_bytes
                        : b.scope == Scope::kPrivate ? kernel.private_bytes
                                                     : kernel.packed_bytes;
  if (b.offset < 0 || b.offset % 64 != 0) return "offset must be a multiple of 64";
  return b.offset + b.elements * size_of(b.type) <= whole ? nullptr : "reaches outside its scope";
}

}  // namespace lw
