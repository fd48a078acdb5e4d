#include "python/kernel/tensor.h"

#include <string>

namespace lw::python {
namespace {

std::string shape_text(const int64_t* shape, int rank) {
  std::string text = "[";
  for (int d = 0; d < rank; ++d) text += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

// An error of the argument; says what it is called.
bool refuse(const char* kernel, const Argument& wanted, const std::string& what) {
  raise_bad(std::string(kernel) + ": " + wanted.facts->name + " " + what);
  return false;
}

bool refuse_kind(const char* kernel, const Argument& wanted, const std::string& given) {
  return refuse(kernel, wanted, "is " + given + ", the kernel takes " + wanted.text());
}

bool is_shape(const Argument& wanted, const int64_t* shape, int rank) {
  if (rank != wanted.facts->rank) return false;
  for (int d = 0; d < rank; ++d) {
    if (shape[d] != wanted.facts->shape[d]) return false;
  }
  return true;
}

// `unit`: what strides count in, 1 or the element's bytes. A dimension of one element has any stride.
bool is_row_major(const Argument& wanted, const int64_t* strides, int64_t unit) {
  int64_t expected = unit;
  for (int d = wanted.facts->rank - 1; d >= 0; --d) {
    if (wanted.facts->shape[d] != 1 && strides[d] != expected) return false;
    expected *= wanted.facts->shape[d];
  }
  return true;
}

bool refuse_order(const char* kernel, const Argument& wanted, const int64_t* strides,
                  const char* unit) {
  return refuse(kernel, wanted,
                "is not contiguous in row-major order: its strides are " +
                    shape_text(strides, wanted.facts->rank) + " " + unit +
                    (wanted.is_output() ? ", and results are not copied"
                                        : "; numpy.ascontiguousarray() makes a copy that is"));
}

bool refuse_read_only(const char* kernel, const Argument& wanted) {
  return refuse(kernel, wanted, "is read-only, and the kernel writes it");
}

bool check_dlpack(const dlpack::Tensor& tensor, bool read_only, const Argument& wanted,
                  const char* kernel) {
  if (tensor.device.type != dlpack::kCpu && tensor.device.type != dlpack::kCudaHost) {
    return refuse(kernel, wanted,
                  "is on a device of DLPack's type " + std::to_string(tensor.device.type) +
                      ", the kernel reads memory of the CPU");
  }
  const dlpack::Type type = wanted.element->dlpack;
  // Bits of bf16 may come as integers, as they may by the buffer protocol.
  const bool bits16 = wanted.element->name == "bf16" && tensor.type.code == dlpack::kUInt &&
                      tensor.type.bits == 16;
  const bool same = (tensor.type.code == type.code && tensor.type.bits == type.bits) || bits16;
  if (!same || tensor.type.lanes != 1 || !is_shape(wanted, tensor.shape, tensor.rank)) {
    return refuse_kind(kernel, wanted,
                       name_of_dlpack(tensor.type) + shape_text(tensor.shape, tensor.rank));
  }
  if (tensor.strides != nullptr && !is_row_major(wanted, tensor.strides, 1)) {
    return refuse_order(kernel, wanted, tensor.strides, "elements");
  }
  return !(read_only && wanted.is_output()) || refuse_read_only(kernel, wanted);
}

// The type's table of functions, if it has one that lends tensors. The interpreter keeps what a type
// has, so the pointer is good while the object is.
const dlpack::ExchangeApi* exchange_of(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  const Object capsule(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(object)), name));
  if (capsule == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  auto* api = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
  if (api == nullptr) PyErr_Clear();
  const bool known = api != nullptr && api->version.major == 1 && api->lend != nullptr;
  return known ? api : nullptr;
}

PyObject* ask_capsule(PyObject* object) {
  const Object method(PyObject_GetAttrString(object, "__dlpack__"));
  if (method == nullptr) return nullptr;
  static PyObject* const keywords = Py_BuildValue("(s)", "max_version");
  static PyObject* const version = Py_BuildValue("(ii)", 1, 0);
  PyObject* capsule = PyObject_Vectorcall(method.get(), &version, 0, keywords);
  if (capsule != nullptr || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
  PyErr_Clear();                           // older than version 1, which brought the keyword
  return PyObject_CallNoArgs(method.get());
}

// bf16 arrays of ml_dtypes have no buffer and, by the age of NumPy, no DLPack: a view of their bits.
PyObject* bits_of(PyObject* object) {
  PyErr_Clear();
  const Object type(PyObject_GetAttrString(object, "dtype"));
  const Object name(type == nullptr ? nullptr : PyObject_GetAttrString(type.get(), "name"));
  if (name == nullptr || !PyUnicode_Check(name.get()) ||
      PyUnicode_CompareWithASCIIString(name.get(), "bfloat16") != 0) {
    PyErr_Clear();
    return nullptr;
  }
  PyObject* view = PyObject_CallMethod(object, "view", "s", "uint16");
  if (view == nullptr) PyErr_Clear();
  return view;
}

}  // namespace

std::string Argument::text() const {
  return std::string(element->name) + shape_text(facts->shape, facts->rank);
}

void Tensor::release() {
  if (held_ == Held::kBuffer) PyBuffer_Release(&buffer_);
  if (held_ != Held::kNothing) Py_XDECREF(object_);
  held_ = Held::kNothing;
}

bool Tensor::borrow(PyObject* object, const Argument& wanted, const char* kernel) {
  held_ = Held::kNothing;
  object_ = nullptr;
  if (PyObject_CheckBuffer(object)) return borrow_buffer(object, wanted, kernel);
  return borrow_dlpack(object, wanted, kernel);
}

bool Tensor::borrow_buffer(PyObject* object, const Argument& wanted, const char* kernel) {
  // Read-only first, so that the error of an output is ours.
  if (PyObject_GetBuffer(object, &buffer_, PyBUF_RECORDS_RO) != 0) {
    Object bits(wanted.element->name == "bf16" ? bits_of(object) : nullptr);
    if (bits != nullptr) {
      if (!borrow_buffer(bits.get(), wanted, kernel)) return false;
      object_ = bits.release();
      return true;
    }
    PyErr_Clear();
    return borrow_dlpack(object, wanted, kernel);
  }
  held_ = Held::kBuffer;
  data_ = buffer_.buf;
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  const auto* shape = reinterpret_cast<const int64_t*>(buffer_.shape);
  const auto* strides = reinterpret_cast<const int64_t*>(buffer_.strides);
  bool fits = is_format(*wanted.element, buffer_.format, buffer_.itemsize) &&
              is_shape(wanted, shape, buffer_.ndim);
  if (!fits) {
    refuse_kind(kernel, wanted, name_of_format(buffer_.format, buffer_.itemsize) +
                                    shape_text(shape, buffer_.ndim));
  } else if (!is_row_major(wanted, strides, wanted.element->bytes)) {
    fits = refuse_order(kernel, wanted, strides, "bytes");
  } else if (buffer_.readonly != 0 && wanted.is_output()) {
    fits = refuse_read_only(kernel, wanted);
  }
  if (!fits) release();
  return fits;
}

bool Tensor::borrow_dlpack(PyObject* object, const Argument& wanted, const char* kernel) {
  if (const dlpack::ExchangeApi* api = exchange_of(object); api != nullptr) {
    dlpack::Tensor tensor;
    if (api->lend(object, &tensor) != 0) return false;
    if (!check_dlpack(tensor, /*read_only=*/false, wanted, kernel)) return false;
    data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
    object_ = Py_NewRef(object);
    held_ = Held::kObject;
    return true;
  }
  Object capsule(ask_capsule(object));
  if (capsule == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Clear();
    return refuse_kind(kernel, wanted, std::string("a ") + Py_TYPE(object)->tp_name +
                                           ", which has neither a buffer nor DLPack");
  }
  const dlpack::Tensor* tensor = nullptr;
  bool read_only = false;
  // The capsule keeps its name: it stays the owner, and frees what it holds when we let go.
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
    auto* managed = static_cast<dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    if (managed->version.major != 1) {
      return refuse(kernel, wanted, "comes by DLPack " + std::to_string(managed->version.major) +
                                        ", this version reads DLPack 1");
    }
    tensor = &managed->tensor;
    read_only = (managed->flags & dlpack::kReadOnly) != 0;
  } else if (PyCapsule_IsValid(capsule.get(), "dltensor")) {
    tensor = &static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.get(), "dltensor"))->tensor;
  } else {
    return refuse(kernel, wanted, "gives something from __dlpack__() that is no tensor");
  }
  if (!check_dlpack(*tensor, read_only, wanted, kernel)) return false;
  data_ = static_cast<char*>(tensor->data) + tensor->byte_offset;
  object_ = capsule.release();
  held_ = Held::kObject;
  return true;
}

}  // namespace lw::python
