// The kernels that compiled XLA programs may call, by digest: a program that is kept on disk names code,
// never an address of this process. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/runtime/instance.h"

namespace lw::xla {

// Of `loopwright export --shared`. A digest that is known already stays as it is.
Failure register_library(const std::string& path);
// Null: nobody registered it.
std::shared_ptr<const KernelInstance> find_kernel(std::string_view digest);

}  // namespace lw::xla

// For Python's ctypes: the failure's code, and its text cut to `size` bytes.
extern "C" __attribute__((visibility("default"))) int loopwright_xla_register(const char* path,
                                                                              char* error, int size);
