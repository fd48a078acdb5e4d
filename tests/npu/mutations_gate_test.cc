// Gate V11: programs with one thing wrong are found out. A token less or more, two instructions
// exchanged, a buffer a row too small (mutations.h): of those that compute something else at least
// 99 % are reported. LW_NPU_MUTANTS: how many of each kind a program. What the tuner makes is
// mutated in tests/lower/npu_mutants_test.cc.
#include "tests/npu/mutations.h"

namespace lw::npu {
namespace {

TEST(MutationsGate, WhatChangesTheResultIsReported) {
  constexpr int kTimings = 12;
  const int64_t wanted = setting("LW_NPU_MUTANTS", 25);
  const struct {
    const char* machine;
    GemmPlan plan;
  } programs[] = {{"edge16", {50, 70, 96, 20, 32, 32, 12, false, Dtype::kI8}},
                  {"edge16", {40, 48, 64, 16, 16, 32, 16, true, Dtype::kI8}},
                  {"mid32", {70, 100, 160, 33, 64, 64, 20, false, Dtype::kI8}},
                  {"mid32", {64, 96, 128, 32, 32, 64, 32, true, Dtype::kI8}},
                  {"big128", {90, 200, 256, 45, 128, 128, 45, false, Dtype::kI8}}};
  Mutants mutants;
  for (size_t p = 0; p < std::size(programs); ++p) {
    Rng rng = Rng(111).split(p);
    const Config config = machine(programs[p].machine);
    const GemmPlan& plan = programs[p].plan;
    const Epilogue epilogue = random_epilogue(plan.n, plan.k, &rng);
    absl::StatusOr<Case> original = gemm_case(config, plan, plan.k, epilogue, &rng);
    ASSERT_TRUE(original.ok()) << original.status();
    const std::vector<uint8_t> right = gemm_reference(*original, plan, epilogue);
    mutants.add(*original, right, kTimings, wanted, programs[p].machine, &rng);
  }
  mutants.expect_reported(wanted + 1);     // of five programs' mutants
}

}  // namespace
}  // namespace lw::npu
