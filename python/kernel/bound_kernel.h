// A kernel as Python calls it: which arguments it still asks for, what is bound, how many workers.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "python/kernel/python.h"
#include "python/kernel/tensor.h"
#include "src/runtime/instance.h"
#include "src/runtime/workspaces.h"

namespace lw::python {

// Immutable but for its atomics, so any number of threads may call it.
struct BoundKernel {
  std::shared_ptr<const KernelInstance> instance;
  std::vector<Argument> arguments;         // in order of declaration, inputs first
  std::vector<int> inputs;                 // that a call gives, by position
  std::vector<int> outputs;
  std::vector<void*> fixed;                // of bound arguments, by argument; else null
  std::vector<Tensor> held;                // the bound ones that runs read
  std::shared_ptr<void> packed;            // of the bound const inputs; null: pack in each call
  mutable Workspaces packs;                // for packing in each call
  std::atomic<int> workers{0};             // 0: those it was tuned for
  // A call was seen to take less than releasing the GIL is worth.
  mutable std::atomic<bool> is_brief{false};
  // A callable an output that allocates it, made by loopwright._outputs once NumPy is there.
  mutable std::atomic<PyObject*> makers{nullptr};

  ~BoundKernel();
  const char* name() const { return instance->kernel().name; }
};

// Of `instance`; false where it has a type that this version does not know.
bool describe(std::shared_ptr<const KernelInstance> instance, BoundKernel* kernel);
// As `kernel`, with the inputs of the dictionary bound, by name.
bool bind(const BoundKernel& kernel, PyObject* inputs, BoundKernel* bound);
// As vectorcall has its arguments: inputs by position or name, and `out`.
PyObject* call(const BoundKernel& kernel, PyObject* const* args, size_t count, PyObject* keywords);

}  // namespace lw::python
