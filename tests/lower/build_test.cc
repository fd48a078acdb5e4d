// One suite for all backends: every operation of the kernel language, over types and lanes, on the
// interpreter and on LLVM for each instruction set this host has. The interpreter's results are the
// reference; its own are checked against expectations where the meaning is subtle.
#include "tests/support/build_helpers.h"

#include <fstream>

#include "schedules/targets/cpu/cpu_target.h"
#include "src/expr/scalar.h"

namespace lw {
namespace {

// ------------------------------------------------------------------------------ values

TEST(Conformance, BinaryOperations) {
  for (const ExprOpRow& row : kExprOpRows) {
    const ExprOp expr_op = row.op;
    if (!is_binary(expr_op)) continue;
    for (Type type : kAllTypes) {
      if (is_narrow(type) || !accepts(domain_of(expr_op), type)) continue;
      const Type out = is_comparison(expr_op) ? Type::kBool : type;
      for (int lanes : {1, 16}) {
        expect_agreement(
            map_kernel({type, type}, out, lanes, std::string(op_name(expr_op)) + " r0, r1"),
            expr_op == ExprOp::kPow ? 3 : 0);
      }
    }
  }
}

TEST(Conformance, UnaryOperations) {
  for (const ExprOpRow& row : kExprOpRows) {
    const ExprOp expr_op = row.op;
    if (!is_unary(expr_op)) continue;
    const bool exact = row.rounding != Rounding::kFunction;
    for (Type type : kAllTypes) {
      if (is_narrow(type) || !accepts(domain_of(expr_op), type)) continue;
      for (int lanes : {1, 5, 16}) {
        expect_agreement(map_kernel({type}, type, lanes, std::string(op_name(expr_op)) + " r0"),
                         exact ? 0 : 6);
      }
    }
  }
}

TEST(Conformance, IntegerArithmeticNeverTraps) {
  const Kernel divide = map_kernel({Type::kI32, Type::kI32}, Type::kI32, 4, "div r0, r1");
  const Kernel modulo = map_kernel({Type::kI32, Type::kI32}, Type::kI32, 4, "mod r0, r1");
  std::vector<int32_t> a(kCount, 0), b(kCount, 1), zero(kCount, 0);
  const int32_t cases[][4] = {{7, 2, 3, 1},   {-7, 2, -4, 1},      {7, -2, -4, -1},
                              {-7, -2, 3, -1}, {5, 0, 0, 0},        {INT32_MIN, -1, INT32_MIN, 0},
                              {INT32_MIN, 0, 0, 0}, {-6, 3, -2, 0}};
  for (size_t i = 0; i < std::size(cases); ++i) a[i] = cases[i][0], b[i] = cases[i][1];
  const auto bytes = [](const std::vector<int32_t>& v) {
    return std::string(reinterpret_cast<const char*>(v.data()), 4 * v.size());
  };
  for (const Machine& machine : machines()) {
    const std::string quotient = run_on(machine, divide, {bytes(a), bytes(b), bytes(zero)})[2];
    const std::string rest = run_on(machine, modulo, {bytes(a), bytes(b), bytes(zero)})[2];
    for (size_t i = 0; i < std::size(cases); ++i) {
      EXPECT_EQ(load_integer(Type::kI32, reinterpret_cast<const std::byte*>(quotient.data()), i),
                cases[i][2]) << machine.name << " " << cases[i][0] << " / " << cases[i][1];
      EXPECT_EQ(load_integer(Type::kI32, reinterpret_cast<const std::byte*>(rest.data()), i),
                cases[i][3]) << machine.name << " " << cases[i][0] << " % " << cases[i][1];
    }
  }
}

TEST(Conformance, MultiplyAddSelectAndMove) {
  for (Type type :
       {Type::kF64, Type::kF32, Type::kI64, Type::kI32, Type::kI16, Type::kI8, Type::kU8}) {
    for (int lanes : kLanes) {
      if (kCount % lanes != 0) continue;
      // Without FMA the sum is rounded twice: compare at a scale where nothing cancels.
      const Kernel fused = map_kernel({type, type, type}, type, lanes, "fma r0, r1, r2");
      if (!is_float(type)) expect_agreement(fused);
      expect_agreement(map_kernel({type}, type, lanes, "move r0"));
      expect_agreement(map_kernel({Type::kBool, type, type}, type, lanes, "select r0, r1, r2"));
    }
  }
  for (Type type : {Type::kF16, Type::kBF16}) {
    expect_agreement(map_kernel({type}, type, 16, "move r0"));
    expect_agreement(map_kernel({Type::kBool, type, type}, type, 16, "select r0, r1, r2"));
  }
}

TEST(Conformance, MultiplyAddIsFusedWhereTheTargetCan) {
  for (Type type : {Type::kF32, Type::kF64}) {
    for (int lanes : {1, 4, 16}) {
      const Kernel kernel = map_kernel({type, type, type}, type, lanes, "fma r0, r1, r2");
      const std::vector<std::string> arguments = random_arguments(kernel, 9);
      const std::vector<std::string> want = run_on(machines()[0], kernel, arguments);
      for (const Machine& machine : machines()) {
        if (!cpu(machine.target).fma) continue;
        EXPECT_TRUE(same_elements(type, run_on(machine, kernel, arguments)[3], want[3], 0))
            << machine.name;
      }
    }
  }
}

TEST(Conformance, CastsBetweenAllTypes) {
  for (Type from : kAllTypes) {
    for (Type to : kAllTypes) {
      for (int lanes : {1, 16}) {
        // AVX512-BF16 takes denormals as zeros, so one unit of the smallest normal is allowed
        // there.
        expect_agreement(map_kernel({from}, to, lanes, "cast r0"), to == Type::kBF16 ? 0.51 : 0);
      }
    }
  }
}

TEST(Conformance, FloatToIntegerSaturates) {
  const float inputs[] = {NAN, INFINITY, -INFINITY, 1e10f, -1e10f, 127.9f, -128.9f, 255.9f, -0.9f};
  const int64_t i8[] = {0, 127, -128, 127, -128, 127, -128, 127, 0};
  const int64_t u8[] = {0, 255, 0, 255, 0, 127, 0, 255, 0};
  for (Type to : {Type::kI8, Type::kU8}) {
    const Kernel kernel = map_kernel({Type::kF32}, to, 16, "cast r0");
    std::string x(4 * kCount, '\0');
    std::memcpy(x.data(), inputs, sizeof inputs);
    for (const Machine& machine : machines()) {
      const std::string y = run_on(machine, kernel, {x, std::string(kCount, '\0')})[1];
      for (size_t i = 0; i < std::size(inputs); ++i) {
        EXPECT_EQ(load_integer(to, reinterpret_cast<const std::byte*>(y.data()), i),
                  to == Type::kI8 ? i8[i] : u8[i]) << machine.name << " " << inputs[i];
      }
    }
  }
}

TEST(Conformance, HalfConversionsAreExactForAllBitPatterns) {
  for (Type type : kAllTypes) {
    if (!is_narrow(type)) continue;
    const int64_t count = int64_t{1} << row_of(type).bits;
    const std::string all = std::to_string(count), registers = "registers " + name_of(type);
    const Kernel widen = kernel_of(
        "kernel widen arguments=2 variables=1 workspace=0 private=0 packed=0\nbuffer X " +
        name_of(type) + " " + all + " argument 0\nbuffer Y f32 " + all + " argument 1 written\n" +
        registers + "x16 1\nregisters f32x16 1\nbody {\nfor v0 < " + std::to_string(count / 16) +
        " {\nr0 = load X[16*v0] stride 1\nr1 = cast r0\nstore Y[16*v0] = r1 stride 1\n}\n}\n");
    std::string x(static_cast<size_t>(count * size_of(type)), '\0');
    for (int64_t i = 0; i < count; ++i) std::memcpy(&x[i * size_of(type)], &i, size_of(type));
    for (const Machine& machine : machines()) {
      const std::string y = run_on(machine, widen, {x, std::string(4 * count, '\0')})[1];
      for (int64_t i = 0; i < count; ++i) {
        float got;
        std::memcpy(&got, y.data() + 4 * i, 4);
        const float want = static_cast<float>(
            load_element(type, reinterpret_cast<const std::byte*>(x.data()), i));
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got));
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want))
              << machine.name << i;
        }
      }
    }
  }
}

// ------------------------------------------------------------------------------ lanes

TEST(Conformance, HorizontalReductions) {
  for (Type type : kAllTypes) {
    if (is_narrow(type) || type == Type::kBool) continue;
    for (const char* reduce : {"sum", "prod", "max", "min"}) {
      for (int lanes : kLanes) {
        const std::string l = text(lanes);
        expect_agreement(
            kernel_of("kernel h arguments=2 variables=1 workspace=0 private=0 packed=0\nbuffer X " +
                      name_of(type) + " 640 argument 0\nbuffer Y " + name_of(type) +
                      " 10 argument 1 written\nregisters " + name_of(type) + "x" + l +
                      " 1\nregisters " + name_of(type) +
                      "x1 1\nbody {\nfor v0 < 10 {\nr0 = load X[64*v0] stride 1\nr1 = reduce " +
                      reduce + " r0\nstore Y[v0] = r1 stride 1\n}\n}\n"));
      }
    }
  }
}

// Products of narrow integers, summed over the lanes of a vector: backends have instructions that
// tempt them, and more of these in functions that hold dot products.
TEST(Conformance, SumsOfNarrowProducts) {
  const std::pair<const char*, const char*> kTypes[] = {
      {"u8", "i8"}, {"i8", "u8"}, {"u8", "u8"}, {"i8", "i8"}, {"i16", "i16"}, {"i16", "u8"}};
  for (const auto& [a, b] : kTypes) {
    for (int lanes : {2, 4, 8, 16}) {
      const std::string l = text(lanes), narrow = "x" + l + " 1\nregisters ";
      const std::string buffers =
          std::string("buffer A ") + a + " 160 argument 0\nbuffer B " + b +
          " 160 argument 1\nbuffer C i32 10 argument 2 written\n";
      const std::string registers = std::string("registers ") + a + narrow + b + narrow + "i32x" +
                                    l + " 3\nregisters i32x1 1\n";
      const std::string sums =
          "for v0 < 10 {\nr0 = load A[16*v0] stride 1\nr1 = load B[16*v0] stride 1\n"
          "r2 = cast r0\nr3 = cast r1\nr4 = mul r2, r3\nr5 = reduce sum r4\n"
          "store C[v0] = r5 stride 1\n}\n";
      expect_agreement(
          kernel_of("kernel p arguments=3 variables=1 workspace=0 private=0 packed=0\n" + buffers +
                    registers + "body {\n" + sums + "}\n"));
      // In one function with them, or in two: a parallel loop's body is one of its own.
      for (const char* loop : {"for v1 < 2 {\n", "for v1 < 2 parallel {\n"}) {
        expect_agreement(
            kernel_of("kernel d arguments=6 variables=2 workspace=0 private=0 packed=0\n" +
                      buffers + "buffer P u8 16 argument 3\nbuffer Q i8 16 argument 4\n"
                      "buffer D i32 8 argument 5 written\n" + registers +
                      "registers u8x16 1\nregisters i8x16 1\nregisters i32x4 1\nbody {\n" + sums +
                      loop + "r6 = load P[0] stride 1\nr7 = load Q[0] stride 1\nr8 = const 0\n"
                      "r8 = dot r6, r7, r8\nstore D[4*v1] = r8 stride 1\n}\n}\n"));
      }
    }
  }
}

TEST(Conformance, Transposes) {
  for (Type type : kAllTypes) {
    for (int n : {1, 2, 4, 8, 16, 32}) {
      std::string loads, many = "transpose ", stores;
      for (int i = 0; i < n; ++i) {
        loads += "r" + text(i) + " = load X[" + text(i * n) + "] stride 1\n";
        many += (i == 0 ? "r" : ", r") + text(i);
        stores += "store Y[" + text(i * n) + "] = r" + text(n + i) + " stride 1\n";
      }
      many += " -> ";
      for (int i = 0; i < n; ++i) many += (i == 0 ? "r" : ", r") + text(n + i);
      const std::string size = text(n * n);
      const Kernel kernel =
          kernel_of("kernel t arguments=2 variables=0 workspace=0 private=0 packed=0\nbuffer X " +
                    name_of(type) + " " + size + " argument 0\nbuffer Y " + name_of(type) + " " +
                    size + " argument 1 written\nregisters " + name_of(type) + "x" + text(n) + " " +
                    text(2 * n) + "\nbody {\n" + loads + many + "\n" + stores + "}\n");
      const std::string x = random_elements(type, n * n, 3);
      std::string want = x;
      const int64_t bytes = size_of(type);
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j)
          std::memcpy(&want[(i * n + j) * bytes], &x[(j * n + i) * bytes], bytes);
      }
      for (const Machine& machine : machines()) {
        EXPECT_TRUE(same_elements(type, run_on(machine, kernel, {x, x})[1], want, 0))
            << machine.name << " " << name_of(type) << " " << n;
      }
    }
  }
}

TEST(Conformance, ConstantsRampsMasksAndBroadcasts) {
  for (int lanes : {1, 4, 8, 16, 64}) {
    const std::string l = text(lanes);
    for (Type type : kAllTypes) {
      if (is_float(type) || type == Type::kBool) {
        expect_agreement(map_kernel({}, type, lanes, is_float(type) ? "const 1.1" : "const 1"));
        continue;
      }
      expect_agreement(map_kernel({}, type, lanes, "const -77"));
      expect_agreement(map_kernel({}, type, lanes, "iota 3*v0 - 5 stride -2"));
      expect_agreement(map_kernel({}, type, lanes, "iota 3*v0 - 5 stride 1000003"));
    }
    for (const char* mask : {"lanemask v0 - 3 stride -1", "lanemask -7*v0 + 20 stride 3",
                             "lanemask -1000000007000*v0 + 5000000000000 stride -1",
                             "lanemask 5 stride -1", "lanemask 4000000000 stride -3000000000"}) {
      expect_agreement(map_kernel({}, Type::kBool, lanes, mask));
    }
    expect_agreement(kernel_of(
        "kernel b arguments=2 variables=1 workspace=0 private=0 packed=0\nbuffer X f32 10 argument "
        "0\n"
        "buffer Y f32 " +
        text(20 * lanes) + " argument 1 written\nregisters f32x1 1\nregisters f32x" + l +
        " 2\nbody {\nfor v0 < 10 {\nr0 = load X[v0] stride 0\nr1 = broadcast r0\nstore Y[" + l +
        "*v0] = r1 stride 1\nr2 = load X[v0] stride 0\nstore Y[" + l + "*v0 + " + text(10 * lanes) +
        "] = r2 stride 1\nprefetch Y[" + l + "*v0 + 100000] locality 3\n}\n}\n"));
  }
}

// ------------------------------------------------------------------------------ the backends

TEST(Backends, AreFoundByFamily) {
  EXPECT_TRUE(find_backend("x86_64").ok());
  EXPECT_TRUE(find_backend("interpreter").ok());
  const absl::Status unknown = find_backend("pdp11").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(unknown.ToString().find("aarch64, interpreter, npu, nvidia, opencl, x86_64"), std::string::npos)
      << unknown;
  EXPECT_EQ((*find_backend("x86_64"))->version().substr(0, 5), "llvm ");
}

TEST(Backends, RefuseWhatIsNoArtifact) {
  Artifact artifact;
  artifact.architecture = "x86_64";
  artifact.entry = "f";
  for (const std::string& bytes :
       {std::string(), std::string("garbage"), std::string(4096, '\x7f')}) {
    artifact.bytes = bytes;
    EXPECT_FALSE(load(artifact).ok());
  }
  artifact =
      *(*find_backend("x86_64"))->build(streaming_kernel("stream"), *find_target("x86_sse2"));
  const std::string whole = artifact.bytes;
  artifact.entry = "another";
  EXPECT_FALSE(load(artifact).ok());
  artifact.entry = "stream";
  for (size_t size = 0; size < whole.size(); size += 97) {
    artifact.bytes = whole.substr(0, size);
    EXPECT_FALSE(load(artifact).ok()) << size;
  }
  artifact.architecture = "interpreter";
  artifact.bytes = "kernel f";
  EXPECT_FALSE(load(artifact).ok());
}

TEST(Backends, ShowTheirStages) {
  const Backend& llvm = **find_backend("x86_64");
  const Target target = *find_target("x86_avx512");
  const Kernel kernel = streaming_kernel("stream");
  EXPECT_NE(llvm.text(kernel, target, "llvm")->find("define i32 @stream"), std::string::npos);
  EXPECT_NE(llvm.text(kernel, target, "asm")->find("zmm"), std::string::npos);
  EXPECT_EQ(llvm.text(kernel, target, "ptx").status().code(), absl::StatusCode::kUnimplemented);
}

TEST(Backends, BuildTheSameBytesAgain) {
  for (const Machine& machine : machines()) {
    EXPECT_EQ(machine.backend->build(streaming_kernel("stream"), machine.target)->bytes,
              machine.backend->build(streaming_kernel("stream"), machine.target)->bytes);
  }
}

TEST(Backends, AnUnknownMachineIsAnError) {
  const Backend& llvm = **find_backend("x86_64");
  Target target = *find_target("x86_avx2");
  CpuTarget part = cpu(target);
  part.triple = "pdp11-unknown-unix";
  set_cpu(&target, part);
  EXPECT_EQ(llvm.build(streaming_kernel("f"), target).status().code(),
            absl::StatusCode::kInvalidArgument);
  part = cpu(*find_target("x86_avx2"));
  part.cpu = "i860";
  set_cpu(&target, part);
  EXPECT_NE(llvm.build(streaming_kernel("f"), target).status().ToString().find("no CPU 'i860'"),
            std::string::npos);
  target = *find_target("x86_avx2");
  target.features.push_back("altivec");
  EXPECT_NE(llvm.build(streaming_kernel("f"), target).status().ToString().find("'altivec'"),
            std::string::npos);
}

TEST(Loader, LeavesNoPageWritableAndExecutable) {
  const std::unique_ptr<Loaded> code = load_on(machines()[1], streaming_kernel("stream"));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    EXPECT_EQ(line.find(" rwx"), std::string::npos) << line;
  }
}

// What is left of a row stays with the rest of its line.
TEST(Build, OnlyWholeVectorsAreStreamed) {
  const auto streams = [](const char* lanes) {
    const std::string text = std::string(
        "kernel rows arguments=1 variables=1 workspace=0 private=0 packed=0\n"
        "buffer C f32 512 argument 0 written\nregisters f32x") + lanes +
        " 1\nbody {\nfor v0 < 16 {\nr0 = const 1\nstore C[32*v0] = r0 stride 1 nt\n}\n}\n";
    const Kernel kernel = kernel_of(text);
    expect_agreement(kernel);
    const Backend& llvm = **find_backend("x86_64");
    return llvm.text(kernel, *find_target("x86_avx512"), "llvm")->find("!nontemporal") !=
           std::string::npos;
  };
  EXPECT_TRUE(streams("16"));
  EXPECT_FALSE(streams("8"));
}

// What is loaded on both sides of a fence is loaded twice, also where nobody writes it.
TEST(Build, FencesKeepLoadsApart) {
  const auto loads = [](const char* between) {
    const Kernel kernel = kernel_of(
        "kernel twice arguments=2 variables=0 workspace=0 private=0 packed=0\n"
        "buffer A f32 16 argument 0\nbuffer C f32 32 argument 1 written\n"
        "registers f32x16 2\nbody {\nr0 = load A[0] stride 1\nstore C[0] = r0 stride 1\n" +
        std::string(between) + "r1 = load A[0] stride 1\nstore C[16] = r1 stride 1\n}\n");
    expect_agreement(kernel);
    const Backend& llvm = **find_backend("x86_64");
    const std::string text = *llvm.text(kernel, *find_target("x86_avx512"), "llvm");
    int count = 0;
    for (size_t at = 0; (at = text.find("load <16 x float>", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(loads(""), 1);
  EXPECT_EQ(loads("fence\n"), 2);
}

}  // namespace
}  // namespace lw
