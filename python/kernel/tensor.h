// A Python object's memory for the time of a call.
#pragma once

#include <string>

#include "loopwright/context.h"
#include "python/kernel/element.h"
#include "python/kernel/python.h"

namespace lw::python {

// What an argument of a kernel must be.
struct Argument {
  const lw_argument* facts;
  const Element* element;

  bool is_output() const { return (facts->flags & LW_OUTPUT) != 0; }
  bool is_const() const { return (facts->flags & LW_CONST) != 0; }
  bool read_by_run() const { return (facts->flags & LW_READ_BY_RUN) != 0; }
  // "f32[64, 64]"
  std::string text() const;
};

// Borrows by the buffer protocol, DLPack's C interface or `__dlpack__()`, the first that the object
// has. Nothing is copied. Its fields are trivial so that an array of them costs nothing to make.
class Tensor {
 public:
  // False, with an error that names `kernel` and the argument: it is no tensor, of another type or
  // shape, not row-major, on another device, or read-only where it is an output.
  bool borrow(PyObject* object, const Argument& wanted, const char* kernel);
  void* data() const { return data_; }
  void release();

 private:
  bool borrow_buffer(PyObject* object, const Argument& wanted, const char* kernel);
  bool borrow_dlpack(PyObject* object, const Argument& wanted, const char* kernel);

  enum class Held { kNothing, kBuffer, kObject };
  Held held_;
  void* data_;
  PyObject* object_;                       // a capsule, the caller's array, or a view of that
  Py_buffer buffer_;
};

}  // namespace lw::python
