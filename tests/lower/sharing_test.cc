// A program is a DAG all the way down: what is defined once is computed once at a point, however
// often it is read. Work is asserted by counting nodes, points and statements, not by time.
#include <functional>

#include "schedules/space/draft.h"
#include "src/base/message.h"
#include "src/expr/intern.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

std::shared_ptr<const Program> shared_program(const std::string& text) {
  const absl::StatusOr<Module> module = parse_module(text, "sharing");
  EXPECT_TRUE(module.ok()) << module.status();
  if (!module.ok()) return nullptr;
  const absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  EXPECT_TRUE(program.ok()) << program.status();
  return std::make_shared<const Program>(*program);
}

Nest shared_start(std::shared_ptr<const Program> program) {
  static const auto target = std::make_shared<const Target>(*find_target("x86_avx512"));
  return make_nest(std::move(program), target, 1);
}

int64_t count_nodes(const Expr& expr) {
  int64_t nodes = 0;
  visit(expr, [&](const ExprNode&) { ++nodes; });
  return nodes;
}

// ---- shapes of programs -------------------------------------------------------------------------

// A family of programs of any depth, over integers: they wrap, so that all results are exact.
struct Form {
  const char* name;
  std::string (*text)(int depth);
};

std::string definition(int level, int last, const std::string& value) {
  const std::string name = level == last ? "  out D" : concat("  t", level);
  return concat(name, "[i: 100] = ", value, "\n");
}
std::string op_of(const std::string& definitions) {
  return concat("op p() {\n  in A: i32[100]\n  in B: i32[100]\n  t0[i: 100] = A[i] + B[i]\n",
                definitions, "}\n");
}
std::string t(int level) { return concat("t", level, "[i]"); }

std::string doubling(int depth) {
  std::string text;
  for (int n = 1; n <= depth; ++n)
    text += definition(n, depth, concat(t(n - 1), " + ", t(n - 1)));
  return op_of(text);
}
std::string residual(int depth) {
  std::string text;
  for (int n = 1; n <= depth; ++n)
    text += definition(n, depth, concat(t(n - 1), " + 3 * max(", t(n - 1), ", 5)"));
  return op_of(text);
}
std::string newton(int depth) {
  std::string text;
  for (int n = 1; n <= depth; ++n)
    text += definition(n, depth, concat(t(n - 1), " * (3 - A[i] * ", t(n - 1), " * ", t(n - 1), ")"));
  return op_of(text);
}
std::string fibonacci(int depth) {
  std::string text = "  t1[i: 100] = A[i] - B[i]\n";
  for (int n = 2; n <= depth + 1; ++n)
    text += definition(n, depth + 1, concat(t(n - 1), " + ", t(n - 2)));
  return op_of(text);
}
std::string ladder(int depth) {
  std::string text = "  s0[i: 100] = A[i] - B[i]\n";
  for (int n = 1; n < depth; ++n) {
    text += definition(n, -1, concat(t(n - 1), " + s", n - 1, "[i]"));
    text += concat("  s", n, "[i: 100] = ", t(n - 1), " - 3 * s", n - 1, "[i]\n");
  }
  return op_of(text + definition(0, 0, concat(t(depth - 1), " * s", depth - 1, "[i]")));
}
std::string diamond(int depth) {
  std::string text;
  for (int n = 1; n <= depth; ++n) {
    text += concat("  l", n, "[i: 100] = ", t(n - 1), " * 3\n  r", n, "[i: 100] = max(", t(n - 1),
                   ", 7)\n");
    text += definition(n, depth, concat("l", n, "[i] - r", n, "[i]"));
  }
  return op_of(text);
}

constexpr Form kShapes[] = {{"doubling", doubling}, {"residual", residual},
                             {"newton", newton},     {"fibonacci", fibonacci},
                             {"ladder", ladder},     {"diamond", diamond}};

std::string smoothing(int depth) {
  std::string text;
  for (int n = 1; n <= depth; ++n) {
    const std::string from = concat("t", n - 1);
    text += definition(n, depth, concat("pad(", from, "[i - 1], 0) + 2 * ", from, "[i] + pad(", from,
                                        "[i + 1], 0)"));
  }
  return op_of(text);
}

// Every map at the readers: the largest body that sharing has to hold together.
absl::StatusOr<Nest> inlined(const Nest& start) {
  Nest nest = start;
  for (int s = static_cast<int>(start.stages.size()) - 1; s >= 0; --s) {
    const Stage& stage = start.stages[s];
    if (start.program->tensors[stage.tensor].role == Role::kOutput) continue;
    const Step step{find_step("inline_producer"), {stage.name}, {}};
    if (absl::Status status = apply(nest, step); !status.ok()) return status;
  }
  return nest;
}

int statements(const std::vector<Stmt>& list) {
  int found = 0;
  for (const Stmt& s : list) found += 1 + statements(s.body) + statements(s.otherwise);
  return found;
}

void expect_reference(const Program& program, const Kernel& kernel, const std::string& what) {
  Rng rng(3);
  const std::vector<Data> in = random_inputs(program, rng, true);
  const absl::StatusOr<std::vector<Data>> expected = interpret(program, in);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::unique_ptr<Loaded> code = load_on(machines()[0], kernel);
  ASSERT_NE(code, nullptr);
  const std::vector<Data> out = run_guarded(*code, kernel, program, in, {}, true);
  ASSERT_EQ(out.size(), expected->size());
  for (size_t n = 0; n < out.size(); ++n) EXPECT_TRUE(out[n].bytes == (*expected)[n].bytes) << what;
}

// ---- linear in the depth ------------------------------------------------------------------------

TEST(SharingTest, BodiesAndKernelsAreLinearInTheDepth) {
  for (const Form& shape : kShapes) {
    int64_t nodes[3], made[3];
    const int depths[3] = {20, 110, 200};
    for (int n = 0; n < 3; ++n) {
      const std::shared_ptr<const Program> program = shared_program(shape.text(depths[n]));
      ASSERT_NE(program, nullptr);
      const Nest start = shared_start(program);
      const absl::StatusOr<Nest> nest = inlined(start);
      ASSERT_TRUE(nest.ok()) << shape.name << " " << depths[n] << ": " << nest.status();
      const int out = static_cast<int>(nest->stages.size()) - 1;
      nodes[n] = count_nodes(effective_body(*nest, out));
      const std::optional<Scheduled> scheduled = schedule_kernel(*nest, {});
      ASSERT_TRUE(scheduled.has_value());
      made[n] = statements(scheduled->kernel.body);
      expect_reference(*program, scheduled->kernel, shape.name);
    }
    // As many more from 20 to 110 as from there to 200.
    EXPECT_EQ(nodes[1] - nodes[0], nodes[2] - nodes[1]) << shape.name;
    EXPECT_LE(nodes[2], 10 * depths[2]) << shape.name;
    EXPECT_EQ(made[1] - made[0], made[2] - made[1]) << shape.name;
    EXPECT_LE(made[2], 10 * depths[2]) << shape.name;
  }
}

TEST(SharingTest, EverySpaceHasSchedulesThatAgreeWithTheReference) {
  Rng rng(7);
  for (const auto& [name, text] : kShapes) {
    const std::shared_ptr<const Program> program = shared_program(text(200));
    ASSERT_NE(program, nullptr);
    const Nest start = shared_start(program);
    const std::vector<Sketch> space = make_space(start);
    ASSERT_NE(space[0].name, "unscheduled") << name;
    const std::optional<Scheduled> drawn = draw_kernel(start, space, rng, 20);
    ASSERT_TRUE(drawn.has_value()) << name;
    expect_reference(*program, drawn->kernel, concat(name, "\n", drawn->schedule));
  }
}

TEST(SharingTest, WalksMeetANodeOnce) {
  Expr value = make_read(0, Type::kF32, {make_axis(0)});
  for (int n = 0; n < 200; ++n) value = make_binary(ExprOp::kMul, value, value);
  EXPECT_EQ(count_nodes(value), 202);
  const Expr moved = substitute(value, {make_axis(1)});
  EXPECT_EQ(count_nodes(moved), 202);
  EXPECT_EQ(count_nodes(renumber_reads(moved, {4})), 202);
  EXPECT_EQ(substitute(value, {nullptr}), value);
}

TEST(SharingTest, EqualNodesBecomeOne) {
  const auto read = [] { return make_read(0, Type::kF32, {make_axis(0)}); };
  const auto square = [&] { return make_binary(ExprOp::kMul, read(), read()); };
  const Expr tree = make_binary(ExprOp::kAdd, square(), square());
  Interner interner;
  const Expr shared = interner.share(tree);
  EXPECT_EQ(count_nodes(tree), 11);
  EXPECT_EQ(count_nodes(shared), 4);
  EXPECT_EQ(interner.depth(shared), 4);
  EXPECT_EQ(interner.tree_size(shared), 11);
  // What prints alike may differ: the sign of a zero.
  EXPECT_NE(interner.share(make_const(Type::kF32, 0.0)), interner.share(make_const(Type::kF32, -0.0)));
}

// ---- one register, not one per occurrence -------------------------------------------------------

TEST(SharingTest, ASharedValueIsComputedOnce) {
  const std::shared_ptr<const Program> program = shared_program(
      "op p() {\n  in A: f32[64]\n  T[i: 64] = tanh(A[i])\n"
      "  out D[i: 64] = (T[i] + 1) * T[i] + exp(T[i])\n}\n");
  const absl::StatusOr<Nest> nest = inlined(shared_start(program));
  ASSERT_TRUE(nest.ok()) << nest.status();
  const std::optional<Scheduled> scheduled = schedule_kernel(*nest, {});
  ASSERT_TRUE(scheduled.has_value());
  EXPECT_EQ(count_of(scheduled->kernel.body, Op::kUnary), 2);  // tanh, exp
  EXPECT_EQ(count_of(scheduled->kernel.body, Op::kLoad), 1);
}

TEST(SharingTest, ConditionsAndIndicesAreSharedToo) {
  // Each condition is made of the two before; each index of the one before, twice.
  std::string conditions, indices;
  for (int n = 1; n <= 60; ++n) {
    conditions += concat("  c", n + 1, "[i: 64] = c", n, "[i] && c", n - 1, "[i] || A[i] > ", n, "\n");
    indices += concat("  x", n, "[i: 64] = x", n - 1, "[i] + x", n - 1, "[i]\n");
  }
  const std::shared_ptr<const Program> chosen = shared_program(
      concat("op p() {\n  in A: i32[64]\n  c0[i: 64] = A[i] > 0\n  c1[i: 64] = A[i] < 9\n", conditions,
             "  out D[i: 64] = where(c61[i], A[i], 7)\n}\n"));
  const std::shared_ptr<const Program> compared = shared_program(
      concat("op p() {\n  in A: i64[64]\n  x0[i: 64] = A[i]\n", indices,
             "  out D[i: 64] = where(x60[i] > x59[i], A[i], x60[i])\n}\n"));
  for (const auto& program : {chosen, compared}) {
    ASSERT_NE(program, nullptr);
    const absl::StatusOr<Nest> nest = inlined(shared_start(program));
    ASSERT_TRUE(nest.ok()) << nest.status();
    const std::optional<Scheduled> scheduled = schedule_kernel(*nest, {});
    ASSERT_TRUE(scheduled.has_value());
    EXPECT_LE(statements(scheduled->kernel.body), 60 * 8);
    expect_reference(*program, scheduled->kernel, "conditions and indices");
  }
}

// ---- where inlining recomputes ------------------------------------------------------------------

TEST(SharingTest, AWindowOfAWindowReadsEachPointOnce) {
  const std::shared_ptr<const Program> program = shared_program(smoothing(3));
  const absl::StatusOr<Nest> nest = inlined(shared_start(program));
  ASSERT_TRUE(nest.ok()) << nest.status();
  const int out = static_cast<int>(nest->stages.size()) - 1;
  EXPECT_EQ(points_read(*nest, out, find_tensor(*program, "A")), 2 * 3 + 1);
  const std::optional<Scheduled> scheduled = schedule_kernel(*nest, {});
  ASSERT_TRUE(scheduled.has_value());
  expect_reference(*program, scheduled->kernel, "smoothing");
}

TEST(SharingTest, DeepWindowsAreRefusedWithTheReason) {
  const absl::StatusOr<Nest> nest = inlined(shared_start(shared_program(smoothing(200))));
  ASSERT_FALSE(nest.ok());
  EXPECT_EQ(nest.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(nest.status().message().find("more than 4096 operations"), std::string::npos)
      << nest.status();
  // An index that reads itself twice is an exponential number of reads, at points of their own.
  std::string text = "op p() {\n  in A: i64[64]\n";
  for (int n = 1; n <= 30; ++n) {
    const std::string from = n == 1 ? "A" : concat("x", n - 1);
    const std::string name = n == 30 ? "out x30" : concat("x", n);
    text += concat("  ", name, "[i: 64] = ", from, "[", from, "[i]]\n");
  }
  EXPECT_FALSE(inlined(shared_start(shared_program(text + "}\n"))).ok());
}

// What would be computed again and again stays a stage, and the space says how it is fused.
TEST(SharingTest, TheSpaceKeepsWhatIsDearToRecompute) {
  for (const int depth : {10, 60}) {
    const std::shared_ptr<const Program> program = shared_program(smoothing(depth));
    ASSERT_NE(program, nullptr);
    const Nest start = shared_start(program);
    const std::vector<Sketch> space = make_space(start);
    ASSERT_NE(space[0].name, "unscheduled");
    Rng rng(5);
    for (const Sketch& sketch : space) {
      const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
      if (!drawn.ok()) continue;
      for (int s = 0; s < static_cast<int>(drawn->nest.stages.size()); ++s)
        EXPECT_LE(rules::body_cost(drawn->nest, s), 400) << sketch.name;
    }
    const std::optional<Scheduled> drawn = draw_kernel(start, space, rng, 20);
    ASSERT_TRUE(drawn.has_value());
    expect_reference(*program, drawn->kernel, drawn->schedule);
  }
}

// The limit of what is unrolled is one of each part of a program, not of how many it has.
TEST(SharingTest, ManyProductsHaveSchedulesToo) {
  std::string text = "op p() {\n  in A: i32[64, 64]\n";
  for (int n = 1; n <= 56; ++n) {
    const std::string from = n == 1 ? "A" : concat("m", n - 1);
    text += concat(n == 56 ? "  out m" : "  m", n, "[i: 64, j: 64] = sum[k: 64](", from, "[i, k] * ",
                   from, "[k, j])\n");
  }
  const Nest start = shared_start(shared_program(text + "}\n"));
  Rng rng(5);
  EXPECT_TRUE(draw_kernel(start, make_space(start), rng, 40).has_value());
}

// ---- what is refused, with the number -----------------------------------------------------------

absl::Status refusal(const std::string& text) {
  const absl::StatusOr<Module> module = parse_module(text, "sharing");
  return module.ok() ? instantiate(module->ops[0], {}).status() : module.status();
}

TEST(SharingTest, WhatIsTooLargeIsRefusedWithTheNumber) {
  std::string definitions, sum = "A[i]";
  for (int n = 0; n < 10000; ++n)
    definitions += concat("  t", n + 1, "[i: 8] = ", n ? concat("t", n, "[i]") : "A[i]", " + 1\n");
  const absl::Status many =
      refusal(concat("op p() {\n  in A: f32[8]\n", definitions, "  out D[i: 8] = t10000[i]\n}\n"));
  EXPECT_NE(many.message().find("10001 definitions"), std::string::npos) << many;
  const absl::Status large =
      refusal("op p() {\n  in A: f64[1000000, 1000000]\n  in B: f64[1000000, 1000000]\n"
              "  in C: f64[1000000, 1000000]\n  in E: f64[1000000, 1000000]\n"
              "  in F: f64[1000000, 1000000]\n  in G: f64[1000000, 1000000]\n"
              "  in H: f64[1000000, 1000000]\n  in I: f64[1000000, 1000000]\n"
              "  in J: f64[1000000, 1000000]\n  in K: f64[1000000, 1000000]\n"
              "  in L: f64[1000000, 1000000]\n  in M: f64[1000000, 1000000]\n"
              "  in N: f64[1000000, 1000000]\n  in O: f64[1000000, 1000000]\n"
              "  in P: f64[1000000, 1000000]\n  in Q: f64[1000000, 1000000]\n"
              "  in R: f64[1000000, 1000000]\n  in S: f64[1000000, 1000000]\n"
              "  out D[i: 8] = A[i, i] + B[i, i]\n}\n");
  EXPECT_NE(large.message().find("144000 GB"), std::string::npos) << large;
}

TEST(SharingTest, ADefinitionMayBeReadHundredsOfTimes) {
  std::string text = "op p() {\n  in A: i32[8, 8]\n  T[i: 8] = sum[k: 8](A[i, k])\n";
  for (int n = 0; n < 400; ++n) text += concat("  t", n, "[i: 8] = T[i] * ", n + 2, "\n");
  // As a tree: a chain of additions nests.
  std::vector<std::string> terms;
  for (int n = 0; n < 400; ++n) terms.push_back(concat("t", n, "[i]"));
  while (terms.size() > 1) {
    std::vector<std::string> next;
    for (size_t n = 0; n + 1 < terms.size(); n += 2)
      next.push_back(concat("(", terms[n], " + ", terms[n + 1], ")"));
    if (terms.size() % 2 == 1) next.push_back(terms.back());
    terms = std::move(next);
  }
  const std::shared_ptr<const Program> program =
      shared_program(text + "  out D[i: 8] = " + terms[0] + "\n}\n");
  ASSERT_NE(program, nullptr);
  const Nest start = shared_start(program);
  const std::vector<Sketch> space = make_space(start);
  Rng rng(5);
  const std::optional<Scheduled> drawn = draw_kernel(start, space, rng, 20);
  ASSERT_TRUE(drawn.has_value());
  expect_reference(*program, drawn->kernel, drawn->schedule);
}

}  // namespace
}  // namespace lw
