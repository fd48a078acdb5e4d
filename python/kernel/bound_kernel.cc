#include "python/kernel/bound_kernel.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "python/kernel/gil.h"
#include "src/runtime/workspace.h"

namespace lw::python {
namespace {

std::shared_ptr<void> allocate_lines(int64_t bytes) {
  return {std::aligned_alloc(LW_LINE, static_cast<size_t>(lw_whole_lines(bytes))), std::free};
}

int find_input(const BoundKernel& kernel, PyObject* name) {
  for (int i : kernel.inputs) {
    const char* own = kernel.arguments[static_cast<size_t>(i)].facts->name;
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, own) == 0) return i;
  }
  return -1;
}

// Packs what is bound, if the kernel packs anything. All const inputs must be there: which of them
// prepack reads, nobody says.
bool pack(BoundKernel* bound) {
  const lw_kernel& table = bound->instance->kernel();
  if (table.packed_bytes == 0 || bound->packed != nullptr) return true;
  std::string missing;
  bool some = false;
  for (size_t i = 0; i < bound->arguments.size(); ++i) {
    if (!bound->arguments[i].is_const()) continue;
    some = some || bound->fixed[i] != nullptr;
    if (bound->fixed[i] == nullptr) {
      missing += (missing.empty() ? "" : ", ") + std::string(bound->arguments[i].facts->name);
    }
  }
  if (!some) return true;
  if (!missing.empty()) {
    raise_bad(std::string(table.name) + ": bind " + missing +
              " too: const inputs are packed together");
    return false;
  }
  bound->packed = allocate_lines(table.packed_bytes);
  if (bound->packed == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  const Failure failure = without_gil(
      [&] { return bound->instance->prepack(bound->fixed.data(), bound->packed.get()); });
  return failure.ok() || raise(failure) != nullptr;
}

}  // namespace

BoundKernel::~BoundKernel() {
  for (Tensor& tensor : held) tensor.release();
  Py_XDECREF(makers.load());
}

bool describe(std::shared_ptr<const KernelInstance> instance, BoundKernel* kernel) {
  const lw_kernel& table = instance->kernel();
  kernel->instance = std::move(instance);
  for (int i = 0; i < table.arguments; ++i) {
    const lw_argument& facts = table.argument[i];
    const Element* element = find_element(facts.type);
    if (element == nullptr) {
      raise_bad(std::string(table.name) + ": " + facts.name + " is of type " + facts.type +
                ", which this version does not know: update loopwright");
      return false;
    }
    kernel->arguments.push_back({&facts, element});
    (kernel->arguments.back().is_output() ? kernel->outputs : kernel->inputs).push_back(i);
  }
  kernel->fixed.resize(kernel->arguments.size(), nullptr);
  return true;
}

bool bind(const BoundKernel& kernel, PyObject* inputs, BoundKernel* bound) {
  bound->instance = kernel.instance;
  bound->arguments = kernel.arguments;
  bound->outputs = kernel.outputs;
  bound->packed = kernel.packed;
  bound->workers = kernel.workers.load();
  // What was bound before keeps its tensors by the Python object that binds (module.cc).
  bound->fixed = kernel.fixed;
  // A buffer stays where it was borrowed: its shape may lie within it.
  std::vector<Tensor> packed_only;
  packed_only.reserve(kernel.inputs.size());
  bound->held.reserve(kernel.inputs.size());
  std::vector<bool> given(kernel.arguments.size(), false);
  bool good = true;
  Py_ssize_t at = 0;
  for (PyObject *name, *value; good && PyDict_Next(inputs, &at, &name, &value);) {
    const int input = find_input(kernel, name);
    if (input < 0) {
      PyErr_Format(PyExc_TypeError, "%s: there is no input %R to bind", kernel.name(), name);
      good = false;
      break;
    }
    const auto i = static_cast<size_t>(input);
    const Argument& argument = kernel.arguments[i];
    std::vector<Tensor>& owner = argument.read_by_run() ? bound->held : packed_only;
    owner.emplace_back();
    good = owner.back().borrow(value, argument, kernel.name());
    if (!good) {
      owner.pop_back();
      break;
    }
    bound->fixed[i] = owner.back().data();
    given[i] = true;
  }
  for (int i : kernel.inputs) {
    if (!given[static_cast<size_t>(i)]) bound->inputs.push_back(i);
  }
  good = good && pack(bound);
  for (Tensor& tensor : packed_only) tensor.release();
  for (size_t i = 0; i < bound->arguments.size(); ++i) {
    if (!bound->arguments[i].read_by_run()) bound->fixed[i] = nullptr;
  }
  return good;
}

}  // namespace lw::python
