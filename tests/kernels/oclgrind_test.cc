// Kernels that are drawn for OpenCL's devices, under a simulator that others wrote: it reports
// nothing, and computes what the reference says. Extents are small, in place of those that one
// would tune: the spaces have the same structures there, with tiles that fit. LW_SHAPES: programs
// of each operator; LW_DRAWS: schedules of each; LW_SEED.
#include <cstdio>

#include "src/build/simt/opencl_kernel.h"
#include "src/expr/element.h"
#include "tests/kernels/oclgrind.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/support/program.h"

namespace lw {
namespace {

// A simulator takes microseconds for each operation.
constexpr double kProxyFlops = 6e4;

constexpr size_t kJobsAtOnce = 300;              // that are in memory at a time

struct Simulated {
  explicit Simulated(bool same_values) : same_values(same_values) {}
  const bool same_values;
  std::vector<OclgrindJob> jobs;
  std::vector<HeldProgram> programs;       // of each job
  std::vector<std::string> schedules;
  size_t kernels = 0;
};

// Runs what there is, and forgets it.
void expect_clean(Simulated& all) {
  const absl::StatusOr<std::vector<OclgrindResult>> results =
      run_oclgrind(all.jobs, all.same_values);
  ASSERT_TRUE(results.ok()) << results.status();
  int shown = 0;
  for (size_t n = 0; n < results->size() && shown < 3; ++n) {
    const OclgrindResult& result = (*results)[n];
    const std::string wrong = result.out.empty() ? "no results"
                                                 : wrong_result(all.programs[n], result.out);
    if (result.report.empty() && wrong.empty()) continue;
    ADD_FAILURE() << all.programs[n].name << ": " << wrong << result.report << "\n"
                  << all.schedules[n] << all.jobs[n].code.source;
    ++shown;
  }
  all.kernels += all.jobs.size();
  all.jobs.clear();
  all.programs.clear();
  all.schedules.clear();
}

bool has_items_alone(const Kernel& kernel) {
  const auto in = [](const std::vector<Stmt>& list) {
    return std::any_of(list.begin(), list.end(), [](const Stmt& s) {
      return s.kind == Stmt::Kind::kFor && s.parallel && s.items == 1;
    });
  };
  return in(kernel.body) || in(kernel.prepack);
}

TEST(Oclgrind, FindsNothing) {
  if (!run_oclgrind({}, true).ok()) GTEST_SKIP() << run_oclgrind({}, true).status();
  const std::vector<OpDefinition> ops = library_and_fused_ops();
  const int64_t shapes = setting("LW_SHAPES", 1), draws = setting("LW_DRAWS", 4);
  // Devices of f64 or without, whose limits differ.
  const auto gpu = std::make_shared<const Target>(*find_target("opencl_gpu"));
  const auto cpu = std::make_shared<const Target>(*find_target("opencl_cpu"));
  Simulated alone(/*same_values=*/true), groups(/*same_values=*/false);
  int64_t of_groups = 0;
  for (size_t o = 0; o < ops.size(); ++o) {
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(o);
    // Half of the schedules are of whatever shape, half are of groups where the operator has any.
    for (int64_t half = 0; half < 2 * shapes; ++half) {
      const bool grouped = half % 2 == 1;
      const int turn = static_cast<int>(half / 2) + static_cast<int>(o);
      const int shape = grouped ? static_cast<int>(ShapeKind::kAny) : turn % kShapeKinds;
      const std::optional<HeldProgram> held = held_operator(ops[o], shape, kProxyFlops, rng);
      if (!held) continue;
      const DrawnSpace spaces[] = {{held->program, gpu}, {held->program, cpu}};
      for (int64_t n = 0; n < draws / 2; ++n) {
        const std::optional<Scheduled> drawn = spaces[n % 2].draw(grouped, rng);
        if (!drawn) continue;
        absl::StatusOr<SimtProgram> code = opencl_program(drawn->kernel, *gpu);
        if (!code.ok()) code = opencl_program(drawn->kernel, *cpu);
        ASSERT_TRUE(code.ok()) << held->name << ": " << code.status() << "\n" << drawn->schedule;
        // Vectors of items alone overlap their neighbours' at a row's end, with the same values.
        const bool strict = has_groups(drawn->kernel) && !has_items_alone(drawn->kernel);
        of_groups += has_groups(drawn->kernel);
        Simulated& all = strict ? groups : alone;
        all.jobs.push_back({*std::move(code), held->in});
        all.programs.push_back(*held);
        all.schedules.push_back(drawn->schedule);
        if (all.jobs.size() == kJobsAtOnce) expect_clean(all);
      }
    }
  }
  expect_clean(alone);
  expect_clean(groups);
  const int64_t kernels = static_cast<int64_t>(alone.kernels + groups.kernels);
  std::printf("%d kernels, %d of groups, %d of groups alone\n", int(kernels), int(of_groups),
              int(groups.kernels));
  EXPECT_GT(kernels, static_cast<int64_t>(ops.size()) * 2 * shapes * (draws / 2) * 3 / 4);
  EXPECT_GT(of_groups, kernels / 6);
  EXPECT_GT(static_cast<int64_t>(groups.kernels), kernels / 12);
}

// `t + -5 * v0 + 5` would be a pointer before t on the way.
TEST(Oclgrind, PointersStayInTheirBuffers) {
  if (!run_oclgrind({}, true).ok()) GTEST_SKIP() << run_oclgrind({}, true).status();
  const Kernel kernel = kernel_of(
      R"(kernel back arguments=1 variables=2 workspace=0 private=64 packed=0
buffer Y f32 6 argument 0 written
buffer t f32 6 private 0
registers f32x1 1
body {
  for v0 < 6 {
    r0 = const 3
    store t[v0] = r0 stride 1
  }
  for v1 < 6 {
    r0 = load t[-v1 + 5] stride 1
    store Y[v1] = r0 stride 1
  }
}
)");
  const SimtProgram code = opencl_program(kernel, *find_target("opencl_gpu")).value();
  EXPECT_NE(code.source.find("t + (-v1 + 5)"), std::string::npos) << code.source;
  const std::vector<OclgrindResult> results = run_oclgrind({{code, {}}}, false).value();
  EXPECT_EQ(results[0].report, "");
  ASSERT_EQ(results[0].out.size(), 1u);
  EXPECT_EQ(load_element(Type::kF32, results[0].out[0].bytes.data(), 5), 3);
}

}  // namespace
}  // namespace lw
