// What the tuner makes of operators, with one thing wrong (tests/npu/mutations.h): a token or a
// `sync` less, a token more, two instructions exchanged, a buffer a row too small. Of the mutants
// that compute something else at least 99 % are found out, as the tuner checks what it measures.
// LW_NPU_MUTANTS: how many of each kind a program.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "loopwright/program.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/base/message.h"
#include "src/build/build.h"
#include "src/expr/reference/interpret.h"
#include "src/lower/lower.h"
#include "src/npu/module.h"
#include "tests/npu/mutations.h"

namespace lw {
namespace {

// The program of one draw of the space, on inputs. In DRAM arguments lie first, the last of them
// the result.
npu::Case drawn(const Program& program, const std::string& target, Rng& rng) {
  const Nest start = make_nest(std::make_shared<const Program>(program),
                               std::make_shared<const Target>(*find_target(target)), 1);
  const std::vector<Sketch> space = make_space(start);
  absl::StatusOr<Sample> sample = absl::NotFoundError("no draw");
  while (!sample.ok()) sample = lw::sample(start, space[rng.below(space.size())], rng);
  const Artifact artifact =
      *(*find_backend("npu"))->build(*lower(sample->nest), *start.target);
  npu::Module module = *npu::read_module(artifact.bytes);
  npu::Case made = {module.config, std::move(module.program), {}};
  const std::vector<int> in = inputs(program);
  for (size_t a = 0; a < module.arguments.size(); ++a) {
    npu::Placed tensor = {module.arguments[a].range.address, {}, module.arguments[a].written};
    tensor.bytes.resize(module.arguments[a].range.bytes, 0xA5);
    if (a < in.size()) {
      const Data data = random_input(program, in[a], rng.next(), false);
      std::memcpy(tensor.bytes.data(), data.bytes.data(), data.bytes.size());
    }
    made.tensors.push_back(std::move(tensor));
  }
  made.output = made.tensors.size() - 1;
  if (module.workspace.bytes > 0) {
    made.tensors.push_back({module.workspace.address,
                            std::vector<uint8_t>(module.workspace.bytes, 0xA5), true});
  }
  return made;
}

// Products, windows that are packed and such that are not, groups, epilogues, chains through DRAM,
// and what vectors compute.
TEST(NpuMutants, WhatChangesTheResultOfTunedProgramsIsReported) {
  constexpr int kTimings = 5;
  const int64_t wanted = setting("LW_NPU_MUTANTS", 4);
  const char* const workloads[] = {"matmul M=50 N=70 K=96 T=i8",
                                   "matmul M=40 N=48 K=70 allow=bf16",
                                   "conv2d H=9 W=10 CI=3 CO=20 R=5 S=5 pad=2 T=i8",
                                   "conv2d H=7 W=6 CI=20 CO=24 T=bf16",
                                   "conv2d_requant H=6 W=7 CI=20 CO=24",
                                   "conv2d_grouped H=6 W=5 CI=16 CO=32 groups=2 T=i8",
                                   "conv2d_depthwise H=6 W=7 C=20 T=i8",
                                   "softmax M=20 N=50",
                                   "attention B=1 H=2 S=20 T=24 D=16 type=bf16"};
  const char* const targets[] = {"npu_edge16", "npu_mid32", "npu_big128"};
  npu::Mutants mutants;
  for (size_t w = 0; w < std::size(workloads); ++w) {
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 1))).split(w);
    const std::string target = targets[w % 3];
    const npu::Case original = drawn(*load_workload({workloads[w]}), target, rng);
    const npu::Outcome right = outcome(original, original.config, true);
    ASSERT_FALSE(right.reported) << workloads[w];
    mutants.add(original, right.result, kTimings, wanted, concat(workloads[w], " on ", target),
                &rng);
    ASSERT_FALSE(HasFatalFailure());
  }
  mutants.expect_reported(wanted);
}

}  // namespace
}  // namespace lw
