// What the rules make of programs: which structures are in the space, by the steps that show them.
#include <set>

#include "gtest/gtest.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

std::vector<std::string> space_of(const std::string& op) {
  const absl::StatusOr<Program> program =
      load_workload({std::string(LW_SOURCE_DIR) + "/examples/operators.te:" + op});
  const absl::StatusOr<Target> target = find_target("x86_avx512");
  EXPECT_TRUE(program.ok() && target.ok()) << program.status();
  std::vector<std::string> texts;
  for (const Sketch& sketch :
       make_space(make_nest(std::make_shared<const Program>(*program),
                            std::make_shared<const Target>(*target), /*threads=*/1)))
    texts.push_back(to_text(sketch.steps));
  return texts;
}

Nest start_of(const std::vector<std::string>& words) {
  const absl::StatusOr<Program> program = load_workload(words);
  CHECK(program.ok());
  return make_nest(std::make_shared<const Program>(*program),
                   std::make_shared<const Target>(*find_target("x86_avx512")), 1);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Space, ComputesWeightedMomentsAtTheirReadersRows) {
  for (const std::string& sketch : space_of("weighted_layer_norm")) {
    EXPECT_TRUE(has(sketch, "compute_at(mean, Y; 1)")) << sketch;
    EXPECT_TRUE(has(sketch, "compute_at(var, Y; 1)")) << sketch;
  }
}

TEST(Space, KeepsLanesAlongWhatIsReadOnce) {
  bool along_result = false;
  for (const std::string& sketch : space_of("bilinear_form")) {
    EXPECT_TRUE(has(sketch, "register_tile(Z, b, j)")) << sketch;  // the last axis has the lanes
    along_result = along_result || has(sketch, "register_tile(T, i, b, j)");
  }
  EXPECT_TRUE(along_result);
}

TEST(Space, OffersToKeepACheapMapThatAProductReadsOften) {
  int kept = 0, inlined = 0;
  for (const std::string& sketch : space_of("mahalanobis"))
    (has(sketch, "inline_producer(E)") ? inlined : kept)++;
  EXPECT_GT(kept, 0);
  EXPECT_GT(inlined, 0);
}

// Also of many images the rows are pixels; and the result of a batch does not stay in a cache.
TEST(Space, TilesDepthwiseConvolutionsAlongTheirWindows) {
  for (const auto& [images, streams] : {std::pair("N=1", false), {"N=16", true}}) {
    for (const Sketch& sketch :
         make_space(start_of({"conv2d_depthwise", images, "H=14", "W=14", "C=512"}))) {
      const std::string text = to_text(sketch.steps);
      EXPECT_TRUE(has(text, "register_tile(Y, r, s, y, x, c")) << text;
      EXPECT_EQ(has(text, "non_temporal(Y"), streams) << text;
    }
  }
}

// Of rows whose last vectors are masked none is stored past the caches: lines would be written both
// ways.
TEST(Space, StoresWholeRowsPastTheCaches) {
  for (const auto& [tail, choices] : {std::pair("0", 2u), {"1", 1u}}) {
    const absl::StatusOr<Trace> trace = parse_trace(
        std::string("register_tile(Y, j; 48, ") + tail + ")\nnon_temporal(Y; 0)");
    ASSERT_TRUE(trace.ok());
    const absl::StatusOr<Nest> nest =
        replay(start_of({"softmax", "M=64", "N=1024"}), {trace->begin(), trace->end() - 1});
    ASSERT_TRUE(nest.ok()) << nest.status();
    EXPECT_EQ(trace->back().kind->domain(*nest, trace->back()).size(), choices) << tail;
  }
}

// A transposed convolution of odd size: tiles that begin at the same phase know which taps count.
TEST(Space, TilesOfRowsKeepTheirPhase) {
  const Nest start = start_of(
      {"conv2d_transpose", "H=8", "W=41", "CI=16", "CO=32", "R=2", "stride=3", "pad=0"});
  const absl::StatusOr<Trace> trace = parse_trace("register_tile(Y, ci, x, co; 1, 1, 16, 0, 0, 0)");
  ASSERT_TRUE(trace.ok());
  std::set<int64_t> rows;
  const StepKind* tile = find_step("register_tile");
  for (const Decision& sizes : tile->domain(start, trace->front())) rows.insert(sizes[1]);
  EXPECT_GT(rows.size(), 2u);
  for (int64_t size : rows) EXPECT_TRUE(size == 1 || size % 3 == 0) << size;
}

// 40 channels a group: tiles of 32 of every other group would lie across blocks of 32, unless the
// copy is of one group.
TEST(Space, BlocksOfACopyHoldWholeTiles) {
  const absl::StatusOr<Trace> trace = parse_trace(
      "split(Y, co; 40, 0)\nregister_tile(Y, ci, x, co.1; 1, 8, 32, 0, 0, 0)\n"
      "stage(Y, F; -1, -1, 0)");
  ASSERT_TRUE(trace.ok());
  const absl::StatusOr<Nest> nest =
      replay(start_of({"conv2d_grouped", "H=8", "W=8", "CI=32", "CO=320", "groups=8"}),
             {trace->begin(), trace->end() - 1});
  ASSERT_TRUE(nest.ok()) << nest.status();
  const int groups = find_loop(nest->stages[0], "co.0");
  int blocked = 0;
  for (const Decision& place : find_step("stage")->domain(*nest, trace->back())) {
    if (place[2] == 0) continue;
    EXPECT_GT(place[0], groups);
    ++blocked;
  }
  EXPECT_GT(blocked, 0);
}

TEST(Space, HoldsEverySketchOnce) {
  for (const char* op : {"min_plus", "gaussian_blur", "weighted_layer_norm"}) {
    const std::vector<std::string> all = space_of(op);
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size()) << op;
  }
}

}  // namespace
}  // namespace lw
