// Whatever program the language takes has a real space: more than one schedule that can be lowered,
// with vectors in it, and a reason for whatever the rules left out. And what is drawn from it is
// right: the library, the examples, programs of every rank and type, norms over any axes, random
// programs. LW_PROGRAMS says how many of these, LW_SEED which.
#include <cstdio>
#include <map>
#include <set>

#include "src/base/message.h"
#include "src/expr/language/text.h"
#include "src/search/search.h"
#include "tests/support/close_results.h"
#include "tests/support/program.h"
#include "tests/support/random_program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kPrograms = 200;         // a sanitizer costs ten times as much
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int64_t kPrograms = 200;
#else
constexpr int64_t kPrograms = 2000;
#endif
#else
constexpr int64_t kPrograms = 2000;
#endif

constexpr double kFewPoints = 16;

std::shared_ptr<const Target> target_named(const char* name) {
  return std::make_shared<const Target>(*find_target(name));
}

std::shared_ptr<const Program> parsed(const std::string& text) {
  absl::StatusOr<Program> program = parse_program(text, "p");
  EXPECT_TRUE(program.ok()) << program.status() << text;
  if (!program.ok()) return nullptr;
  return std::make_shared<const Program>(*std::move(program));
}

// The most points that a stage runs over: where all is inlined into one there is nothing to choose.
double points_of(const Nest& nest) {
  double most = 1;
  for (const Stage& stage : nest.stages) {
    if (stage.place == Place::kInlined || stage.place == Place::kEpilogue) continue;
    double points = 1;
    for (const NestAxis& axis : stage.axes) points *= static_cast<double>(axis.extent);
    // A reduction's axis that the terms do not depend on asks for no decision.
    const Tensor& tensor = nest.program->tensors[static_cast<size_t>(stage.tensor)];
    std::vector<bool> read(tensor.axes.size() + tensor.reduce_axes.size(), stage.copy_of >= 0);
    if (stage.copy_of < 0) {
      visit(tensor.body, [&](const ExprNode& node) {
        if (node.op == ExprOp::kAxis) read[static_cast<size_t>(node.index)] = true;
      });
    }
    for (size_t r = 0; r < tensor.reduce_axes.size(); ++r) {
      if (!read[tensor.axes.size() + r]) points /= static_cast<double>(tensor.reduce_axes[r].extent);
    }
    most = std::max(most, points);
  }
  return most;
}

bool has_vectors(const std::vector<Stmt>& list, const Kernel& kernel) {
  for (const Stmt& s : list) {
    if (s.kind == Stmt::Kind::kOp && s.dst >= 0 && kernel.registers[s.dst].lanes > 1) return true;
    if (has_vectors(s.body, kernel) || has_vectors(s.otherwise, kernel)) return true;
  }
  return false;
}

// What the draws of a space come to; a draw that is refused must say why.
struct Found {
  std::vector<Scheduled> kernels;          // different ones
  std::set<std::string> sketches;          // of which one was lowered
  bool vectors = false;
  double size = 0, points = 1;
};

// `draws` of each sketch, and up to `more` until two kernels are there: of some sketches most draws
// are too large.
Found draw_all(const Nest& start, Rng& rng, int draws, int more = 0) {
  Found found;
  std::vector<Refusal> refusals;
  const std::vector<Sketch> space = make_space(start, &refusals);
  std::set<uint64_t> seen;
  for (const Refusal& refusal : refusals) {
    EXPECT_NE(refusal.why.find("is infeasible: "), std::string::npos) << refusal.why;
    EXPECT_FALSE(refusal.sketch.empty());
  }
  for (const Sketch& sketch : space) {
    EXPECT_FALSE(sketch.last_resort);
    found.size += estimate_size(start, sketch, rng);
    for (int i = 0; i < draws + (found.kernels.size() < 2 ? more : 0); ++i) {
      const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
      if (!drawn.ok()) {
        EXPECT_EQ(drawn.status().code(), absl::StatusCode::kFailedPrecondition) << drawn.status();
        continue;
      }
      found.points = std::max(found.points, points_of(drawn->nest));
      std::optional<Scheduled> scheduled = schedule_kernel(drawn->nest, drawn->trace);
      if (!scheduled) continue;
      found.vectors = found.vectors || has_vectors(scheduled->kernel.body, scheduled->kernel);
      found.sketches.insert(sketch.name);
      if (seen.insert(hash(scheduled->kernel)).second) found.kernels.push_back(*std::move(scheduled));
    }
  }
  return found;
}

void expect_real(const Found& found) {
  EXPECT_FALSE(found.kernels.empty());
  if (found.points > 1) EXPECT_TRUE(found.vectors);
  // One vector may be all that there is to a loop of few points.
  if (found.points > kFewPoints) EXPECT_GT(found.size, 1);
}

// The kernels' results, on the interpreter and (where `machine` is one) as machine code.
void expect_reference(const Program& program, const std::vector<Scheduled>& kernels, Rng& rng,
                      const Machine& machine) {
  const std::vector<Data> in = random_inputs(program, rng, /*integers=*/true);
  const absl::StatusOr<std::vector<Data>> want = interpret(program, in, 2e6);
  ASSERT_TRUE(want.ok()) << want.status();
  const std::vector<int> out = outputs(program);
  for (const Scheduled& scheduled : kernels) {
    const std::unique_ptr<Loaded> code = load_on(machine, scheduled.kernel);
    ASSERT_NE(code, nullptr);
    const std::vector<Data> got = run_guarded(*code, scheduled.kernel, program, in, {}, true);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(compare(program.tensors[out[i]], got[i].bytes.data(), (*want)[i].bytes.data(),
                        tolerance(program)),
                "")
          << machine.name << "\n" << scheduled.schedule;
    }
  }
}

void expect_real_and_right(const std::string& text, int draws = 2) {
  SCOPED_TRACE(text);
  const std::shared_ptr<const Program> program = parsed(text);
  ASSERT_NE(program, nullptr);
  Rng rng(7);
  for (const char* target : {"x86_avx512", "x86_avx2"}) {
    const Nest start = make_nest(program, target_named(target), 1);
    const Found found = draw_all(start, rng, draws);
    expect_real(found);
    expect_reference(*program, found.kernels, rng, machines()[0]);
    for (const Machine& machine : machines()) {
      if (machine.name == target) expect_reference(*program, found.kernels, rng, machine);
    }
  }
}

// Lanes along the reduction, in every type: those of 16-bit floats are f32 in registers.
TEST(EverySpace, ExtremesOfEveryType) {
  for (const char* type : {"f16", "bf16", "f32", "f64", "i8", "u8", "i32", "i64"}) {
    for (int64_t n : {2, 3, 8, 17, 64}) {
      const std::string t = type, size = std::to_string(n);
      expect_real_and_right("op p() {\n  in A: " + t + "[" + size + "]\n  out Y[] = max[i: " +
                            size + "](A[i])\n}\n");
    }
    const std::string t = type;
    expect_real_and_right("op p() {\n  in A: " + t + "[5, 67]\n  out Y[i: 5] = min[j: 67](A[i, j])\n"
                          "  out Z[j: 67] = max[i: 5](A[i, j])\n}\n");
    expect_real_and_right("op p() {\n  in A: " + t + "[67, 4]\n  out Y[] = max[j: 4, i: 67](where("
                          "j % 3 == 0, A[i, j], 0)) + A[30, 0]\n}\n");
  }
  expect_real_and_right("op p() {\n  in A: f16[6, 40]\n  M[i: 6] = max[j: 40](A[i, j])\n"
                        "  E[i: 6, j: 40] = A[i, j] - M[i]\n  L[i: 6] = min[j: 40](E[i, j])\n"
                        "  out Y[i: 6, j: 40] = E[i, j] + L[i]\n}\n");
}

// Quotients of quotients: elementwise maps of any rank run over all their axes as one, or apart.
TEST(EverySpace, MapsOfEveryRank) {
  static constexpr const char* kAxes[] = {"a", "b", "c", "d", "e"};
  static constexpr const char* kTypes[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64",
                                           "i16", "bool"};
  const std::vector<std::vector<int64_t>> shapes = {
      {7}, {100}, {3, 5}, {2, 2, 2}, {4, 8, 24}, {3, 5, 17}, {48, 3, 19}, {16, 15, 16},
      {1, 7, 5}, {6, 1, 10}, {2, 3, 5, 7}, {3, 4, 1, 33}, {2, 3, 2, 5, 3}, {5, 2, 2, 2, 2}};
  int apart = 0, number = 0;
  for (const std::vector<int64_t>& shape : shapes) {
    std::string extents, axes, points;
    for (size_t d = 0; d < shape.size(); ++d) {
      const std::string comma = d == 0 ? "" : ", ";
      extents += concat(comma, shape[d]);
      axes += concat(comma, kAxes[d], ": ", shape[d]);
      points += concat(comma, kAxes[d]);
    }
    const std::string type = kTypes[number++ % std::size(kTypes)];
    const std::string head =
        "op p() {\n  in A: " + type + "[" + extents + "]\n  in B: " + type + "[" + extents + "]\n";
    expect_real_and_right(head + "  out Y[" + axes + "] = A[" + points + "]\n}\n");
    if (type == "bool") continue;
    const std::string sum =
        head + "  out Y[" + axes + "] = A[" + points + "] + B[" + points + "]\n}\n";
    expect_real_and_right(sum);
    Rng rng(3);
    const Nest start = make_nest(parsed(sum), target_named("x86_avx512"), 1);
    const Found found = draw_all(start, rng, 6);
    EXPECT_TRUE(found.sketches.contains("lanes along the result")) << sum;
    apart += found.sketches.contains("lanes along the result, axes apart");
  }
  EXPECT_GE(apart, 11);                    // all of rank 2 and more
}

// Reductions at their reader's rows, over several axes, which are one where they lie in memory so.
TEST(EverySpace, NormsOverSeveralAxes) {
  const std::vector<std::pair<std::string, std::string>> norms = {
      {"[8, 16, 16]", "T[i: 8] = sum[j: 16, k: 16](A[i, j, k])\n"
                      "  out Y[i: 8, j: 16, k: 16] = A[i, j, k] - T[i]"},
      {"[5, 7]", "T[i: 5] = sum[j: 7](A[i, j])\n  out Y[i: 5, j: 7] = A[i, j] - T[i]"},
      {"[5, 7, 9]", "T[j: 7] = sum[i: 5, k: 9](A[i, j, k])\n"
                    "  out Y[i: 5, j: 7, k: 9] = A[i, j, k] - T[j]"},
      {"[3, 4, 5, 6]", "T[a: 3] = max[b: 4, c: 5, d: 6](A[a, b, c, d])\n"
                       "  out Y[a: 3, b: 4, c: 5, d: 6] = A[a, b, c, d] - T[a]"},
      {"[3, 4, 5, 6]", "T[a: 3, c: 5] = sum[b: 4, d: 6](A[a, b, c, d])\n"
                       "  out Y[a: 3, b: 4, c: 5, d: 6] = A[a, b, c, d] - T[a, c]"},
      {"[2, 3, 4, 3, 5]", "T[a: 2, b: 3] = sum[c: 4, d: 3, e: 5](A[a, b, c, d, e])\n"
                          "  V[a: 2, b: 3] = sum[c: 4, d: 3, e: 5]((A[a, b, c, d, e] - T[a, b]) * "
                          "A[a, b, c, d, e])\n  out Y[a: 2, b: 3, c: 4, d: 3, e: 5] = "
                          "(A[a, b, c, d, e] - T[a, b]) + V[a, b]"},
      {"[4, 6]", "T[] = sum[i: 4, j: 6](A[i, j])\n  out Y[i: 4, j: 6] = A[i, j] - T[]"}};
  for (const char* type : {"f32", "i32", "f64"}) {
    for (const auto& [shape, body] : norms)
      expect_real_and_right(concat("op p() {\n  in A: ", type, shape, "\n  ", body, "\n}\n"));
  }
  // Both axes, as one loop, stand at the row that reads their sum.
  const Nest start = make_nest(parsed(concat("op p() {\n  in A: f32", norms[0].first, "\n  ",
                                             norms[0].second, "\n}\n")),
                               target_named("x86_avx512"), 1);
  const std::string steps = to_text(make_space(start)[0].steps);
  EXPECT_NE(steps.find("compute_at(T, Y; 1)"), std::string::npos) << steps;
  EXPECT_NE(steps.find("fuse(T, j, k)"), std::string::npos) << steps;
  EXPECT_NE(steps.find("register_tile(T, j*k"), std::string::npos) << steps;
}

// An index that was flattened and is taken apart again lies in memory as it was.
TEST(EverySpace, SumsThroughAFlattenedIndex) {
  const std::string text = "op p() {\n  in A: f32[9, 8, 13]\n"
                           "  out Y[] = sum[f: 936](A[f / 104, f / 13 % 8, f % 13])\n}\n";
  expect_real_and_right(text);
  expect_real_and_right("op p() {\n  in A: f32[9, 8, 13]\n"
                        "  out Y[i: 9] = sum[f: 104](A[i, f / 13, f % 13])\n}\n");
  expect_real_and_right("op p() {\n  in A: i32[24, 7]\n"
                        "  out Y[f: 168] = A[f / 7, f % 7] * 2\n}\n");
  const std::shared_ptr<const Program> program = parsed(text);
  Rng rng(5);
  const Found found = draw_all(make_nest(program, target_named("x86_avx512"), 1), rng, 3);
  for (const Scheduled& scheduled : found.kernels)
    EXPECT_EQ(print(scheduled.kernel).find("indices"), std::string::npos) << scheduled.schedule;
}

TEST(EverySpace, ReadsThatAreNeverTaken) {
  expect_real_and_right("op p() {\n  in A: f32[2, 2]\n  out Y[b: 2] = where(b >= 3, A[b, b], 0)\n"
                        "}\n");
  expect_real_and_right("op p() {\n  in A: f32[9]\n"
                        "  out Y[b: 9] = where(b / 4 > 2, A[b * 7], A[b])\n}\n");
}

// Small extents, odd where the operator takes that.
std::optional<Program> reduced(const OpDefinition& op, Rng& rng) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::map<std::string, std::string> values;
    for (const Parameter& parameter : op.parameters) {
      const std::string& text = parameter.default_text;
      const bool whole = text.find_first_not_of("0123456789") == std::string::npos;
      if (whole && text.size() < 18 && std::stoll(text) > 4)
        values[parameter.name] = std::to_string(2 + rng.below(40));
    }
    absl::StatusOr<Program> program = instantiate(op, values);
    if (program.ok()) return *std::move(program);
  }
  return std::nullopt;
}

TEST(EverySpace, OfTheLibraryAndTheExamples) {
  std::vector<OpDefinition> ops = builtin_ops();
  for (const char* file : {"dense_relu.te", "operators.te"}) {
    std::string path = concat(LW_SOURCE_DIR, "/examples/", file), text(1 << 16, '\0');
    std::FILE* in = std::fopen(path.c_str(), "r");
    ASSERT_NE(in, nullptr) << path;
    text.resize(std::fread(text.data(), 1, text.size(), in));
    std::fclose(in);
    const absl::StatusOr<Module> module = parse_module(text, path);
    ASSERT_TRUE(module.ok()) << module.status();
    ops.insert(ops.end(), module->ops.begin(), module->ops.end());
  }
  for (size_t o = 0; o < ops.size(); ++o) {
    Rng rng = Rng(1).split(o);
    for (int shape = 0; shape < 3; ++shape) {
      SCOPED_TRACE(concat(ops[o].name, " ", shape));
      std::optional<Program> program =
          shape == 0 ? *instantiate(ops[o], {}) : reduced(ops[o], rng);
      ASSERT_TRUE(program.has_value());
      const Nest start = make_nest(std::make_shared<const Program>(*std::move(program)),
                                   target_named(shape == 2 ? "x86_avx2" : "x86_avx512"),
                                   1 + shape % 2);
      const Found found = draw_all(start, rng, 3, 40);
      expect_real(found);
      EXPECT_GE(found.kernels.size(), found.points > kFewPoints ? 2u : 1u);
    }
  }
}

TEST(EverySpace, OfRandomPrograms) {
  const int64_t programs = setting("LW_PROGRAMS", kPrograms), seed = setting("LW_SEED", 1);
  int tried = 0, kernels = 0;
  for (int64_t n = 0; n < programs && !HasFailure(); ++n) {
    Rng rng = Rng(seed + 77).split(n);
    ProgramWriter writer(rng);
    const std::string text = writer.write();
    const absl::StatusOr<Program> program = parse_program(text, "p");
    if (!program.ok()) continue;
    SCOPED_TRACE(concat("program ", n, "\n", text));
    const Nest start = make_nest(std::make_shared<const Program>(*program),
                                 target_named(n % 2 ? "x86_avx2" : "x86_avx512"),
                                 1 + static_cast<int>(n % 3));
    const Found found = draw_all(start, rng, 2);
    expect_real(found);
    ++tried;
    kernels += static_cast<int>(found.kernels.size());
    if (n % 20 == 0 && interpret(*program, random_inputs(*program, rng, true), 2e6).ok())
      expect_reference(*program, found.kernels, rng, machines()[0]);
  }
  std::printf("%d programs, %d kernels\n", tried, kernels);
  EXPECT_GT(tried, programs / 2);
}

// Where nothing of a space can be lowered, the last resort is searched, and said.
TEST(EverySpace, TheLastResortIsTiledAndSaid) {
  const std::shared_ptr<const Program> program =
      parsed("op p() {\n  in A: f32[40, 30]\n  T[i: 40] = sum[j: 30](A[i, j])\n"
             "  out Y[i: 40, j: 30] = A[i, j] - T[i]\n}\n");
  const Nest start = make_nest(program, target_named("x86_avx512"), 2);
  const Sketch plain = last_resort(start);
  EXPECT_TRUE(plain.last_resort);
  const std::string steps = to_text(plain.steps);
  EXPECT_NE(steps.find("register_tile(T,"), std::string::npos) << steps;
  EXPECT_NE(steps.find("register_tile(Y,"), std::string::npos) << steps;
  EXPECT_NE(steps.find("parallel(Y"), std::string::npos) << steps;
  SearchOptions options;
  EXPECT_EQ(Search(start, options, nullptr).only_last_resort(), "");
  options.space = {plain};
  Search search(start, options, nullptr);
  EXPECT_NE(search.only_last_resort(), "");
  EXPECT_TRUE(search.zero_trial().ok());
  Rng rng(1);
  std::vector<Scheduled> kernels;
  for (int i = 0; i < 5; ++i) {
    const absl::StatusOr<Sample> drawn = sample(start, plain, rng);
    ASSERT_TRUE(drawn.ok()) << drawn.status();
    kernels.push_back(*schedule_kernel(drawn->nest, drawn->trace));
    EXPECT_TRUE(has_vectors(kernels.back().kernel.body, kernels.back().kernel));
  }
  expect_reference(*program, kernels, rng, machines()[0]);
}

// A space of which nothing can be lowered names the sketch, the step and the reason.
TEST(EverySpace, SaysWhyNothingCanBeLowered) {
  const std::shared_ptr<const Program> program =
      parsed("op p() {\n  in A: f32[3, 11]\n  out Y[i: 11, j: 3] = A[j, i]\n}\n");
  const Nest start = make_nest(program, target_named("x86_avx2"), 1);
  SearchOptions options;
  options.space = {{"scattered",
                    *parse_trace("reorder(Y, j, i; 1)\nfuse(Y, j, i)\nvectorize(Y, j*i)"),
                    {false, false, false}}};
  Search search(start, options, nullptr);
  const absl::Status status = search.zero_trial().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_NE(status.ToString().find("'scattered': "), std::string::npos) << status;
  EXPECT_NE(status.ToString().find("infeasible: "), std::string::npos) << status;
}

}  // namespace
}  // namespace lw
