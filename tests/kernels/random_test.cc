// The property that all of scheduling rests on: random expression x random trace = reference.
// A nest is lowered, verified, built and run between guard pages, its parallel loops in a hostile
// order, its workspace and outputs poisoned; every output must equal the interpreter's.
//
// The second half turns each legality check off and looks for a trace that is then wrong: a check
// that nothing needs would be a bug of the check. Those runs happen in a child process, as what is
// illegal may also crash.
//
// LW_SEED names the pairs, LW_FIRST and LW_PAIRS bound those that are tried (to repeat one of
// them).
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "schedules/legality.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "tests/kernels/random_trace.h"
#include "tests/support/build_helpers.h"
#include "tests/support/close_results.h"
#include "tests/support/program.h"
#include "tests/support/random_program.h"

namespace lw {
namespace {

// Any order is allowed, so take the one that a wrong dependence shows in: the last iteration first.
void run_backwards(void*, int64_t count, void (*body)(void*, int64_t, int64_t), void* closure) {
  for (int64_t n = count; n-- > 0;) body(closure, n, n % 3);
}

// LW_KERNELS=1 shows the kernels of failures too: thousands of lines where tails multiply.
std::string kernel_text(const Kernel& kernel) {
  return setting("LW_KERNELS", 0) ? print(kernel) : "";
}

struct Problem {
  std::string text;
  std::shared_ptr<const Program> program;
  std::vector<Data> in, expected;
};

enum class Form { kAny, kChain, kConvolution, kScaled };

std::optional<Problem> random_problem(Rng& rng, Form form = Form::kAny) {
  Problem problem;
  ProgramWriter writer(rng);
  problem.text = form == Form::kChain         ? writer.write_chain()
                 : form == Form::kConvolution ? writer.write_convolution()
                 : form == Form::kScaled      ? writer.write_scaled()
                                              : writer.write();
  const absl::StatusOr<Module> module = parse_module(problem.text, "random");
  if (!module.ok()) return std::nullopt;
  absl::StatusOr<Program> program = instantiate(module->ops[0], {});
  if (!program.ok()) return std::nullopt;
  problem.program = std::make_shared<const Program>(*std::move(program));
  for (int tensor : inputs(*problem.program)) {
    problem.in.push_back(random_input(*problem.program, tensor, rng.next(), /*integers=*/true));
  }
  absl::StatusOr<std::vector<Data>> expected = interpret(*problem.program, problem.in, 2e6);
  if (!expected.ok()) return std::nullopt;
  problem.expected = *std::move(expected);
  return problem;
}

std::string run(const Problem& problem, const Kernel& kernel, const Machine& machine, bool at_end) {
  const absl::StatusOr<Artifact> artifact = machine.backend->build(kernel, machine.target);
  if (!artifact.ok()) return concat("build: ", artifact.status().ToString());
  const absl::StatusOr<std::unique_ptr<Loaded>> code = load(*artifact);
  if (!code.ok()) return concat("load: ", code.status().ToString());
  const Program& program = *problem.program;
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<void*> table;
  const auto add = [&](int64_t bytes) {
    memory.push_back(std::make_unique<GuardedMemory>(bytes, at_end));
    std::memset(memory.back()->data(), 0x7f, bytes);
    return memory.back()->data();
  };
  for (int tensor : arguments(program)) table.push_back(add(bytes(program.tensors[tensor])));
  for (size_t n = 0; n < problem.in.size(); ++n) {
    std::memcpy(table[n], problem.in[n].bytes.data(), problem.in[n].bytes.size());
  }
  const auto rounded = [](int64_t size) { return (size + 63) / 64 * 64; };
  lw_context context = {run_backwards, nullptr, 3, nullptr, nullptr};
  context.workspace = add(rounded(kernel.workspace_bytes) + 3 * rounded(kernel.private_bytes));
  context.packed = kernel.packed_bytes > 0 ? add(rounded(kernel.packed_bytes)) : nullptr;
  if (kernel.packed_bytes > 0 && (*code)->prepack(&context, table.data()) != 0)
    return "prepack refused";
  if ((*code)->run(&context, table.data()) != 0) return "refused";
  for (size_t n = 0; n < problem.in.size(); ++n) {
    if (std::memcmp(table[n], problem.in[n].bytes.data(), problem.in[n].bytes.size()) != 0)
      return "an input changed";
  }
  const std::vector<int> out = outputs(program);
  const double eps = tolerance(program);
  for (size_t n = 0; n < out.size(); ++n) {
    const std::byte* got = static_cast<const std::byte*>(table[problem.in.size() + n]);
    std::string difference =
        compare(program.tensors[out[n]], got, problem.expected[n].bytes.data(), eps);
    if (!difference.empty()) return difference;
  }
  return "";
}

// What accepted traces contained.
struct Histogram {
  std::map<std::string, int> counts;

  void add(const Nest& nest, const Trace& trace) {
    std::map<std::string, int> here;
    for (const Step& step : trace) here[concat("step ", step.kind->name)] = 1;
    for (const Tensor& tensor : nest.program->tensors)
      here[concat("type ", type_name(tensor.type))] = 1;
    static constexpr const char* kTails[] = {"compose", "mask", "shift"};
    static constexpr const char* kPlaces[] = {"", "computed at a loop", "inlined", "epilogue",
                                              "prepacked copy"};
    for (const Stage& stage : nest.stages) {
      if (stage.place != Place::kRoot) {
        const bool copy = stage.place == Place::kAt && stage.copy_of >= 0;
        here[concat("fusion ", copy ? "copy at a loop" : kPlaces[static_cast<int>(stage.place)])] =
            1;
      } else if (stage.copy_of >= 0) {
        here["fusion copy at the root"] = 1;
      }
      if (stage.factored_axis >= 0) here["fusion partial results"] = 1;
      if (stage.block > 0) here["layout blocks"] = 1;
      if (stage.place == Place::kInlined || stage.place == Place::kEpilogue) continue;
      for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l) {
        const Loop& loop = stage.loops[l];
        for (int p = 0; p < static_cast<int>(loop.parts.size()); ++p) {
          if (range_of(stage, l, p) % loop.parts[p].tile != 0) {
            here[concat("tail ", kTails[static_cast<int>(loop.tail)])] = 1;
          }
        }
      }
    }
    for (const auto& [name, count] : here) counts[name] += count;
  }
};

// What a check off favours: the steps that can break what it guards.
struct Guard {
  Legality check;
  const char* name;
  std::vector<std::string> favoured;
};
const std::vector<Guard>& guards() {
  static const std::vector<Guard>* all = new std::vector<Guard>{
      {Legality::kParallelReduction, "kParallelReduction", {"parallel", "reorder"}},
      {Legality::kShiftAccumulates, "kShiftAccumulates", {"split", "reorder"}},
      {Legality::kInlineReduction, "kInlineReduction", {"inline_producer"}},
      {Legality::kEpilogueIdentity, "kEpilogueIdentity", {"reverse_inline"}},
      {Legality::kComputeAtConsumers, "kComputeAtConsumers", {"compute_at"}},
      {Legality::kChainOrder, "kChainOrder", {"split", "reorder"}},
      {Legality::kVectorInnermost, "kVectorInnermost", {"vectorize", "reorder"}},
      {Legality::kRfactorReduction, "kRfactorReduction", {"rfactor"}},
      {Legality::kEpilogueStoredElsewhere, "kEpilogueStoredElsewhere", {"reverse_inline"}},
      {Legality::kStageReadsFinal, "kStageReadsFinal", {"stage", "compute_at"}},
  };
  return *all;
}

std::shared_ptr<const Target> target_of(Rng& rng) {
  static constexpr const char* kNames[] = {"x86_avx512",    "x86_avx2",        "x86_sse2",
                                           "x86_avx2_vnni", "x86_avx512_bf16", "x86_avx512_bf16"};
  static const std::vector<std::shared_ptr<const Target>>* all = [] {
    auto* list = new std::vector<std::shared_ptr<const Target>>;
    for (const char* name : kNames)
      list->push_back(std::make_shared<const Target>(*find_target(name)));
    return list;
  }();
  return (*all)[rng.below(std::size(kNames))];
}

TEST(RandomTest, EveryTraceComputesTheReference) {
  const int64_t pairs = setting("LW_PAIRS", 4000), seed = setting("LW_SEED", 1);
  Histogram histogram;
  int attempted = 0, accepted = 0, run_count = 0, lowered = 0, tried = 0, failures = 0;
  for (int64_t pair = setting("LW_FIRST", 0); pair < pairs && failures < 5; ++pair) {
    Rng rng = Rng(seed).split(pair);
    const bool convolution = pair % 16 == 7;
    const std::optional<Problem> problem =
        random_problem(rng, convolution     ? Form::kConvolution
                            : pair % 8 == 5 ? Form::kScaled
                                              : Form::kAny);
    if (!problem) continue;
    const Nest start =
        make_nest(problem->program, target_of(rng), 1 + static_cast<int>(rng.below(3)));
    Nest nest = start;
    using Favoured = std::vector<std::string>;
    TraceWriter writer(rng, convolution     ? Favoured{"winograd"}
                            : pair % 4 == 3 ? Favoured{"dot"}  // few types have one
                                            : Favoured{});
    const Trace trace = writer.write(nest, 4 + static_cast<int>(rng.below(20)));
    attempted += writer.attempted;
    accepted += writer.accepted;
    ++tried;
    const std::string what = concat("pair ", pair, " on ", start.target->name, "\n", problem->text,
                                    to_text(trace), print(nest));
    ASSERT_TRUE(verify(nest).ok()) << verify(nest) << "\n" << what;
    const absl::StatusOr<Kernel> kernel = lower(nest);
    if (!kernel.ok()) {
      EXPECT_EQ(kernel.status().code(), absl::StatusCode::kFailedPrecondition)
          << kernel.status() << "\n"
          << what;
      const std::string why(kernel.status().message());
      std::printf("  pair %d is refused: %s\n", static_cast<int>(pair), why.c_str());
      continue;
    }
    ++lowered;
    const absl::Status status = verify(*kernel);
    if (!status.ok()) {
      ADD_FAILURE() << status << "\n" << what << kernel_text(*kernel);
      ++failures;
      continue;
    }
    histogram.add(nest, trace);
    for (const Machine& machine : machines()) {
      // Machine code on one pair in ten: LLVM takes a hundred times the interpreter's time.
      if (machine.name != "interpreter" && (machine.name != start.target->name || pair % 10 != 0))
        continue;
      ++run_count;
      const std::string difference = run(*problem, *kernel, machine, pair % 2 == 0);
      if (difference.empty()) continue;
      ++failures;
      ADD_FAILURE() << machine.name << ": " << difference << "\n" << what << kernel_text(*kernel);
      break;
    }
  }
  std::printf("%d problems, %d kernels, %d runs; %d of %d steps accepted\n", tried, lowered,
              run_count, accepted, attempted);
  for (const auto& [name, count] : histogram.counts)
    std::printf("  %6d  %s\n", count, name.c_str());
  EXPECT_GT(accepted, attempted * 30 / 100);
  EXPECT_GT(lowered, tried * 30 / 100);
  if (pairs < 4000) return;
  // (tests/lower draws those of NPUs.)
  for (const StepKind* kind : kinds_of(*find_target("host")))
    EXPECT_GE(histogram.counts[concat("step ", kind->name)], 50) << kind->name;
  for (const auto& [name, count] : histogram.counts) EXPECT_GE(count, 50) << name;
  for (const char* name : {"compose", "mask", "shift"})
    EXPECT_GE(histogram.counts[concat("tail ", name)], 50) << name;
  for (Type type : kAllTypes)
    EXPECT_GE(histogram.counts[concat("type ", type_name(type))], 50) << type_name(type);
}

// What is fused at rows, as the rules of the space do it: softmax of products, attention. And
// convolutions where Winograd's algorithm is allowed.
TEST(RandomTest, EverySketchOfAChainComputesTheReference) {
  const int64_t seed = setting("LW_SEED", 1), chains = setting("LW_CHAINS", 250);
  int runs = 0, blocked = 0, transformed = 0, failures = 0, too_large = 0;
  for (int64_t n = setting("LW_FIRST", 0); n < chains && failures < 5; ++n) {
    Rng rng = Rng(seed + 1000).split(n);
    const bool convolution = n % 5 == 4;
    const std::optional<Problem> problem =
        random_problem(rng, convolution ? Form::kConvolution : Form::kChain);
    if (!problem) {                        // too large for the reference
      too_large += !convolution;
      continue;
    }
    Nest start = make_nest(problem->program, target_of(rng), 1 + static_cast<int>(rng.below(3)));
    start.winograd = convolution;
    for (const Sketch& sketch : make_space(start)) {
      const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
      if (!drawn.ok()) continue;
      const std::string what =
          concat("chain ", n, " on ", start.target->name, ", ", sketch.name, "\n", problem->text,
                 to_text(drawn->trace), print(drawn->nest));
      ASSERT_TRUE(verify(drawn->nest).ok()) << verify(drawn->nest) << "\n" << what;
      const absl::StatusOr<Kernel> kernel = lower(drawn->nest);
      if (!kernel.ok()) continue;
      ASSERT_TRUE(verify(*kernel).ok()) << verify(*kernel) << "\n" << what;
      blocked += sketch.name == "blocks of rows";
      transformed += drawn->nest.error_growth > 1;
      for (const Machine& machine : machines()) {
        const bool compiled = machine.name != "interpreter";
        if (compiled && (machine.name != start.target->name || n % 10 != 0)) continue;
        ++runs;
        const std::string difference = run(*problem, *kernel, machine, n % 2 == 0);
        if (difference.empty()) continue;
        ++failures;
        ADD_FAILURE() << machine.name << ": " << difference << "\n" << what;
      }
    }
  }
  std::printf("%d runs; %d kernels of blocks of rows, %d of Winograd's algorithm\n", runs, blocked,
              transformed);
  EXPECT_LE(too_large, 1 + chains / 50);
  EXPECT_GE(blocked, chains / 2);
  EXPECT_GE(transformed, chains / 5);
}

// One problem with a check off: whether anything notices.
bool goes_wrong(const Problem& problem, Nest nest, Rng& rng, const Guard& guard) {
  nest.unchecked = 1u << static_cast<int>(guard.check);
  const Nest start = nest;
  TraceWriter writer(rng, guard.favoured);
  const Trace trace = writer.write(nest, 4 + static_cast<int>(rng.below(12)));
  // Only what the check would have refused tells anything about it. (An epilogue's host is stored
  // by the lowering: there the trace is legal either way.)
  Nest checked = start;
  checked.unchecked = 0;
  if (guard.check != Legality::kEpilogueStoredElsewhere && replay(checked, trace).ok())
    return false;
  if (!verify(nest).ok()) return true;
  const absl::StatusOr<Kernel> kernel = lower(nest);
  if (!kernel.ok()) return kernel.status().code() != absl::StatusCode::kFailedPrecondition;
  if (!verify(*kernel).ok()) return true;
  return !run(problem, *kernel, machines()[0], true).empty();
}

bool any_goes_wrong(int first, int end, const Guard& guard) {
  try {
    for (int n = first; n < end; ++n) {
      Rng rng = Rng(2).split(n);
      const std::optional<Problem> problem = random_problem(rng);
      if (!problem) continue;
      const Nest nest = make_nest(problem->program, target_of(rng), 2);
      if (goes_wrong(*problem, nest, rng, guard)) return true;
    }
  } catch (...) {  // the library's, from what an illegal nest led to
    return true;
  }
  return false;
}

TEST(RandomTest, EveryLegalityCheckIsNeeded) {
  constexpr int kMaxProblems = 3000, kBatch = 50;
  machines();  // prints its skips once, before the children
  for (const Guard& guard : guards()) {
    int found_after = -1;
    for (int first = 0; first < kMaxProblems && found_after < 0; first += kBatch) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
        _exit(any_goes_wrong(first, first + kBatch, guard) ? 1 : 0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 2);
      if (status != 0) found_after = first + kBatch;
    }
    std::printf("  without %s: wrong within %d problems\n", guard.name, found_after);
    EXPECT_GE(found_after, 0) << guard.name;
  }
}

}  // namespace
}  // namespace lw
