// What the candidates of hostile_test.cc do, by name. Its part, in a file of its own for its
// length.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/expr/language/text.h"
#include "src/measure/local.h"
#include "src/measure/process/ipc.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/run/timing.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

// ---- the acts ----

pid_t harness = 0;              // the test's process, which no act may reach
std::string* spoils = nullptr;  // a file that no act may make
int* canary = nullptr;          // shared memory of the test: its address is known, its pages are
                                // not

char* volatile hogged = nullptr;  // so that no compiler leaves the memory out

using Act = std::function<int(void* const*)>;

int honest(void* const* buffers) {
  const float* a = static_cast<const float*>(buffers[0]);
  const float* b = static_cast<const float*>(buffers[1]);
  float* d = static_cast<float*>(buffers[2]);
  for (int i = 0; i < 20; ++i) {
    for (int j = 0; j < 24; ++j) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[16 * i + k] * b[24 * k + j];
      d[24 * i + j] = sum;
    }
  }
  return 0;
}

void* spin(void*) {
  while (true) usleep(1000);
}

[[gnu::noinline]] int overflow_stack(volatile char* above) {
  volatile char frame[4096];
  frame[0] = above == nullptr ? 1 : *above;
  return (frame[0] == 0 ? 0 : overflow_stack(frame)) + frame[0];  // never 0
}

int worker_socket = -1;  // in a worker: where its harness reads and writes

// The request that the harness is answering, found where it must lie: up the stack.
[[gnu::noinline, gnu::no_sanitize_address]] uint64_t find_tag() {
  const uint64_t* word = static_cast<const uint64_t*>(__builtin_frame_address(0));
  for (int i = 0; i < 4096; ++i, ++word) {
    const bool is_request = static_cast<uint32_t>(word[0]) == kTime &&
                            word[2] == sizeof(int32_t) + sizeof(TimingPlan);
    if (is_request) return word[5];
  }
  return 0;
}

std::string forged_times(double us) {
  Samples samples;
  samples.us.assign(8, us);
  samples.inside_s = 1e-3;
  Writer writer;
  put_samples(samples, &writer);
  return writer.bytes();
}

void say(const std::string& payload, uint64_t tag) {
  if (!send_message(worker_socket, kDone, payload, -1, tag).ok()) _exit(1);
}

int take_over(void* const* buffers, double us, double really_s) {
  say(forged_times(us), find_tag());
  while (true) {
    const absl::StatusOr<Message> request = receive_message(worker_socket);
    if (!request.ok()) _exit(0);
    const double end = now() + really_s;
    while (now() < end) {
    }
    honest(buffers);
    say("", request->tag);
  }
}

const std::map<std::string, Act>& acts() {
  static const std::map<std::string, Act> table = {
      {"loop", [](void* const*) { for (volatile int i = 0;; i = i + 1) {} return 0; }},
      {"forkbomb", [](void* const*) { while (true) fork(); return 0; }},
      {"hog",
       [](void* const*) {
         for (size_t size = 1 << 24;; size += 1 << 24) {
           hogged = static_cast<char*>(malloc(size));
           std::memset(hogged, 1, size);
         }
         return 0;
       }},
      {"wildwrite", [](void* const*) { *canary = 666; return 0; }},
      {"stack", [](void* const*) { return overflow_stack(nullptr); }},
      {"file",
       [](void* const*) {
         const int fd = open(spoils->c_str(), O_CREAT | O_WRONLY, 0666);
         return fd >= 0 && write(fd, "x", 1) == 1 ? 0 : 1;
       }},
      {"network", [](void* const*) { return socket(AF_INET, SOCK_STREAM, 0) < 0; }},
      {"exec",
       [](void* const*) {
         char* words[] = {const_cast<char*>("/bin/true"), nullptr};
         return execve(words[0], words, nullptr);
       }},
      {"setuid", [](void* const*) { return setuid(0); }},
      {"ptrace", [](void* const*) { return ptrace(PTRACE_ATTACH, harness, 0, 0) != 0; }},
      {"kill", [](void* const*) { return kill(harness, SIGKILL); }},
      {"flood",
       [](void* const*) {
         while (true) {
           if (write(STDOUT_FILENO, "flood\n", 6) < 0) return 1;
         }
       }},
      {"grandchild",
       [](void* const* buffers) {
         if (fork() == 0) spin(nullptr);
         return honest(buffers);
       }},
      {"thread",
       [](void* const* buffers) {
         pthread_t thread;
         pthread_create(&thread, nullptr, spin, nullptr);
         return honest(buffers);
       }},
      {"exit", [](void* const*) { exit(0); return 0; }},
      {"abort", [](void* const*) { abort(); return 0; }},
      {"stop", [](void* const* buffers) { raise(SIGSTOP); return honest(buffers); }},
      {"suicide", [](void* const* buffers) { raise(SIGKILL); return honest(buffers); }},
      {"spoil",
       [](void* const* buffers) {
         const uintptr_t page = reinterpret_cast<uintptr_t>(buffers[0]) & ~uintptr_t{4095};
         mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE);
         static_cast<float*>(buffers[0])[0] = 0;
         return honest(buffers);
       }},
      {"float",
       [](void* const* buffers) {
#if defined(__x86_64__)
         __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);  // denormals are zero
#endif
         return honest(buffers);
       }},
      {"forge",  // answers for the harness, then lets it answer too
       [](void* const* buffers) {
         static int calls = 0;
         if (++calls == 3) {
           say(forged_times(9), find_tag());
         }
         return honest(buffers);
       }},
      {"takeover",  // never lets the harness answer again; reports what cannot be
       [](void* const* buffers) {
         honest(buffers);
         return take_over(buffers, 1e-4, 0);
       }},
      {"lazy",  // right while it is verified, then in no time
       [](void* const* buffers) {
         static int calls = 0;
         if (++calls <= 3) return honest(buffers);
         const double end = now() + 2e-7;
         while (now() < end) {
         }
         return 0;
       }},
      {"sabotage",  // once it is timed, takes the output away from whoever comes next
       [](void* const* buffers) {
         static int calls = 0;
         if (++calls <= 5) return honest(buffers);
         const uintptr_t page = reinterpret_cast<uintptr_t>(buffers[2]) & ~uintptr_t{4095};
         mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ);
         return 0;
       }},
      {"late",  // crashes when it is timed with others
       [](void* const* buffers) {
         static int calls = 0;
         if (++calls > 8) *canary = 666;
         return honest(buffers);
       }},
      {"underreport",  // a slow kernel that reports a fast one's time
       [](void* const* buffers) {
         honest(buffers);
         return take_over(buffers, 9, 5e-3);
       }},
  };
  return table;
}

}  // namespace
}  // namespace lw
