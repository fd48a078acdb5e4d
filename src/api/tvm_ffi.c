/* A kernel as a function of tvm-ffi's stable C ABI, __tvm_ffi_NAME(inputs..., results...), for torch,
 * JAX, TVM, Rust: tensors in the order of declaration. Compiled with -DNAME=..., linked with NAME.o.
 * It runs on the calling thread. Const inputs are packed in each call, unless one tensor of bytes more
 * follows, which __tvm_ffi_NAME_prepack(inputs..., results..., bytes) has written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loopwright/context.h"

/* Of tvm/ffi/c_api.h and dlpack.h, which never change. */
enum { kDLTensorPtr = 7, kTensor = 70, kObjectHeader = 24, kCpu = 1 };
typedef struct {
  int32_t type_index;
  uint32_t padding;
  char* pointer;
} TVMFFIAny;
typedef struct {
  char* data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
/* Weak: the library also loads where tvm-ffi is not. */
extern __attribute__((weak)) void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* text);
extern const lw_kernel loopwright_kernel;

static int refuse(const char* name, const char* what) {
  char text[512];
  snprintf(text, sizeof text, "%s: %s%s", loopwright_kernel.name, name, what);
  if (TVMFFIErrorSetRaisedFromCStr) TVMFFIErrorSetRaisedFromCStr("ValueError", text);
  return -1;
}

static const struct { const char* name; uint8_t code, bits; } kTypes[] = {
    {"f32", 2, 32}, {"f64", 2, 64}, {"f16", 2, 16}, {"bf16", 4, 16}, {"i8", 0, 8}, {"u8", 1, 8},
    {"i16", 0, 16}, {"i32", 0, 32}, {"i64", 0, 64}, {"bool", 6, 8}};

static int take(const lw_argument* wanted, const TVMFFIAny* given, void** buffer) {
  if (given->type_index != kDLTensorPtr && given->type_index != kTensor)
    return refuse(wanted->name, " is no tensor");
  const DLTensor* t =
      (const DLTensor*)(given->pointer + (given->type_index == kTensor ? kObjectHeader : 0));
  const size_t types = sizeof kTypes / sizeof kTypes[0];
  size_t type = 0;
  while (type < types && strcmp(kTypes[type].name, wanted->type) != 0) ++type;
  if (type == types) return refuse(wanted->name, " is of a type that this library does not know");
  if (t->device_type != kCpu) return refuse(wanted->name, " is not in memory of the CPU");
  if (t->code != kTypes[type].code || t->bits != kTypes[type].bits || t->lanes != 1)
    return refuse(wanted->name, " is of another type than the kernel's");
  if (t->rank != wanted->rank) return refuse(wanted->name, " is of another rank than the kernel's");
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; --d) {
    if (t->shape[d] != wanted->shape[d])
      return refuse(wanted->name, " is of another shape than the kernel's");
    if (t->strides && t->shape[d] != 1 && t->strides[d] != stride)
      return refuse(wanted->name, " is not contiguous in row-major order");
    stride *= t->shape[d];
  }
  *buffer = t->data + t->byte_offset;
  if ((uintptr_t)*buffer % (uintptr_t)wanted->alignment != 0)
    return refuse(wanted->name, " is not aligned to its elements");
  return 0;
}

static int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Memory for what the kernel packs, 64-byte aligned. */
static int take_packed(const TVMFFIAny* given, void** memory) {
  if (given->type_index != kDLTensorPtr && given->type_index != kTensor)
    return refuse("packed", " is no tensor");
  const DLTensor* t =
      (const DLTensor*)(given->pointer + (given->type_index == kTensor ? kObjectHeader : 0));
  if (t->device_type != kCpu || t->rank != 1 || t->bits != 8 || (t->strides && t->strides[0] != 1) ||
      t->shape[0] < loopwright_kernel.packed_bytes)
    return refuse("packed", " is not as many bytes as the kernel packs");
  *memory = t->data + t->byte_offset;
  return (uintptr_t)*memory % 64 == 0 ? 0 : refuse("packed", " is not aligned to 64 bytes");
}

static int call(const TVMFFIAny* args, int32_t count, int only_packs) {
  const lw_kernel* k = &loopwright_kernel;
  const int has_packed = k->packed_bytes > 0 && count == k->arguments + 1;
  if (count != k->arguments + has_packed || (only_packs && !has_packed))
    return refuse("", "takes its inputs and then its results");
  void* buffers[count];
  void* packed = 0;
  for (int i = 0; i < k->arguments; ++i)
    if (take(&k->argument[i], &args[i], &buffers[i]) != 0) return -1;
  if (has_packed && take_packed(&args[k->arguments], &packed) != 0) return -1;
  for (int i = 0; i < k->arguments; ++i)
    for (int j = 0; j < k->arguments; ++j)
      if (i != j && (k->argument[i].flags & LW_OUTPUT) &&
          (char*)buffers[i] < (char*)buffers[j] + k->argument[j].bytes &&
          (char*)buffers[j] < (char*)buffers[i] + k->argument[i].bytes)
        return refuse(k->argument[i].name, " overlaps another argument");
  const int64_t workspace = lines(k->workspace_bytes) + lines(k->private_bytes);
  const int64_t own = has_packed ? 0 : lines(k->packed_bytes);
  char* memory = aligned_alloc(64, (size_t)(64 + workspace + own));
  if (!memory) return refuse("", "no memory for its workspace");
  lw_context context = {0, 0, 1, memory, has_packed ? packed : memory + workspace};
  const int packs = only_packs || (k->packed_bytes > 0 && !has_packed);
  int code = packs ? k->prepack(&context, buffers) : 0;
  if (code == 0 && !only_packs) code = k->run(&context, buffers);
  free(memory);
  return code == 0 ? 0 : refuse("", "refused its context");
}

#define JOINED(a, b, c) a##b##c
#define SYMBOL(name, end) JOINED(__tvm_ffi_, name, end)
int SYMBOL(NAME, )(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self, (void)result;
  return call(args, count, 0);
}
int SYMBOL(NAME, _prepack)(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self, (void)result;
  return loopwright_kernel.packed_bytes > 0 ? call(args, count, 1) : 0;
}
