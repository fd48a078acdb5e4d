// The conformance suite's second half: memory (strides, masks and gathers at guard pages, streaming
// stores), control flow, parallel loops and packing, on every backend and instruction set.
#include "src/base/parallel_pool.h"
#include "tests/support/build_helpers.h"

namespace lw {
namespace {

// ------------------------------------------------------------------------------ memory

// The last lane touches the last element, at a guard page.
TEST(Conformance, StridedLoadsAndStoresStayInside) {
  for (Type type : kAllTypes) {
    for (int lanes : kLanes) {
      for (int stride : {-3, -1, 1, 2, 3, 4, 7}) {
        const bool wide = lanes == 32 || stride == 7 || stride == -3;
        if (wide && type != Type::kF32 && type != Type::kI8) continue;
        const int64_t span = (lanes - 1) * std::abs(stride) + 1;
        const int64_t first = stride < 0 ? span - 1 : 0;
        const std::string access = "[" + text(first) + "] ";
        const std::string s = text(stride), l = text(lanes), n = text(span);
        const std::string head =
            "kernel s arguments=2 variables=0 workspace=0 private=0 packed=0\nbuffer X " +
            name_of(type);
        expect_agreement(kernel_of(head + " " + n + " argument 0\nbuffer Y " + name_of(type) + " " +
                                   l + " argument 1 written\nregisters " + name_of(type) + "x" + l +
                                   " 1\nbody {\nr0 = load X" + access + "stride " + s +
                                   "\nstore Y[0] = r0 stride 1\n}\n"));
        expect_agreement(kernel_of(head + " " + l + " argument 0\nbuffer Y " + name_of(type) + " " +
                                   n + " argument 1 written\nregisters " + name_of(type) + "x" + l +
                                   " 1\nbody {\nr0 = load X[0] stride 1\nstore Y" + access +
                                   "= r0 stride " + s + "\n}\n"));
      }
    }
  }
}

// Tails of every length: lanes that are off lie behind the guard page.
TEST(Conformance, MaskedLanesTouchNothing) {
  for (Type type : kAllTypes) {
    for (int lanes : {1, 4, 16}) {
      for (int stride : {1, 2}) {
        const std::string l = text(lanes), s = text(stride), types = name_of(type);
        for (int on = lanes == 1 ? 1 : 0; on <= lanes; on += lanes > 8 ? 5 : 2) {
          const std::string n = text(std::max(1, (on - 1) * stride + 1));
          expect_agreement(kernel_of(
              "kernel m arguments=2 variables=1 workspace=0 private=0 packed=0\nbuffer X " + types +
              " " + n + " argument 0\nbuffer Y " + types + " " + n +
              " argument 1 written\nregisters boolx" + l + " 1\nregisters " + types + "x" + l +
              " 1\nbody {\nfor v0 < 1 {\nr0 = lanemask v0 + " + text(on - 1) +
              " stride -1\nr1 = load X[0] stride " + s + " mask r0\nstore Y[0] = r1 stride " + s +
              " mask r0\n}\n}\n"));
        }
      }
    }
  }
}

TEST(Conformance, MaskedLoadsGiveZeroWhereOff) {
  const Kernel kernel = kernel_of(
      "kernel z arguments=3 variables=0 workspace=0 private=0 packed=0\nbuffer X f32 16 argument "
      "0\n"
      "buffer M bool 16 argument 1\nbuffer Y f32 16 argument 2 written\nregisters boolx16 1\n"
      "registers f32x16 1\nbody {\nr0 = load M[0] stride 1\nr1 = load X[0] stride 1 mask r0\n"
      "store Y[0] = r1 stride 1\n}\n");
  expect_agreement(kernel);
}

TEST(Conformance, Gathers) {
  for (Type type : kAllTypes) {
    for (int lanes : kLanes) {
      if (lanes == 32 && type != Type::kF32) continue;
      const std::string l = text(lanes), types = name_of(type);
      for (const char* mask : {"", " mask r1"}) {
        expect_agreement(kernel_of(
            "kernel g arguments=4 variables=0 workspace=0 private=0 packed=0\nbuffer X " + types +
            " 100 argument 0\nbuffer I i64 " + l + " argument 1\nbuffer M bool " + l +
            " argument 2\nbuffer Y " + types + " " + l + " argument 3 written\nregisters i64x" + l +
            " 1\nregisters boolx" + l + " 1\nregisters " + types + "x" + l + " 1\nregisters i64x" +
            l +
            " 2\nbody {\nr0 = load I[0] stride 1\nr1 = load M[0] stride 1\nr3 = const 97\n"
            "r4 = mod r0, r3\nr2 = load X[3] stride 0" +
            mask + " indices r4\nstore Y[0] = r2 stride 1\n}\n"));
      }
    }
  }
}

// ------------------------------------------------------------------------------ control

TEST(Conformance, IntegerVariablesAndBranches) {
  expect_agreement(kernel_of(R"(
kernel i arguments=2 variables=9 workspace=0 private=0 packed=0
buffer X i32 40 argument 0
buffer Y i64 400 argument 1 written
registers i64x1 1
registers i32x1 2
body {
  for v0 < 40 {
    int v1 = div v0 - 20, 7
    int v2 = mod v0 - 20, 7
    int v3 = min 3*v0 - 10, v1 + 5
    int v4 = max v3, v2 - 4
    int v5 = div -v0 + 3, 8
    int v6 = mod -v0 + 3, 8
    r1 = load X[v0] stride 0
    int v7 = register r1
    int v8 = 2*v7 - v0 + 1
    r0 = iota v1 stride 1
    store Y[10*v0] = r0 stride 1
    r0 = iota v2 stride 1
    store Y[10*v0 + 1] = r0 stride 1
    r0 = iota v3 stride 1
    store Y[10*v0 + 2] = r0 stride 1
    r0 = iota v4 stride 1
    store Y[10*v0 + 3] = r0 stride 1
    r0 = iota v5 stride 1
    store Y[10*v0 + 4] = r0 stride 1
    r0 = iota v6 stride 1
    store Y[10*v0 + 5] = r0 stride 1
    r0 = iota v8 stride 1
    store Y[10*v0 + 6] = r0 stride 1
    if v0 - 10 >= 0, -v0 + 30 >= 0 {
      r0 = const 1
      store Y[10*v0 - 93] = r0 stride 1
    } else {
      r0 = const 2
    }
    store Y[10*v0 + 8] = r0 stride 1
    if -v7 - 1 >= 0 {
      r0 = const 5
      store Y[10*v0 + 9] = r0 stride 1
    }
  }
}
)"));
}

// Sums rows in parallel: partial sums in the worker's own memory, results in shared memory, then a
// second parallel loop that reads what the first one wrote.
const char* const kParallelKernel = R"(
kernel p arguments=2 variables=4 workspace=4096 private=256 packed=0
buffer X f32 64000 argument 0
buffer Y f32 640 argument 1 written
buffer rows f32 640 workspace 1024
buffer mine f32 16 private 128
registers f32x16 2
registers f32x1 2
body {
  for v0 < 2 {
    for v1 < 320 parallel {
      r0 = const 0
      store mine[0] = r0 stride 1
      for v2 < 5 {
        r0 = load mine[0] stride 1
        r1 = load X[32000*v0 + 100*v1 + 16*v2] stride 1
        r0 = add r0, r1
        store mine[0] = r0 stride 1
      }
      r0 = load mine[0] stride 1
      r2 = reduce sum r0
      store rows[320*v0 + v1] = r2 stride 1
    }
  }
  for v3 < 640 parallel {
    r2 = load rows[-v3 + 639] stride 0
    r3 = add r2, r2
    store Y[v3] = r3 stride 1
  }
}
)";

TEST(Conformance, ParallelLoopsAgreeWithAndWithoutAPool) {
  const Kernel kernel = kernel_of(kParallelKernel);
  std::vector<std::string> arguments = {std::string(256000, '\0'), std::string(2560, '\0')};
  std::vector<float> x(64000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 37) - 11;
  std::memcpy(arguments[0].data(), x.data(), arguments[0].size());
  const std::vector<std::string> want = run_on(machines()[0], kernel, arguments);
  ParallelPool pool(4);
  lw_context context = {};
  context.parallel_for = ParallelPool::parallel_for;
  context.pool = &pool;
  context.workers = 4;
  for (const Machine& machine : machines()) {
    EXPECT_TRUE(same_elements(Type::kF32, run_on(machine, kernel, arguments)[1], want[1], 0));
    for (int repeat = 0; repeat < 5; ++repeat) {
      const std::vector<std::string> got = run_on(machine, kernel, arguments, context);
      EXPECT_TRUE(same_elements(Type::kF32, got[1], want[1], 0)) << machine.name;
    }
  }
}

TEST(Conformance, PrepackRunsOnceBefore) {
  const Kernel kernel = kernel_of(R"(
kernel pack arguments=2 variables=2 workspace=0 private=0 packed=4160
buffer W f32 1024 argument 0
buffer Y f32 1024 argument 1 written
buffer panel f32 1024 packed 64
registers f32x16 2
prepack {
  for v0 < 64 parallel {
    r0 = load W[16*v0] stride 1
    r1 = add r0, r0
    store panel[-16*v0 + 1008] = r1 stride 1
  }
}
body {
  for v1 < 64 {
    r0 = load panel[16*v1] stride 1
    store Y[16*v1] = r0 stride 1
  }
}
)");
  expect_agreement(kernel);
  EXPECT_EQ((*machines()[1].backend->build(kernel, machines()[1].target)).packed_bytes, 4160);
}

// ------------------------------------------------------------------------------ streaming stores

TEST(Conformance, StreamingStoresWorkAtAnyAlignment) {
  const Kernel kernel = streaming_kernel("stream");
  for (const Machine& machine : machines()) {
    const std::unique_ptr<Loaded> code = load_on(machine, kernel);
    std::vector<float> x(4096 + 32), y(4096 + 32);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    for (int shift = 0; shift < 17; ++shift) {
      std::fill(y.begin(), y.end(), -1.f);
      lw_context context = {};
      context.workers = 1;
      void* buffers[] = {x.data() + 1, y.data() + shift};
      ASSERT_EQ(code->run(&context, buffers), 0);
      for (int i = 0; i < 4096; ++i)
        ASSERT_EQ(y[shift + i], x[1 + i]) << machine.name << " " << shift;
      EXPECT_EQ(y[shift + 4096], -1.f);
    }
  }
}

TEST(Llvm, StreamingStoresAreEmittedAndFenced) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    const std::string assembly =
        *machine.backend->text(streaming_kernel("stream"), machine.target, "asm");
    EXPECT_NE(assembly.find("movntps"), std::string::npos) << machine.name;
    EXPECT_NE(assembly.find("sfence"), std::string::npos) << machine.name;
    EXPECT_NE(assembly.find("movups"), std::string::npos) << machine.name;  // the unaligned variant
  }
}

}  // namespace
}  // namespace lw
