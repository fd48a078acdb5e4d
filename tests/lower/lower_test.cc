// Lowering: every operator of the library, unscheduled and under random schedules, against the
// reference through the interpreter of kernels; and what the kernels of known schedules look like.
#include <functional>
#include <map>

#include "loopwright/type.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

constexpr int kSchedules = 3;
constexpr int kAttempts = 40;

std::shared_ptr<const Target> target_named(const char* name) {
  return std::make_shared<const Target>(*find_target(name));
}

std::shared_ptr<const Program> program_of(const std::vector<std::string>& words) {
  const absl::StatusOr<Program> program = load_workload(words);
  EXPECT_TRUE(program.ok()) << program.status();
  return std::make_shared<const Program>(*program);
}

// The kernel of a trace, on the widest machine.
Kernel kernel_of_trace(const std::vector<std::string>& words, std::string_view text,
                       int threads = 1) {
  const Nest start = make_nest(program_of(words), target_named("x86_avx512"), threads);
  const absl::StatusOr<Trace> trace = parse_trace(text);
  EXPECT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<Nest> nest = replay(start, *trace);
  EXPECT_TRUE(nest.ok()) << nest.status();
  if (!nest.ok()) return {};
  std::optional<Scheduled> scheduled = schedule_kernel(*nest, *trace);
  EXPECT_TRUE(scheduled.has_value());
  return scheduled ? std::move(scheduled->kernel) : Kernel();
}

using Matches = std::function<bool(const Stmt&)>;

int count(const std::vector<Stmt>& list, const Matches& matches) {
  int found = 0;
  for (const Stmt& s : list)
    found += matches(s) + count(s.body, matches) + count(s.otherwise, matches);
  return found;
}

Matches op(Op op) {
  return [op](const Stmt& s) { return s.kind == Stmt::Kind::kOp && s.op == op; };
}
bool is_loop(const Stmt& s) { return s.kind == Stmt::Kind::kFor; }
bool is_branch(const Stmt& s) { return s.kind == Stmt::Kind::kIf; }
bool is_strided(const Stmt& s) {
  return (op(Op::kLoad)(s) || op(Op::kStore)(s)) && (s.stride != 0 && s.stride != 1);
}

std::vector<const Stmt*> innermost_loops(const std::vector<Stmt>& list) {
  std::vector<const Stmt*> loops;
  for (const Stmt& s : list) {
    for (const std::vector<Stmt>* inside : {&s.body, &s.otherwise}) {
      const std::vector<const Stmt*> inner = innermost_loops(*inside);
      loops.insert(loops.end(), inner.begin(), inner.end());
    }
    if (is_loop(s) && count(s.body, is_loop) == 0) loops.push_back(&s);
  }
  return loops;
}

const std::vector<std::string> kOddMatmul = {"matmul", "M=37", "N=41", "K=19"};

TEST(LowerTest, ComposedTailsNeedNoConditions) {
  const Kernel kernel = kernel_of_trace(kOddMatmul, "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)");
  EXPECT_EQ(count(kernel.body, is_branch), 0);
  // 37 = 4 * 8 + 5 rows, 41 = 32 + 9 columns, 19 = 4 * 4 + 3 terms: eight instances, each unrolled
  // once into rows x vectors x terms.
  EXPECT_EQ(count(kernel.body, op(Op::kFma)), (8 + 5) * (2 + 1) * (4 + 3));
}

TEST(LowerTest, MaskedRowsAreNotStored) {
  const Kernel kernel = kernel_of_trace(kOddMatmul, "register_tile(C, k, i, j; 4, 8, 32, 0, 1, 0)");
  EXPECT_EQ(count(kernel.body, is_branch), 0);
  EXPECT_EQ(count(kernel.body, op(Op::kFma)), 8 * (2 + 1) * (4 + 3));
  // 9 columns are always masked, rows 5, 6 and 7 of the last tile do not exist.
  const auto is_masked = [](const Stmt& s) { return op(Op::kStore)(s) && s.mask >= 0; };
  EXPECT_EQ(count(kernel.body, is_masked), 8 + 2 * 3);
}

TEST(LowerTest, ShiftedRowsRunFullTilesOnly) {
  const Kernel kernel = kernel_of_trace(kOddMatmul, "register_tile(C, k, i, j; 4, 8, 32, 0, 2, 0)");
  EXPECT_EQ(count(kernel.body, is_branch), 0);
  EXPECT_EQ(count(kernel.body, op(Op::kFma)), 8 * (2 + 1) * (4 + 3));
  EXPECT_EQ(count(kernel.body, [](const Stmt& s) {
    return s.kind == Stmt::Kind::kInt && s.int_op == Stmt::IntOp::kMin;
  }), 1);
}

TEST(LowerTest, AccumulatorsAreRegisters) {
  const Kernel kernel = kernel_of_trace(kOddMatmul, "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)");
  int products = 0;
  for (const Stmt* loop : innermost_loops(kernel.body)) {
    products += count(loop->body, op(Op::kFma));
    EXPECT_EQ(count(loop->body, op(Op::kStore)), 0);
    EXPECT_EQ(count(loop->body, op(Op::kMove)), 0);
  }
  EXPECT_GT(products, 0);
  EXPECT_EQ(kernel.workspace_bytes + kernel.private_bytes, 0);
  // Reduction loops further out keep partial sums in memory, and only they read the result.
  const auto reads_result = [](const Kernel& k) {
    return count(k.body, [&](const Stmt& s) {
      return op(Op::kLoad)(s) && k.buffers[s.buffer].name == "C";
    });
  };
  EXPECT_EQ(reads_result(kernel), 0);
  const Kernel blocked = kernel_of_trace({"matmul", "M=32", "N=32", "K=64"},
                                         "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)\n"
                                         "split(C, k.0; 4, 0)\nreorder(C, k.0.0, i.0, j.0; 0)\n");
  EXPECT_GT(reads_result(blocked), 0);
}

TEST(LowerTest, EpiloguesRunOnRegisters) {
  const Kernel kernel = kernel_of_trace({"dense_relu", "M=16", "N=64", "K=32"},
                                        "reverse_inline(D, C)\n"
                                        "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)\n");
  EXPECT_EQ(kernel.workspace_bytes + kernel.private_bytes, 0);
  EXPECT_EQ(count(kernel.body, op(Op::kStore)), 8 * 2);
  EXPECT_EQ(count(kernel.body, [](const Stmt& s) {
    return op(Op::kBinary)(s) && s.expr_op == ExprOp::kMax;
  }), 8 * 2);
}

TEST(LowerTest, TransposesHappenInRegisters) {
  const Kernel kernel =
      kernel_of_trace({"transpose", "M=64", "N=64"}, "register_tile(Y, j, i; 16, 16, 0, 0)\n");
  EXPECT_EQ(count(kernel.body, op(Op::kTranspose)), 1);
  EXPECT_EQ(count(kernel.body, op(Op::kLoad)), 16);
  EXPECT_EQ(count(kernel.body, op(Op::kStore)), 16);
  EXPECT_EQ(count(kernel.body, is_strided), 0);
  const Kernel plain = kernel_of_trace({"transpose", "M=64", "N=64"}, "vectorize(Y, i)\n");
  EXPECT_GT(count(plain.body, is_strided), 0);
}

TEST(LowerTest, ConstOperandsArePrepacked) {
  const std::string trace =
      "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)\nstage(C, B; 0, 1, 32)\n";
  const Kernel dense = kernel_of_trace({"dense", "M=16", "N=64", "K=32"}, trace);
  EXPECT_EQ(dense.packed_bytes, 64 * 32 * 4);
  EXPECT_EQ(dense.workspace_bytes, 0);
  EXPECT_GT(count(dense.prepack, op(Op::kStore)), 0);
  const auto reads_b = [&](const Stmt& s) {
    return op(Op::kLoad)(s) && dense.buffers[s.buffer].name == "B";
  };
  EXPECT_GT(count(dense.prepack, reads_b), 0);
  EXPECT_EQ(count(dense.body, reads_b), 0);
  // The same copy of an operand that changes is made in every call.
  const Kernel matmul = kernel_of_trace({"matmul", "M=16", "N=64", "K=32"}, trace);
  EXPECT_EQ(matmul.packed_bytes, 0);
  EXPECT_EQ(matmul.workspace_bytes, 64 * 32 * 4);
  EXPECT_TRUE(matmul.prepack.empty());
}

TEST(LowerTest, ParallelLoopsOfOneNestAreOneLoop) {
  const Kernel kernel = kernel_of_trace({"matmul", "M=32", "N=64", "K=32"},
                                        "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)\n"
                                        "fuse(C, i.0, j.0)\nparallel(C; 0, 1)\n", 2);
  const auto is_parallel = [](const Stmt& s) { return is_loop(s) && s.parallel; };
  EXPECT_EQ(count(kernel.body, is_parallel), 1);
  EXPECT_EQ(count(kernel.body, [&](const Stmt& s) { return is_parallel(s) && s.count == 4 * 2; }),
            1);
}

// The branch that runs full tiles knows that they are inside: no access in it is masked.
TEST(LowerTest, FullTilesOfAPeeledParallelLoopAreNotMasked) {
  const Kernel kernel = kernel_of_trace({"matmul", "M=20", "N=64", "K=32"},
                                        "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)\n"
                                        "parallel(C; 0, 1)\n", 2);
  EXPECT_EQ(count(kernel.body, is_branch), 1);
  EXPECT_GT(count(kernel.body, op(Op::kLoad)), 0);
  EXPECT_EQ(count(kernel.body, [](const Stmt& s) { return op(Op::kLoad)(s) && s.mask >= 0; }), 0);
  EXPECT_EQ(count(kernel.body, [](const Stmt& s) { return op(Op::kSelect)(s); }), 0);
}

// How far, in elements, the first prefetch looks ahead of the load beside it.
int64_t looks_ahead(std::string_view prefetch) {
  const std::string trace = "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)\n";
  const Kernel kernel =
      kernel_of_trace({"matmul", "M=16", "N=256", "K=64"}, trace + std::string(prefetch));
  const Stmt *asked = nullptr, *loaded = nullptr;
  for (const Stmt* loop : innermost_loops(kernel.body)) {
    for (const Stmt& s : loop->body) {
      if (asked == nullptr && op(Op::kPrefetch)(s)) asked = &s;
      if (asked != nullptr && loaded == nullptr && op(Op::kLoad)(s)) loaded = &s;
    }
  }
  if (loaded == nullptr || asked->buffer != loaded->buffer) return -1;
  const Affine ahead = asked->index - loaded->index;
  return ahead.is_constant() ? ahead.constant : -1;
}

// A window over an edge: rows of the image by a branch, the tile's own points by running the tiles
// at the edges apart, where each row knows its taps. Nothing is masked, no padding is multiplied.
TEST(LowerTest, PaddingIsDecidedOutsideTheTile) {
  const std::vector<std::string> conv = {"conv2d", "H=12", "W=12", "CI=16", "CO=32"};
  const Kernel kernel = kernel_of_trace(conv, "register_tile(Y, ci, x, co; 4, 4, 32, 0, 0)");
  EXPECT_EQ(count(kernel.body, op(Op::kSelect)), 0);
  EXPECT_EQ(count(kernel.body, op(Op::kLaneMask)), 0);
  // Of the 3 taps of 4 points in two vectors, 4 times unrolled, the first and the last tile lack
  // one point each; the tile between them has a loop over the taps.
  EXPECT_EQ(count(kernel.body, op(Op::kFma)), 4 * 2 * (11 + 4 + 11));
}

// A transposed convolution meets every second pixel only: each tap of an unrolled window has its
// own rows, and rows of the image that a tap does not meet are passed by. No zero is multiplied.
TEST(LowerTest, ZerosBetweenThePixelsAreNotMultiplied) {
  const std::vector<std::string> conv = {"conv2d_transpose", "H=4", "W=4", "CI=16", "CO=32"};
  const Kernel kernel = kernel_of_trace(conv, "register_tile(Y, ci, x, co; 4, 8, 32, 0, 0)");
  EXPECT_EQ(count(kernel.body, op(Op::kSelect)), 0);
  EXPECT_EQ(count(kernel.body, op(Op::kLaneMask)), 0);
  // 4 pixels meet 4 taps each; two of these points lie outside the result.
  EXPECT_EQ(count(kernel.body, op(Op::kFma)), (4 * 4 - 2) * 2 * 4);
}

// Cut into phases, both axes of the picture fit one tile: its weights are loaded once.
TEST(LowerTest, PhasesOfATransposedConvolutionAreUnrolled) {
  const std::vector<std::string> conv = {"conv2d_transpose", "H=4", "W=4", "CI=16", "CO=32"};
  const Kernel kernel = kernel_of_trace(
      conv, "phase(Y, y; 2)\nphase(Y, x; 2)\nreorder(Y, y.p, x.p, y.q, x.q; 0)\n"
            "register_tile(Y, ci, y.q, x.q, co; 4, 4, 4, 16, 0, 0, 0, 0)");
  EXPECT_EQ(count(kernel.body, op(Op::kSelect)), 0);
  EXPECT_EQ(count(kernel.body, op(Op::kLaneMask)), 0);
  EXPECT_EQ(count(kernel.body, op(Op::kFma)), (4 * 4 - 2) * (4 * 4 - 2) * 4);
}

// Where a row of the window decides at run time, what lies outside is not even loaded under a mask.
TEST(LowerTest, RowsOutsideAreNotLoaded) {
  const Kernel kernel = kernel_of_trace(
      {"conv2d_depthwise", "H=8", "W=8", "C=32", "R=2", "S=2"},
      "register_tile(Y, r, x, c; 2, 4, 32, 0, 0, 0)");
  EXPECT_GT(count(kernel.body, op(Op::kSelect)), 0);
  EXPECT_EQ(count(kernel.body, [](const Stmt& s) { return op(Op::kLoad)(s) && s.mask >= 0; }), 0);
}

// 40 channels a group in masked tiles of 32, the second of which is its own code: the lanes that exist
// share a group, so that the pixel is one element for both vectors.
TEST(LowerTest, MaskedLanesOfAGroupShareWhatTheyRead) {
  const Kernel kernel = kernel_of_trace(
      {"conv2d_grouped", "H=4", "W=4", "CI=8", "CO=80", "R=1", "S=1", "pad=0", "groups=2"},
      "split(Y, co; 40, 0)\nregister_tile(Y, ci, x, co.1; 1, 4, 32, 0, 0, 1)");
  EXPECT_EQ(count(kernel.body, op(Op::kFma)), 2 * 4 * 2);
  const auto loads = [&](auto how) {
    return count(kernel.body, [&](const Stmt& s) { return op(Op::kLoad)(s) && how(s); });
  };
  EXPECT_EQ(loads([](const Stmt& s) { return s.indices >= 0; }), 0);
  EXPECT_EQ(loads([](const Stmt& s) { return s.stride == 0; }), 2 * 4);
}

// Where the taps of a window are unrolled, what one of them loaded is not held for the next.
TEST(LowerTest, TapsAtTheEdgesAreFenced) {
  const Kernel kernel = kernel_of_trace({"conv2d", "H=12", "W=12", "CI=16", "CO=32"},
                                        "register_tile(Y, ci, x, co; 4, 4, 32, 0, 0, 0)");
  EXPECT_EQ(count(kernel.body, op(Op::kFence)), 2 * 3);
}

// Tiles of a parallel loop stand nowhere in particular: those inside the image are not masked.
TEST(LowerTest, PaddingIsDecidedByABranchWhereTilesStandAnywhere) {
  const std::vector<std::string> conv = {"conv2d", "H=12", "W=12", "CI=16", "CO=32"};
  const Kernel kernel = kernel_of_trace(
      conv, "register_tile(Y, ci, x, co; 4, 4, 32, 0, 0)\nparallel(Y, n, y, x.0; 3)", 2);
  const std::vector<const Stmt*> loops = innermost_loops(kernel.body);
  ASSERT_EQ(loops.size(), 2u);             // inside the image; over an edge
  EXPECT_EQ(count(loops[0]->body, op(Op::kSelect)), 0);
  EXPECT_GT(count(loops[1]->body, op(Op::kSelect)), 0);
}

TEST(LowerTest, PrefetchesLookAlongEitherLoop) {
  EXPECT_EQ(looks_ahead("prefetch(C, B; 2)"), 2 * 4 * 256);  // two unrolled blocks of 4 rows
  EXPECT_EQ(looks_ahead("prefetch(C, B; 1, 1)"), 32);        // the next tile of columns
}

TEST(LowerTest, HashTellsKernelsApart) {
  const char* tile = "register_tile(C, k, i, j; 4, 8, 32, 0, 0, 0)";
  const Kernel once = kernel_of_trace(kOddMatmul, tile);
  EXPECT_EQ(hash(once), hash(kernel_of_trace(kOddMatmul, tile)));
  const char* other = "register_tile(C, k, i, j; 4, 4, 32, 0, 0, 0)";
  EXPECT_NE(hash(once), hash(kernel_of_trace(kOddMatmul, other)));
  // No copy is no difference: decisions that come to the same are measured once.
  const std::string no_copy = std::string(tile) + "\nstage(C, B; -1, -1, 0)";
  EXPECT_EQ(hash(once), hash(kernel_of_trace(kOddMatmul, no_copy)));
}

TEST(LowerTest, LimitsAreInfeasibleNotErrors) {
  const Nest nest = make_nest(program_of({"softmax", "M=8", "N=8"}), target_named("x86_avx2"), 1);
  LowerOptions options;
  options.max_statements = 3;
  EXPECT_EQ(lower(nest, options).status().code(), absl::StatusCode::kFailedPrecondition);
  options = {};
  options.max_workspace_bytes = 16;
  EXPECT_EQ(lower(nest, options).status().code(), absl::StatusCode::kFailedPrecondition);
}

// The count sorts out most of what is too large, and nothing that is not.
TEST(LowerTest, SizesAreKnownBeforehand) {
  LowerOptions options;
  options.max_statements = 2000;
  int too_large = 0, foreseen = 0;
  Rng rng(1);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"conv2d_transpose", "N=1", "H=16", "W=16", "CI=32", "CO=64"},
        {"conv2d_bn_relu", "N=1", "H=57", "W=57", "CI=3", "CO=64", "R=7", "S=7", "stride=2"},
        {"matmul", "M=100", "N=130", "K=70"},
        {"dense_u8i8", "M=64", "N=96", "K=64"},
        {"softmax", "M=100", "N=130"}}) {
    const Nest start = make_nest(program_of(words), target_named("x86_avx512_bf16"), 1);
    const std::vector<Sketch> space = make_space(start);
    for (int i = 0; i < 150; ++i) {
      const Sketch& sketch = space[rng.below(static_cast<int64_t>(space.size()))];
      const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
      if (!drawn.ok()) continue;
      const absl::Status made = lower(drawn->nest, options).status();
      const absl::Status checked = count_statements(drawn->nest, options).status();
      if (made.ok()) EXPECT_TRUE(checked.ok()) << words[0] << "\n" << to_text(drawn->trace);
      if (made.message() != "infeasible: the unrolled program is too large") continue;
      ++too_large;
      foreseen += checked == made;
    }
  }
  EXPECT_GT(too_large, 50);
  EXPECT_GT(foreseen, too_large * 3 / 4) << too_large;
}

// Fused against the order of memory: lanes over both axes would have to be scattered.
TEST(LowerTest, AVectorAcrossAxesThatAreApartIsInfeasible) {
  const Nest start = make_nest(program_of({"transpose", "M=3", "N=11"}),
                               target_named("x86_avx2"), 1);
  for (const char* text : {"reorder(Y, i, j; 0)\nfuse(Y, i, j)\nvectorize(Y, i*j)",
                           "fuse(Y, j, i)\nvectorize(Y, j*i)"}) {
    const absl::StatusOr<Nest> nest = replay(start, *parse_trace(text));
    ASSERT_TRUE(nest.ok()) << nest.status();
    const absl::Status status = lower(*nest).status();
    EXPECT_EQ(status.code(), text[0] == 'f' ? absl::StatusCode::kOk
                                            : absl::StatusCode::kFailedPrecondition) << status;
    if (!status.ok()) {
      EXPECT_EQ(status.message(), "infeasible: a vector of Y would be stored to scattered places");
    }
  }
}

// Extents small enough for the reference, odd where the operator takes that; redrawn until it does.
std::map<std::string, std::string> reduced_parameters(const OpDefinition& op, Rng& rng) {
  constexpr int64_t kKept = 4, kLargest = 19;
  while (true) {
    std::map<std::string, std::string> values;
    for (const Parameter& parameter : op.parameters) {
      const std::string& text = parameter.default_text;
      const bool whole = text.find_first_not_of("0123456789") == std::string::npos;
      if (!whole || std::stoll(text) <= kKept) continue;
      const bool window =
          op.name.find("conv") == 0 || op.name.find("attention") != std::string::npos;
      values[parameter.name] = std::to_string(2 + rng.below((window ? 9 : kLargest) - 1));
    }
    if (instantiate(op, values).ok()) return values;
  }
}

// "" when all elements agree: integers exactly, floats to the rounding of short sums.
std::string difference(const Tensor& tensor, const Data& got, const Data& want) {
  const double eps = tensor.type == Type::kF64 ? 1e-9 : tensor.type == Type::kF32 ? 1e-4 : 2e-2;
  for (int64_t i = 0; i < elements(tensor); ++i) {
    const double x = load_element(tensor.type, got.bytes.data(), i);
    const double y = load_element(tensor.type, want.bytes.data(), i);
    const bool same =
        x == y || (std::isnan(x) && std::isnan(y)) ||
        (is_float(tensor.type) && std::abs(x - y) <= eps * std::max(1.0, std::abs(y)));
    if (same) continue;
    return tensor.name + "[" + text(i) + "] is " + std::to_string(x) + ", not " + std::to_string(y);
  }
  return "";
}

TEST(LowerTest, EveryOperatorComputesTheReference) {
  static constexpr const char* kTargets[] = {"x86_avx512", "x86_avx2", "x86_sse2"};
  const Machine& interpreter = machines()[0];
  for (size_t o = 0; o < builtin_ops().size(); ++o) {
    const OpDefinition& op = builtin_ops()[o];
    Rng rng = Rng(5).split(o);
    const std::map<std::string, std::string> parameters = reduced_parameters(op, rng);
    SCOPED_TRACE(op.name + " " + testing::PrintToString(parameters));
    const auto program = std::make_shared<const Program>(*instantiate(op, parameters));
    const std::vector<Data> in = random_inputs(*program, rng, /*integers=*/false);
    const absl::StatusOr<std::vector<Data>> want = interpret(*program, in);
    ASSERT_TRUE(want.ok()) << want.status();
    for (int n = 0; n <= kSchedules; ++n) {
      const Nest start = make_nest(program, target_named(kTargets[n % 3]), 1 + n % 2);
      const std::optional<Scheduled> scheduled =
          n == 0 ? schedule_kernel(start, {})
                 : draw_kernel(start, make_space(start), rng, kAttempts, {.max_statements = 4000});
      ASSERT_TRUE(scheduled.has_value()) << "schedule " << n;
      const std::unique_ptr<Loaded> code = load_on(interpreter, scheduled->kernel);
      ASSERT_NE(code, nullptr);
      const std::vector<Data> got =
          run_guarded(*code, scheduled->kernel, *program, in, {}, n % 2 == 0);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(difference(program->tensors[outputs(*program)[i]], got[i], (*want)[i]), "")
            << start.target->name << "\n" << scheduled->schedule;
      }
    }
  }
}

// Runs the program under each trace, its buffers between pages that nobody may touch.
void expect_reference(const std::string& text, const std::vector<const char*>& traces,
                      std::vector<Data> in = {}) {
  const absl::StatusOr<Program> parsed = parse_program(text, "p");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto program = std::make_shared<const Program>(*parsed);
  Rng rng(3);
  if (in.empty()) in = random_inputs(*program, rng, /*integers=*/true);
  const absl::StatusOr<std::vector<Data>> want = interpret(*program, in);
  ASSERT_TRUE(want.ok()) << want.status();
  const Nest start = make_nest(program, target_named("x86_avx512"), 1);
  for (const char* trace : traces) {
    const absl::StatusOr<Nest> nest = replay(start, *parse_trace(trace));
    ASSERT_TRUE(nest.ok()) << nest.status() << trace;
    const std::optional<Scheduled> scheduled = schedule_kernel(*nest, *parse_trace(trace));
    ASSERT_TRUE(scheduled.has_value()) << trace;
    const std::unique_ptr<Loaded> code = load_on(machines()[0], scheduled->kernel);
    ASSERT_NE(code, nullptr);
    for (const bool at_end : {false, true}) {
      const std::vector<Data> got =
          run_guarded(*code, scheduled->kernel, *program, in, {}, at_end);
      EXPECT_EQ(difference(program->tensors[outputs(*program)[0]], got[0], (*want)[0]), "")
          << text << trace;
    }
  }
}

// Not by their difference, which overflows: any two numbers may be compared.
TEST(LowerTest, DataIsComparedAsItIs) {
  const int64_t values[] = {INT64_MIN, -1, 0, 1, INT64_MAX};
  std::vector<Data> in(2);
  for (int n = 0; n < 50; ++n) {
    const auto* value = reinterpret_cast<const std::byte*>(&values[n < 25 ? n / 5 : n % 5]);
    in[n / 25].bytes.insert(in[n / 25].bytes.end(), value, value + sizeof(int64_t));
  }
  expect_reference("op p() {\n  in A: i64[25]\n  in B: i64[25]\n"
                   "  out Y[i: 25] = where(A[i] < B[i], cast(i32, 1), 0) + where(A[i] <= B[i], 2, 0) + "
                   "where(A[i] > B[i], 4, 0) + where(A[i] >= B[i], 8, 0) + "
                   "where(A[i] == B[i], 16, 0) + where(A[i] != B[i], 32, 0)\n}\n",
                   {"vectorize(Y, i)", "unroll(Y, i)"}, in);
}

// The last step of a reduction in masked tiles adds nothing, and yet is the one that finishes.
TEST(LowerTest, AMaskedStepOfAReductionFinishesItsPoints) {
  expect_reference("op p() {\n  in A: f32[7, 5]\n  T[b: 5] = max[k: 7](A[k, b])\n"
                   "  out Y[b: 5] = T[b] * 2\n}\n",
                   {"reverse_inline(Y, T)\nreorder(T, k, b; 0)\nsplit(T, k; 4, 1)",
                    "reorder(T, k, b; 0)\nsplit(T, k; 4, 1)",
                    "split(T, k; 4, 1)\nsplit(T, b; 2, 1)"});
}

// Four rows of 13 in unrolled tiles, the last of which is moved back over three others.
TEST(LowerTest, PointsOfAnUnrolledTileCountOnce) {
  expect_reference("op p() {\n  in A: f32[13, 6]\n  out Y[b: 13] = sum[k: 6](A[b, k])\n}\n",
                   {"split(Y, b; 4, 2)\nunroll(Y, b.0)\nunroll(Y, b.1)\nunroll(Y, k)"});
}

// The lanes' indices differ, but not their address; with no lane on, there is none.
TEST(LowerTest, AnAddressThatLanesShareIsReadWhereItExists) {
  expect_reference("op p() {\n  in A: f32[9, 13, 1]\n"
                   "  out Y[a: 9] = sum[k: 11](pad(A[a, 12 - k, a + k - 2], 0))\n}\n",
                   {"vectorize(Y, k)"});
}

// Lanes along two axes that lie in memory as one: what masks their last tile is their own number,
// not a quotient for every lane.
TEST(LowerTest, FusedLanesAreMaskedWithoutDivisions) {
  const std::string text = "op p() {\n  in X: f32[12, 37]\n  out y[] = sum[i: 12, j: 37](X[i, j])\n}\n";
  const char* trace = "fuse(y, i, j)\nregister_tile(y, i*j; 64, 1)";
  expect_reference(text, {trace});
  const auto program = std::make_shared<const Program>(*parse_program(text, "p"));
  const Nest start = make_nest(program, target_named("x86_avx512"), 1);
  const Kernel kernel =
      schedule_kernel(*replay(start, *parse_trace(trace)), *parse_trace(trace))->kernel;
  EXPECT_GT(count(kernel.body, op(Op::kLaneMask)), 0);
  EXPECT_EQ(count(kernel.body, [](const Stmt& s) {
    return op(Op::kBinary)(s) && s.expr_op == ExprOp::kGe;
  }), 0);
}

}  // namespace
}  // namespace lw
