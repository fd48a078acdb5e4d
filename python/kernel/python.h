// What all of the extension needs of CPython's interface. Functions that return null or false have set
// a Python exception, as CPython's own do.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <memory>
#include <string>

#include "src/runtime/failure.h"

namespace lw::python {

struct Decref {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
// A reference of one's own.
using Object = std::unique_ptr<PyObject, Decref>;

// Raises the class of loopwright.errors that is of the code, and returns null.
PyObject* raise(const Failure& failure);
// The same of kBadRequest.
PyObject* raise_bad(std::string text);

}  // namespace lw::python
