// Winograd's algorithm: asked for or absent, fewer multiplications, and how exact it is. The step's
// own cases are tests/steps/winograd.test; random schedules of it are in random_test.
#include <cmath>
#include <cstdio>

#include "loopwright/type.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/message.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

std::shared_ptr<const Program> convolution(const std::vector<std::string>& words) {
  const absl::StatusOr<Program> program = load_workload(words);
  EXPECT_TRUE(program.ok()) << program.status();
  return std::make_shared<const Program>(*program);
}

Nest winograd_start(std::shared_ptr<const Program> program, bool allowed = true, int threads = 1) {
  Nest start = make_nest(std::move(program), std::make_shared<const Target>(machines().back().target),
                         threads);
  start.winograd = allowed;
  return start;
}

// The sketches with the step for `results` at a time; 0: with any; -1: without it.
std::vector<Sketch> sketches(const Nest& start, int results) {
  std::vector<Sketch> list;
  for (Sketch& sketch : make_space(start)) {
    const std::string text = to_text(sketch.steps);
    const size_t at = text.find("winograd(");
    const bool has = at != std::string::npos;
    const std::string last = has ? text.substr(text.find(')', at) - 1, 1) : "";
    if (results < 0 ? !has : has && (results == 0 || last == concat(results)))
      list.push_back(std::move(sketch));
  }
  return list;
}

Nest cut(const Nest& start, int64_t m) {
  const std::string trace = concat("winograd(Y, y; ", m, ")\nwinograd(Y.p, x; ", m, ")\n");
  const absl::StatusOr<Nest> nest = replay(start, *parse_trace(trace));
  EXPECT_TRUE(nest.ok()) << nest.status();
  return *nest;
}

TEST(WinogradTest, OnlyWhoAsksGetsIt) {
  const auto program = convolution({"conv2d", "H=14", "W=14", "CI=32", "CO=32"});
  EXPECT_TRUE(sketches(winograd_start(program, false), 0).empty());
  EXPECT_EQ(sketches(winograd_start(program), 2).size(), 2u);  // whole, and at blocks of tiles
  EXPECT_EQ(sketches(winograd_start(program), 4).size(), 2u);
  EXPECT_EQ(sketches(winograd_start(program), -1).size(),
            make_space(winograd_start(program, false)).size());
  // Where no window moves with an axis there is nothing to ask.
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"conv2d", "H=14", "W=14", "stride=2"}, {"conv2d", "H=14", "W=14", "R=1", "S=1", "pad=0"},
           {"conv2d_dilated", "H=14", "W=14"}, {"matmul", "M=32", "N=32", "K=32"}}) {
    EXPECT_TRUE(sketches(winograd_start(convolution(words)), 0).empty()) << words[0];
  }
}

// Of the step alone: the rewritten program, executed by the reference.
TEST(WinogradTest, TheRewrittenProgramIsTheSame) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"conv2d", "H=5", "W=8", "CI=3", "CO=4"}, {"conv2d", "H=3", "W=9", "CI=2", "CO=3", "pad=0"},
           {"conv2d", "N=2", "H=1", "W=2", "CI=2", "CO=3", "pad=2"}}) {
    const auto program = convolution(words);
    Rng rng(23);
    const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/true);
    const absl::StatusOr<std::vector<Data>> want = interpret(*program, in);
    ASSERT_TRUE(want.ok()) << want.status();
    for (const int64_t m : {2, 4}) {
      const Nest nest = cut(winograd_start(program), m);
      const absl::StatusOr<std::vector<Data>> got = interpret(*nest.program, in);
      ASSERT_TRUE(got.ok()) << got.status();
      const Tensor& result = program->tensors.back();
      for (int64_t i = 0; i < elements(result); ++i) {
        EXPECT_NEAR(load_element(result.type, (*got)[0].bytes.data(), i),
                    load_element(result.type, (*want)[0].bytes.data(), i), m == 2 ? 0 : 1e-3)
            << i;
      }
    }
  }
}

TEST(WinogradTest, MultipliesLess) {
  const auto program = convolution({"conv2d", "H=12", "W=12", "CI=16", "CO=32"});
  const double direct = 12 * 12 * 9;
  for (const auto& [m, ratio] : {std::pair{2, 16. / 36}, {4, 36. / 144}}) {
    const Nest nest = cut(winograd_start(program), m);
    const int products = find_tensor(*nest.program, "Y.p.p");
    ASSERT_GE(products, 0);
    const Tensor& tensor = nest.program->tensors[products];
    ASSERT_EQ(tensor.reduce_axes.size(), 1u);  // the channels
    EXPECT_DOUBLE_EQ(elements(tensor) / 32 / direct, ratio);
  }
}

int count_ops(const std::vector<Stmt>& list, ExprOp op) {
  int count = 0;
  for (const Stmt& s : list) {
    count += s.kind == Stmt::Kind::kOp && s.op == Op::kBinary && s.expr_op == op;
    count += count_ops(s.body, op) + count_ops(s.otherwise, op);
  }
  return count;
}

// Unrolled, a transform has no choice left, no multiplication by 0 or 1, and shares what it can.
TEST(WinogradTest, TransformsAreUnrolledConstants) {
  const auto program = convolution({"conv1d", "L=10", "CI=16", "CO=16", "stride=1", "pad=0"});
  // Of the eight products of F(4, 3) two are the same.
  for (const auto& [m, additions, products] : {std::tuple{2, 4, 0}, {4, 12, 7}}) {
    const std::string trace = concat("winograd(Y, x; ", m, ")\nregister_tile(Y.d, x.e, ci; ",
                                     m + 2, ", 16, 0, 0)\n");
    const absl::StatusOr<Nest> nest = replay(winograd_start(program), *parse_trace(trace));
    ASSERT_TRUE(nest.ok()) << nest.status();
    absl::StatusOr<Kernel> kernel = lower(*nest);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    // The transform's loop is the first of the body.
    const std::vector<Stmt> first = {kernel->body.front()};
    const int vectors = 16 / lanes(*nest->target, Type::kF32);  // of this machine, a block
    EXPECT_EQ(count_ops(first, ExprOp::kAdd) + count_ops(first, ExprOp::kSub), additions * vectors)
        << m;
    EXPECT_EQ(count_ops(first, ExprOp::kMul), products * vectors) << m;
  }
}

TEST(WinogradTest, ConstWeightsAreTransformedBefore) {
  for (const bool constant : {true, false}) {
    const std::vector<std::string> names = constant ? std::vector<std::string>{"F"}
                                                    : std::vector<std::string>{};
    const absl::StatusOr<Program> program =
        load_workload({"conv2d", "H=8", "W=8", "CI=16", "CO=16"}, &names);
    ASSERT_TRUE(program.ok()) << program.status();
    const Nest start = winograd_start(std::make_shared<const Program>(*program));
    Rng rng(3);
    const std::optional<Scheduled> drawn = draw_kernel(start, sketches(start, 0), rng, 30);
    ASSERT_TRUE(drawn.has_value());
    const std::string text = print(drawn->kernel);
    const std::string body = text.substr(text.find("\nbody {"));
    EXPECT_EQ(body.find("load F[") == std::string::npos, constant);
    EXPECT_EQ(drawn->kernel.packed_bytes > 0, constant);
  }
}

// The largest error, of the largest result.
double error_of(const Program& program, const std::vector<Data>& in, const Scheduled& scheduled,
                const std::vector<Data>& want) {
  const std::unique_ptr<Loaded> code = load_on(machines().back(), scheduled.kernel);
  if (code == nullptr) return INFINITY;
  const std::vector<Data> got = run_guarded(*code, scheduled.kernel, program, in, {}, true);
  const Tensor& result = program.tensors[outputs(program)[0]];
  double largest = 0, error = 0;
  for (int64_t i = 0; i < elements(result); ++i) {
    const double value = load_element(result.type, want[0].bytes.data(), i);
    const double difference =
        std::abs(load_element(result.type, got[0].bytes.data(), i) - value);
    largest = std::max(largest, std::abs(value));
    error = difference <= error ? error : difference;  // NaN stays
  }
  return error / largest;
}

// Channels first, several threads, and an epilogue: by the reference's small integers.
TEST(WinogradTest, OtherLayoutsAndThreadsAgree) {
  const char* text =
      "op p() {\n  in X: f32[2, 5, 7, 9]\n  in F: f32[20, 5, 3, 3] const\n  in b: f32[20]\n"
      "  C[n: 2, o: 20, y: 7, x: 9] = sum[k: 5, r: 3, s: 3]("
      "F[o, k, r, s] * pad(X[n, k, y + r - 1, x + s - 1], 0))\n"
      "  out Y[n: 2, o: 20, y: 7, x: 9] = max(C[n, o, y, x] + b[o], 0)\n}\n";
  const absl::StatusOr<Module> module = parse_module(text, "channels first");
  ASSERT_TRUE(module.ok()) << module.status();
  const auto program = std::make_shared<const Program>(*instantiate(module->ops[0], {}));
  Rng rng(29);
  const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/true);
  const absl::StatusOr<std::vector<Data>> want = interpret(*program, in);
  ASSERT_TRUE(want.ok()) << want.status();
  for (const int threads : {1, 2}) {
    const Nest start = winograd_start(program, true, threads);
    ASSERT_EQ(sketches(start, 0).size(), 4u);
    for (const Sketch& sketch : sketches(start, 0)) {
      const std::optional<Scheduled> drawn = draw_kernel(start, {sketch}, rng, 30);
      ASSERT_TRUE(drawn.has_value()) << sketch.name;
      EXPECT_LE(error_of(*program, in, *drawn, *want), 1e-5) << drawn->schedule;
    }
  }
}


// Odd extents, extents below a tile, batches: the errors are those of docs/winograd.md.
TEST(WinogradTest, IsAsExactAsItSays) {
  const std::vector<std::vector<std::string>> shapes = {
      {"conv2d", "H=13", "W=9", "CI=1", "CO=8"},
      {"conv2d", "N=2", "H=7", "W=7", "CI=16", "CO=24"},
      {"conv2d", "H=3", "W=17", "CI=33", "CO=16", "pad=0"},
      {"conv2d", "H=14", "W=14", "CI=64", "CO=64"},
      {"conv2d_bn_relu", "H=10", "W=11", "CI=32", "CO=20"},
      {"conv1d", "L=37", "CI=48", "CO=32", "stride=1"}};
  constexpr double kBound[] = {1e-6, 1e-6, 1e-5};  // direct, F(2, 3), F(4, 3)
  for (size_t n = 0; n < shapes.size(); ++n) {
    const auto program = convolution(shapes[n]);
    Rng rng = Rng(17).split(n);
    const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/false);
    const absl::StatusOr<std::vector<Data>> want = interpret(*program, in);
    ASSERT_TRUE(want.ok()) << want.status();
    const Nest start = winograd_start(program);
    const std::vector<Sketch> kinds[] = {sketches(start, -1), sketches(start, 2),
                                         sketches(start, 4)};
    for (int kind = 0; kind < 3; ++kind) {
      ASSERT_FALSE(kinds[kind].empty()) << testing::PrintToString(shapes[n]);
      double worst = 0;
      for (int draw = 0; draw < 3; ++draw) {
        const std::optional<Scheduled> drawn = draw_kernel(start, kinds[kind], rng, 30);
        ASSERT_TRUE(drawn.has_value()) << kind;
        const double error = error_of(*program, in, *drawn, *want);
        EXPECT_LE(error, kBound[kind]) << testing::PrintToString(shapes[n]) << drawn->schedule;
        worst = std::max(worst, error);
      }
      std::printf("%s%.1e", kind == 0 ? "" : "  ", worst);
    }
    std::printf("  %s\n", testing::PrintToString(shapes[n]).c_str());
  }
}

}  // namespace
}  // namespace lw
