// The GIL, let go for what does not need Python.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include "python/kernel/python.h"

namespace lw::python {

// A thread that asks for the GIL while the interpreter ends is ended by pthread_exit() (CPython before
// 3.14), which unwinds through frames of ours that would let references go. It sleeps instead, until
// the process is over.
inline void take_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (const abi::__forced_unwind&) {
    while (true) pause();
  }
}

// Runs body() without the GIL.
template <class Body>
auto without_gil(const Body& body) {
  PyThreadState* state = PyEval_SaveThread();
  auto result = body();
  take_gil(state);
  return result;
}

}  // namespace lw::python
