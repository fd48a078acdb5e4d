// What the analytic model says of machines whose items run in step, and what it counts there.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "cost_model/cost_model.h"
#include "cost_model/cpu/processor.h"
#include "cost_model/simt/launches.h"
#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

using cost::simt::Launch;
using cost::simt::Neighbours;
using cost::simt::Wide;
using cost::simt::bank_cycles;
using cost::simt::transactions;

// 32 items in step, whose accesses are moved in pieces of 32 bytes.
std::shared_ptr<const Target> gpu() {
  Target target = *find_target("opencl_gpu");
  SimtTarget part = simt(target);
  part.access_bytes = 32;
  set_simt(&target, part);
  return std::make_shared<const Target>(std::move(target));
}

Nest scheduled(const std::string& text, const std::string& trace,
               std::shared_ptr<const Target> target = gpu()) {
  const Program program = *parse_program(text, "");
  const Nest start = make_nest(std::make_shared<const Program>(program), std::move(target), 1);
  const absl::StatusOr<Nest> nest = replay(start, *parse_trace(trace));
  CHECK(nest.ok());
  return *nest;
}

std::vector<Launch> launches_of(const Nest& nest) {
  const Nest processor = cost::cpu::as_on_processors(nest, simt(*nest.target).launch_us);
  return cost::simt::launches(nest, processor, analyze(processor));
}

const Wide& access_of(const Nest& nest, const Launch& launch, const char* tensor, bool written,
                      const std::string& stage = "") {
  const auto found =
      std::find_if(launch.accesses.begin(), launch.accesses.end(), [&](const Wide& wide) {
        return nest.program->tensors[wide.tensor].name == tensor && wide.written == written &&
               (stage.empty() || nest.stages[wide.stage].name == stage);
      });
  CHECK(found != launch.accesses.end());
  return *found;
}

Neighbours row_of(double stride_bytes) { return {{{32, stride_bytes}}, 32}; }

TEST(SimtDraft, NeighboursShareTransactions) {
  EXPECT_EQ(transactions(row_of(4), 4, 32), 4);        // a run of 128 bytes
  EXPECT_EQ(transactions(row_of(4), 4, 64), 2);
  EXPECT_EQ(transactions(row_of(16), 16, 64), 8);
  EXPECT_EQ(transactions(row_of(4096), 4, 32), 32);    // a column
  EXPECT_EQ(transactions(row_of(-4096), 4, 32), 32);
  EXPECT_EQ(transactions(row_of(8), 4, 32), 8);        // every second
  EXPECT_EQ(transactions(row_of(0), 4, 32), 1);        // the same
  EXPECT_EQ(transactions({{}, 32}, 16, 32), 1);
  EXPECT_EQ(transactions({{{4, 4096}, {8, 4}}, 32}, 4, 32), 4);  // 4 rows of 8
  EXPECT_EQ(transactions({{{8, 4096}, {4, 4}}, 32}, 4, 32), 8);
}

TEST(SimtDraft, MasksCostSlotsAndBranchesWaits) {
  constexpr char kScale[] = "op s() {\n  in X: f32[96, 96]\n  out Y[i: 96, j: 96] = 2 * X[i, j]\n}\n";
  const auto of_tile = [&](int rows, int columns) {
    const Nest nest = scheduled(kScale, concat("register_tile(Y, i, j; ", rows, ", ", columns,
                                               ", 1, 1)\nparallel(Y; 0, 1)\nitems(Y; 1, 1)"));
    return launches_of(nest).at(0);
  };
  const Launch even = of_tile(4, 8), rows = of_tile(5, 8), columns = of_tile(4, 20);
  const auto each = [](const Launch& l, double all) { return all * l.groups / (96.0 * 96); };
  EXPECT_GT(each(rows, rows.issue), each(even, even.issue));
  EXPECT_GT(each(columns, columns.latency), 2 * each(even, even.latency));
}

TEST(SimtDraft, NeighboursMeetInBanks) {
  EXPECT_EQ(bank_cycles(row_of(4), 4, 32), 1);
  EXPECT_EQ(bank_cycles(row_of(0), 4, 32), 1);
  EXPECT_EQ(bank_cycles(row_of(128), 4, 32), 32);      // rows of 32 words
  EXPECT_EQ(bank_cycles(row_of(132), 4, 32), 1);       // of 33
  EXPECT_EQ(bank_cycles(row_of(8), 4, 32), 2);
  EXPECT_EQ(bank_cycles(row_of(16), 16, 32), 4);       // four words each
}

constexpr char kTranspose[] =
    "op t() {\n  in X: f32[1024, 1024]\n  out Y[i: 1024, j: 1024] = X[j, i]\n}\n";

TEST(SimtDraft, ATransposedReadIsOfAPieceForEachItem) {
  const Nest nest = scheduled(kTranspose, "split(Y, j; 256, 0)\nparallel(Y; 0, 2)\nitems(Y; 1, 1)");
  const Launch launch = launches_of(nest).at(0);
  EXPECT_EQ(launch.groups, 4096);
  EXPECT_EQ(launch.items, 256);
  const Wide &read = access_of(nest, launch, "X", false), &write = access_of(nest, launch, "Y", true);
  EXPECT_EQ(read.pieces, 32);
  EXPECT_EQ(write.pieces, 4);
  EXPECT_EQ(read.count, 8);                            // eight times 32 items
  EXPECT_EQ(write.count, 8);
}

// A tile of 32 x 32 through local memory: what is fetched by rows is read by columns.
TEST(SimtDraft, ATransposesCopyHasItsRowsInOtherBanksIfTheyAreAWordLonger) {
  const std::string tile = "split(Y, i; 32, 1)\nsplit(Y, j; 32, 1)\n"
                           "reorder(Y, i.0, j.0, i.1, j.1; 0)\nparallel(Y; 0, 2)\n"
                           "items(Y; 1, 2)\nstage(Y, X; 1, -1, 0)\nshare(X.copy; ";
  for (const bool padded : {false, true}) {
    const Nest nest = scheduled(kTranspose, tile + (padded ? "2)" : "1)"));
    const Launch launch = launches_of(nest).at(0);
    const Wide &fetch = access_of(nest, launch, "X", false, "X.copy"),
               &read = access_of(nest, launch, "X", false, "Y");
    EXPECT_EQ(fetch.where, cost::simt::Where::kGlobal);
    EXPECT_EQ(fetch.moved_bytes(32), 32 * 32 * 4);     // nothing beside what is wanted
    EXPECT_EQ(read.where, cost::simt::Where::kLocal);
    EXPECT_EQ(read.pieces, padded ? 1 : 32);
    EXPECT_EQ(access_of(nest, launch, "Y", true).pieces, 4);
    EXPECT_EQ(launch.local_bytes, 32 * (32 + padded) * 4);
  }
}

std::string product(int steps) {
  return concat("register_tile(C, k, i, j; 1, 4, 4, 0, 1, 1)\nsplit(C, i.0; 8, 1)\n"
                "split(C, j.0; 32, 1)\nsplit(C, k.0; ", steps, ", 0)\n"
                "reorder(C, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1; 0)\nparallel(C; 0, 2)\n"
                "items(C; 1, 2)\nstage(C, A; 3, -1, 0)\nshare(A.copy; 1)\n"
                "stage(C, B; 3, -1, 0)\nshare(B.copy; 1)\n");
}
constexpr char kProduct[] =
    "op p() {\n  in A: f32[512, 512]\n  in B: f32[512, 512]\n"
    "  out C[i: 512, j: 512] = sum[k: 512](A[i, k] * B[k, j])\n}\n";

TEST(SimtDraft, LocalMemoryAndRegistersLimitWhatAUnitHolds) {
  // Of each step a group has 32 of A and 128 of B.
  const Launch few = launches_of(scheduled(kProduct, product(8))).at(0),
               many = launches_of(scheduled(kProduct, product(32))).at(0);
  EXPECT_EQ(few.items, 256);
  EXPECT_EQ(few.groups, 64);
  EXPECT_EQ(few.local_bytes, 8 * 160 * 4);
  EXPECT_EQ(many.local_bytes, 32 * 160 * 4);
  EXPECT_EQ(many.resident, 1);
  EXPECT_GT(few.occupancy, many.occupancy);
  EXPECT_GE(few.item_bytes, 16 * 4);
}

TEST(SimtDraft, ItemsFetchWhatTheyShareOnce) {
  const Nest nest = scheduled(kProduct, product(8));
  const Launch launch = launches_of(nest).at(0);
  // A's 32 rows of 8 in each of 64 steps, B's 8 rows of 128.
  const Wide &a = access_of(nest, launch, "A", true), &b = access_of(nest, launch, "B", true);
  const auto useful = [](const Wide& wide) { return wide.useful_bytes(); };
  EXPECT_NEAR(useful(b), 64 * 8 * 128 * 4, 64 * 8 * 128);
  EXPECT_LT(useful(a), useful(b));
  EXPECT_EQ(a.where, cost::simt::Where::kLocal);
}

// What neighbours read of the same rows they find in the cache, since they go along them together.
TEST(SimtDraft, ItemsWalkAlongSumsTogether) {
  const std::string trace = product(8);
  const Nest nest = scheduled(kProduct, trace.substr(0, trace.find("stage(C, A")));
  const double once = 512.0 * 512 * 512 * 4 * (1.0 / 32 + 1.0 / 128),  // bytes, of a group's tile
               alone = 512.0 * 512 * 512 * 4 * (1.0 / 4 + 1.0 / 4);    // of each item's
  const Launch launch = launches_of(nest).at(0);
  const double moved = launch.far_cycles[0] * nest.target->caches[1].read_bytes_per_cycle;
  EXPECT_GT(moved, 0.5 * once);
  EXPECT_LT(moved, 0.5 * alone);
}

// Four sub-groups multiply rows beyond the ends of images like others.
TEST(SimtDraft, RowsBeyondEndsAreMultiplied) {
  const auto of_images = [](int rows) {
    const std::string all = concat(rows);
    const std::string text = concat(
        "op c() {\n  in X: bf16[16, ", all, ", ", all, ", 64]\n  in F: bf16[64, 64]\n"
        "  out Y[n: 16, y: ", all, ", x: ", all, ", o: 64] = sum[c: 64](\n"
        "    cast(f32, X[n, y, x, c]) * cast(f32, F[c, o]))\n}\n");
    const Nest nest = scheduled(
        text,
        "wide_tile(Y, x, o, c, y; 1, 64, 8)\nreorder(Y, n, y.0, x.0, o.0, y.1, x.1, c.0; 0)\n"
        "parallel(Y; 0, 4)\nitems(Y; 1, 2)\nstage(Y, X; 3, -1, 0)\nshare(X.copy; 5)\n"
        "stage(Y, F; 3, -1, 0)\nshare(F.copy; 5)\n",
        std::make_shared<const Target>(*find_target("nvidia_sm90a")));
    return launches_of(nest).at(0);
  };
  const Launch ends = of_images(13), whole = of_images(16);
  EXPECT_EQ(ends.groups, 64);
  EXPECT_EQ(ends.groups, whole.groups);
  EXPECT_NEAR(ends.matrices, whole.matrices, 1e-9 * whole.matrices);
  EXPECT_GT(whole.matrices, 0);
}

// The last groups of few leave units idle.
TEST(SimtDraft, KnowsTheTail) {
  const std::string text = "op r() {\n  in X: f32[9, 4096]\n"
                           "  out Y[i: 9, j: 4096] = X[i, j] * 2\n}\n";
  const Nest nest = scheduled(text, "register_tile(Y, j; 4, 0)\nsplit(Y, j.0; 256, 0)\n"
                                    "parallel(Y; 0, 1)\nitems(Y; 2, 1)");
  EXPECT_NEAR(launches_of(nest).at(0).tail, 9.0 / 16, 1e-9);  // of 8 units, twice
}

std::string softmax_trace(int parts, int run) {
  const std::string dealt = concat(parts, ", ", run), tile = run == 4 ? "4, 4" : "1, 16";
  std::string trace = "compute_at(total, Y; 1)\ncompute_at(E, Y; 1)\ncompute_at(top, Y; 1)\n";
  for (const char* name : {"top", "total"}) {
    trace += concat("deal(", name, ", j; ", dealt, ")\nitems(", name, ".rf; 0, 1)\n",
                    "register_tile(", name, ".rf, j.turn, j.run; ", tile, ", 0, 0)\n",
                    "register_tile(", name, ", j.part; 4, 0)\n");
  }
  return trace + "register_tile(E, j; 4, 0)\nitems(E; 1, 1)\nregister_tile(Y, j; 4, 0)\n"
                 "split(Y, j.0; 64, 0)\nparallel(Y; 0, 1)\nitems(Y; 2, 1)\n";
}
constexpr char kSoftmax[] =
    "op s() {\n  in X: f32[4096, 1024]\n  top[i: 4096] = max[j: 1024](X[i, j])\n"
    "  E[i: 4096, j: 1024] = exp(X[i, j] - top[i])\n  total[i: 4096] = sum[j: 1024](E[i, j])\n"
    "  out Y[i: 4096, j: 1024] = E[i, j] / total[i]\n}\n";

TEST(SimtDraft, PrefersNeighboursThatReadNeighbours) {
  const Nest apart = scheduled(kSoftmax, softmax_trace(64, 16)),
             beside = scheduled(kSoftmax, softmax_trace(64, 4));
  EXPECT_EQ(access_of(apart, launches_of(apart).at(0), "X", false, "top.rf").pieces, 32);
  EXPECT_EQ(access_of(beside, launches_of(beside).at(0), "X", false, "top.rf").pieces, 16);
  EXPECT_GT(draft_us(apart), draft_us(beside));
}

TEST(SimtDraft, ItemsAloneLeaveTheOthersOfTheirStepIdle) {
  const Nest alone = scheduled(kSoftmax,
                               "compute_at(total, Y; 1)\ncompute_at(E, Y; 1)\n"
                               "compute_at(top, Y; 1)\nregister_tile(top, i, j; 1, 16, 0, 0)\n"
                               "register_tile(E, j; 4, 0)\n"
                               "register_tile(total, i, j; 1, 16, 0, 0)\n"
                               "register_tile(Y, j; 4, 0)\nparallel(Y; 0, 1)"),
             group = scheduled(kSoftmax, softmax_trace(64, 4));
  EXPECT_GT(draft_us(alone), 2 * draft_us(group));  // whom memory bounds
}

// Of processors, which run one item after another, nothing of this is said.
TEST(SimtDraft, ProcessorsHaveNoItemsInStep) {
  const Program program = *parse_program(kTranspose, "");
  const Nest nest = make_nest(std::make_shared<const Program>(program),
                              std::make_shared<const Target>(*find_target("opencl_cpu")), 1);
  const std::vector<float> values = features(nest);
  const size_t cpu = feature_table("cpu").size(), simt = feature_table("simt").size();
  ASSERT_EQ(values.size(), simt);
  ASSERT_GT(simt, cpu);
  for (size_t f = cpu; f < simt; ++f) EXPECT_EQ(values[f], 0) << feature_table("simt")[f].name;
  EXPECT_NEAR(std::exp2(values[kDraftFeature]), draft_us(nest), 1e-3 * draft_us(nest));
}

TEST(SimtDraft, FeaturesSayWhatTheDraftSays) {
  const Nest nest = scheduled(kSoftmax, softmax_trace(64, 4));
  const std::vector<float> values = features(nest);
  ASSERT_EQ(values.size(), feature_table("simt").size());
  EXPECT_NEAR(std::exp2(values[kDraftFeature]), draft_us(nest), 1e-3 * draft_us(nest));
  EXPECT_EQ(values.back(), 1);                         // launches
}

}  // namespace
}  // namespace lw
