// Kernels as functions of tvm-ffi, which NumPy, PyTorch, JAX, TVM and Rust call: the C of the symbols
// that a library then has besides (tvm_ffi.c). Pure; thread-safe.
#pragma once

#include <string>

namespace lw {

// The text of a stub in C for an object of that entry. Where tvm-ffi is not in the process the library
// loads all the same, and an error has no text.
std::string tvm_ffi_stub(const std::string& entry);

}  // namespace lw
