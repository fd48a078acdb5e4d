// One call. What it costs beside the kernel is what this file does: it is measured by bench/python.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/kernel/bound_kernel.h"
#include "python/kernel/gil.h"

namespace lw::python {
namespace {

// Below it a call is over before another thread could have taken the GIL.
constexpr std::chrono::microseconds kWorthReleasing(5);

// What a call needs for each argument; on the stack for as many as nearly all kernels have.
class Frame {
 public:
  explicit Frame(size_t arguments) : count_(arguments) {
    if (arguments > kFew) {
      more_ = std::make_unique<Slot[]>(arguments);
      more_buffers_ = std::make_unique<void*[]>(arguments);
    }
    std::fill_n(buffers(), arguments, nullptr);
    for (size_t i = 0; i < arguments; ++i) slot(i) = Slot();
  }
  ~Frame() {
    for (size_t i = 0; i < count_; ++i) {
      if (slot(i).is_borrowed) slot(i).tensor.release();
    }
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  PyObject*& given(size_t i) { return slot(i).given; }
  void** buffers() { return more_buffers_ != nullptr ? more_buffers_.get() : few_buffers_; }
  bool borrow(size_t i, const Argument& wanted, const char* kernel) {
    slot(i).is_borrowed = slot(i).tensor.borrow(slot(i).given, wanted, kernel);
    if (slot(i).is_borrowed) buffers()[i] = slot(i).tensor.data();
    return slot(i).is_borrowed;
  }

 private:
  static constexpr size_t kFew = 12;
  struct Slot {
    Slot() {}                              // not the tensor's 100 bytes
    PyObject* given = nullptr;
    bool is_borrowed = false;
    Tensor tensor;
  };
  Slot& slot(size_t i) { return more_ != nullptr ? more_[i] : few_[i]; }

  size_t count_;
  std::array<Slot, kFew> few_;
  void* few_buffers_[kFew];
  std::unique_ptr<Slot[]> more_;
  std::unique_ptr<void*[]> more_buffers_;
};

std::string names_of(const BoundKernel& kernel, const std::vector<int>& arguments) {
  std::string text;
  for (int i : arguments) {
    text += (text.empty() ? "" : ", ") +
            std::string(kernel.arguments[static_cast<size_t>(i)].facts->name);
  }
  return text;
}

PyObject* refuse_count(const BoundKernel& kernel, size_t count) {
  const std::string names = names_of(kernel, kernel.inputs);
  return PyErr_Format(PyExc_TypeError, "%s: takes %zu inputs (%s), not %zu", kernel.name(),
                      kernel.inputs.size(), names.c_str(), count);
}

// The inputs that keywords give; `out` of them, borrowed, or null.
bool take_keywords(const BoundKernel& kernel, PyObject* const* values, PyObject* keywords,
                   Frame* frame, PyObject** out, size_t* count) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keywords); ++k) {
    PyObject* name = PyTuple_GET_ITEM(keywords, k);
    if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
      *out = values[k] == Py_None ? nullptr : values[k];
      continue;
    }
    const auto input = std::find_if(kernel.inputs.begin(), kernel.inputs.end(), [&](int i) {
      return PyUnicode_CompareWithASCIIString(
                 name, kernel.arguments[static_cast<size_t>(i)].facts->name) == 0;
    });
    if (input == kernel.inputs.end()) {
      PyErr_Format(PyExc_TypeError, "%s: there is no argument %R; inputs are %s, results go to out",
                   kernel.name(), name, names_of(kernel, kernel.inputs).c_str());
      return false;
    }
    PyObject*& place = frame->given(static_cast<size_t>(*input));
    if (place != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s: %U is given twice", kernel.name(), name);
      return false;
    }
    place = values[k];
    ++*count;
  }
  return true;
}

// Callables that allocate the results. Borrowed. Kept once NumPy is there to make arrays of.
PyObject* makers_of(const BoundKernel& kernel, Object* fresh) {
  PyObject* makers = kernel.makers.load(std::memory_order_acquire);
  if (makers != nullptr) return makers;
  const Object module(PyImport_ImportModule("loopwright._outputs"));
  if (module == nullptr) return nullptr;
  Object results(PyTuple_New(static_cast<Py_ssize_t>(kernel.outputs.size())));
  if (results == nullptr) return nullptr;
  for (size_t o = 0; o < kernel.outputs.size(); ++o) {
    const lw_argument& facts = *kernel.arguments[static_cast<size_t>(kernel.outputs[o])].facts;
    Object shape(PyTuple_New(facts.rank));
    for (int d = 0; shape != nullptr && d < facts.rank; ++d) {
      PyTuple_SET_ITEM(shape.get(), d, PyLong_FromLongLong(facts.shape[d]));
    }
    if (shape == nullptr || PyErr_Occurred()) return nullptr;
    PyObject* maker = PyObject_CallMethod(module.get(), "maker", "sOL", facts.type, shape.get(),
                                          static_cast<long long>(facts.bytes));
    if (maker == nullptr) return nullptr;
    PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(o), maker);
  }
  const Object keep(PyObject_CallMethod(module.get(), "has_numpy", nullptr));
  if (keep == nullptr) return nullptr;
  if (keep.get() == Py_True) {
    PyObject* none = nullptr;
    if (kernel.makers.compare_exchange_strong(none, results.get(), std::memory_order_acq_rel)) {
      return results.release();
    }
    return none;                           // another thread was first
  }
  *fresh = std::move(results);
  return fresh->get();
}

// The results: `out`, or new ones. A new reference, whose items the frame has.
PyObject* place_results(const BoundKernel& kernel, PyObject* out, Frame* frame) {
  const size_t count = kernel.outputs.size();
  Object results;
  if (out == nullptr) {
    Object fresh;
    PyObject* makers = makers_of(kernel, &fresh);
    if (makers == nullptr) return nullptr;
    if (count == 1) {
      results.reset(PyObject_CallNoArgs(PyTuple_GET_ITEM(makers, 0)));
    } else {
      results.reset(PyTuple_New(static_cast<Py_ssize_t>(count)));
      for (size_t o = 0; results != nullptr && o < count; ++o) {
        PyObject* made = PyObject_CallNoArgs(PyTuple_GET_ITEM(makers, static_cast<Py_ssize_t>(o)));
        if (made == nullptr) return nullptr;
        PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(o), made);
      }
    }
  } else if (count == 1) {
    results.reset(Py_NewRef(out));
  } else {
    results.reset(PyTuple_Check(out) || PyList_Check(out) ? PySequence_Tuple(out) : nullptr);
    if (results == nullptr || PyTuple_GET_SIZE(results.get()) != static_cast<Py_ssize_t>(count)) {
      return PyErr_Format(PyExc_TypeError, "%s: out must be a tuple of %zu results (%s)",
                          kernel.name(), count, names_of(kernel, kernel.outputs).c_str());
    }
  }
  if (results == nullptr) return nullptr;
  for (size_t o = 0; o < count; ++o) {
    frame->given(static_cast<size_t>(kernel.outputs[o])) =
        count == 1 ? results.get() : PyTuple_GET_ITEM(results.get(), static_cast<Py_ssize_t>(o));
  }
  return results.release();
}

Failure run(const BoundKernel& kernel, void* const* buffers) {
  const lw_kernel& table = kernel.instance->kernel();
  InstanceCall call;
  call.buffers = buffers;
  call.packed = kernel.packed.get();
  call.workers = kernel.workers.load(std::memory_order_relaxed);
  if (table.packed_bytes == 0 || call.packed != nullptr) return kernel.instance->run(call);
  // Nothing is bound: the const inputs may be others than in the last call.
  call.packed = kernel.packs.take(table.packed_bytes);
  if (call.packed == nullptr) {
    return environment_failure(std::string(table.name) + ": no memory for " +
                               std::to_string(table.packed_bytes) + " bytes of packed inputs");
  }
  Failure failure = kernel.instance->prepack(buffers, call.packed);
  if (failure.ok()) failure = kernel.instance->run(call);
  kernel.packs.give(call.packed);
  return failure;
}

// Also says whether the GIL should be kept in the next call.
Failure run_and_time(const BoundKernel& kernel, void* const* buffers) {
  const auto start = std::chrono::steady_clock::now();
  Failure failure = run(kernel, buffers);
  const bool brief = std::chrono::steady_clock::now() - start < kWorthReleasing;
  if (brief && kernel.instance->kernel().threads == 1) {
    kernel.is_brief.store(true, std::memory_order_relaxed);
  }
  return failure;
}

}  // namespace

PyObject* call(const BoundKernel& kernel, PyObject* const* args, size_t count,
               PyObject* keywords) {
  const size_t arguments = kernel.arguments.size();
  if (count > kernel.inputs.size()) return refuse_count(kernel, count);
  Frame frame(arguments);
  for (size_t i = 0; i < count; ++i) frame.given(static_cast<size_t>(kernel.inputs[i])) = args[i];
  PyObject* out = nullptr;
  size_t given = count;
  if (keywords != nullptr &&
      !take_keywords(kernel, args + count, keywords, &frame, &out, &given)) {
    return nullptr;
  }
  if (given != kernel.inputs.size()) return refuse_count(kernel, given);
  Object results(place_results(kernel, out, &frame));
  if (results == nullptr) return nullptr;
  for (size_t i = 0; i < arguments; ++i) {
    if (frame.given(i) == nullptr) {
      frame.buffers()[i] = kernel.fixed[i];
    } else if (!frame.borrow(i, kernel.arguments[i], kernel.name())) {
      return nullptr;
    }
  }
  const Failure failure =
      kernel.is_brief.load(std::memory_order_relaxed)
          ? run(kernel, frame.buffers())
          : without_gil([&] { return run_and_time(kernel, frame.buffers()); });
  return failure.ok() ? results.release() : raise(failure);
}

}  // namespace lw::python
