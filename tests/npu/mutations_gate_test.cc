// Gate V11: programs with one thing wrong are found out. A token less or more, two instructions
// exchanged, a buffer a row too small: of the mutants that compute something else under some timing
// (the program's own, or one of several with other latencies, races not looked at), at least 99 %
// are reported in one run on the machine itself: refused, race, deadlock, bounds, or wrong data.
// LW_NPU_MUTANTS: how many of each kind a program.
#include "tests/npu/function_programs.h"

namespace lw::npu {
namespace {

enum class Kind { kDropToken, kAddToken, kExchange, kShrink };
constexpr Kind kKinds[] = {Kind::kDropToken, Kind::kAddToken, Kind::kExchange, Kind::kShrink};
const char* const kKindNames[] = {"drop a token", "duplicate a token", "exchange", "shrink"};

// False: nothing of that kind could be changed there.
bool mutate(Kind kind, Case* c, Rng* rng) {
  Program& program = c->program;
  const size_t at = rng->below(program.size());
  Instruction& one = program[at];
  switch (kind) {
    case Kind::kDropToken:
    case Kind::kAddToken: {
      std::array<uint8_t, 2>& tokens = rng->below(2) == 0 ? one.wait : one.signal;
      const int slot = tokens[1] != kNoToken && rng->below(2) == 0;
      if (tokens[slot] == kNoToken) return false;
      if (kind == Kind::kDropToken) {
        tokens[slot] = kNoToken;
        return true;
      }
      if (tokens == one.wait) {            // one more of what another one waits for
        for (size_t i = at + 1; i < program.size(); ++i) {
          Instruction& later = program[i];
          if (later.op().dispatcher || later.op().engine != one.op().engine) continue;
          if (later.wait[1] != kNoToken || later.wait[0] == tokens[slot]) continue;
          later.wait[later.wait[0] == kNoToken ? 0 : 1] = tokens[slot];
          return true;
        }
        return false;
      }
      if (tokens[1] != kNoToken) return false;
      tokens[1] = tokens[0];
      return true;
    }
    case Kind::kExchange: {
      const size_t other = std::min(program.size() - 1, at + 1 + rng->below(6));
      if (other == at) return false;
      std::swap(program[at], program[other]);
      return true;
    }
    case Kind::kShrink: {
      if (rng->below(2) == 0) {            // of DRAM
        Placed& tensor = c->tensors[rng->below(c->tensors.size())];
        const size_t row = 1 + rng->below(64);
        if (tensor.bytes.size() <= row) return false;
        tensor.bytes.resize(tensor.bytes.size() - row);
        return true;
      }
      // Of SPM or ACC: everything behind some place moves a row down, onto the last row before it.
      const Accesses accesses = accesses_of(one);
      if (accesses.count == 0) return false;
      const Access access = accesses.list[rng->below(accesses.count)];
      if (access.place == Place::kDram) return false;
      const int64_t row = access.place == Place::kAcc ? c->config.acc.align : c->config.spm.align;
      if (access.base < row) return false;
      const auto move = [&](auto& address) {
        if (address >= access.base) address -= row;
      };
      for (Instruction& each : program) {
        if (access.place == Place::kAcc) {
          if (auto* mm = std::get_if<MxMm>(&each.body)) move(mm->acc);
          if (auto* mm = std::get_if<MxMmos>(&each.body)) move(mm->acc);
          if (auto* req = std::get_if<VeReq>(&each.body)) move(req->acc);
        } else {
          if (auto* ld = std::get_if<Ld>(&each.body)) move(ld->loc);
          if (auto* st = std::get_if<St>(&each.body)) move(st->loc);
          if (auto* w = std::get_if<MxLdw>(&each.body)) move(w->w);
          if (auto* mm = std::get_if<MxMm>(&each.body)) move(mm->a);
          if (auto* mm = std::get_if<MxMmos>(&each.body)) {
            move(mm->a);
            move(mm->b);
          }
          if (auto* req = std::get_if<VeReq>(&each.body)) {
            move(req->dst);
            move(req->scale);
            move(req->bias);
          }
        }
      }
      return true;
    }
  }
  return false;
}

// What one run of a mutant gives: it could not, or its data.
struct Outcome {
  bool ran = false;                        // to the end
  bool reported = false;                   // refused, race, deadlock, overflow, bounds
  std::vector<uint8_t> result;
};
Outcome outcome(Case c, const Config& times, bool races) {
  FunctionOptions options;
  options.races = races;
  const absl::StatusOr<FunctionReport> report = run(&c, options, &times);
  const bool ok = report.ok() && report->status == FunctionStatus::kOk;
  const bool ran = ok || (report.ok() && report->status == FunctionStatus::kRace);
  return {ran, !ok, c.result()};
}

TEST(MutationsGate, WhatChangesTheResultIsReported) {
  constexpr int kTimings = 12;
  const int64_t wanted = setting("LW_NPU_MUTANTS", 25);
  int64_t changed[4] = {}, reported[4] = {}, harmless[4] = {}, noticed[4] = {};
  const struct {
    const char* machine;
    GemmPlan plan;
  } programs[] = {{"edge16", {50, 70, 96, 20, 32, 32, 12, false, Dtype::kI8}},
                  {"edge16", {40, 48, 64, 16, 16, 32, 16, true, Dtype::kI8}},
                  {"mid32", {70, 100, 160, 33, 64, 64, 20, false, Dtype::kI8}},
                  {"mid32", {64, 96, 128, 32, 32, 64, 32, true, Dtype::kI8}},
                  {"big128", {90, 200, 256, 45, 128, 128, 45, false, Dtype::kI8}}};
  for (size_t p = 0; p < std::size(programs); ++p) {
    Rng rng = Rng(111).split(p);
    const Config config = machine(programs[p].machine);
    const GemmPlan& plan = programs[p].plan;
    const Epilogue epilogue = random_epilogue(plan.n, plan.k, &rng);
    absl::StatusOr<Case> original = gemm_case(config, plan, plan.k, epilogue, &rng);
    ASSERT_TRUE(original.ok()) << original.status();
    const std::vector<uint8_t> right = gemm_reference(*original, plan, epilogue);
    std::vector<Config> timings;
    for (int t = 0; t < kTimings; ++t) timings.push_back(other_times(config, &rng));
    for (const Config& times : timings) {  // the program itself is right under all of them
      const Outcome one = outcome(*original, times, true);
      ASSERT_FALSE(one.reported) << programs[p].machine << " " << p;
      ASSERT_EQ(one.result, right);
    }
    for (const Kind kind : kKinds) {
      const int k = static_cast<int>(kind);
      for (int64_t done = 0, tries = 0; done < wanted && tries < 50 * wanted; ++tries) {
        Case mutant = *original;
        if (!mutate(kind, &mutant, &rng)) continue;
        ++done;
        const Outcome own = outcome(mutant, config, true);
        const bool found = own.reported || own.result != right;
        bool differs = !own.ran || own.result != right;
        for (int t = 0; t < kTimings && !differs; ++t) {
          const Outcome other = outcome(mutant, timings[t], false);
          differs = !other.ran || other.result != right;
        }
        (differs ? changed : harmless)[k] += 1;
        (differs ? reported : noticed)[k] += found;
        if (differs && !found) {
          std::printf("missed: %s of program %d\n", kKindNames[k], static_cast<int>(p));
        }
      }
    }
  }
  int64_t all_changed = 0, all_reported = 0;
  for (const Kind kind : kKinds) {
    const int k = static_cast<int>(kind);
    std::printf("%-18s %4d change the result, %4d reported; %4d do not, %4d reported\n",
                kKindNames[k], int(changed[k]), int(reported[k]), int(harmless[k]),
                int(noticed[k]));
    EXPECT_GT(changed[k], wanted) << kKindNames[k];    // of five programs' mutants
    all_changed += changed[k];
    all_reported += reported[k];
  }
  EXPECT_GE(all_reported, 0.99 * all_changed);
}

}  // namespace
}  // namespace lw::npu
