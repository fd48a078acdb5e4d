// The part of DLPack's stable ABI that a reader of tensors needs (versions 0.8 to 1.x): what a capsule
// of `__dlpack__()` points to, and the table behind `__dlpack_c_exchange_api__` (1.3), by which a
// tensor is read without a capsule.
#pragma once

#include <cstdint>

namespace lw::python::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCudaHost = 3 };
enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct Device {
  int32_t type;
  int32_t id;
};

struct Type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  Type type;
  int64_t* shape;
  int64_t* strides;                        // in elements; null: row-major
  uint64_t byte_offset;
};

// Of capsules named "dltensor".
struct Managed {
  Tensor tensor;
  void* manager;
  void (*deleter)(Managed* self);
};

struct Version {
  uint32_t major;
  uint32_t minor;
};

constexpr uint64_t kReadOnly = 1;          // of ManagedVersioned::flags

// Of capsules named "dltensor_versioned".
struct ManagedVersioned {
  Version version;
  void* manager;
  void (*deleter)(ManagedVersioned* self);
  uint64_t flags;
  Tensor tensor;
};

// Of capsules named "dlpack_exchange_api".
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor* like, ManagedVersioned** out, void* error_context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_of)(void* object, ManagedVersioned** out);
  int (*object_of)(ManagedVersioned* tensor, void** object);
  // Lends what `object` is, as long as that lives. May be null. Nonzero: a Python error is set.
  int (*lend)(void* object, Tensor* out);
  int (*stream_of)(int32_t device_type, int32_t device, void** stream);
};

}  // namespace lw::python::dlpack
