// Loads and stores of registers in OpenCL C 1.2. Internal to src/build/simt.
#pragma once

#include <cstdint>
#include <string>

#include "loopwright/type.h"
#include "src/build/simt/opencl_prelude.h"

namespace lw {

// Of `at`, a pointer in the address space (""; "__global ", "__local ") to the first lane's element,
// of whose address `alignment` is known to be a divisor. Of a store: the statement.
struct ClAccess {
  std::string space, at;
  int64_t alignment = 1;                   // bytes
  std::string value;                       // stores
  bool streams = false;                    // stores: past the caches, where compilers have that
  std::string mask, indices;               // "": none
  // Of loads from a buffer that holds still: all of it, from which any lane may be read. 0: it may not.
  int64_t elements = 0;
  std::string all, index;                  // `at` is their sum
};
std::string cl_load(Type type, int lanes, int64_t stride, const ClAccess& access, Prelude* prelude);
std::string cl_store(Type type, int lanes, int64_t stride, const ClAccess& access,
                     Prelude* prelude);

// A statement that asks for the line at an address, which need not be one of the program's;
// `address` is an integer.
std::string cl_prefetch(const std::string& address, Prelude* prelude);

}  // namespace lw
