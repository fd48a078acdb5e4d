// Dot products: the kernel's operations on every machine, and matrix products scheduled onto them.
#include "tests/support/build_helpers.h"

#include "schedules/steps.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"

namespace lw {
namespace {

struct Types {
  Type a, b, acc;
  int group;
};
constexpr Types kTypes[] = {
    {Type::kU8, Type::kI8, Type::kI32, 4},   {Type::kI8, Type::kU8, Type::kI32, 4},
    {Type::kI8, Type::kI8, Type::kI32, 4},   {Type::kI16, Type::kI16, Type::kI32, 2},
    {Type::kBF16, Type::kBF16, Type::kF32, 2}, {Type::kF32, Type::kF32, Type::kF32, 2},
    {Type::kI8, Type::kI16, Type::kI32, 3}};

// out = dot(broadcast of a group of a, b, out's start), and the interleaved parts of b stored.
Kernel dot_kernel(const Types& t, int lanes) {
  const std::string a = name_of(t.a), b = name_of(t.b), c = name_of(t.acc);
  const std::string wide = text(lanes * t.group), g = text(t.group), l = text(lanes);
  std::string loads, parts;
  for (int i = 0; i < t.group; ++i) {
    loads += "r" + text(4 + i) + " = load B[" + text(i) + "] stride " + g + "\n";
    parts += (i == 0 ? " r" : ", r") + text(4 + i);
  }
  return kernel_of("kernel d arguments=3 variables=0 workspace=0 private=0 packed=0\nbuffer A " +
                   a + " " + g + " argument 0\nbuffer B " + b + " " + wide +
                   " argument 1\nbuffer C " + c + " " + l + " argument 2 written\nregisters " + a +
                   "x" + g + " 1\nregisters " + a + "x" + wide + " 1\nregisters " + b + "x" + wide +
                   " 1\nregisters " + c + "x" + l + " 1\nregisters " + b + "x" + l + " " + g +
                   "\nbody {\nr0 = load A[0] stride 1\nr1 = broadcast r0\n" + loads +
                   "r2 = interleave" + parts + "\nr3 = load C[0] stride 1\nr3 = dot r1, r2, r3\n" +
                   "store C[0] = r3 stride 1\n}\n");
}

// Floats: small whole numbers, so that any order gives the same.
std::string operand(Type type, int64_t count, uint64_t seed) {
  if (!is_float(type)) return random_elements(type, count, seed);
  std::string bytes(count * size_of(type), 0);
  Rng rng(seed);
  for (int64_t i = 0; i < count; ++i) {
    store_element(type, reinterpret_cast<std::byte*>(bytes.data()), i,
                  static_cast<double>(rng.below(201) - 100));
  }
  return bytes;
}

TEST(DotTest, EveryMachineComputesTheSame) {
  for (const Types& t : kTypes) {
    for (int lanes : {1, 2, 4, 8, 12, 16, 32}) {
      const Kernel kernel = dot_kernel(t, lanes);
      ASSERT_TRUE(verify(kernel).ok()) << verify(kernel);
      const std::vector<std::string> arguments = {operand(t.a, t.group, 1),
                                                  operand(t.b, lanes * t.group, 2),
                                                  operand(t.acc, lanes, 3)};
      const auto element = [&](Type type, int argument, int64_t i) {
        const std::byte* from = reinterpret_cast<const std::byte*>(arguments[argument].data());
        return is_float(type) ? load_element(type, from, i)
                              : static_cast<double>(load_integer(type, from, i));
      };
      for (const Machine& machine : machines()) {
        const std::string got = run_on(machine, kernel, arguments)[2];
        for (int l = 0; l < lanes; ++l) {
          double want = element(t.acc, 2, l);
          for (int i = 0; i < t.group; ++i) {
            want += element(t.a, 0, i) * element(t.b, 1, l * t.group + i);
          }
          const std::byte* from = reinterpret_cast<const std::byte*>(got.data());
          if (is_float(t.acc)) {
            EXPECT_EQ(load_element(t.acc, from, l), want) << machine.name << " " << lanes;
          } else {
            EXPECT_EQ(static_cast<int32_t>(load_integer(t.acc, from, l)),
                      static_cast<int32_t>(static_cast<int64_t>(want)))
                << machine.name << " " << name_of(t.a) << " by " << name_of(t.b) << " x" << lanes;
          }
        }
      }
    }
  }
}

// The largest bytes there are: an instruction that saturated between would differ.
TEST(DotTest, SumsOfTheLargestBytesAreExact) {
  const Kernel kernel = dot_kernel(kTypes[0], 16);
  const std::string zeros(64, 0);
  for (const Machine& machine : machines()) {
    const std::string got =
        run_on(machine, kernel, {std::string(4, '\xff'), std::string(64, '\x80'), zeros})[2];
    EXPECT_EQ(load_integer(Type::kI32, reinterpret_cast<const std::byte*>(got.data()), 7),
              -4 * 255 * 128) << machine.name;
  }
}

TEST(DotTest, WrongShapesAreRefused) {
  const std::string good = print(dot_kernel(kTypes[0], 16));
  const auto verdict = [&](std::string_view from, std::string_view to) {
    return verify_altered(good, from, to);
  };
  EXPECT_TRUE(verdict("kernel d", "kernel e").ok());
  EXPECT_FALSE(verdict("registers u8x64 1", "registers u8x60 1").ok());
  EXPECT_FALSE(verdict("registers i8x64 1", "registers i8x32 1").ok());
  EXPECT_FALSE(verdict("registers i32x16 1", "registers f32x16 1").ok());
  EXPECT_FALSE(verdict("interleave r4, r5, r6, r7", "interleave r4, r5, r6").ok());
  EXPECT_FALSE(verdict("dot r1, r2, r3", "dot r0, r2, r3").ok());
}

struct Product {
  std::shared_ptr<const Program> program;
  Kernel kernel;
};

// C = A * B on a machine with dot products, by the trace.
Product product_of(const std::string& text, const std::string& trace) {
  const absl::StatusOr<Module> module = parse_module(text, "test");
  EXPECT_TRUE(module.ok()) << module.status();
  Product product;
  product.program = std::make_shared<const Program>(*instantiate(module->ops[0], {}));
  const Nest start = make_nest(product.program,
                               std::make_shared<const Target>(*find_target("x86_avx512_bf16")), 1);
  const absl::StatusOr<Nest> nest = replay(start, *parse_trace(trace));
  EXPECT_TRUE(nest.ok()) << nest.status();
  if (!nest.ok()) return product;
  EXPECT_TRUE(verify(*nest).ok()) << verify(*nest);
  absl::StatusOr<Kernel> kernel = lower(*nest);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  if (kernel.ok()) product.kernel = *std::move(kernel);
  EXPECT_TRUE(verify(product.kernel).ok()) << verify(product.kernel);
  return product;
}

void expect_reference(const Product& product) {
  std::vector<Data> in;
  std::vector<std::string> arguments;
  for (int tensor : inputs(*product.program)) {
    in.push_back(random_input(*product.program, tensor, 7, /*integers=*/true));
    arguments.emplace_back(reinterpret_cast<const char*>(in.back().bytes.data()),
                           in.back().bytes.size());
  }
  const absl::StatusOr<std::vector<Data>> want = interpret(*product.program, in, 1e9);
  ASSERT_TRUE(want.ok()) << want.status();
  arguments.emplace_back(want->at(0).bytes.size(), 'x');
  for (const Machine& machine : machines()) {
    const std::string got = run_on(machine, product.kernel, arguments).back();
    const Type type = product.program->tensors[outputs(*product.program)[0]].type;
    const std::string text(reinterpret_cast<const char*>((*want)[0].bytes.data()), got.size());
    EXPECT_TRUE(same_elements(type, got, text, 0)) << machine.name;
  }
}

constexpr char kBytes[] =
    "op p() {\n in A: u8[13, 39]\n in B: i8[39, 70] const\n"
    " out C[i: 13, j: 70] = sum[k: 39](cast(i32, A[i, k]) * cast(i32, B[k, j]))\n}\n";
constexpr char kHalves[] =
    "op p() {\n in A: bf16[13, 39]\n in B: bf16[39, 70]\n"
    " out C[i: 13, j: 70] = sum[k: 39](A[i, k] * B[k, j])\n}\n";

// 39 steps: 8 of 4 or 4 in tiles of 8, a tile of 7 holds one more of 4 and 3 single ones.
TEST(DotTest, GroupedPanelsAreOneLoadAndOneInstruction) {
  const Product product = product_of(
      kBytes,
      "dot(C, k; 4)\nregister_tile(C, k, i, j; 8, 4, 32)\nstage(C, B; 0, 1, 32, 0, 0, 4)\n");
  EXPECT_GT(count_of(product.kernel.body, Op::kDot), 0);
  EXPECT_EQ(count_of(product.kernel.body, Op::kInterleave), 0);
  EXPECT_GT(count_of(product.kernel.prepack, Op::kInterleave), 0);
  EXPECT_GT(count_of(product.kernel.body, Op::kFma), 0);  // the rest of the reduction
  expect_reference(product);
}

TEST(DotTest, OperandsInPlaceAreInterleaved) {
  const Product product =
      product_of(kHalves, "dot(C, k; 2)\nregister_tile(C, k, i, j; 4, 4, 32)\n");
  EXPECT_GT(count_of(product.kernel.body, Op::kDot), 0);
  EXPECT_GT(count_of(product.kernel.body, Op::kInterleave), 0);
  expect_reference(product);
}

TEST(DotTest, PanelsOfBothOperandsAtALoop) {
  expect_reference(product_of(
      kHalves, "dot(C, k; 2)\nregister_tile(C, k, i, j; 4, 4, 32)\nsplit(C, k.0; 3, 0)\n"
               "reorder(C, k.0.0, i.0, j.0; 0)\nstage(C, B; 1, 1, 32, 0, 0, 2)\n"
               "stage(C, A; 1, 0, 4, 0, 1, 2)\n"));
}

TEST(DotTest, MaskedColumnsAndRows) {
  expect_reference(product_of(
      kBytes, "dot(C, k; 4)\nregister_tile(C, k, i, j; 4, 4, 32, 1, 1, 1)\n"
              "stage(C, B; 0, 1, 32, 0, 0, 4)\n"));
}

TEST(DotTest, WeightsThatAreContiguousAlongTheReduction) {
  const Product product = product_of(
      "op p() {\n in A: u8[39, 13]\n in B: i8[70, 39] const\n"
      " out C[i: 13, j: 70] = sum[k: 39](cast(i32, A[k, i]) * cast(i32, B[j, k]))\n}\n",
      "dot(C, k; 4)\nregister_tile(C, k, i, j; 8, 4, 32)\nstage(C, B; 0, 0, 32, 0, 1, 4)\n");
  EXPECT_GT(count_of(product.kernel.body, Op::kDot), 0);
  expect_reference(product);
}

TEST(DotTest, TheSpaceUsesThemWhereTheTargetHasThem) {
  const absl::StatusOr<Module> module = parse_module(kBytes, "test");
  const auto program = std::make_shared<const Program>(*instantiate(module->ops[0], {}));
  const auto sketches = [&](const char* name) {
    int found = 0;
    const Nest start =
        make_nest(program, std::make_shared<const Target>(*find_target(name)), 1);
    for (const Sketch& sketch : make_space(start)) {
      for (const Step& step : sketch.steps) found += std::string(step.kind->name) == "dot";
    }
    return found;
  };
  EXPECT_EQ(sketches("x86_avx512"), 0);
  EXPECT_EQ(sketches("x86_avx2"), 0);
  EXPECT_EQ(sketches("x86_avx512_vnni"), 1);
  EXPECT_EQ(sketches("x86_avx2_vnni"), 1);
}

}  // namespace
}  // namespace lw
