// Kernels in somebody else's process: many callers, foreign pools that keep no promise, forks, and
// every wrong argument by its name.
#include "src/runtime/instance.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/runtime/cpu_features.h"
#include "src/runtime/foreign_pool.h"
#include "src/runtime/process_pool.h"
#include "src/runtime/processor.h"
#include "src/runtime/workspaces.h"

namespace lw {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCount = 64;

// D[i] = A[i] * scale[i], by a parallel loop that writes each worker's private memory first. The
// packed memory is a copy of `scale`.
struct Closure {
  const lw_context* context;
  const float* a;
  float* d;
};
void body(void* closure, int64_t i, int64_t worker) {
  const Closure& c = *static_cast<Closure*>(closure);
  auto* mine = static_cast<float*>(c.context->workspace) + worker * 16;
  mine[0] = static_cast<const float*>(c.context->packed)[i];
  c.d[i] = c.a[i] * mine[0];
}
int32_t scale_run(const lw_context* context, void* const* buffers) {
  Closure closure{context, static_cast<const float*>(buffers[0]), static_cast<float*>(buffers[2])};
  if (context->parallel_for != nullptr) {
    context->parallel_for(context->pool, kCount, body, &closure);
  } else {
    for (int64_t i = 0; i < kCount; ++i) body(&closure, i, 0);
  }
  return 0;
}
int32_t scale_prepack(const lw_context* context, void* const* buffers) {
  std::memcpy(context->packed, buffers[1], kCount * sizeof(float));
  return 0;
}

constexpr int64_t kShape[] = {kCount};
constexpr int64_t kBytes = kCount * sizeof(float);
const lw_argument kArguments[] = {{"A", "f32", kShape, 1, LW_READ_BY_RUN, kBytes, 4},
                                  {"scale", "f32", kShape, 1, LW_CONST, kBytes, 4},
                                  {"D", "f32", kShape, 1, LW_OUTPUT, kBytes, 4}};
lw_kernel scale_kernel() {
  return {LOOPWRIGHT_ABI, 3, kArguments, "scale", scale_run, scale_prepack,
          0, 64, kBytes, 4, "", "d1", "{}"};
}

struct Case {
  lw_kernel kernel = scale_kernel();
  std::unique_ptr<KernelInstance> instance;
  alignas(64) float a[kCount], scale[kCount], d[kCount];
  alignas(64) char packed[kBytes];
  void* buffers[3] = {a, scale, d};

  Case() {
    EXPECT_TRUE(KernelInstance::create(&kernel, nullptr, &instance).ok());
    for (int i = 0; i < kCount; ++i) a[i] = static_cast<float>(i), scale[i] = 2;
    EXPECT_TRUE(instance->prepack(buffers, packed).ok());
  }
  InstanceCall call() {
    InstanceCall made;
    made.buffers = buffers;
    made.packed = packed;
    return made;
  }
  void expect_right() {
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(d[i], 2.0f * static_cast<float>(i));
  }
};

TEST(Instance, ThreadsShareAKernelAndThePool) {
  Case shared;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&shared, t] {
      std::vector<float> d(kCount);
      void* buffers[3] = {shared.a, nullptr, d.data()};  // scale is packed: nobody reads it
      for (int n = 0; n < 200; ++n) {
        std::fill(d.begin(), d.end(), -1.0f);
        InstanceCall call = shared.call();
        call.buffers = buffers;
        call.workers = 1 + (n + t) % 4;
        const Failure failure = shared.instance->run(call);
        ASSERT_TRUE(failure.ok()) << failure.text;
        for (int i = 0; i < kCount; ++i) ASSERT_EQ(d[i], 2.0f * static_cast<float>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Instance, WorkersThatNobodyGivesAreThoseThatThereAre) {
  Case one;
  set_pool_workers(3);
  EXPECT_EQ(one.instance->own_workers(), 3);
  set_pool_workers(9);
  EXPECT_EQ(one.instance->own_workers(), 4);  // it was tuned for four
  EXPECT_TRUE(one.instance->run(one.call()).ok());
  one.expect_right();
  set_pool_workers(0);
  EXPECT_EQ(one.instance->workspace_bytes(4), 256);
  EXPECT_EQ(one.instance->workspace_bytes(1), 64);
  EXPECT_EQ(one.instance->workspace_bytes(0), 256);  // as many as it may come to
}

// Keeps the tasks; runs them when it is told to.
struct Tasks {
  std::mutex mutex;
  std::vector<std::pair<void (*)(void*), void*>> kept;
  std::vector<std::thread> threads;

  static void keep(void* pool, void (*task)(void*), void* argument) {
    Tasks& tasks = *static_cast<Tasks*>(pool);
    const std::lock_guard<std::mutex> lock(tasks.mutex);
    tasks.kept.emplace_back(task, argument);
  }
  static void at_once(void*, void (*task)(void*), void* argument) { task(argument); }
  static void on_threads(void* pool, void (*task)(void*), void* argument) {
    static_cast<Tasks*>(pool)->threads.emplace_back(task, argument);
  }
  void run_kept() {
    for (const auto& [task, argument] : kept) task(argument);
    kept.clear();
  }
  ~Tasks() {
    for (std::thread& thread : threads) thread.join();
  }
};

TEST(Instance, APoolThatRunsNothingUntilTheCallIsOver) {
  Case one;
  Tasks tasks;
  InstanceCall call = one.call();
  call.schedule = Tasks::keep;
  call.pool = &tasks;
  ASSERT_TRUE(one.instance->run(call).ok());
  one.expect_right();
  EXPECT_EQ(tasks.kept.size(), 3u);
  std::fill(one.d, one.d + kCount, -1.0f);
  tasks.run_kept();                        // late: they find the door closed
  for (float value : one.d) EXPECT_EQ(value, -1.0f);
}

TEST(Instance, APoolThatRunsTasksOnTheThreadThatAsks) {
  Case one;
  InstanceCall call = one.call();
  call.schedule = Tasks::at_once;
  ASSERT_TRUE(one.instance->run(call).ok());
  one.expect_right();
}

TEST(Instance, APoolOfThreadsThatComeWhenTheyLike) {
  Case one;
  for (int n = 0; n < 50; ++n) {
    Tasks tasks;
    std::fill(one.d, one.d + kCount, -1.0f);
    InstanceCall call = one.call();
    call.schedule = Tasks::on_threads;
    call.pool = &tasks;
    ASSERT_TRUE(one.instance->run(call).ok());
    one.expect_right();
  }
}

TEST(Instance, ACallersParallelFor) {
  Case one;
  int calls = 0;
  InstanceCall call = one.call();
  call.pool = &calls;
  call.workers = 2;
  call.parallel_for = [](void* pool, int64_t count, void (*loop)(void*, int64_t, int64_t),
                         void* closure) {
    ++*static_cast<int*>(pool);
    for (int64_t i = count; i-- > 0;) loop(closure, i, i % 2);
  };
  ASSERT_TRUE(one.instance->run(call).ok());
  one.expect_right();
  EXPECT_EQ(calls, 1);
}

// The parent's threads are not there after fork(): the child makes its own. (TSan cannot follow a
// child that starts threads.)
TEST(Instance, AForkedChildHasAPoolOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "threads after fork() under TSan";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "threads after fork() under TSan";
#endif
#endif
  Case one;
  InstanceCall call = one.call();
  call.workers = 4;
  ASSERT_TRUE(one.instance->run(call).ok());
  // Others use the pool, and hold its turn, while the process forks.
  std::atomic<bool> stop{false};
  std::thread other([&] {
    std::vector<float> d(kCount);
    void* buffers[3] = {one.a, nullptr, d.data()};
    InstanceCall busy = one.call();
    busy.buffers = buffers;
    busy.workers = 4;
    while (!stop) EXPECT_TRUE(one.instance->run(busy).ok());
  });
  for (int n = 0; n < 20; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      std::fill(one.d, one.d + kCount, -1.0f);
      const bool ran = one.instance->run(call).ok();
      bool right = ran;
      for (int i = 0; i < kCount; ++i) right = right && one.d[i] == 2.0f * static_cast<float>(i);
      _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

TEST(Instance, WrongArgumentsByTheirNames) {
  Case one;
  const auto said = [&](const std::function<void(InstanceCall*)>& spoil) {
    void* buffers[3] = {one.a, one.scale, one.d};
    InstanceCall call = one.call();
    call.buffers = buffers;
    spoil(&call);
    const Failure failure = one.instance->run(call);
    EXPECT_EQ(failure.code, FailureCode::kBadRequest) << failure.text;
    return failure.text;
  };
  const auto at = [](InstanceCall* call, int i) -> void*& {
    return const_cast<void**>(call->buffers)[i];
  };
  EXPECT_EQ(said([](InstanceCall* c) { c->buffers = nullptr; }), "scale: buffers is null");
  EXPECT_EQ(said([&](InstanceCall* c) { at(c, 0) = nullptr; }), "scale: A is null");
  EXPECT_EQ(said([&](InstanceCall* c) { at(c, 2) = nullptr; }), "scale: D is null");
  EXPECT_EQ(said([&](InstanceCall* c) { at(c, 0) = reinterpret_cast<char*>(one.a) + 2; }),
            "scale: A is not aligned to its elements, f32 of 4 bytes");
  EXPECT_EQ(said([&](InstanceCall* c) { at(c, 2) = one.a + kCount - 1; }),
            "scale: D overlaps A: the output must have memory of its own");
  EXPECT_EQ(said([](InstanceCall* c) { c->packed = nullptr; }),
            "scale: packed is null: the kernel needs 256 bytes that prepack has written");
  EXPECT_EQ(said([&](InstanceCall* c) { c->packed = one.packed + 4; }),
            "scale: packed is not aligned to 64 bytes");
  EXPECT_EQ(said([&](InstanceCall* c) { c->workspace = one.packed + 8; }),
            "scale: workspace is not aligned to 64 bytes");
  EXPECT_EQ(said([](InstanceCall* c) { c->workers = -1; }),
            "scale: workers must be 0 to 4096, not -1");
  void* none[3] = {nullptr, nullptr, nullptr};
  EXPECT_EQ(one.instance->prepack(none, one.packed).text, "scale: scale is null");
}

TEST(Instance, TablesThatAreNone) {
  std::unique_ptr<KernelInstance> instance;
  EXPECT_EQ(KernelInstance::create(nullptr, nullptr, &instance).code, FailureCode::kBadRequest);
  lw_kernel kernel = scale_kernel();
  kernel.abi = 2;
  EXPECT_THAT(KernelInstance::create(&kernel, nullptr, &instance).text,
              HasSubstr("of ABI 2, this program loads ABI 1"));
  kernel = scale_kernel();
  kernel.prepack = nullptr;
  EXPECT_EQ(KernelInstance::create(&kernel, nullptr, &instance).code, FailureCode::kBadRequest);
  kernel = scale_kernel();
  kernel.features = "sse2 no_such_thing";
  const Failure lacking = KernelInstance::create(&kernel, nullptr, &instance);
  EXPECT_EQ(lacking.code, FailureCode::kEnvironment);
  EXPECT_THAT(lacking.text, HasSubstr("lacks"));
  EXPECT_EQ(instance, nullptr);
}

TEST(Processor, HasWhatItHas) {
  EXPECT_EQ(missing_of(""), "");
  for (const std::string& name : processor_features()) EXPECT_EQ(missing_of(name), "");
  EXPECT_EQ(missing_of(processor_features().front() + " no_such_thing"), "no_such_thing");
  std::string all;
  for (const std::string& name : processor_features()) all += name + " ";
  EXPECT_EQ(lw_processor_has_all(all.c_str()), 1);  // as generated code asks
  EXPECT_EQ(lw_processor_has_all((all + "no_such_thing").c_str()), 0);
}

TEST(Workspaces, GiveBackWhatTheyTook) {
  Workspaces spare;
  void* first = spare.take(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  std::memset(first, 1, 100);
  spare.give(first);
  EXPECT_EQ(spare.take(64), first);        // of 128 bytes
  spare.give(first);
  void* larger = spare.take(100'000);
  std::memset(larger, 1, 100'000);
  std::vector<void*> many;
  for (int i = 0; i < 40; ++i) many.push_back(spare.take(64));
  for (void* block : many) spare.give(block);
  spare.give(larger);
}

}  // namespace
}  // namespace lw
