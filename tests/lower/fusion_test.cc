// What fuses with what: the classes of stages, that epilogues and producers leave no intermediate
// behind, and that what lies between two products of matrices is only ever a block of rows.
#include <map>
#include <set>

#include "schedules/domains.h"
#include "schedules/space/draft.h"
#include "src/lower/outside.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

using rules::FusionClass;

std::shared_ptr<const Program> built_in(const std::vector<std::string>& words) {
  const absl::StatusOr<Program> program = load_workload(words);
  EXPECT_TRUE(program.ok()) << program.status();
  return std::make_shared<const Program>(*program);
}

std::shared_ptr<const Program> fused_program(const std::string& text) {
  const absl::StatusOr<Module> module = parse_module(text, "fusion");
  EXPECT_TRUE(module.ok()) << module.status();
  const absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  EXPECT_TRUE(program.ok()) << program.status();
  return std::make_shared<const Program>(*program);
}

Nest fused_start(std::shared_ptr<const Program> program, int threads = 1) {
  static const auto target = std::make_shared<const Target>(*find_target("x86_avx512"));
  return make_nest(std::move(program), target, threads);
}

const Sketch* find_sketch(const std::vector<Sketch>& space, const std::string& name) {
  for (const Sketch& sketch : space) {
    if (sketch.name == name) return &sketch;
  }
  return nullptr;
}

constexpr const char* kBlocks = "blocks of rows";

TEST(FusionTest, ClassesAreReadOffTheDefinitions) {
  const Nest nest = fused_start(built_in({"attention"}));
  const std::map<std::string, FusionClass> expected = {
      {"P_sum", FusionClass::kComplexOut}, {"P", FusionClass::kInjective},
      {"top", FusionClass::kReduction},    {"E", FusionClass::kInjective},
      {"total", FusionClass::kReduction},  {"O", FusionClass::kComplexOut},
      {"Y", FusionClass::kOpaque}};
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    EXPECT_EQ(rules::fusion_class(nest, s), expected.at(nest.stages[s].name))
        << nest.stages[s].name;
  }
  const Nest gathered = fused_start(fused_program(
      "op p() {\n  in X: f32[40, 8]\n  in rows: i32[30]\n  T[i: 40, j: 8] = exp(X[i, j])\n"
      "  out Y[i: 30, j: 8] = T[rows[i], j]\n}\n"));
  EXPECT_EQ(rules::fusion_class(gathered, find_stage(gathered, "T")), FusionClass::kOpaque);
}

TEST(FusionTest, AProducerAtALoopComputesAllThatIsReadThere) {
  const Nest start = fused_start(fused_program(
      "op p() {\n  in X: f32[12]\n  T[i: 12] = exp(X[i])\n  out Y[i: 10] = T[i] + T[i + 2]\n}\n"));
  const absl::StatusOr<Nest> nest = replay(start, *parse_trace("compute_at(T, Y; 1)"));
  ASSERT_TRUE(nest.ok()) << nest.status();
  EXPECT_EQ(region_extents(*nest, find_stage(*nest, "T")), (std::vector<int64_t>{3}));
}

// A filter along the rows and then along the columns: the first at a block of the second's rows,
// those of the neighbouring blocks that it needs with them. Of single rows most would be computed
// again for each.
TEST(FusionTest, WindowsShareBlocksOfRows) {
  const std::string head =
      "op p() {\n  in X: f32[96, 160]\n  in g: f32[5]\n"
      "  T[y: 96, x: 160] = sum[s: 5](pad(X[y, x + s - 2], 0) * g[s])\n";
  const Nest start = fused_start(fused_program(
      head + "  out Y[y: 96, x: 160] = sum[r: 5](pad(T[y + r - 2, x], 0) * g[r])\n}\n"));
  const std::vector<Sketch> space = make_space(start);
  const Sketch* blocks = find_sketch(space, kBlocks);
  ASSERT_NE(blocks, nullptr);
  Rng rng(5);
  int lowered = 0;
  for (int n = 0; n < 40; ++n) {
    const absl::StatusOr<Sample> drawn = sample(start, *blocks, rng);
    if (!drawn.ok()) continue;
    const Stage& first = drawn->nest.stages[0];
    ASSERT_EQ(first.place, Place::kAt);
    const int64_t rows = drawn->nest.stages[1].loops[0].parts[0].tile;
    EXPECT_EQ(region_extents(drawn->nest, 0), (std::vector<int64_t>{std::min<int64_t>(rows + 4, 96),
                                                                    160, 5}));
    lowered += schedule_kernel(drawn->nest, drawn->trace).has_value();
  }
  EXPECT_GT(lowered, 10);
  // A window as tall as the picture leaves no blocks; nor does one that runs backwards.
  for (const char* reader :
       {"  out Y[y: 96, x: 160] = sum[r: 96](pad(T[y + r - 2, x], 0) * X[r, x])\n}\n",
        "  out Y[y: 96, x: 160] = sum[r: 5](T[95 - y, x] * g[r])\n}\n"}) {
    const std::vector<Sketch> space = make_space(fused_start(fused_program(head + reader)));
    EXPECT_EQ(find_sketch(space, kBlocks), nullptr) << reader;
  }
}

// The rows that a block needs of what stands at it are there: only the picture's own edge is asked
// for. And they do not all begin in the same sets of a cache.
TEST(FusionTest, RowsOfABlockAreReadUncheckedAndSpread) {
  const Nest start = fused_start(fused_program(
      "op p() {\n  in X: f32[96, 1024]\n"
      "  A[y: 96, x: 1024] = X[y, x] + pad(X[y + 1, x], 0)\n"
      "  out Y[y: 96, x: 1024] = A[y, x] + pad(A[y - 1, x], 0)\n}\n"));
  const absl::StatusOr<Nest> nest = replay(
      start, *parse_trace("split(Y, y; 24, 0)\ncompute_at(A, Y; 1)\nregister_tile(A, x; 64, 0)\n"
                          "register_tile(Y, y.1, x; 4, 64, 0, 0)"));
  ASSERT_TRUE(nest.ok()) << nest.status();
  const absl::StatusOr<Kernel> kernel = lower(*nest);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (const Buffer& buffer : kernel->buffers) {
    if (buffer.name == "A") EXPECT_EQ(buffer.elements, 25 * (1024 + 16));
  }
  const std::string text = print(*kernel);
  // Of the four rows of a tile only the first may be the picture's.
  const size_t second = text.find("+ 1024] =");
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_NE(text.substr(text.rfind("store A["), second - text.rfind("store A[")).find("lanemask"),
            std::string::npos) << text;
  EXPECT_EQ(text.find("lanemask", second), std::string::npos) << text;
}

TEST(FusionTest, EpiloguesLeaveNoIntermediateBehind) {
  const std::string head = "op p() {\n  in A: f32[48, 40]\n  in B: f32[40, 80]\n"
                           "  in R: f32[48, 80]\n  in s: f32[80]\n"
                           "  C[i: 48, j: 80] = sum[k: 40](A[i, k] * B[k, j])\n";
  const std::map<std::string, std::shared_ptr<const Program>> programs = {
      {"requantization", built_in({"dense_i8", "M=48", "N=80", "K=40"})},
      {"residual, scale, clamp",
       fused_program(head + "  T[i: 48, j: 80] = C[i, j] * s[j] + R[i, j]\n"
                      "  out Y[i: 48, j: 80] = clamp(T[i, j], 0, 6)\n}\n")},
      {"a chain of maps",
       fused_program(head +
                     "  T[i: 48, j: 80] = C[i, j] + s[j]\n  U[i: 48, j: 80] = tanh(T[i, j])\n"
                      "  W[i: 48, j: 80] = U[i, j] * U[i, j] + R[i, j]\n"
                      "  out Y[i: 48, j: 80] = max(W[i, j] - T[i, j], 0)\n}\n")},
      {"convolution, scale, shift, relu, residual",
       fused_program("op p() {\n  in X: f32[1, 9, 16, 24]\n  in F: f32[3, 3, 24, 32]\n"
               "  in R: f32[1, 9, 16, 32]\n  in s: f32[32]\n"
               "  C[n: 1, y: 9, x: 16, c: 32] = sum[r: 3, q: 3, k: 24]("
               "pad(X[n, y + r - 1, x + q - 1, k], 0) * F[r, q, k, c])\n"
               "  out Y[n: 1, y: 9, x: 16, c: 32] ="
               " max(C[n, y, x, c] * s[c] + R[n, y, x, c], 0)\n}\n")},
  };
  Rng rng(3);
  for (const auto& [name, program] : programs) {
    const Nest start = fused_start(program);
    int lowered = 0;
    for (const Sketch& sketch : make_space(start)) {
      if (sketch.name.starts_with("split")) continue;  // partial results are stored by design
      for (int n = 0; n < 40; ++n) {
        const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
        if (!drawn.ok()) continue;
        int stored = 0;                    // tensors that some stage stores
        bool in_memory = false;
        std::set<std::string> copies;
        for (const Stage& stage : drawn->nest.stages) {
          stored += stage.copy_of < 0 && stage.place != Place::kInlined &&
                    stage.place != Place::kEpilogue;
          for (int l = 0; l < run_begin(stage); ++l)
            in_memory = in_memory || (is_reduction(stage, stage.loops[l]) && trips(stage, l) > 1);
          if (stage.copy_of >= 0) copies.insert(stage.name);
        }
        EXPECT_EQ(stored, 1) << name << ": " << sketch.name << "\n" << print(drawn->nest);
        if (in_memory) continue;           // partial sums wait in memory for the next block
        const std::optional<Scheduled> scheduled = schedule_kernel(drawn->nest, drawn->trace);
        if (!scheduled) continue;
        ++lowered;
        for (const Buffer& buffer : scheduled->kernel.buffers) {
          const bool temporary = buffer.scope != Scope::kArgument && !copies.contains(buffer.name);
          EXPECT_FALSE(temporary) << name << " stores " << buffer.name << "\n"
                                  << scheduled->schedule;
        }
      }
    }
    EXPECT_GE(lowered, 3) << name;
  }
}

// The largest buffer that is neither an argument nor a packed operand, in elements.
int64_t largest_intermediate(const Nest& nest, const Kernel& kernel) {
  int64_t largest = 0;
  for (const Buffer& buffer : kernel.buffers) {
    const int stage = find_stage(nest, buffer.name);
    const bool copy = stage >= 0 && nest.stages[stage].copy_of >= 0;
    if (buffer.scope != Scope::kArgument && !copy) largest = std::max(largest, buffer.elements);
  }
  return largest;
}

TEST(FusionTest, BetweenTwoProductsThereIsABlockOfRows) {
  const std::vector<std::vector<std::string>> chains = {
      {"attention", "H=3", "S=128", "T=96", "D=32"},
      {"causal_attention", "H=3", "S=128", "D=32"},
      {"transpose_batch_matmul_softmax", "H=3", "S=128", "D=32"}};
  Rng rng(4);
  for (const std::vector<std::string>& words : chains) {
    const Nest start = fused_start(built_in(words));
    const std::vector<Sketch> space = make_space(start);
    const Sketch* blocks = find_sketch(space, kBlocks);
    ASSERT_NE(blocks, nullptr) << words[0];
    int small = 0;
    for (int n = 0; n < 20; ++n) {
      const absl::StatusOr<Sample> drawn = sample(start, *blocks, rng);
      ASSERT_TRUE(drawn.ok()) << drawn.status();
      int64_t rows = 0;
      for (const Step& step : drawn->trace) {
        if (step.names.size() == 2 && step.names[1] == "i" && rows == 0) rows = step.numbers[0];
      }
      ASSERT_GT(rows, 0) << to_text(drawn->trace);
      const std::optional<Scheduled> scheduled = schedule_kernel(drawn->nest, drawn->trace);
      if (!scheduled) continue;
      EXPECT_LE(largest_intermediate(drawn->nest, scheduled->kernel), rows * 128)
          << print(drawn->nest);
      small += rows < 128;
    }
    EXPECT_GT(small, 10) << words[0];
  }
}

// Two products in a row, whatever lies between them, also where the second reads windows of the
// first's rows (a convolution); not where nothing lies before a product.
TEST(FusionTest, BlocksOfRowsAreFoundByClass) {
  const auto blocks_of = [](std::shared_ptr<const Program> program) {
    return find_sketch(make_space(fused_start(std::move(program))), kBlocks) != nullptr;
  };
  EXPECT_TRUE(blocks_of(fused_program(
      "op p() {\n  in A: f32[64, 32]\n  in B: f32[32, 48]\n  in C: f32[48, 16]\n"
      "  S[i: 64, k: 48] = sum[l: 32](A[i, l] * B[l, k])\n  T[i: 64, k: 48] = max(S[i, k], 0)\n"
      "  out Y[i: 64, j: 16] = sum[k: 48](T[i, k] * C[k, j])\n}\n")));
  EXPECT_TRUE(blocks_of(fused_program(
      "op p() {\n  in X: f32[64, 32]\n  in B: f32[32, 48]\n"
      "  S[i: 64] = sum[k: 32](X[i, k] * X[i, k])\n"
      "  T[i: 64, k: 32] = X[i, k] * rsqrt(S[i] / 32 + 1e-5)\n"
      "  out Y[i: 64, j: 48] = sum[k: 32](T[i, k] * B[k, j])\n}\n")));
  EXPECT_TRUE(blocks_of(fused_program(
      "op p() {\n  in A: f32[64, 32]\n  in B: f32[32, 48]\n  in F: f32[3, 48, 16]\n"
      "  S[i: 64, k: 48] = sum[l: 32](A[i, l] * B[l, k])\n"
      "  out Y[i: 62, j: 16] = sum[r: 3, k: 48](S[i + r, k] * F[r, k, j])\n}\n")));
  EXPECT_FALSE(blocks_of(built_in({"matmul"})));
  EXPECT_FALSE(blocks_of(built_in({"dense_relu"})));
  EXPECT_FALSE(blocks_of(built_in({"softmax"})));
}

// What maps use at costs is computed once for its axes: statistics of channels and groups, divisors
// of columns, and values of two sets of axes. Under any schedule of the space that comes to the same.
TEST(FusionTest, WhatIsComputedBeforeMapsIsTheSame) {
  const std::string bodies[] = {
      "  in X: f32[40, 6, 5]\n  in s: f32[6, 5]\n"
      "  v[g: 6] = sum[p: 40, c: 5](X[p, g, c] * X[p, g, c]) / 200\n"
      "  out Y[p: 40, g: 6, c: 5] = X[p, g, c] * rsqrt(v[g] + 1) * s[g, c]\n}\n",
      "  in X: f32[3, 33, 20]\n  E[b: 3, i: 33, j: 20] = exp(X[b, i, j])\n"
      "  total[b: 3, j: 20] = sum[i: 33](E[b, i, j])\n"
      "  out Y[b: 3, i: 33, j: 20] = E[b, i, j] / total[b, j]\n}\n",
      "  in X: f32[4, 24, 17]\n  in a: f32[4, 17]\n  in b: f32[17]\n"
      "  out Y[n: 4, p: 24, c: 17] = X[n, p, c] * exp(a[n, c]) * tanh(b[c]) + tanh(b[c])\n}\n"};
  Rng rng(20261128);
  for (const std::string& body : bodies) {
    const auto program = fused_program("op p() {\n" + body);
    const std::vector<Data> in = random_inputs(*program, rng, false);
    const absl::StatusOr<std::vector<Data>> want = interpret(*program, in);
    ASSERT_TRUE(want.ok()) << want.status();
    for (const Machine& machine : machines()) {
      const Nest start = make_nest(program, std::make_shared<const Target>(machine.target), 1);
      const std::vector<Sketch> space = sketches_with(make_space(start), "precompute");
      ASSERT_FALSE(space.empty()) << body;
      for (int n = 0; n < 6; ++n) {
        const std::optional<Scheduled> drawn = draw_kernel(start, space, rng, 20);
        ASSERT_TRUE(drawn) << body;
        const std::unique_ptr<Loaded> code = load_on(machine, drawn->kernel);
        ASSERT_TRUE(code);
        const Data got = run_guarded(*code, drawn->kernel, *program, in, {}, n % 2 == 0)[0];
        for (size_t e = 0; e < got.bytes.size() / 4; ++e) {
          const double expected = load_element(Type::kF32, (*want)[0].bytes.data(), e);
          ASSERT_NEAR(load_element(Type::kF32, got.bytes.data(), e), expected,
                      1e-5 * (1 + std::abs(expected)))
              << machine.name << ", element " << e << " of\n" << body << drawn->schedule;
        }
      }
    }
  }
}


TEST(FusionTest, ScalarsHaveNoRowsToShare) {
  const Nest start = fused_start(fused_program(
      "op p() {\n  in X: f32[40, 8]\n  T[i: 40] = sum[j: 8](X[i, j])\n"
      "  s[] = max[i: 40](T[i])\n  out y[] = sqrt(s[])\n}\n"));
  for (const Sketch& sketch : make_space(start)) {
    EXPECT_NE(sketch.name, kBlocks);
    for (const Step& step : sketch.steps) EXPECT_NE(step.kind->name, std::string("compute_at"));
  }
}

TEST(FusionTest, ThreadsShareHeadsOrBlocks) {
  const Nest start = fused_start(built_in({"attention", "H=4", "S=64", "T=64", "D=32"}), 2);
  const std::vector<Sketch> space = make_space(start);
  const Sketch* blocks = find_sketch(space, kBlocks);
  ASSERT_NE(blocks, nullptr);
  Rng rng(5);
  int parallel = 0;
  for (int n = 0; n < 20; ++n) {
    const absl::StatusOr<Sample> drawn = sample(start, *blocks, rng);
    ASSERT_TRUE(drawn.ok()) << drawn.status();
    const int host = find_stage(drawn->nest, "O");
    for (const Loop& loop : drawn->nest.stages[host].loops)
      parallel += loop.kind == LoopKind::kParallel;
  }
  EXPECT_GT(parallel, 8);
}


// ---- masks

// What the definitions say that each tensor holds beyond a mask; nan: nothing.
std::map<std::string, double> known_outside(const std::string& mask, const std::string& beyond) {
  const auto program = fused_program(
      "op p() {\n  in Q: f32[24, 8]\n  in K: f32[24, 8]\n"
      "  P[i: 24, j: 24] = where(" + mask + ", sum[d: 8](Q[i, d] * K[j, d]), " + beyond + ")\n"
      "  top[i: 24] = max[j: 24](P[i, j])\n"
      "  E[i: 24, j: 24] = exp(P[i, j] - top[i])\n  out total[i: 24] = sum[j: 24](E[i, j])\n}\n");
  std::map<std::string, double> known;
  for (size_t t = 0; t < program->tensors.size(); ++t) {
    const std::optional<lowering::Outside> outside =
        lowering::outside_of(*program, static_cast<int>(t));
    if (outside) known[program->tensors[t].name] = outside->value;
  }
  return known;
}

TEST(MaskTest, BeyondAMaskScoresAreInfiniteAndTheirExponentialsZero) {
  using Known = std::map<std::string, double>;
  EXPECT_EQ(known_outside("j <= i", "-inf"), (Known{{"P", -INFINITY}, {"E", 0}}));
  EXPECT_EQ(known_outside("i + 2 > j", "-inf"), (Known{{"P", -INFINITY}, {"E", 0}}));
  // Row 0 has no key; nor may rows of a band have one; fifty is no infinity.
  EXPECT_EQ(known_outside("j < i", "-inf"), (Known{{"P", -INFINITY}}));
  EXPECT_EQ(known_outside("j <= i && i < j + 3", "-inf"), (Known{{"P", -INFINITY}}));
  EXPECT_EQ(known_outside("j <= i", "-50"), (Known{{"P", -50}}));
  EXPECT_EQ(known_outside("j == i", "-inf"), Known());
}

bool multiplies(const Stmt& s) {
  return s.op == Op::kFma || (s.op == Op::kBinary && s.expr_op == ExprOp::kMul);
}
bool exponentiates(const Stmt& s) { return s.op == Op::kUnary && s.expr_op == ExprOp::kExp; }

// Such operations that a kernel's loops run, those under a branch where it holds.
int64_t runs(const std::vector<Stmt>& list, bool (*counts)(const Stmt&), std::map<int, int64_t>& at) {
  int64_t sum = 0;
  const auto value = [&](const Affine& a) {
    int64_t v = a.constant;
    for (const Affine::Term& t : a.terms) v += t.coefficient * at.at(t.var);
    return v;
  };
  for (const Stmt& s : list) {
    if (s.kind == Stmt::Kind::kOp) sum += counts(s);
    if (s.kind == Stmt::Kind::kInt) {
      const int64_t a = value(s.a), b = value(s.b);
      at[s.var] = s.int_op == Stmt::IntOp::kMin   ? std::min(a, b)
                  : s.int_op == Stmt::IntOp::kMax ? std::max(a, b)
                                                  : a;
    }
    if (s.kind == Stmt::Kind::kFor) {
      for (int64_t i = 0; i < s.count; ++i) {
        at[s.var] = i;
        sum += runs(s.body, counts, at);
      }
    }
    if (s.kind != Stmt::Kind::kIf) continue;
    const bool holds = std::all_of(s.conditions.begin(), s.conditions.end(),
                                   [&](const Affine& c) { return value(c) >= 0; });
    sum += runs(holds ? s.body : s.otherwise, counts, at);
  }
  return sum;
}

int64_t runs_of(const Nest& start, const std::string& text,
                bool (*counts)(const Stmt&) = multiplies) {
  const absl::StatusOr<Trace> trace = parse_trace(text);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<Nest> nest = replay(start, *trace);
  EXPECT_TRUE(nest.ok()) << nest.status();
  std::map<int, int64_t> at;
  return runs(schedule_kernel(*nest, *trace)->kernel.body, counts, at);
}

// 64 rows in tiles of 4, 64 terms in steps of 4: of 16 x 16 blocks those on the diagonal and above.
TEST(MaskTest, BlocksBelowTheDiagonalOfAProductAreNotComputed) {
  const std::string head = "op p() {\n  in A: f32[64, 64]\n  in B: f32[64, 32]\n"
                           "  out C[i: 64, j: 32] = sum[k: 64](";
  const char* const tile = "register_tile(C, k, i, j; 4, 4, 32, 0, 0, 0)";
  const Nest whole = fused_start(fused_program(head + "A[i, k] * B[k, j])\n}\n")),
             half = fused_start(fused_program(head + "where(k >= i, A[i, k], 0) * B[k, j])\n}\n"));
  const int64_t block = 4 * 4 * 2;
  EXPECT_EQ(runs_of(whole, tile), 16 * 16 * block);
  EXPECT_EQ(runs_of(half, tile), 16 * 17 / 2 * block);
}

// The same of both products of attention: scores in tiles of 4 rows by 16 keys, outputs of 4 rows in
// steps of 4 keys. (Each score and each output is scaled, too.)
TEST(MaskTest, BlocksBeyondACausalMaskAreNotComputed) {
  const std::vector<std::string> sizes = {"H=1", "S=64", "D=16"};
  const auto of = [&](std::vector<std::string> words) {
    words.insert(words.end(), sizes.begin(), sizes.end());
    return fused_start(built_in(words));
  };
  const std::string trace =
      "reverse_inline(P, P_sum)\nreverse_inline(Y, O)\n"
      "register_tile(P_sum, d, i, j; 4, 4, 16, 0, 0, 0)\n"
      "register_tile(O, j, i, d; 4, 4, 16, 0, 0, 0)\n";
  // P: 16 rows of tiles by 4, 4 steps each, of 4 x 1 vectors by 4 terms; O: 16 by 16 steps alike.
  const int64_t scores = 4 * 4 * 4, outputs = 4 * 4;
  const int64_t scaled = 16 * 4 * 4 + 64;
  EXPECT_EQ(runs_of(of({"attention", "T=64"}), trace),
            16 * 4 * scores + 16 * 16 * outputs + scaled);
  const int64_t causal = runs_of(of({"causal_attention"}), trace);
  EXPECT_EQ(causal, (4 + 8 + 12 + 16) * scores + 16 * 17 / 2 * outputs + scaled);
}

// Tiles of 4 rows by 16 keys: those of 64 x 64 that the mask leaves something of.
TEST(MaskTest, ExponentialsBeyondACausalMaskAreZerosThatNobodyComputes) {
  const auto of = [](const char* op) {
    return fused_start(built_in({op, "H=1", "S=64", "D=16"}));
  };
  const std::string trace = "reverse_inline(P, P_sum)\nregister_tile(E, i, j; 4, 16, 0, 0)\n";
  EXPECT_EQ(runs_of(of("causal_attention"), trace, exponentiates), (4 + 8 + 12 + 16) * 4);
}

// Where no term counts the copy that stands among them would not be made, which the epilogue reads.
TEST(MaskTest, WhatTheEpilogueReadsIsThereWhereNothingIsSummed) {
  const auto program = fused_program(
      "op p() {\n  in A: i32[16, 12]\n  T[i: 16] = sum[k: 12](A[i, k])\n"
      "  out Y[i: 16] = where(i < 3, T[i], A[i, 2])\n}\n");
  const absl::StatusOr<Trace> trace = parse_trace("stage(T, A; 2, -1, 0)\nreverse_inline(Y, T)\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<Nest> nest = replay(fused_start(program), *trace);
  ASSERT_TRUE(nest.ok()) << nest.status();
  const std::optional<Scheduled> scheduled = schedule_kernel(*nest, *trace);
  ASSERT_TRUE(scheduled.has_value());
  Rng rng(3);
  const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/true);
  const Machine machine = machines().front();
  const absl::StatusOr<Artifact> artifact =
      machine.backend->build(scheduled->kernel, machine.target);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  const absl::StatusOr<std::unique_ptr<Loaded>> code = load(*artifact);
  ASSERT_TRUE(code.ok()) << code.status();
  const std::vector<Data> got = run_guarded(**code, scheduled->kernel, *program, in, {}, true);
  EXPECT_EQ(got[0].bytes, (*interpret(*program, in))[0].bytes) << print(*nest);
}

}  // namespace
}  // namespace lw
