// How many registers the analytic model expects an item to have, beside what ptxas 13.0 gave items
// of these schedules, which were drawn (bench/gpu/gate.cc, by a seed that nothing was fitted to).
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "cost_model/simt/launches.h"
#include "schedules/steps.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

constexpr double kNear = 16;

std::vector<cost::simt::Launch> launches_on(const char* target, const char* words,
                                            const std::string& trace) {
  const std::vector<std::string> split = absl::StrSplit(words, ' ');
  Program program = *load_workload(split);
  const Nest start = make_nest(std::make_shared<const Program>(std::move(program)),
                               std::make_shared<const Target>(*find_target(target)), 1);
  const absl::StatusOr<Nest> nest = replay(start, *parse_trace(trace));
  EXPECT_TRUE(nest.ok()) << words << ": " << nest.status();
  if (!nest.ok()) return {};
  return cost::simt::launches(*nest);
}

struct Drawn {
  const char *target, *words;
  double registers;                        // ptxas'
  const char* trace;
};
const Drawn kDrawn[] = {
    {"nvidia_sm90a", "matmul M=1024 N=1024 K=1024 T=f64", 202,
     "matrix_tile(C, i, j, k; 48, 48, 4)\nmatrix_groups(C, i.0, j.0; 8, 1)\nsplit(C, k.0; 5, 1)\n"
     "reorder(C, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1; 0)\nparallel(C; 0, 2)\n"
     "items(C; 1, 2)\nstage(C, A; 4, -1, 0)\nshare(A.copy; 0)\nparallel(A.copy; 0, 0)\n"
     "items(A.copy; 0, 0)\nstage(C, B; 3, -1, 0)\nshare(B.copy; 1)\nparallel(B.copy; 0, 0)\n"
     "items(B.copy; 0, 0)\npipeline(C; 1)\n"},
    {"nvidia_sm90a", "matmul M=16 N=8192 K=8192 T=bf16", 30,
     "wide_tile(C, j, i, k; 1, 8)\nreorder(C, j.0, i.0, j.1, k.0; 0)\nparallel(C; 0, 2)\n"
     "items(C; 1, 1)\nstage(C, A; 3, -1, 0)\nshare(A.copy; 4)\nstage(C, B; 3, -1, 0)\n"
     "share(B.copy; 4)\npipeline(C; 3)\ncluster(C; 1, 0)\nproducer(C; 0)\n"},
    {"nvidia_sm90a", "matmul M=4096 N=4096 K=4096 T=i8", 168,
     "dot(C, k; 4)\nregister_tile(C, k, i, j; 4, 13, 8, 0, 1, 1)\nsplit(C, i.0; 128, 1)\n"
     "split(C, j.0; 384, 1)\nsplit(C, k.0; 2, 0)\n"
     "reorder(C, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1; 0)\nparallel(C; 0, 2)\n"
     "items(C; 2, 1)\nstage(C, A; -1, -1, 0)\nshare(A.copy; 0)\nparallel(A.copy; 0, 0)\n"
     "items(A.copy; 0, 0)\nstage(C, B; 5, 1, 8, 0, 0, 4)\nshare(B.copy; 1)\n"
     "parallel(B.copy; 0, 0)\nitems(B.copy; 0, 0)\npipeline(C; 4)\n"},
    {"nvidia_sm80", "dense_gelu M=4096 N=4096 K=1024 T=f16", 249,
     "reverse_inline(H, C)\nreverse_inline(D, C)\nregister_tile(C, k, i, j; 1, 13, 12, 0, 1, 1)\n"
     "split(C, i.0; 8, 1)\nsplit(C, j.0; 38, 1)\nsplit(C, k.0; 4, 0)\n"
     "reorder(C, i.0.0, j.0.0, i.0.1, j.0.1, k.0.0, k.0.1; 0)\nparallel(C; 0, 2)\n"
     "items(C; 2, 1)\nstage(C, A; -1, -1, 0)\nshare(A.copy; 0)\nparallel(A.copy; 0, 0)\n"
     "items(A.copy; 0, 0)\nstage(C, B; -1, -1, 0)\nshare(B.copy; 0)\nparallel(B.copy; 0, 0)\n"
     "items(B.copy; 0, 0)\npipeline(C; 1)\n"},
    {"nvidia_sm80", "conv2d_depthwise", 159,
     "register_tile(Y, s, x, c; 2, 7, 8, 0, 1, 1)\nsplit(Y, x.0; 6, 1)\nsplit(Y, c.0; 2, 1)\n"
     "split(Y, s.0; 1, 0)\nreorder(Y, n, y, x.0.0, c.0.0, x.0.1, c.0.1, r, s.0.0, s.0.1; 0)\n"
     "parallel(Y; 0, 4)\nitems(Y; 1, 1)\nstage(Y, F; 4, 2, 8)\nshare(F.copy; 2)\n"
     "parallel(F.copy; 0, 0)\nitems(F.copy; 0, 0)\npipeline(Y; 3)\n"},
    {"nvidia_sm80", "max_pool2d", 148,
     "register_tile(Y, s, c; 1, 64, 0, 1)\nsplit(Y, x; 4, 1)\nsplit(Y, c.0; 1, 1)\n"
     "split(Y, s.0; 3, 0)\nreorder(Y, n, y, x.0, c.0.0, x.1, c.0.1, r, s.0.0, s.0.1; 0)\n"
     "parallel(Y; 0, 4)\nitems(Y; 1, 2)\n"},
    {"nvidia_sm80", "transpose", 40,
     "register_tile(Y, j, i; 2, 8, 1, 1)\nsplit(Y, j.0; 12, 1)\nsplit(Y, i.0; 8, 1)\n"
     "reorder(Y, j.0.0, i.0.0, j.0.1, i.0.1; 0)\nparallel(Y; 0, 2)\nitems(Y; 1, 1)\n"
     "stage(Y, X; 3, 1, 2)\nshare(X.copy; 2)\nparallel(X.copy; 0, 0)\nitems(X.copy; 0, 0)\n"},
    {"nvidia_sm80", "softmax", 22,
     "inline_producer(E)\ncompute_at(total, Y; 1)\ncompute_at(top, Y; 1)\nitems(top; 1, 1, 2)\n"
     "items(total; 1, 1, 2)\nparallel(Y; 0, 1)\nitems(Y; 1, 1, 2)\n"},
};

TEST(SimtRegisters, AreThoseOfTheAssembler) {
  for (const Drawn& drawn : kDrawn) {
    const std::vector<cost::simt::Launch> launches =
        launches_on(drawn.target, drawn.words, drawn.trace);
    ASSERT_EQ(launches.size(), 1u) << drawn.words;
    EXPECT_NEAR(launches[0].registers, drawn.registers, kNear) << drawn.words;
  }
}

// Where the target does not say how many there are, nobody asks.
TEST(SimtRegisters, AreNotCountedElsewhere) {
  const std::vector<cost::simt::Launch> launches = launches_on(
      "opencl_gpu", "transpose",
      "register_tile(Y, j, i; 4, 8, 1, 1)\nparallel(Y; 0, 1)\nitems(Y; 1, 1)\n");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].registers, 0);
}

}  // namespace
}  // namespace lw
