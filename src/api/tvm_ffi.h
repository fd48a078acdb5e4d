// Kernels as functions of tvm-ffi, which NumPy, PyTorch, JAX, TVM and Rust call: the C of the one
// symbol more that a library then has. Pure; thread-safe.
#pragma once

#include <string>

namespace lw {

// The text of a stub in C for an object of that entry: `__tvm_ffi_ENTRY` takes the arguments as
// tensors, checks them by the kernel's own table and calls it; a kernel that packs takes what
// `__tvm_ffi_ENTRY_prepack` wrote, a tensor of bytes, in front of the outputs. Where tvm-ffi is not in
// the process the library loads all the same, and an error has no text. Of the interface: the layout
// of an argument, of a tensor and of an object's header (tvm/ffi/c_api.h and dlpack.h of tvm-ffi
// 0.1.15).
std::string tvm_ffi_stub(const std::string& entry);

}  // namespace lw
