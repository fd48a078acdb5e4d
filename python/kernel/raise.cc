#include "python/kernel/python.h"

namespace lw::python {

PyObject* raise(const Failure& failure) {
  const Object errors(PyImport_ImportModule("loopwright.errors"));
  if (errors == nullptr) return nullptr;
  const Object error(PyObject_CallMethod(errors.get(), "error_of", "is",
                                         static_cast<int>(failure.code), failure.text.c_str()));
  if (error == nullptr) return nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return nullptr;
}

PyObject* raise_bad(std::string text) { return raise(bad_request(std::move(text))); }

}  // namespace lw::python
