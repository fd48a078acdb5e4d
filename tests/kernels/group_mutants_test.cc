// Who would notice that a kernel of groups is wrong: kernels that are drawn, with one thing changed
// (group_mutants.h), before our emulator and before Oclgrind, which others wrote. A mutant counts
// if one of them reports it or if it computes something else, in one of several orders of the
// items. Of these the emulator finds 99 %, and Oclgrind of those that it can see: it knows neither
// what was never written nor where in the workspace a buffer ends. What neither notices (a barrier
// that nobody needs, a guard of what is never reached) counts for nothing. LW_MUTANTS: of each kind
// and kernel; LW_SEED.
#include <cstdio>

#include "src/build/emulator/emulate.h"
#include "src/build/simt/opencl_kernel.h"
#include "tests/kernels/group_mutants.h"
#include "tests/kernels/oclgrind.h"
#include "tests/kernels/opencl_draws.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr double kMutantFlops = 3e4;

// What the emulator says, or that the results are wrong; "" when neither.
std::string emulated_defect(const Kernel& kernel, const HeldProgram& held) {
  for (const ItemOrder order : {ItemOrder{}, ItemOrder{ItemOrder::Kind::kDescending},
                                ItemOrder{ItemOrder::Kind::kShuffled, 1}}) {
    std::vector<Data> memory = held.in;
    for (const Data& data : held.want) {
      memory.push_back({std::vector<std::byte>(data.bytes.size(), std::byte{0xff})});
    }
    std::vector<void*> arguments;
    for (Data& data : memory) arguments.push_back(data.bytes.data());
    const absl::Status status = emulate(kernel, arguments.data(), {order});
    if (!status.ok()) return status.ToString();
    const std::string wrong = wrong_result(
        held, {memory.begin() + static_cast<std::ptrdiff_t>(held.in.size()), memory.end()});
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Whether what the emulator reports is nothing that Oclgrind looks for.
bool is_hidden(const std::string& report, const Kernel& kernel) {
  if (report.find("which was never written") != report.npos) return true;
  return std::any_of(kernel.buffers.begin(), kernel.buffers.end(), [&](const Buffer& b) {
    return b.scope == Scope::kWorkspace &&
           report.find(concat(" of ", b.name, ", which has ")) != report.npos;
  });
}

// Kernels whose items meet; of which all loops are of groups, so that Oclgrind is strict.
std::optional<Scheduled> draw_meeting(const DrawnSpace& space, Rng& rng) {
  for (int n = 0; n < 10; ++n) {
    std::optional<Scheduled> drawn = space.draw_group(rng);
    if (!drawn) return std::nullopt;
    const bool alone = std::any_of(
        drawn->kernel.body.begin(), drawn->kernel.body.end(),
        [](const Stmt& s) { return s.kind == Stmt::Kind::kFor && s.parallel && s.items == 1; });
    if (!alone && count_of(drawn->kernel.body, Op::kBarrier) > 0) return drawn;
  }
  return std::nullopt;
}

struct GroupMutant {
  int kind;
  Kernel kernel;
  size_t of;                               // which original
  std::string emulated;
};

TEST(GroupMutants, BothDetectorsFindThem) {
  if (!run_oclgrind({}, true).ok()) GTEST_SKIP() << run_oclgrind({}, true).status();
  const int64_t wanted = setting("LW_MUTANTS", 1);
  const auto target = std::make_shared<const Target>(*find_target("opencl_gpu"));
  std::vector<HeldProgram> programs;
  std::vector<GroupMutant> mutants;
  std::vector<OclgrindJob> jobs;
  const std::vector<OpDefinition> ops = library_and_fused_ops();
  for (size_t o = 0; o < ops.size(); ++o) {
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(o);
    const std::optional<HeldProgram> held =
        held_operator(ops[o], static_cast<int>(ShapeKind::kAny), kMutantFlops, rng);
    if (!held) continue;
    const std::optional<Scheduled> drawn = draw_meeting({held->program, target}, rng);
    if (!drawn || !opencl_program(drawn->kernel, *target).ok()) continue;
    ASSERT_EQ(emulated_defect(drawn->kernel, *held), "") << held->name << drawn->schedule;
    programs.push_back(*held);
    for (int kind = 0; kind < kGroupMutationKinds; ++kind) {
      for (int64_t n = 0; n < wanted; ++n) {
        GroupMutant mutant = {kind, drawn->kernel, programs.size() - 1, ""};
        if (!GroupMutator(&mutant.kernel, &rng).mutate(static_cast<GroupMutation>(kind))) break;
        mutant.emulated = emulated_defect(mutant.kernel, *held);
        jobs.push_back({opencl_program(mutant.kernel, *target).value(), held->in});
        mutants.push_back(std::move(mutant));
      }
    }
  }
  const std::vector<OclgrindResult> simulated = run_oclgrind(jobs, /*same_values=*/false).value();
  int all = 0, ours = 0, seen = 0, theirs = 0;
  for (int kind = 0; kind < kGroupMutationKinds; ++kind) {
    int wrong = 0, emulator = 0, oclgrind = 0, harmless = 0;
    for (size_t m = 0; m < mutants.size(); ++m) {
      if (mutants[m].kind != kind) continue;
      const HeldProgram& held = programs[mutants[m].of];
      const OclgrindResult& result = simulated[m];
      const std::string defect =
          result.report + (result.out.empty() ? "" : wrong_result(held, result.out));
      const bool here = !mutants[m].emulated.empty(), there = !defect.empty();
      if (!here && !there) ++harmless;
      else ++wrong;
      emulator += here;
      oclgrind += there;
      if ((here || there) && !is_hidden(mutants[m].emulated, mutants[m].kernel)) {
        ++seen;
        theirs += there;
      }
      if (here != there) {
        std::printf("%s of %s: the emulator says '%s', Oclgrind '%s'\n", kGroupMutations[kind],
                    held.name.c_str(), mutants[m].emulated.c_str(),
                    defect.substr(0, 400).c_str());
      }
    }
    std::printf("%-18s %4d wrong: the emulator finds %4d, Oclgrind %4d; %4d harmless\n",
                kGroupMutations[kind], wrong, emulator, oclgrind, harmless);
    EXPECT_GE(wrong, 8 * wanted) << kGroupMutations[kind];
    all += wrong, ours += emulator;
  }
  std::printf("%zu kernels; the emulator finds %d of %d mutants, Oclgrind %d of %d\n",
              programs.size(), ours, all, theirs, seen);
  EXPECT_GE(ours, 0.99 * all);
  EXPECT_GE(theirs, 0.99 * seen);
  // The rest shows first as reads of copies that were never written.
  EXPECT_GT(seen, 0.7 * all);
}

}  // namespace
}  // namespace lw
