// What a tune may hand out agrees with the reference and with the libraries: every operator of the
// library and of examples/operators.te, on random small shapes (random_shapes.h), const weights and
// plain ones, one thread and two. Per shape the search runs a few trials as a tune does (the untuned
// answer, drafted ones, neighbours of the best; times are the draft model's, so that it is
// deterministic), and one schedule is drawn from the whole space. Kernels run between guard pages.
//
// LW_SHAPES=50 is the long form; LW_SEED and LW_FIRST repeat a shape that a failure names.
#include <fstream>
#include <iterator>
#include <set>

#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/measure/judge/verify.h"
#include "src/peers/loader.h"
#include "src/peers/match/match.h"
#include "src/search/search.h"
#include "tests/kernels/random_shapes.h"
#include "tests/measure/peer_inputs.h"
#include "tests/support/program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

constexpr int kThreads = 2;
constexpr double kMostFlops = 2e5;
constexpr int64_t kMostElements = 12000;
constexpr int kAttempts = 30;              // random schedules that do not fit are redrawn
// LLVM's time grows with the unrolled code; what tails multiply is another test's matter.
constexpr LowerOptions kSmallKernels = {.max_statements = 500};

// The reference at every element, with the scale of admissible errors.
struct Reference {
  std::vector<Point> points;
  std::vector<PointValue> values;
};

Reference reference(const Program& program, const std::vector<Data>& in) {
  Reference result;
  const absl::StatusOr<std::vector<Data>> whole = interpret(program, in);
  EXPECT_TRUE(whole.ok()) << whole.status();
  if (!whole.ok()) return result;
  const std::vector<int> out = outputs(program);
  for (size_t o = 0; o < out.size(); ++o)
    for (int64_t i = 0; i < elements(program.tensors[out[o]]); ++i)
      result.points.push_back({static_cast<int>(o), i});
  result.values.resize(result.points.size());
  std::vector<const std::byte*> data;
  for (const Data& one : in) data.push_back(one.bytes.data());
  evaluate_points(program, data, result.points, 0, static_cast<int64_t>(result.points.size()),
                  now() + 600, result.values.data());
  // Two implementations of the reference stand behind what follows.
  std::vector<const std::byte*> interpreted;
  for (const Data& one : *whole) interpreted.push_back(one.bytes.data());
  const Check check =
      check_points(program, interpreted, result.points, result.values.data());
  EXPECT_TRUE(check.ok) << "interpreter and oracle differ: " << check.detail;
  for (size_t n = 0; n < result.points.size(); ++n) {
    const Point& p = result.points[n];
    result.values[n].value =
        load_element(program.tensors[out[p.output]].type, (*whole)[p.output].bytes.data(), p.index);
  }
  return result;
}

Check compare(const Program& program, const std::vector<Data>& got, const Reference& want) {
  std::vector<const std::byte*> data;
  for (const Data& one : got) data.push_back(one.bytes.data());
  return check_points(program, data, want.points, want.values.data());
}

// What a tune of a few trials would measure, and one schedule that no model chose; no kernel twice.
std::vector<Scheduled> few_trials(const Nest& start, Rng& rng) {
  std::vector<Scheduled> kernels;
  std::set<uint64_t> seen;
  const auto add = [&](std::string schedule, const Kernel& kernel) {
    if (seen.insert(hash(kernel)).second) kernels.push_back({std::move(schedule), kernel});
  };
  SearchOptions options;
  options.seed = rng.next();
  options.drafts = 60;
  Search search(start, options, make_draft_model());
  const absl::StatusOr<Proposal> zero = search.zero_trial();
  EXPECT_TRUE(zero.ok()) << zero.status() << "\n" << print(start);
  if (zero.ok()) add("zero: " + zero->text, *zero->kernel);
  for (int left : {2, 1}) {                // the last one descends
    std::vector<Measurement> results;
    for (const Proposal& one : search.propose(1, left)) {
      add(concat(origin_name(one.origin), ": ", one.text), *one.kernel);
      Measurement result;
      result.trace = one.text;
      result.kernel_hash = one.kernel_hash;
      result.source = std::string(origin_name(one.origin));
      result.verified = true;
      result.time_us = result.ci_low_us = result.ci_high_us = one.draft_us;
      result.samples_us = {one.draft_us};
      results.push_back(result);
    }
    search.observe(results);
  }
  const std::optional<Scheduled> random =
      draw_kernel(start, make_space(start), rng, kAttempts, kSmallKernels);
  if (random) add("random: " + random->schedule, random->kernel);
  return kernels;
}

// The inputs that a schedule may lay out anew: what the operator declares, else all but the first.
std::vector<std::string> weights_of(const OpDefinition& op, const Program& program) {
  std::vector<std::string> declared, later;
  for (int t : inputs(program)) {
    if (program.tensors[t].is_const) declared.push_back(program.tensors[t].name);
    if (t != inputs(program)[0]) later.push_back(program.tensors[t].name);
  }
  return declared.empty() ? later : declared;
}

struct Tally {
  int kernels = 0, peers = 0;
  std::map<ShapeKind, int> kinds;
};

class Agreement : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    setenv("LOOPWRIGHT_PEERS", LW_BINARY_DIR "/peers", 1);
    setenv("OMP_WAIT_POLICY", "passive", 1);  // idle threads of a library leave us the processors
    if (load_peers().peers.empty()) std::printf("[SKIP] comparisons with libraries: none here\n");
  }

  void check_shape(const OpDefinition& op, const RandomShape& shape, int number, Rng rng);
  void check_kernels(const std::shared_ptr<const Program>& program, int threads, bool at_end,
                     Rng& rng);
  void check_libraries(const Program& program, int threads);

  ParallelPool pool_{kThreads};
  std::vector<Data> in_, edges_;
  Reference want_, want_at_edges_;
  Tally tally_;
};

void Agreement::check_kernels(const std::shared_ptr<const Program>& program, int threads,
                              bool at_end, Rng& rng) {
  const Machine& host = machines().back();
  const Nest start = make_nest(program, std::make_shared<const Target>(host.target), threads);
  for (const Scheduled& one : few_trials(start, rng)) {
    SCOPED_TRACE(one.schedule);
    const std::unique_ptr<Loaded> code = load_on(host, one.kernel);
    ASSERT_NE(code, nullptr);
    lw_context context = {};
    if (threads > 1) {
      context.parallel_for = ParallelPool::parallel_for;
      context.pool = &pool_;
      context.workers = pool_.workers();
    }
    const Check check =
        compare(*program, run_guarded(*code, one.kernel, *program, in_, context, at_end), want_);
    EXPECT_TRUE(check.ok) << check.detail;
    const Check edges =
        compare(*program, run_guarded(*code, one.kernel, *program, edges_, context, at_end),
                want_at_edges_);
    EXPECT_TRUE(edges.ok) << "on edge inputs: " << edges.detail;
    ++tally_.kernels;
  }
}

void Agreement::check_libraries(const Program& program, int threads) {
  const PeerCase description = match_peer_case(program);
  if (std::holds_alternative<std::monostate>(description) || load_peers().peers.empty()) return;
  std::vector<Data> in = in_, out;
  std::vector<void*> arguments;
  for (int t : outputs(program)) {
    out.emplace_back();
    out.back().bytes.resize(bytes(program.tensors[t]));
  }
  for (Data& data : in) arguments.push_back(data.bytes.data());
  for (Data& data : out) arguments.push_back(data.bytes.data());
  for (const PeerContender& peer : prepare_peers(description, arguments.data(), threads, {})) {
    for (Data& data : out) std::fill(data.bytes.begin(), data.bytes.end(), std::byte{0xff});
    peer.select();
    peer.run();
    const Check check = compare(program, out, want_);
    EXPECT_TRUE(check.ok) << peer.name << " " << peer.mode << " " << peer.implementation << ": "
                          << check.detail;
    ++tally_.peers;
  }
}

void Agreement::check_shape(const OpDefinition& op, const RandomShape& shape, int number,
                            Rng rng) {
  const std::vector<std::string> weights = weights_of(op, shape.program), none;
  in_ = fitting_inputs(shape.program, rng);
  keep_pairs_in_i16(shape.program, in_);
  want_ = reference(shape.program, in_);
  edges_ = in_;
  for (size_t i = 0; i < edges_.size(); ++i)
    fill_edge_input(shape.program, inputs(shape.program)[i], rng.next(), true,
                    edges_[i].bytes.data());
  want_at_edges_ = reference(shape.program, edges_);
  for (int threads = 1; threads <= kThreads; ++threads) {
    const bool as_const = (number + threads) % 2 == 0;
    SCOPED_TRACE(testing::Message() << threads << " threads, const: "
                                    << testing::PrintToString(as_const ? weights : none));
    absl::StatusOr<Program> program =
        instantiate(op, shape.parameters, as_const ? &weights : &none);
    ASSERT_TRUE(program.ok()) << program.status();
    check_libraries(*program, threads);
    check_kernels(std::make_shared<const Program>(*std::move(program)), threads,
                  (number + threads) % 3 > 0, rng);
  }
}

const std::vector<OpDefinition>& all_operators() {
  static const std::vector<OpDefinition>* all = [] {
    auto* list = new std::vector<OpDefinition>(builtin_ops());
    std::ifstream file(LW_SOURCE_DIR "/examples/operators.te");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const absl::StatusOr<Module> module = parse_module(text, "operators.te");
    CHECK(module.ok() && !module->ops.empty());
    list->insert(list->end(), module->ops.begin(), module->ops.end());
    return list;
  }();
  return *all;
}

TEST_P(Agreement, WithReferenceAndLibraries) {
  const auto op = std::find_if(all_operators().begin(), all_operators().end(),
                               [](const OpDefinition& one) { return one.name == GetParam(); });
  const int shapes = static_cast<int>(setting("LW_SHAPES", kShapeKinds));
  // Where there are fewer shapes than kinds of them, neighbours begin with different kinds.
  const int start = static_cast<int>(op - all_operators().begin());
  const int seed = static_cast<int>(setting("LW_SEED", 1));
  for (int n = static_cast<int>(setting("LW_FIRST", 0)); n < shapes; ++n) {
    Rng rng = Rng(seed).split(hash64(op->name)).split(n);
    const RandomShape shape = random_shape(*op, start + n, kMostFlops, kMostElements, rng);
    ASSERT_FALSE(shape.words.empty());
    SCOPED_TRACE(testing::Message() << "LW_SEED=" << seed << " LW_FIRST=" << n << " "
                                    << testing::PrintToString(shape.words));
    ++tally_.kinds[shape.kind];
    check_shape(*op, shape, n, rng);
    if (HasFailure()) break;               // its neighbours fail for the same reason
  }
  std::printf("  %d kernels, %d runs of libraries\n", tally_.kernels, tally_.peers);
  EXPECT_GE(tally_.kernels, 2 * (shapes - static_cast<int>(setting("LW_FIRST", 0))));
}

std::vector<std::string> operators() {
  std::vector<std::string> names;
  for (const OpDefinition& op : all_operators()) names.push_back(op.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Operators, Agreement, testing::ValuesIn(operators()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

}  // namespace
}  // namespace lw
