// Vectors slid out of their neighbours: the operation on every machine, what windows along the
// lanes become with it, and that filters and convolutions compute the reference.
#include "src/expr/reference/interpret.h"
#include "tests/support/close_results.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

std::string slide_text(Type type, int lanes, int by) {
  const std::string t = name_of(type), l = text(lanes);
  return "kernel s arguments=2 variables=0 workspace=0 private=0 packed=0\nbuffer A " + t + " " +
         text(2 * lanes) + " argument 0\nbuffer C " + t + " " + l +
         " argument 1 written\nregisters " + t + "x" + l + " 3\nbody {\nr0 = load A[0] stride 1\n" +
         "r1 = load A[" + l + "] stride 1\nr2 = slide " + text(by) +
         " r0, r1\nstore C[0] = r2 stride 1\n}\n";
}

TEST(SlideTest, EveryMachineTakesTheLanesInBetween) {
  for (const Type type : kAllTypes) {
    for (int lanes : {2, 4, 5, 8, 16, 32}) {
      for (int by : {1, lanes / 2, lanes - 1}) {
        const Kernel kernel = kernel_of(slide_text(type, lanes, by));
        EXPECT_EQ(print(*parse_kernel(print(kernel))), print(kernel));
        const std::vector<std::string> arguments = random_arguments(kernel, 5);
        const size_t size = size_of(type);
        const std::string want = arguments[0].substr(by * size, lanes * size);
        for (const Machine& machine : machines())
          EXPECT_TRUE(same_elements(type, run_on(machine, kernel, arguments)[1], want, 0))
              << machine.name << " " << name_of(type) << "x" << lanes << " by " << by;
      }
    }
  }
}

TEST(SlideTest, WrongShapesAreRefused) {
  const std::string good = slide_text(Type::kF32, 16, 3);
  EXPECT_TRUE(verify_altered(good, "kernel s", "kernel t").ok());
  EXPECT_FALSE(verify_altered(good, "slide 3", "slide 0").ok());
  EXPECT_FALSE(verify_altered(good, "slide 3", "slide 16").ok());
  EXPECT_FALSE(verify_altered(good, "slide 3", "slide -1").ok());
  EXPECT_FALSE(verify_altered(good, "f32x16 3", "f32x16 2\nregisters f32x8 1").ok());
}

TEST(SlideTest, DifferentLanesAreDifferentKernels) {
  EXPECT_NE(hash(kernel_of(slide_text(Type::kF32, 16, 3))),
            hash(kernel_of(slide_text(Type::kF32, 16, 4))));
}

std::shared_ptr<const Program> slid_program(const std::string& text) {
  const absl::StatusOr<Module> module = parse_module(text, "slide");
  EXPECT_TRUE(module.ok()) << module.status() << text;
  const absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  EXPECT_TRUE(program.ok()) << program.status() << text;
  return std::make_shared<const Program>(*program);
}

Nest slid_start(const std::shared_ptr<const Program>& program, const Target& target) {
  return make_nest(program, std::make_shared<const Target>(target), 1);
}

// 64 results of 5 taps: four vectors lie at multiples of the lanes, and of their neighbours on
// either side two lanes are asked for.
TEST(SlideTest, EveryVectorOfAFilterIsLoadedOnce) {
  const auto program = slid_program(
      "op p() {\n in X: f32[8, 256]\n in g: f32[5]\n"
      " out Y[y: 8, x: 192] = sum[s: 5](X[y, x + s + 14] * g[s])\n}\n");
  const Nest start = slid_start(program, *find_target("x86_avx512"));
  const std::string tile = "register_tile(Y, s, x; 5, 64, 0, 0)\n";
  const auto kernel_of_trace = [&](const std::string& text) {
    const absl::StatusOr<Trace> trace = parse_trace(text);
    EXPECT_TRUE(trace.ok()) << trace.status();
    const absl::StatusOr<Nest> nest = replay(start, *trace);
    EXPECT_TRUE(nest.ok()) << nest.status();
    return schedule_kernel(*nest, *trace)->kernel;
  };
  const Kernel loads = kernel_of_trace(tile), slides = kernel_of_trace(tile + "slide(Y; 1)\n");
  EXPECT_EQ(count_of(loads.body, Op::kLoad), 4 * 5 + 5);
  EXPECT_EQ(count_of(loads.body, Op::kSlide), 0);
  EXPECT_EQ(count_of(slides.body, Op::kLoad), 4 + 2 + 5);
  EXPECT_EQ(count_of(slides.body, Op::kSlide), 4 * 4);
  EXPECT_EQ(count_of(slides.body, Op::kLaneMask), 2);
}

// Filters and convolutions with their channels outside, in all types, with strides across the
// lanes, dilation and padding; what they read lies between pages that nobody may touch.
std::string random_filter(Rng& rng) {
  const auto among = [&](int64_t low, int64_t high) { return low + rng.below(high - low + 1); };
  constexpr Type kTypes[] = {Type::kF32, Type::kF32, Type::kF64, Type::kI32, Type::kI16,
                             Type::kF16, Type::kBF16};
  const std::string type = name_of(kTypes[rng.below(std::size(kTypes))]);
  const int64_t taps = among(2, 7), step = among(1, 3), left = among(0, 3), width = among(20, 150);
  const int64_t rows = among(1, 5), down = among(1, 2), channels = among(1, 5);
  const int64_t results = std::max<int64_t>(1, width - (taps - 1) * step + 2 * left);
  const bool convolution = rng.below(2) == 0;
  const std::string at = "x" + std::string(step == 1 ? " + s" : " + s * " + text(step)) +
                         (left > 0 ? " - " + text(left) : "");
  const std::string tall = text((rows - 1) * down + 1), wide = text(width);
  const auto read = [&](const std::string& r) { return left > 0 ? "pad(" + r + ", 0)" : r; };
  if (!convolution)
    return "op p() {\n in X: " + type + "[" + tall + ", " + wide + "]\n in g: " + type + "[" +
           text(taps) + "]\n out Y[y: " + text(rows) + ", x: " + text(results) + "] = sum[s: " +
           text(taps) + "](" + read("X[y * " + text(down) + ", " + at + "]") + " * g[s])\n}\n";
  return "op p() {\n in X: " + type + "[" + text(channels) + ", " + tall + ", " + wide +
         "]\n in F: " + type + "[6, " + text(channels) + ", " + text(taps) + "]\n out Y[o: 6, y: " +
         text(rows) + ", x: " + text(results) + "] = sum[c: " + text(channels) + ", s: " +
         text(taps) + "](" + read("X[c, y * " + text(down) + ", " + at + "]") +
         " * F[o, c, s])\n}\n";
}

TEST(SlideTest, FiltersComputeTheReference) {
  int slid = 0, runs = 0;
  for (int n = 0; n < 120; ++n) {
    Rng rng = Rng(17).split(n);
    const std::string text = random_filter(rng);
    const auto program = slid_program(text);
    const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/true);
    const absl::StatusOr<std::vector<Data>> want = interpret(*program, in, 1e8);
    ASSERT_TRUE(want.ok()) << want.status() << text;
    const Machine& machine = machines()[n % machines().size()];
    const Nest start = slid_start(program, machine.target);
    for (const Sketch& sketch : make_space(start)) {
      // Of the draws with vectors that overlap: those in which they are slid.
      std::optional<Scheduled> scheduled;
      for (int attempt = 0; attempt < 20 && !scheduled; ++attempt) {
        const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
        if (!drawn.ok() || !drawn->nest.stages[0].slide) continue;
        scheduled = schedule_kernel(drawn->nest, drawn->trace);
      }
      if (!scheduled) continue;
      slid += count_of(scheduled->kernel.body, Op::kSlide) > 0;
      const std::unique_ptr<Loaded> code = load_on(machine, scheduled->kernel);
      ASSERT_NE(code, nullptr) << text;
      for (const bool at_end : {false, true}) {
        ++runs;
        const std::vector<Data> got =
            run_guarded(*code, scheduled->kernel, *program, in, {}, at_end);
        const std::string difference =
            compare(program->tensors.back(), got[0].bytes.data(), (*want)[0].bytes.data(),
                    tolerance(*program));
        ASSERT_EQ(difference, "") << machine.name << "\n" << text << scheduled->schedule;
      }
    }
  }
  std::printf("%d runs, %d kernels with vectors slid\n", runs, slid);
  EXPECT_GE(slid, 40);
}

}  // namespace
}  // namespace lw
