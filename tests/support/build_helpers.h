// What the tests of kernels and backends share: kernels in text, and the machines to run them on.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/rng.h"
#include "src/build/build.h"
#include "src/expr/reference/interpret.h"

namespace lw {

// One way to run a kernel: a backend and the target it builds for.
struct Machine {
  std::string name;                        // "interpreter", "x86_avx2", ...
  const Backend* backend;
  Target target;
};

inline Kernel kernel_of(const std::string& text) {
  absl::StatusOr<Kernel> kernel = parse_kernel(text);
  if (!kernel.ok()) {
    ADD_FAILURE() << kernel.status() << "\n" << text;
    return Kernel();
  }
  const absl::Status status = verify(*kernel);
  EXPECT_TRUE(status.ok()) << status << "\n" << text;
  return *std::move(kernel);
}

// What verify() says of a kernel's text after one change to it.
inline absl::Status verify_altered(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  const absl::StatusOr<Kernel> kernel = parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? verify(*kernel) : absl::OkStatus();
}

// Operations of the kind, in all loops and branches.
inline int count_of(const std::vector<Stmt>& list, Op op) {
  int found = 0;
  for (const Stmt& s : list) {
    found += s.kind == Stmt::Kind::kOp && s.op == op;
    found += count_of(s.body, op) + count_of(s.otherwise, op);
  }
  return found;
}

// The interpreter and every x86 target whose code this host can run; says which it leaves out.
inline const std::vector<Machine>& machines() {
  static const std::vector<Machine>* all = [] {
    std::vector<Machine>* list = new std::vector<Machine>;
    const Target host = *find_target("host");
    list->push_back({"interpreter", *find_backend("interpreter"), host});
    for (const char* name :
         {"x86_sse2", "x86_avx2", "x86_avx2_vnni", "x86_avx512", "x86_avx512_bf16"}) {
      const Target target = *find_target(name);
      const std::string missing = missing_feature(target, host);
      if (missing.empty()) list->push_back({name, *find_backend("x86_64"), target});
      else std::printf("[SKIP] %s: this host has no %s\n", name, missing.c_str());
    }
    list->push_back({"host", *find_backend("x86_64"), host});
    return list;
  }();
  return *all;
}

inline std::unique_ptr<Loaded> load_on(const Machine& machine, const Kernel& kernel) {
  absl::StatusOr<Artifact> artifact = machine.backend->build(kernel, machine.target);
  if (!artifact.ok()) {
    ADD_FAILURE() << machine.name << ": " << artifact.status() << "\n" << print(kernel);
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<Loaded>> loaded = load(*artifact);
  if (!loaded.ok()) {
    ADD_FAILURE() << machine.name << ": " << loaded.status();
    return nullptr;
  }
  return *std::move(loaded);
}

// Memory that ends (or starts) at a page nobody may touch: an access one byte too far is a crash.
class GuardedMemory {
 public:
  GuardedMemory(int64_t bytes, bool at_end) : bytes_(bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    size_ = (bytes + page - 1) / page * page + 2 * page;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(base_ != MAP_FAILED);
    CHECK(mprotect(base_ + page, size_ - 2 * page, PROT_READ | PROT_WRITE) == 0);
    data_ = at_end ? base_ + size_ - page - bytes : base_ + page;
  }
  ~GuardedMemory() { munmap(base_, size_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_, size_;
  char* base_;
  char* data_;
};

inline constexpr auto kAllTypes = [] {
  std::array<Type, kTypes> all{};
  for (int i = 0; i < kTypes; ++i) all[i] = kTypeRows[i].type;
  return all;
}();

inline std::string name_of(Type type) { return std::string(type_name(type)); }

// `count` elements of any kind that the type has, but no NaN: zeros, extremes, small and large.
inline std::string random_elements(Type type, int64_t count, uint64_t seed) {
  std::string bytes(count * size_of(type), '\0');
  std::byte* data = reinterpret_cast<std::byte*>(bytes.data());
  Rng rng(seed);
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(type)) {
      static constexpr double kSpecial[] = {0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e30, -1e30,
                                            INFINITY, -INFINITY, 65504, 65519.999, 1e-7, 1e-40,
                                            2147483648.0, -129, 255.5, 300, 9.3e18};
      const int kind = static_cast<int>(rng.below(4));
      store_element(type, data, i,
                    kind == 0 ? kSpecial[rng.below(std::size(kSpecial))]
                              : (rng.uniform() - 0.5) * std::exp2(rng.below(20) - 8));
    } else if (rng.below(3) == 0) {
      store_integer(type, data, i, static_cast<int64_t>(rng.next()));
    } else {
      static constexpr int64_t kSpecial[] = {0, 1, -1, 2, 7, -8, 127, -128, INT16_MIN, INT32_MIN,
                                             INT32_MAX, INT64_MIN, INT64_MAX, 3, -3};
      store_integer(type, data, i, kSpecial[rng.below(std::size(kSpecial))]);
    }
  }
  return bytes;
}

// Runs loaded code (with prepack, where it packs) on copies of `arguments`, each in memory that
// ends (or starts) at a guard page, and returns all of them as they are then.
inline std::vector<std::string> run_loaded(const Loaded& code, const Kernel& kernel,
                                           std::vector<std::string> arguments,
                                           lw_context context = {}, bool at_end = true) {
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<void*> table;
  for (const std::string& bytes : arguments) {
    memory.push_back(std::make_unique<GuardedMemory>(bytes.size(), at_end));
    std::memcpy(memory.back()->data(), bytes.data(), bytes.size());
    table.push_back(memory.back()->data());
  }
  context.workers = std::max<int64_t>(1, context.workers);
  const auto rounded = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  const GuardedMemory workspace(
      rounded(kernel.workspace_bytes) + context.workers * rounded(kernel.private_bytes), true);
  const GuardedMemory packed(rounded(kernel.packed_bytes), true);
  context.workspace = workspace.data();
  context.packed = packed.data();
  EXPECT_EQ(code.prepack(&context, table.data()), 0);
  EXPECT_EQ(code.run(&context, table.data()), 0);
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i].assign(memory[i]->data(), arguments[i].size());
  }
  return arguments;
}

inline std::vector<std::string> run_on(const Machine& machine, const Kernel& kernel,
                                       const std::vector<std::string>& arguments,
                                       const lw_context& context = {}) {
  const std::unique_ptr<Loaded> code = load_on(machine, kernel);
  if (code == nullptr) return {};
  return run_loaded(*code, kernel, arguments, context);
}

// The distance from 1 to the next number of a float type.
inline double unit_of(Type type) { return power_of_two(-row_of(type).fraction_bits); }

// Whether all elements agree: bits, or both NaN, or for floats within `ulps` units in the last
// place of `type` (and then also denormals with zero).
inline testing::AssertionResult same_elements(Type type, const std::string& got,
                                              const std::string& want, double ulps) {
  if (got.size() != want.size()) return testing::AssertionFailure() << "no result";
  const std::byte* a = reinterpret_cast<const std::byte*>(got.data());
  const std::byte* b = reinterpret_cast<const std::byte*>(want.data());
  const int64_t count = static_cast<int64_t>(got.size()) / size_of(type);
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i * size_of(type), b + i * size_of(type), size_of(type)) == 0) continue;
    if (is_float(type)) {
      const double x = load_element(type, a, i), y = load_element(type, b, i);
      if (std::isnan(x) && std::isnan(y)) continue;
      const double unit = unit_of(type);
      if (std::abs(x - y) <= ulps * std::max(unit * std::abs(y), type == Type::kF64 ? 0x1p-1022
                                                                                    : 0x1p-126)) {
        continue;
      }
      return testing::AssertionFailure() << "element " << i << ": " << x << ", not " << y;
    }
    return testing::AssertionFailure() << "element " << i << ": " << load_integer(type, a, i)
                                       << ", not " << load_integer(type, b, i);
  }
  return testing::AssertionSuccess();
}

inline constexpr int64_t kCount = 960;  // a multiple of every number of lanes below
// Scalars, parts of a register, a number of lanes that no register has, and two registers.
inline constexpr int kLanes[] = {1, 4, 5, 16, 32};

inline std::string text(int64_t value) { return std::to_string(value); }

// A kernel over `inputs` (types of arguments r0, r1, ...) that stores register `result` of type
// `out`, lanes at a time; `registers` declares all of them, `body` computes.
inline Kernel map_kernel(const std::vector<Type>& inputs, Type out, int lanes,
                         const std::string& body, const std::vector<Type>& more_registers = {}) {
  const std::string l = text(lanes), n = text(kCount);
  std::string kernel = "kernel map arguments=" + text(inputs.size() + 1) +
                       " variables=1 workspace=0 private=0 packed=0\n";
  std::string registers, loads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    kernel +=
        "buffer X" + text(i) + " " + name_of(inputs[i]) + " " + n + " argument " + text(i) + "\n";
    registers += "registers " + name_of(inputs[i]) + "x" + l + " 1\n";
    loads += "r" + text(i) + " = load X" + text(i) + "[" + l + "*v0] stride 1\n";
  }
  for (Type type : more_registers) registers += "registers " + name_of(type) + "x" + l + " 1\n";
  registers += "registers " + name_of(out) + "x" + l + " 1\n";
  kernel +=
      "buffer Y " + name_of(out) + " " + n + " argument " + text(inputs.size()) + " written\n";
  const std::string result = "r" + text(inputs.size() + more_registers.size());
  return kernel_of(kernel + registers + "body {\nfor v0 < " + text(kCount / lanes) + " {\n" +
                   loads + result + " = " + body + "\nstore Y[" + l + "*v0] = " + result +
                   " stride 1\n}\n}\n");
}

inline std::vector<std::string> random_arguments(const Kernel& kernel, uint64_t seed) {
  std::vector<std::string> arguments(kernel.arguments);
  for (const Buffer& b : kernel.buffers) {
    if (b.scope != Scope::kArgument) continue;
    arguments[b.slot] = random_elements(b.type, b.elements, seed * 31 + b.slot);
  }
  return arguments;
}

// All machines against the first, the interpreter.
inline void expect_agreement(const Kernel& kernel, double ulps = 0) {
  const std::vector<std::string> arguments = random_arguments(kernel, 5);
  const std::vector<std::string> want = run_on(machines()[0], kernel, arguments);
  for (size_t i = 1; i < machines().size(); ++i) {
    const std::unique_ptr<Loaded> code = load_on(machines()[i], kernel);
    if (code == nullptr) return;
    for (bool at_end : {true, false}) {
      const std::vector<std::string> got = run_loaded(*code, kernel, arguments, {}, at_end);
      for (const Buffer& b : kernel.buffers) {
        if (b.scope != Scope::kArgument) continue;
        ASSERT_TRUE(same_elements(b.type, got[b.slot], want[b.slot], ulps))
            << machines()[i].name << ", buffer " << b.name << "\n" << print(kernel);
      }
    }
  }
}

// Copies 4096 floats with streaming stores in a parallel loop.
inline Kernel streaming_kernel(const std::string& name) {
  return kernel_of("kernel " + name + R"( arguments=2 variables=2 workspace=0 private=0 packed=0
buffer X f32 4096 argument 0
buffer Y f32 4096 argument 1 written
registers f32x16 1
body {
  for v0 < 4 parallel {
    for v1 < 64 {
      r0 = load X[1024*v0 + 16*v1] stride 1
      store Y[1024*v0 + 16*v1] = r0 stride 1 nt
    }
  }
}
)");
}

}  // namespace lw
