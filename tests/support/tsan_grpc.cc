// Tells ThreadSanitizer what gRPC synchronizes. The system's libraries are not instrumented, and
// their mutexes (Abseil's) are not pthread's: whatever gRPC hands from one thread to another would
// be a race, some thousands in a test. Linked into the tests of a TSan build, these functions stand
// before the libraries' own, call them, and say that what was done before an unlock, or before a
// call into gRPC's core, has happened where somebody locks, or core answers, later.
//
// All of gRPC is one thing here, not each of its mutexes, since it also hands over by atomics. A
// race whose two accesses have gRPC at work between them may be missed for that; TSan itself treats
// the traffic of all sockets so.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"

namespace {

char grpc_itself;                          // its address stands for it

void enter() { __tsan_release(&grpc_itself); }
void leave() { __tsan_acquire(&grpc_itself); }

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// `real`: the library's own.
#define NEXT(symbol, ...) static auto* const real = next<__VA_ARGS__>(symbol)

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  NEXT("_ZN4absl7debian35Mutex4LockEv", void(Mutex*));
  real(this);
  leave();
}

void Mutex::Unlock() {
  NEXT("_ZN4absl7debian35Mutex6UnlockEv", void(Mutex*));
  enter();
  real(this);
}

bool Mutex::TryLock() {
  NEXT("_ZN4absl7debian35Mutex7TryLockEv", bool(Mutex*));
  const bool locked = real(this);
  if (locked) leave();
  return locked;
}

void CondVar::Wait(Mutex* mutex) {
  NEXT("_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE", void(CondVar*, Mutex*));
  enter();
  real(this, mutex);
  leave();
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  NEXT("_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
       bool(CondVar*, Mutex*, Time));
  enter();
  const bool late = real(this, mutex, deadline);
  leave();
  return late;
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  NEXT("_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE",
       bool(CondVar*, Mutex*, Duration));
  enter();
  const bool late = real(this, mutex, timeout);
  leave();
  return late;
}

ABSL_NAMESPACE_END
}  // namespace absl

// Of core, what begins and ends the operations of a call.
extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  NEXT("grpc_call_start_batch", grpc_call_error(grpc_call*, const grpc_op*, size_t, void*, void*));
  enter();
  return real(call, ops, count, tag, reserved);
}

void grpc_call_unref(grpc_call* call) {
  NEXT("grpc_call_unref", void(grpc_call*));
  leave();
  enter();
  real(call);
}

void* grpc_call_arena_alloc(grpc_call* call, size_t size) {
  NEXT("grpc_call_arena_alloc", void*(grpc_call*, size_t));
  leave();
  return real(call, size);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  NEXT("grpc_completion_queue_next",
       grpc_event(grpc_completion_queue*, gpr_timespec, void*));
  const grpc_event event = real(queue, deadline, reserved);
  leave();
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  NEXT("grpc_completion_queue_pluck",
       grpc_event(grpc_completion_queue*, void*, gpr_timespec, void*));
  const grpc_event event = real(queue, tag, deadline, reserved);
  leave();
  return event;
}

}  // extern "C"
