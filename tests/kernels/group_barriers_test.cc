// The barriers of schedules with groups of items, drawn from the space over the library's
// operators: no item races with another, in no order, and with any barrier left out some do.
// LW_DRAWS: schedules of each program; LW_SEED; LW_SHOW: print kernels with a barrier that can be
// left out.
#include <climits>
#include <cstdio>

#include "src/build/emulator/emulate.h"
#include "src/kernel/blocks.h"
#include "tests/kernels/random_shapes.h"
#include "tests/support/close_results.h"
#include "tests/support/program.h"
#include "tests/support/scheduled_kernels.h"

namespace lw {
namespace {

struct BarrierTally {
  int kernels = 0, slots = 0;              // with groups whose items meet; of copies that alternate
  int barriers = 0, needed = 0;
};

std::string emulated_status(const Kernel& kernel, const Program& program,
                            const std::vector<Data>& in, ItemOrder::Kind order) {
  std::vector<Data> memory = in;
  for (int t : outputs(program)) {
    memory.push_back({std::vector<std::byte>(static_cast<size_t>(bytes(program.tensors[t])))});
  }
  std::vector<void*> arguments;
  for (Data& data : memory) arguments.push_back(data.bytes.data());
  const absl::Status status = emulate(kernel, arguments.data(), {{order, 1}});
  return std::string(status.message());
}

// Takes out the `which`th barrier, counted down to -1.
void take_barrier(std::vector<Stmt>& list, int* which) {
  for (size_t i = 0; i < list.size() && *which >= 0; ++i) {
    const bool barrier = list[i].kind == Stmt::Kind::kOp && list[i].op == Op::kBarrier;
    if (barrier && (*which)-- == 0) {
      list.erase(list.begin() + static_cast<int64_t>(i));
      return;
    }
    take_barrier(list[i].body, which);
    take_barrier(list[i].otherwise, which);
  }
}

int count_barriers(const Kernel& kernel) {
  Kernel rest = kernel;
  int which = INT_MAX;
  take_barrier(rest.body, &which);
  return INT_MAX - which;
}

void expect_needed(const Scheduled& s, const Program& program, const std::vector<Data>& in,
                   BarrierTally* tally) {
  const int barriers = count_barriers(s.kernel);
  if (barriers == 0) return;
  ++tally->kernels;
  const size_t pipeline = s.schedule.find("pipeline(");
  tally->slots += pipeline != s.schedule.npos &&
                  s.schedule.substr(s.schedule.find(';', pipeline)).starts_with("; 2)");
  for (const auto order : {ItemOrder::Kind::kAscending, ItemOrder::Kind::kShuffled}) {
    ASSERT_EQ(emulated_status(s.kernel, program, in, order), "") << s.schedule << print(s.kernel);
  }
  for (int n = 0; n < barriers; ++n) {
    Kernel without = s.kernel;
    int which = n;
    take_barrier(without.body, &which);
    const std::string found = emulated_status(without, program, in, ItemOrder::Kind::kAscending);
    ++tally->barriers;
    tally->needed += !found.empty();
    if (found.empty() && setting("LW_SHOW", 0) != 0) {
      std::printf("barrier %d of %d is superfluous:\n%s%s\n", n, barriers, s.schedule.c_str(),
                  print(s.kernel).c_str());
    }
  }
}

constexpr double kMostEmulatedFlops = 4e5;         // the emulator is slow

TEST(GroupBarriers, NoneIsMissingAndNoneIsSuperfluous) {
  const auto target = std::make_shared<const Target>(*find_target("opencl_gpu"));
  const int64_t draws = setting("LW_DRAWS", 4);
  BarrierTally tally;
  const std::vector<OpDefinition> ops = builtin_ops();
  for (size_t o = 0; o < ops.size(); ++o) {
    Rng rng = Rng(static_cast<uint64_t>(setting("LW_SEED", 22))).split(o);
    for (int kind = 1; kind < kShapeKinds; ++kind) {
      const RandomShape shape = random_shape(ops[o], kind, kMostEmulatedFlops, 1 << 15, rng);
      SCOPED_TRACE(concat(ops[o].name, " ", kind));
      const Nest start = make_nest(std::make_shared<const Program>(shape.program), target, 1);
      const std::vector<Sketch> space = sketches_with(make_space(start), "share");
      if (space.empty()) break;
      const std::vector<Data> in = fitting_inputs(shape.program, rng);
      for (int64_t n = 0; n < draws; ++n) {
        const std::optional<Scheduled> drawn = draw_kernel(start, space, rng, 20);
        if (drawn) expect_needed(*drawn, shape.program, in, &tally);
        if (HasFatalFailure()) return;
      }
    }
  }
  std::printf("%d kernels, %d that alternate, %d barriers, %d needed\n", tally.kernels, tally.slots,
              tally.barriers, tally.needed);
  EXPECT_GT(tally.kernels, 15 * draws);
  EXPECT_GE(tally.needed, 0.99 * tally.barriers);
}

}  // namespace
}  // namespace lw
