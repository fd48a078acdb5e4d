/* A libcuda.so.1 that computes nothing: it writes each call and its arguments to the file `calls`,
 * and at the end what was made and not released. Variables of the environment say what there is:
 *   FAKE_VERSION (12080), FAKE_CAPABILITY (90), FAKE_SHARED (232448), FAKE_THREADS (1024),
 *   FAKE_DECLARED (0): the driver's CUDA, the GPU, and what functions have;
 *   FAKE_NO_CONTEXT: none is current;
 *   FAKE_FAIL_AT=N: call N returns 999; FAKE_FAILS=NAME: calls of that function do;
 *   FAKE_REFUSES=elf or text: such modules are, text with a reason.
 * A kernel's name ends with how many parameters it has. Of the test's own, C99. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_VALUE = 1, INVALID_IMAGE = 200, INVALID_PTX = 218, FAILURE = 999 };
typedef unsigned long long address;

static int calls, modules, buffers, pushed;
static char names[64][32];
static int name_count;
static FILE* file;

__attribute__((destructor)) static void end(void) {
  if (file == NULL) return;
  fprintf(file, "left: %d modules, %d buffers, %d contexts\n", modules, buffers, pushed);
  fclose(file);
}

static long setting(const char* name, long otherwise) {
  const char* value = getenv(name);
  return value == NULL ? otherwise : atol(value);
}

static FILE* calls_file(void) {
  if (file == NULL && (file = fopen("calls", "a")) == NULL) abort();
  return file;
}

/* The call's result; its arguments, which follow in the file, stand behind its name. */
static int begin(const char* name) {
  const char* failing = getenv("FAKE_FAILS");
  fprintf(calls_file(), "%s", name);
  if (++calls == setting("FAKE_FAIL_AT", 0)) return FAILURE;
  return failing != NULL && strcmp(failing, name) == 0 ? FAILURE : 0;
}
static int done(int error) {
  if (error != 0) fprintf(file, " -> %d", error);
  fputs("\n", file);
  return error;
}

int cuGetErrorName(int error, const char** name) {
  *name = error == FAILURE       ? "CUDA_ERROR_UNKNOWN"
          : error == INVALID_PTX ? "CUDA_ERROR_INVALID_PTX"
                                 : NULL;
  return *name == NULL ? INVALID_VALUE : 0;
}
int cuDriverGetVersion(int* version) {
  const int error = begin("cuDriverGetVersion");
  *version = (int)setting("FAKE_VERSION", 12080);
  return done(error);
}
int cuCtxGetCurrent(void** context) {
  const int error = begin("cuCtxGetCurrent");
  *context = setting("FAKE_NO_CONTEXT", 0) ? NULL : (void*)&calls;
  return done(error);
}
int cuCtxPushCurrent_v2(void* context) {
  const int error = begin("cuCtxPushCurrent");
  fputs(context == &calls ? " ours" : " another", calls_file());
  pushed += error == 0;
  return done(error);
}
int cuCtxPopCurrent_v2(void** context) {
  const int error = begin("cuCtxPopCurrent");
  *context = &calls;
  --pushed;
  return done(error);
}
int cuCtxGetDevice(int* device) {
  const int error = begin("cuCtxGetDevice");
  *device = 3;
  return done(error);
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  int error = begin("cuDeviceGetAttribute");
  const int capability = (int)setting("FAKE_CAPABILITY", 90);
  fprintf(calls_file(), " %d of %d", attribute, device);
  switch (attribute) {
    case 75: *value = capability / 10; break;
    case 76: *value = capability % 10; break;
    case 97: *value = (int)setting("FAKE_SHARED", 232448); break;
    default: error = INVALID_VALUE;
  }
  return done(error);
}
int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options,
                       void** values) {
  int error = begin("cuModuleLoadDataEx");
  const char* refused = getenv("FAKE_REFUSES");
  const int is_elf = memcmp(image, "\177ELF", 4) == 0;
  unsigned i;
  fprintf(calls_file(), is_elf ? " elf" : " text of %d", (int)strlen((const char*)image));
  if ((size_t)image % 8 != 0) fputs(" misaligned", file);
  for (i = 0; i < count; ++i) fprintf(file, " option %d", options[i]);
  if (error == 0 && refused != NULL && strcmp(refused, is_elf ? "elf" : "text") == 0) {
    error = is_elf ? INVALID_IMAGE : INVALID_PTX;
    if (count == 2) {
      memset(values[0], 'x', (size_t)values[1]);         /* all of it, to the last byte */
      memcpy(values[0], "line 7: wrong\n", 15);
    }
  }
  *module = error == 0 ? (void*)&modules : (void*)1;
  modules += error == 0;
  return done(error);
}
int cuModuleUnload(void* module) {
  const int error = begin("cuModuleUnload");
  if (module != &modules) abort();
  --modules;
  return done(error);
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  const int error = begin("cuModuleGetFunction");
  fprintf(calls_file(), " %s", name);
  if (module != &modules || name_count == 64 || strlen(name) > 31) abort();
  strcpy(names[name_count], name);
  *function = names[name_count++];
  return done(error);
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  int error = begin("cuFuncGetAttribute");
  fprintf(calls_file(), " %d of %s", attribute, (const char*)function);
  switch (attribute) {
    case 0: *value = (int)setting("FAKE_THREADS", 1024); break;
    case 1: *value = (int)setting("FAKE_DECLARED", 0); break;
    default: error = INVALID_VALUE;
  }
  return done(error);
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  const int error = begin("cuFuncSetAttribute");
  fprintf(calls_file(), " %d of %s = %d", attribute, (const char*)function, value);
  return done(error);
}
int cuMemAlloc_v2(address* memory, size_t bytes) {
  static address next = 0x7000000000u;
  const int error = begin("cuMemAlloc");
  if (error == 0) {
    *memory = next;
    next += 0x100000;
    ++buffers;
  }
  fprintf(calls_file(), " %d = %llx", (int)bytes, *memory);
  return done(error);
}
int cuMemFree_v2(address memory) {
  const int error = begin("cuMemFree");
  fprintf(calls_file(), " %llx", memory);
  --buffers;
  return done(error);
}
#ifndef FAKE_HAS_NO_LAUNCH
/* A map begins with the tensor's address. */
int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* tensor,
                           const unsigned long long* sizes, const unsigned long long* strides,
                           const unsigned* box, const unsigned* steps, int interleave, int swizzle,
                           int promotion, int fill) {
  const int error = begin("cuTensorMapEncodeTiled");
  const address start = (address)(size_t)tensor;
  unsigned i;
  fprintf(calls_file(), " type %d of %llx", type, start);
  for (i = 0; i < rank; ++i)
    fprintf(file, " (%llu: %u step %u)", sizes[i], box[i], steps[i]);
  for (i = 0; i + 1 < rank; ++i) fprintf(file, " %llu", strides[i]);
  fprintf(file, " %d %d %d %d", interleave, swizzle, promotion, fill);
  if ((size_t)map % 64 != 0) fputs(" misaligned", file);
  memset(map, 0x5a, 128);
  memcpy(map, &start, sizeof start);
  return done(error);
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                   unsigned tz, unsigned shared, void* stream, void** parameters, void** extra) {
  const int error = begin("cuLaunchKernel");
  const char* name = (const char*)function;
  int i;
  fprintf(calls_file(), " %s (%u %u %u) (%u %u %u) %u stream %llx:", name, x, y, z, tx, ty, tz,
          shared, (address)(size_t)stream);
  for (i = 0; i < name[strlen(name) - 1] - '0'; ++i)
    fprintf(file, " %llx", *(const address*)parameters[i]);
  if (extra != NULL) fputs(" extra", file);
  return done(error);
}
#endif
