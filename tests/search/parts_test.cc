// Programs of many stages and their parts: what is a part, which are the same, and that schedules of
// all parts are one of the whole.
#include "schedules/parts.h"

#include <set>

#include "src/expr/reference/interpret.h"
#include "tests/support/close_results.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

struct Whole {
  std::shared_ptr<const Program> program;
  Nest start;
};

Whole whole_of(const std::vector<std::string>& words) {
  std::vector<std::string> in_file = words;
  in_file[0] = std::string(LW_SOURCE_DIR) + "/bench/workloads/fused.te:" + words[0];
  const absl::StatusOr<Program> program = load_workload(in_file);
  EXPECT_TRUE(program.ok()) << program.status();
  const auto shared = std::make_shared<const Program>(*program);
  return {shared, make_nest(shared, std::make_shared<const Target>(*find_target("x86_avx2")), 1)};
}

const std::vector<std::vector<std::string>>& small_programs() {
  static const std::vector<std::vector<std::string>> programs = {
      {"encoder_block", "S=9", "D=16", "H=2", "F=20"},
      {"swiglu_mlp", "M=7", "D=12", "F=18"},
      {"lstm_step", "B=5", "I=9", "H=11"},
      {"convnext_block", "H=6", "W=5", "C=8", "R=3"},
      {"batch_norm_relu", "P=33", "C=20"},
      {"both_sides", "M=30", "N=21"},
      {"squeeze_excite", "P=20", "C=12", "R=5"}};
  return programs;
}

// The first draw of a sketch that can be made; its nest says what stands where.
Nest drawn_nest(const Whole& whole, const Sketch& sketch, Rng& rng) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    absl::StatusOr<Sample> drawn = sample(whole.start, sketch, rng);
    if (drawn.ok()) return std::move(drawn->nest);
  }
  ADD_FAILURE() << sketch.name;
  return whole.start;
}

TEST(Parts, EveryDefinitionIsInSome) {
  Rng rng(3);
  for (const std::vector<std::string>& words : small_programs()) {
    const Whole whole = whole_of(words);
    for (const Sketch& sketch : make_space(whole.start)) {
      std::set<std::string> seen;
      for (const Part& part : parts_of(*whole.program, drawn_nest(whole, sketch, rng))) {
        for (const Tensor& tensor : part.program.tensors) {
          if (tensor.body != nullptr) seen.insert(part.names.at(tensor.name));
        }
      }
      for (const Tensor& tensor : whole.program->tensors) {
        if (tensor.body != nullptr) EXPECT_TRUE(seen.contains(tensor.name)) << tensor.name;
      }
    }
  }
}

// The projections of an encoder block are one program.
TEST(Parts, ThoseThatDifferInNamesAreTheSame) {
  const Whole whole = whole_of({"encoder_block"});
  Rng rng(1);
  std::map<std::string, std::set<std::string>> results;
  const Nest nest = drawn_nest(whole, make_space(whole.start)[1], rng);
  for (const Part& part : parts_of(*whole.program, nest)) {
    for (const int t : outputs(part.program)) {
      results[canonical_text(part.program)].insert(part.names.at(part.program.tensors[t].name));
    }
  }
  const auto projections = std::find_if(results.begin(), results.end(), [](const auto& entry) {
    return entry.second.contains("Q");
  });
  ASSERT_NE(projections, results.end());
  EXPECT_EQ(projections->second, (std::set<std::string>{"K", "Q", "V"}));
}

// Draws of all parts, joined, compute the program.
TEST(Parts, TheirSchedulesTogetherAreOneOfTheWhole) {
  Rng rng(7);
  const Machine machine = machines().front();  // the interpreter
  int joined = 0, refused = 0;
  for (const std::vector<std::string>& words : small_programs()) {
    const Whole whole = whole_of(words);
    const std::vector<Data> in = random_inputs(*whole.program, rng, /*integers=*/false);
    const absl::StatusOr<std::vector<Data>> want = interpret(*whole.program, in, 1e9);
    ASSERT_TRUE(want.ok()) << want.status();
    for (const Sketch& sketch : make_space(whole.start)) {
      const std::vector<Part> parts = parts_of(*whole.program, drawn_nest(whole, sketch, rng));
      std::vector<Trace> traces;
      for (const Part& part : parts) {
        const auto program = std::make_shared<const Program>(part.program);
        const Nest start = make_nest(program, whole.start.target, 1);
        const std::vector<Sketch> space = make_space(start);
        for (int attempt = 0; attempt < 20; ++attempt) {
          const absl::StatusOr<Sample> drawn = sample(start, space[0], rng);
          if (!drawn.ok()) continue;
          traces.push_back(drawn->trace);
          break;
        }
      }
      ASSERT_EQ(traces.size(), parts.size()) << words[0];
      const absl::StatusOr<Trace> trace = join_parts(whole.start, parts, traces);
      if (!trace.ok()) {
        ++refused;
        continue;
      }
      ++joined;
      EXPECT_TRUE(is_of(sketch_of(whole.start, *trace), *trace));
      const std::optional<Scheduled> scheduled =
          schedule_kernel(*replay(whole.start, *trace), *trace);
      ASSERT_TRUE(scheduled.has_value()) << to_text(*trace);
      const absl::StatusOr<Artifact> artifact =
          machine.backend->build(scheduled->kernel, machine.target);
      ASSERT_TRUE(artifact.ok()) << artifact.status();
      const absl::StatusOr<std::unique_ptr<Loaded>> code = load(*artifact);
      ASSERT_TRUE(code.ok()) << code.status();
      const std::vector<Data> got =
          run_guarded(**code, scheduled->kernel, *whole.program, in, {}, /*at_end=*/true);
      const std::vector<int> out = outputs(*whole.program);
      for (size_t o = 0; o < out.size(); ++o) {
        EXPECT_EQ(compare(whole.program->tensors[out[o]], got[o].bytes.data(),
                          (*want)[o].bytes.data(), 1e-3), "")
            << words[0] << "\n" << to_text(*trace);
      }
    }
  }
  EXPECT_GT(joined, 4 * refused);
}

// What a result that others read may not do is left out; what cannot be done is said.
TEST(Parts, HintsThatDoNotApplyAreLeftOut) {
  const Whole whole = whole_of({"lstm_step", "B=5", "I=9", "H=11"});
  Rng rng(5);
  const Nest nest = drawn_nest(whole, make_space(whole.start)[0], rng);
  const std::vector<Part> parts = parts_of(*whole.program, nest);
  ASSERT_GT(parts.size(), 1u);
  std::vector<Trace> traces(parts.size());
  const int first = outputs(parts[0].program)[0];
  const std::string name = parts[0].program.tensors[first].name;
  traces[0] = *parse_trace("non_temporal(" + name + "; 1)\nprefetch(" + name + ", nobody; 1)\n");
  const absl::StatusOr<Trace> joined = join_parts(whole.start, parts, traces);
  ASSERT_TRUE(joined.ok()) << joined.status();
  traces[0] = *parse_trace("split(" + name + ", nothing; 2, 0)\n");
  EXPECT_EQ(join_parts(whole.start, parts, traces).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lw
