// The module loopwright._kernel: the type Kernel, and the pool's size.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/kernel/bound_kernel.h"
#include "python/kernel/gil.h"
#include "src/runtime/kernel_library.h"
#include "src/runtime/process_pool.h"

namespace lw::python {
namespace {

struct KernelObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  BoundKernel* kernel;
  PyObject* bound_of;                      // the kernel that this one binds arguments of, or null
};

KernelObject* of(PyObject* self) { return reinterpret_cast<KernelObject*>(self); }

PyObject* call_object(PyObject* self, PyObject* const* args, size_t count, PyObject* keywords) {
  return call(*of(self)->kernel, args, static_cast<size_t>(PyVectorcall_NARGS(count)), keywords);
}

// An object of the type that has no kernel yet.
Object make_object(PyTypeObject* type) {
  Object self(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  of(self.get())->vectorcall = call_object;
  of(self.get())->kernel = new BoundKernel;
  of(self.get())->bound_of = nullptr;
  return self;
}

PyObject* new_kernel(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* bytes = nullptr;
  if (!PyArg_ParseTuple(args, "O&:Kernel", PyUnicode_FSConverter, &bytes)) return nullptr;
  const Object path(bytes);
  std::unique_ptr<KernelInstance> instance;
  const Failure failure = without_gil(
      [&] { return load_kernel_library(PyBytes_AS_STRING(path.get()), &instance); });
  if (!failure.ok()) return raise(failure);
  Object self = make_object(type);
  if (self == nullptr || !describe(std::move(instance), of(self.get())->kernel)) return nullptr;
  return self.release();
}

void free_kernel(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete of(self)->kernel;
  Py_XDECREF(of(self)->bound_of);
  type->tp_free(self);
  Py_DECREF(type);
}

// Before 3.12 a class of Python's does not inherit that its objects are called without a tuple and a
// dictionary made for it, which costs as much again as the rest of a call.
PyObject* init_subclass(PyObject* type, PyObject*) {
  auto* subclass = reinterpret_cast<PyTypeObject*>(type);
  if (subclass->tp_call == PyVectorcall_Call) subclass->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  Py_RETURN_NONE;
}

PyObject* bind_object(PyObject* self, PyObject* inputs) {
  if (!PyDict_Check(inputs)) return PyErr_Format(PyExc_TypeError, "_bind takes a dictionary");
  Object bound = make_object(Py_TYPE(self));
  if (bound == nullptr || !bind(*of(self)->kernel, inputs, of(bound.get())->kernel)) return nullptr;
  of(bound.get())->bound_of = Py_NewRef(self);
  return bound.release();
}

// (name, type, shape, is_output, is_const, read_by_run, bytes) of each.
PyObject* arguments_of(PyObject* self, void*) {
  const std::vector<Argument>& arguments = of(self)->kernel->arguments;
  Object all(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
  for (size_t i = 0; all != nullptr && i < arguments.size(); ++i) {
    const lw_argument& facts = *arguments[i].facts;
    Object shape(PyTuple_New(facts.rank));
    for (int d = 0; shape != nullptr && d < facts.rank; ++d) {
      PyTuple_SET_ITEM(shape.get(), d, PyLong_FromLongLong(facts.shape[d]));
    }
    if (shape == nullptr) return nullptr;
    PyObject* one = Py_BuildValue(
        "(ssONNNL)", facts.name, facts.type, shape.get(), PyBool_FromLong(arguments[i].is_output()),
        PyBool_FromLong(arguments[i].is_const()), PyBool_FromLong(arguments[i].read_by_run()),
        static_cast<long long>(facts.bytes));
    if (one == nullptr) return nullptr;
    PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), one);
  }
  return all.release();
}

// The names of the inputs that a call gives.
PyObject* inputs_of(PyObject* self, void*) {
  const BoundKernel& kernel = *of(self)->kernel;
  Object names(PyTuple_New(static_cast<Py_ssize_t>(kernel.inputs.size())));
  for (size_t i = 0; names != nullptr && i < kernel.inputs.size(); ++i) {
    const Argument& argument = kernel.arguments[static_cast<size_t>(kernel.inputs[i])];
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i),
                     PyUnicode_FromString(argument.facts->name));
  }
  return names.release();
}

PyObject* name_of(PyObject* self, void*) { return PyUnicode_FromString(of(self)->kernel->name()); }

template <const char* lw_kernel::*field>
PyObject* text_of(PyObject* self, void*) {
  return PyUnicode_FromString(of(self)->kernel->instance->kernel().*field);
}

template <int64_t lw_kernel::*field>
PyObject* number_of(PyObject* self, void*) {
  return PyLong_FromLongLong(of(self)->kernel->instance->kernel().*field);
}

PyObject* workers_of(PyObject* self, void*) {
  const BoundKernel& kernel = *of(self)->kernel;
  const int set = kernel.workers.load();
  return PyLong_FromLong(set > 0 ? set : kernel.instance->own_workers());
}

int set_workers(PyObject* self, PyObject* value, void*) {
  const long workers = value == nullptr || value == Py_None ? 0 : PyLong_AsLong(value);
  if (workers == -1 && PyErr_Occurred()) return -1;
  if (workers < 0 || workers > 4096 || (workers == 0 && value != Py_None)) {
    raise_bad(std::string(of(self)->kernel->name()) +
              ": workers are 1 to 4096, or None for as many as it was tuned for");
    return -1;
  }
  of(self)->kernel->workers = static_cast<int>(workers);
  return 0;
}

PyObject* set_num_threads(PyObject*, PyObject* value) {
  const long threads = PyLong_AsLong(value);
  if (threads == -1 && PyErr_Occurred()) return nullptr;
  if (threads < 0 || threads > 4096) {
    return raise_bad("threads are 1 to 4096, or 0 for as many as processors");
  }
  set_pool_workers(static_cast<int>(threads));
  Py_RETURN_NONE;
}

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(pool_workers()); }

PyMemberDef kernel_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyMethodDef kernel_methods[] = {
    {"_bind", bind_object, METH_O, nullptr},
    {"__init_subclass__", init_subclass, METH_NOARGS | METH_CLASS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kernel_fields[] = {
    {"name", name_of, nullptr, nullptr, nullptr},
    {"digest", text_of<&lw_kernel::digest>, nullptr, nullptr, nullptr},
    {"features", text_of<&lw_kernel::features>, nullptr, nullptr, nullptr},
    {"_facts", text_of<&lw_kernel::facts>, nullptr, nullptr, nullptr},
    {"_arguments", arguments_of, nullptr, nullptr, nullptr},
    {"inputs", inputs_of, nullptr, nullptr, nullptr},
    {"threads", number_of<&lw_kernel::threads>, nullptr, nullptr, nullptr},
    {"packed_bytes", number_of<&lw_kernel::packed_bytes>, nullptr, nullptr, nullptr},
    {"workspace_bytes", number_of<&lw_kernel::workspace_bytes>, nullptr, nullptr, nullptr},
    {"private_bytes", number_of<&lw_kernel::private_bytes>, nullptr, nullptr, nullptr},
    {"workers", workers_of, set_workers, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kernel_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_kernel)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_kernel)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, kernel_members},
    {Py_tp_methods, kernel_methods},
    {Py_tp_getset, kernel_fields},
    {0, nullptr}};

PyType_Spec kernel_spec = {
    "loopwright._kernel.Kernel", sizeof(KernelObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL, kernel_slots};

PyMethodDef functions[] = {{"set_num_threads", set_num_threads, METH_O, nullptr},
                           {"get_num_threads", get_num_threads, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

int fill_module(PyObject* module) {
  const Object type(PyType_FromModuleAndSpec(module, &kernel_spec, nullptr));
  if (type == nullptr || PyModule_AddIntConstant(module, "ABI", LOOPWRIGHT_ABI) != 0) return -1;
  return PyModule_AddObjectRef(module, "Kernel", type.get());
}

PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill_module)},
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "loopwright._kernel", nullptr, 0, functions,
                          module_slots, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace lw::python

PyMODINIT_FUNC PyInit__kernel() { return PyModuleDef_Init(&lw::python::definition); }
