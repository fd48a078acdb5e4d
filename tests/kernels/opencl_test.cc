// Kernels as OpenCL C, compiled and run by the driver that is here (PoCL's, on processors): the
// library and fused programs at sizes that are drawn, and random programs, on schedules of the
// space, are what the reference says. LW_SHAPES: programs of each operator; LW_PROGRAMS: random
// ones; LW_DRAWS: schedules of each; LW_SEED; LW_DEVICE: the number of another device;
// LW_STATEMENTS: larger kernels are left out; LW_OPERATORS: so many, spread over the list.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "schedules/targets/simt/simt_target.h"
#include "src/build/simt/backend.h"
#include "src/build/emulator/emulate.h"
#include "tests/kernels/oclgrind.h"
#include "tests/kernels/opencl_device.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/kernels/ulps.h"
#include "tests/lower/group_kernels.h"
#include "tests/support/program.h"
#include "tests/support/random_program.h"

namespace lw {
namespace {

OnDevice& device() {
  static OnDevice* const opened = new OnDevice(open_device(concat(setting("LW_DEVICE", 0))));
  return *opened;
}

absl::StatusOr<std::vector<Data>> run_there(const Kernel& kernel, const std::vector<int64_t>& out,
                                            const std::vector<Data>& in) {
  return run_on(device(), kernel, out, in);
}

// That the emulator is slow for.
constexpr double kFewFlops = 2e5;

// One whose size the device's compiler is fit for; nullopt: there is none, or in vain.
std::optional<Scheduled> draw_small(const DrawnSpace& space, bool grouped, Rng& rng) {
  const int64_t most = setting("LW_STATEMENTS", 1 << 20);
  for (int n = 0; n < 30; ++n) {
    std::optional<Scheduled> drawn = space.draw(grouped, rng);
    if (!drawn) return std::nullopt;
    if (count_statements(drawn->kernel.body) <= most) return drawn;
  }
  return std::nullopt;
}

// Whether a simulator reports nothing of the kernel and computes what the reference says: then a
// driver that does not has compiled it wrongly. PoCL 3.1 does, rarely, by its method `loopvec`, which
// it uses unless POCL_WORK_GROUP_METHOD names another (`auto`, `loops`, `cbs`): rows of dense_gelu
// are not stored.
bool right_elsewhere(const Kernel& kernel, const HeldProgram& held) {
  const absl::StatusOr<Artifact> artifact = opencl_backend().build(kernel, *device().target);
  const SimtProgram code = parse_simt_program(artifact->bytes).value();
  const absl::StatusOr<std::vector<OclgrindResult>> results =
      run_oclgrind({{code, held.in}}, /*same_values=*/true);
  return results.ok() && (*results)[0].report.empty() && !(*results)[0].out.empty() &&
         wrong_result(held, (*results)[0].out).empty();
}

struct DeviceTally {
  int programs = 0, kernels = 0, groups = 0;  // kernels whose groups have several items
  int mistaken = 0;                        // that the driver compiled wrongly
  int large = 0;                           // draws that came to none, or to large ones
  int refused = 0;                         // by a limit of the device for the kernel alone
  void finish() const {
    std::printf("%d programs, %d kernels, %d of groups, %d compiled wrongly; %d draws without "
                "one, %d beyond a kernel's limit\n", programs, kernels, groups, mistaken, large,
                refused);
    EXPECT_LE(refused, 1 + kernels / 4);
    EXPECT_LE(mistaken, 1 + kernels / 200);
  }
};

// Every second schedule, or all, of groups.
void expect_right(const HeldProgram& held, bool grouped, int64_t draws, Rng& rng,
                  DeviceTally* tally) {
  SCOPED_TRACE(held.name);
  if (!takes(*device().target, *held.program)) return;
  ++tally->programs;
  const std::vector<int64_t> sizes = result_bytes(*held.program);
  const DrawnSpace space(held.program, device().target);
  for (int64_t n = 0; n < draws; ++n) {
    const std::optional<Scheduled> scheduled = draw_small(space, grouped || n % 2 == 1, rng);
    if (!scheduled) {
      ++tally->large;
      continue;
    }
    const auto source = [&] {
      return opencl_backend().text(scheduled->kernel, *device().target, "opencl").value_or("");
    };
    const absl::StatusOr<std::vector<Data>> got =
        run_there(scheduled->kernel, sizes, held.in);
    // A driver may allow groups of this kernel fewer items than of others.
    if (absl::IsResourceExhausted(got.status())) {
      ++tally->refused;
      continue;
    }
    ++tally->kernels;
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << scheduled->schedule << source();
    if (has_groups(scheduled->kernel)) {
      ++tally->groups;
      const bool few = count_flops(*held.program).counted < kFewFlops;
      if (few) expect_no_race(scheduled->kernel, *held.program, held.in);
    }
    const std::string wrong = wrong_result(held, *got);
    if (wrong.empty()) continue;
    ASSERT_TRUE(right_elsewhere(scheduled->kernel, held)) << wrong << "\n" << scheduled->schedule
                                                          << source();
    std::printf("%s: the driver's compiler is mistaken: %s\n", held.name.c_str(), wrong.c_str());
    ++tally->mistaken;
  }
}

TEST(OpenCl, EveryOperatorIsRight) {
  if (device().session == nullptr) GTEST_SKIP() << device().lacks;
  const int64_t shapes = setting("LW_SHAPES", 1), draws = setting("LW_DRAWS", 2);
  DeviceTally tally;
  const std::vector<OpDefinition> ops = library_and_fused_ops();
  const int64_t all = static_cast<int64_t>(ops.size());
  const int64_t some = std::min(all, setting("LW_OPERATORS", all));
  for (int64_t i = 0; i < some; ++i) {
    const size_t o = static_cast<size_t>(i * all / some);
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(o);
    for (int64_t half = 0; half < 2 * shapes; ++half) {
      // Of groups at whatever extents come: at those of a single point there are none.
      const bool grouped = half % 2 == 1;
      const int turn = static_cast<int>(half / 2) + static_cast<int>(o);
      const int shape = grouped ? static_cast<int>(ShapeKind::kAny) : turn % kShapeKinds;
      const std::optional<HeldProgram> held = held_operator(ops[o], shape, 1e6, rng);
      if (!held) continue;
      expect_right(*held, grouped, std::max<int64_t>(1, draws / 2), rng, &tally);
      if (HasFatalFailure()) return;
    }
  }
  tally.finish();
  EXPECT_GT(tally.kernels, some / 2);
  // Those are large.
  if (setting("LW_STATEMENTS", 0) == 0) EXPECT_GT(tally.groups, tally.kernels / 10);
}

// Barriers in loops and between halves, memory with holes: in few statements.
TEST(OpenCl, KernelsByHandAreRight) {
  if (device().session == nullptr) GTEST_SKIP() << device().lacks;
  for (const char* text : {kGroupGemm, kGroupHalves, kGroupTranspose}) {
    const Kernel kernel = group_kernel(text);
    const GroupArguments arguments(kernel);
    std::vector<Data> in;
    for (const Buffer& b : kernel.buffers) {
      if (b.scope != Scope::kArgument || b.written) continue;
      const auto* data = reinterpret_cast<const std::byte*>(arguments[b.slot].data());
      in.push_back({{data, data + b.elements * size_of(b.type)}});
    }
    std::vector<float> want;
    ASSERT_EQ(emulated(kernel, {}, &want), "");
    const int64_t size = static_cast<int64_t>(want.size() * sizeof(float));
    const absl::StatusOr<std::vector<Data>> got = run_there(kernel, {size}, in);
    ASSERT_TRUE(got.ok()) << kernel.name << got.status();
    EXPECT_EQ(std::memcmp((*got)[0].bytes.data(), want.data(), static_cast<size_t>(size)), 0)
        << kernel.name;
  }
}

// An index whose parts are beyond 32 bits from i = 61,356 on, though it is not; in fewer groups than
// the 65,535 that rusticl (Mesa 22.3 on llvmpipe) runs of a launch, without a word of the others.
TEST(OpenCl, IndicesAreAsWideAsTheyMustBe) {
  if (device().session == nullptr) GTEST_SKIP() << device().lacks;
  constexpr int64_t kPoints = 65000;
  Program program = parse_program("op p() {\n  in A: f32[1000]\n"
                                  "  out Y[i: 65000] = A[(i * 70001) % 1000]\n}\n", "").value();
  const Nest nest = make_nest(std::make_shared<const Program>(program), device().target, 1);
  const absl::StatusOr<Kernel> kernel = lower(nest);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 0.0f);
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  const absl::StatusOr<std::vector<Data>> got =
      run_there(*kernel, {kPoints * 4}, {{{bytes, bytes + x.size() * sizeof(float)}}});
  ASSERT_TRUE(got.ok()) << got.status();
  const auto* y = reinterpret_cast<const float*>((*got)[0].bytes.data());
  for (int64_t i = 0; i < kPoints; ++i) {
    ASSERT_EQ(y[i], static_cast<float>(i * 70001 % 1000)) << i;
  }
}

// What `operation` ("exp", "cast") makes of `n` values of X, `lanes` at a time.
absl::StatusOr<Data> each_of(const char* operation, Type from, Type to, int64_t lanes, int64_t n,
                             const void* x) {
  const auto registers = [&](Type type, int count) {
    return concat("registers ", type_name(type), "x", lanes, " ", count, "\n");
  };
  const Kernel kernel = group_kernel(concat(
      "kernel f arguments=2 variables=1 workspace=0 private=0 packed=0\nbuffer X ",
      type_name(from), " ", n, " argument 0\nbuffer Y ", type_name(to), " ", n,
      " argument 1 written\n", from == to ? registers(from, 2) : registers(from, 1),
      from == to ? "" : registers(to, 1), "body {\n  for v0 < ", n / lanes,
      " {\n    r0 = load X[", lanes, "*v0] stride 1\n    r1 = ", operation, " r0\n    store Y[",
      lanes, "*v0] = r1 stride 1\n  }\n}\n"));
  const auto* bytes = static_cast<const std::byte*>(x);
  absl::StatusOr<std::vector<Data>> got =
      run_there(kernel, {n * size_of(to)}, {{{bytes, bytes + n * size_of(from)}}});
  if (!got.ok()) return got.status();
  return (*got)[0];
}

// Of all binades, fewer than 2^16, at which llvmpipe leaves every loop.
std::vector<float> many_singles() {
  std::vector<float> x;
  const std::function<bool(float*)> more = singles(100003);
  for (float next = 0; more(&next);) x.push_back(next);
  while (x.size() % 16 != 0) x.push_back(1);
  return x;
}

// Functions of ours, which processors get, at all binades.
TEST(OpenCl, FunctionsStayWithinTheirBounds) {
  if (device().session == nullptr) GTEST_SKIP() << device().lacks;
  if (!is_processor(simt(*device().target))) GTEST_SKIP() << "the device has functions of its own";
  const struct {
    const char* name;
    long double (*reference)(long double);
    double bound;
  } functions[] = {{"exp", std::exp, 1.5},  {"tanh", std::tanh, 3},    {"sigmoid", sigmoid, 2.5},
                   {"erf", std::erf, 5},    {"floor", std::floor, 0}, {"ceil", std::ceil, 0},
                   {"round", std::rint, 0}};
  const std::vector<float> x = many_singles();
  for (const auto& function : functions) {
    for (const int64_t lanes : {1, 4, 16}) {
      const absl::StatusOr<Data> got = each_of(function.name, Type::kF32, Type::kF32, lanes,
                                               static_cast<int64_t>(x.size()), x.data());
      ASSERT_TRUE(got.ok()) << got.status();
      const auto* y = reinterpret_cast<const float*>(got->bytes.data());
      for (size_t i = 0; i < x.size(); ++i) {
        const long double want = function.reference(x[i]);
        const double error = ulps(y[i], want);
        ASSERT_LE(error, function.bound) << function.name << "(" << x[i] << ") = " << y[i];
      }
    }
  }
}

double value_of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return std::copysign(size, bits >> 15 != 0 ? -1 : 1);
}

double nearest_half(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const double unit = std::ldexp(1, std::max(std::ilogb(x), -14) - 10);
  const double near = std::rint(x / unit) * unit;
  return std::abs(near) > 65504 ? std::copysign(INFINITY, x) : near;
}

TEST(OpenCl, HalvesAreConvertedExactly) {
  if (device().session == nullptr) GTEST_SKIP() << device().lacks;
  const std::vector<float> x = many_singles();
  std::vector<uint16_t> halves(1 << 15);
  for (const int64_t lanes : {1, 4, 16}) {
    for (const bool negative : {false, true}) {  // two loops of fewer than 2^16
      std::iota(halves.begin(), halves.end(), static_cast<uint16_t>(negative ? 1 << 15 : 0));
      const absl::StatusOr<Data> wide =
          each_of("cast", Type::kF16, Type::kF32, lanes, 1 << 15, halves.data());
      ASSERT_TRUE(wide.ok()) << wide.status();
      const auto* y = reinterpret_cast<const float*>(wide->bytes.data());
      for (size_t i = 0; i < halves.size(); ++i) {
        ASSERT_EQ(ulps(y[i], value_of_half(halves[i])), 0) << halves[i];
      }
    }
    const absl::StatusOr<Data> narrow = each_of("cast", Type::kF32, Type::kF16, lanes,
                                                static_cast<int64_t>(x.size()), x.data());
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    const auto* h = reinterpret_cast<const uint16_t*>(narrow->bytes.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(ulps(static_cast<float>(value_of_half(h[i])), nearest_half(x[i])), 0) << x[i];
    }
  }
}

TEST(OpenCl, RandomProgramsAreRight) {
  if (device().session == nullptr) GTEST_SKIP() << device().lacks;
  const int64_t programs = setting("LW_PROGRAMS", 40), draws = setting("LW_DRAWS", 1);
  DeviceTally tally;
  for (int64_t n = 0; n < programs; ++n) {
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(static_cast<uint64_t>(n));
    const std::string text = ProgramWriter(rng).write();
    absl::StatusOr<Program> program = parse_program(text, "p");
    if (!program.ok()) continue;
    std::vector<Data> in = random_inputs(*program, rng, /*integers=*/true);
    const std::optional<HeldProgram> held =
        held_program(text, *std::move(program), std::move(in));
    if (!held) continue;
    expect_right(*held, /*grouped=*/true, draws, rng, &tally);
    if (HasFatalFailure()) return;
  }
  tally.finish();
  EXPECT_GE(tally.kernels, programs / 4);
}

}  // namespace
}  // namespace lw
