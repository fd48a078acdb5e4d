// The inline mathematics against the C library in a wider type, over the whole range of arguments.
// f32 functions of one argument are sampled in every binade and near the places where they change;
// LW_MATH_EXHAUSTIVE=1 checks all 2^32 arguments. The bounds are those that llvm_math.cc states.
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>

#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/rng.h"
#include "tests/kernels/ulps.h"
#include "tests/support/build_helpers.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr int64_t kBatch = 1 << 14;

struct Function {
  const char* name;
  long double (*reference)(long double);
  double bound32, bound32_no_fma, bound64, bound64_no_fma;
};

long double rsqrt(long double x) { return 1 / std::sqrt(x); }

const Function kFunctions[] = {
    {"exp", std::exp, 1, 1.5, 1, 1.5},         {"log", std::log, 1, 1.5, 1, 1},
    {"tanh", std::tanh, 2.5, 3, 3, 3},         {"sigmoid", sigmoid, 2.5, 2.5, 2.5, 2.5},
    {"erf", std::erf, 4, 5, 2, 2},             {"sqrt", std::sqrt, 0.51, 0.51, 0.51, 0.51},
    {"rsqrt", rsqrt, 1.5, 1.5, 1.5, 1.5},
};

Kernel unary_kernel(const std::string& function, const std::string& type, int lanes) {
  const std::string n = std::to_string(kBatch), l = std::to_string(lanes);
  return kernel_of(
      "kernel f arguments=2 variables=1 workspace=0 private=0 packed=0\n"
      "buffer X " + type + " " + n + " argument 0\n"
      "buffer Y " + type + " " + n + " argument 1 written\n"
      "registers " + type + "x" + l + " 2\n"
      "body {\n  for v0 < " + std::to_string(kBatch / lanes) + " {\n"
      "    r0 = load X[" + l + "*v0] stride 1\n    r1 = " + function + " r0\n"
      "    store Y[" + l + "*v0] = r1 stride 1\n  }\n}\n");
}

Kernel pow_kernel(const std::string& type, int lanes) {
  const std::string n = std::to_string(kBatch), l = std::to_string(lanes);
  return kernel_of(
      "kernel f arguments=3 variables=1 workspace=0 private=0 packed=0\n"
      "buffer X " + type + " " + n + " argument 0\nbuffer Y " + type + " " + n + " argument 1\n"
      "buffer Z " + type + " " + n + " argument 2 written\n"
      "registers " + type + "x" + l + " 3\n"
      "body {\n  for v0 < " + std::to_string(kBatch / lanes) + " {\n"
      "    r0 = load X[" + l + "*v0] stride 1\n    r1 = load Y[" + l + "*v0] stride 1\n"
      "    r2 = pow r0, r1\n    store Z[" + l + "*v0] = r2 stride 1\n  }\n}\n");
}

template <class T>
struct Worst {
  double error = 0;
  T argument = 0, got = 0;
};

// y = the kernel of x.
template <class T>
void run_on(const Loaded& code, std::vector<T>& x, std::vector<T>& y) {
  lw_context context = {};
  context.workers = 1;
  void* buffers[] = {x.data(), y.data()};
  ASSERT_EQ(code.run(&context, buffers), 0);
}

// Feeds arguments in batches; `more` returns false when there are no more.
template <class T>
Worst<T> worst_of(const Loaded& code, const Function& function,
                  const std::function<bool(T*)>& more) {
  std::vector<T> x(kBatch), y(kBatch);
  Worst<T> worst;
  for (bool any = true; any;) {
    int64_t count = 0;
    while (count < kBatch && (any = more(&x[count]))) ++count;
    for (int64_t i = count; i < kBatch; ++i) x[i] = 1;
    run_on(code, x, y);
    for (int64_t i = 0; i < count; ++i) {
      if (std::isnan(x[i])) continue;
      const double error = ulps(y[i], function.reference(x[i]));
      if (error > worst.error) worst = {error, x[i], y[i]};
    }
  }
  return worst;
}

// f64: random bits (every binade), and uniform ones where the functions are interesting.
std::function<bool(double*)> doubles(int count) {
  int next = 0;
  Rng rng(7);
  const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, 5e-324, -5e-324, 2.2e-308,
                            1.7e308, -1.7e308, 709.78271289338397, 709.79, -745.13, -745.2, -708.4,
                            0.5, 6, -6, 0.99999999999999989, 1.0000000000000002};
  return [=](double* x) mutable {
    if (next >= count) return false;
    const int i = next++;
    if (i < static_cast<int>(std::size(special))) *x = special[i];
    else if (i % 4 == 0) *x = std::bit_cast<double>(rng.next());
    else if (i % 4 == 1) *x = (rng.uniform() - 0.5) * 1500;
    else if (i % 4 == 2) *x = (rng.uniform() - 0.5) * 16;
    else *x = std::exp2((rng.uniform() - 0.5) * 8) * (i % 8 == 3 ? 1 : -1);
    return true;
  };
}

TEST(Math, SinglePrecisionStaysWithinItsBoundsOverAllBinades) {
  const bool exhaustive = setting("LW_MATH_EXHAUSTIVE", 0) != 0;
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    for (const Function& function : kFunctions) {
      std::unique_ptr<Loaded> code = load_on(
          machine, unary_kernel(function.name, "f32", lanes(machine.target, Type::kF32)));
      ASSERT_NE(code, nullptr);
      const Worst<float> worst = worst_of<float>(*code, function, singles(exhaustive ? 1 : 4001));
      std::printf("%-11s f32 %-8s %.3f ulp at %.9g\n", machine.name.c_str(), function.name,
                  worst.error, worst.argument);
      EXPECT_LE(worst.error, cpu(machine.target).fma ? function.bound32 : function.bound32_no_fma)
          << machine.name << " " << function.name << "(" << worst.argument << ") = " << worst.got;
    }
  }
}

TEST(Math, DoublePrecisionStaysWithinItsBounds) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    for (const Function& function : kFunctions) {
      std::unique_ptr<Loaded> code = load_on(
          machine, unary_kernel(function.name, "f64", lanes(machine.target, Type::kF64)));
      ASSERT_NE(code, nullptr);
      const Worst<double> worst = worst_of<double>(*code, function, doubles(400000));
      std::printf("%-11s f64 %-8s %.3f ulp at %.17g\n", machine.name.c_str(), function.name,
                  worst.error, worst.argument);
      EXPECT_LE(worst.error, cpu(machine.target).fma ? function.bound64 : function.bound64_no_fma)
          << machine.name << " " << function.name << "(" << worst.argument << ") = " << worst.got;
    }
  }
}

template <class T>
void check_pow(const Machine& machine, double bound) {
  std::unique_ptr<Loaded> code =
      load_on(machine, pow_kernel(sizeof(T) == 4 ? "f32" : "f64",
                                  lanes(machine.target, sizeof(T) == 4 ? Type::kF32 : Type::kF64)));
  ASSERT_NE(code, nullptr);
  const T infinity = std::numeric_limits<T>::infinity(),
          tiny = std::numeric_limits<T>::denorm_min();
  const std::vector<T> special = {0, -T{0}, 1, -1, 2, -2, 3, -3, T(0.5), T(-0.5), T(2.5), T(-2.5),
                                  infinity, -infinity, tiny, -tiny, T(1e30), T(-1e30),
                                  T(0.99999), T(1.00001), 10, -10};
  std::vector<T> x, y;
  for (T a : special) {
    for (T b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  Rng rng(3);
  const double reach = sizeof(T) == 4 ? 100 : 740;  // of the result's logarithm
  while (x.size() % kBatch != 0 || x.size() < 12 * kBatch) {
    const double base = std::exp((rng.uniform() - 0.5) * (x.size() % 3 == 0 ? 1 : reach * 1.8));
    x.push_back(static_cast<T>(base));
    y.push_back(static_cast<T>((rng.uniform() - 0.5) * 2 * reach / std::log(base)));
  }
  std::vector<T> z(x.size());
  lw_context context = {};
  context.workers = 1;
  double worst = 0;
  for (size_t i = 0; i < x.size(); i += kBatch) {
    void* buffers[] = {&x[i], &y[i], &z[i]};
    code->run(&context, buffers);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const long double want =
        std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]));
    const double error = ulps(z[i], want);
    EXPECT_LE(error, bound) << machine.name << " pow(" << x[i] << ", " << y[i] << ") = " << z[i]
                            << ", not " << static_cast<T>(want);
    worst = std::max(worst, error);
  }
  std::printf("%-11s f%zu pow      %.3f ulp\n", machine.name.c_str(), 8 * sizeof(T), worst);
}

TEST(Math, PowersStayWithinTheirBounds) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    check_pow<float>(machine, 1);
    check_pow<double>(machine, 2);
  }
}

// Lanes that no register holds: scalars, halves of a register, several registers.
TEST(Math, EveryNumberOfLanesGivesTheSame) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    for (const char* type : {"f32", "f64"}) {
      for (int lanes : {1, 2, 4, 8, 16, 32, 64}) {
        for (const Function& function : kFunctions) {
          std::unique_ptr<Loaded> code = load_on(machine, unary_kernel(function.name, type, lanes));
          ASSERT_NE(code, nullptr);
          const double error =
              type == std::string("f32")
                  ? worst_of<float>(*code, function, singles(40000003)).error
                  : worst_of<double>(*code, function, doubles(2000)).error;
          EXPECT_LE(error, 3) << machine.name << " " << function.name << " " << type << "x"
                              << lanes;
        }
      }
    }
  }
}

// Four exponentials, each of what `load` names, each stored before the next is read.
std::string chains(const std::string& load) {
  std::string body;
  for (int n = 0; n < 4; ++n) {
    const std::string at = "[" + std::to_string(8 * n) + "] ";
    body += "    r0 = load " + load + at + "stride 1\n    r1 = exp r0\n    store Y" + at +
            "= r1 stride 1\n";
  }
  return "kernel f arguments=2 variables=1 workspace=0 private=0 packed=0\n"
         "buffer X f32 40 argument 0\nbuffer Y f32 40 argument 1 written\n"
         "registers f32x8 2\nbody {\n  for v0 < 2 {\n" +
         body + "  }\n}\n";
}

// None waits for the one before: all are read, and then computed beside each other.
TEST(Math, ChainsAreWoven) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    const auto text = machine.backend->text(kernel_of(chains("X")), machine.target, "llvm");
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_LT(text->rfind("load <8 x float>"), text->find("store <8 x float>")) << *text;
  }
}

// Of a NaN, whatever its lower bits are.
TEST(Math, NaNsStayNaNs) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    for (const Function& function : kFunctions) {
      std::unique_ptr<Loaded> code = load_on(machine, unary_kernel(function.name, "f32", 16));
      ASSERT_NE(code, nullptr);
      std::vector<float> x(kBatch), y(kBatch);
      for (int64_t i = 0; i < kBatch; ++i) {
        const uint32_t low = static_cast<uint32_t>(i * 521 + 1) & 0x3fffff;
        x[i] = std::bit_cast<float>(0x7fc00000 | low | (i % 2 == 0 ? 0x80000000 : 0));
      }
      run_on(*code, x, y);
      for (int64_t i = 0; i < kBatch; ++i)
        ASSERT_TRUE(std::isnan(y[i])) << machine.name << " " << function.name << " " << i;
    }
  }
}

// e^(e^x) where each is read from what the one before stored: those keep their order.
TEST(Math, WovenChainsReadWhatWasStored) {
  std::string body = "kernel f arguments=2 variables=0 workspace=0 private=0 packed=0\n"
                     "buffer X f32 8 argument 0\nbuffer Y f32 40 argument 1 written\n"
                     "registers f32x8 2\nbody {\n  r0 = load X[0] stride 1\n"
                     "  store Y[0] = r0 stride 1\n";
  for (int n = 0; n < 4; ++n) {
    body += "  r0 = load Y[" + std::to_string(8 * n) + "] stride 1\n  r1 = exp r0\n  store Y[" +
            std::to_string(8 * n + 8) + "] = r1 stride 1\n";
  }
  for (const Machine& machine : machines()) {
    std::unique_ptr<Loaded> code = load_on(machine, kernel_of(body + "}\n"));
    ASSERT_NE(code, nullptr);
    std::vector<float> x(8, -2), y(40);
    run_on(*code, x, y);
    float expected = -2;
    for (int n = 0; n < 5; ++n) {
      for (int l = 0; l < 8; ++l) EXPECT_NEAR(y[8 * n + l], expected, 1e-5 * expected * expected);
      expected = std::exp(expected);
    }
  }
}

// The operation `times` times in a row.
Kernel repeated_kernel(const std::string& operation, const std::string& type, int lanes,
                       int times) {
  const std::string l = std::to_string(lanes);
  std::string text =
      "kernel f arguments=3 variables=0 workspace=0 private=0 packed=0\n"
      "buffer X " + type + " " + l + " argument 0\nbuffer Y " + type + " " + l + " argument 1\n"
      "buffer Z " + type + " " + l + " argument 2 written\n"
      "registers " + type + "x" + l + " 3\n"
      "body {\n  r0 = load X[0] stride 1\n  r1 = load Y[0] stride 1\n";
  for (int n = 0; n < times; ++n) text += "  r2 = " + operation + "\n";
  return kernel_of(text + "  store Z[0] = r2 stride 1\n}\n");
}

// A kernel of hundreds of these calls most of them, and says the same as where they stand inline.
TEST(Math, WhatIsCalledGivesWhatStandsInline) {
  for (const Machine& machine : machines()) {
    if (machine.name == "interpreter") continue;
    for (const Type type : {Type::kF32, Type::kF64}) {
      for (const char* operation : {"exp r0", "tanh r0", "pow r0, r1"}) {
        for (const int lanes : {5, 16}) {
          const std::string name = name_of(type);
          const Kernel once = repeated_kernel(operation, name, lanes, 1);
          const Kernel often = repeated_kernel(operation, name, lanes, 600);
          EXPECT_EQ(machine.backend->text(once, machine.target, "llvm")->find("fastcc"),
                    std::string::npos);
          EXPECT_NE(machine.backend->text(often, machine.target, "llvm")->find("fastcc"),
                    std::string::npos)
              << machine.name << " " << operation << " " << name << "x" << lanes;
          const std::vector<std::string> arguments = {
              random_elements(type, lanes, 1), random_elements(type, lanes, 2),
              std::string(lanes * size_of(type), '\0')};
          EXPECT_TRUE(same_elements(type, run_on(machine, often, arguments)[2],
                                    run_on(machine, once, arguments)[2], 0))
              << machine.name << " " << operation << " " << name << "x" << lanes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lw
