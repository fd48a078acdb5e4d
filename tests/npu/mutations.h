// Programs with one thing wrong, of whatever instructions: which of them compute something else,
// and which of those are found out. A mutant does if it cannot run or gives other data under some
// timing: the machine's own, or one of several with other latencies, races not looked at. It is
// found out if one run on the machine itself says so: refused, race, deadlock, overflow, bounds, or
// wrong data.
#pragma once

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "src/npu/function/access.h"
#include "tests/npu/function_programs.h"

namespace lw::npu {

enum class Mutation { kDropToken, kAddToken, kExchange, kShrink };
constexpr Mutation kMutations[] = {Mutation::kDropToken, Mutation::kAddToken, Mutation::kExchange,
                                   Mutation::kShrink};
constexpr const char* kMutationNames[] = {"drop a token", "duplicate a token", "exchange",
                                          "shrink"};

// The memory that an address of an instruction is in.
inline Place place_of(const Instruction& one, std::string_view field) {
  if (field == "dram") return Place::kDram;
  if (field == "acc") return Place::kAcc;
  if (field == "loc") {
    const Copy* copy = std::get_if<Ld>(&one.body);
    if (copy == nullptr) copy = std::get_if<St>(&one.body);
    return copy->space == Space::kAcc ? Place::kAcc : Place::kSpm;
  }
  const bool vector = std::holds_alternative<VeBin>(one.body) ||
                      std::holds_alternative<VeUn>(one.body) ||
                      std::holds_alternative<VeRed>(one.body);
  const bool words = one.dtype == Dtype::kI32 || one.dtype == Dtype::kF32;
  return vector && words ? Place::kAcc : Place::kSpm;
}

// Everything of the memory from `base` on moves a row down, onto the last row before it.
inline void move_down(Program* program, Place place, int64_t base, int64_t row) {
  for (Instruction& one : *program) {
    std::visit([&](auto& body) {
      body.fields(body, [&](const BitField& field, auto& value) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, uint32_t>) {
          const bool moves = field.address && value >= base && place_of(one, field.name) == place;
          if (moves) value -= static_cast<uint32_t>(row);
        }
      });
    }, one.body);
  }
}

// False: nothing of that kind could be changed there.
inline bool mutate(Mutation kind, Case* c, Rng* rng) {
  Program& program = c->program;
  const size_t at = rng->below(program.size());
  Instruction& one = program[at];
  switch (kind) {
    case Mutation::kDropToken:
      if (std::holds_alternative<Sync>(one.body)) {
        program.erase(program.begin() + static_cast<ptrdiff_t>(at));
        return true;
      }
      [[fallthrough]];
    case Mutation::kAddToken: {
      std::array<uint8_t, 2>& tokens = rng->below(2) == 0 ? one.wait : one.signal;
      const int slot = tokens[1] != kNoToken && rng->below(2) == 0;
      if (tokens[slot] == kNoToken) return false;
      if (kind == Mutation::kDropToken) {
        tokens[slot] = kNoToken;
        return true;
      }
      if (&tokens == &one.wait) {          // one more of what another one waits for
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
    case Mutation::kExchange: {
      const size_t other = std::min(program.size() - 1, at + 1 + rng->below(6));
      if (other == at) return false;
      std::swap(program[at], program[other]);
      return true;
    }
    case Mutation::kShrink: {
      if (rng->below(2) == 0) {            // of DRAM
        Placed& tensor = c->tensors[rng->below(c->tensors.size())];
        const size_t row = 1 + rng->below(64);
        if (tensor.bytes.size() <= row) return false;
        tensor.bytes.resize(tensor.bytes.size() - row);
        return true;
      }
      const Accesses accesses = accesses_of(one);
      if (accesses.count == 0) return false;
      const Access access = accesses.list[rng->below(accesses.count)];
      const int64_t row = access.place == Place::kAcc ? c->config.acc.align : c->config.spm.align;
      if (access.place == Place::kDram || access.base < row) return false;
      move_down(&program, access.place, access.base, row);
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
inline Outcome outcome(Case c, const Config& times, bool races) {
  FunctionOptions options;
  options.races = races;
  const absl::StatusOr<FunctionReport> report = run(&c, options, &times);
  const bool ok = report.ok() && report->status == FunctionStatus::kOk;
  const bool ran = ok || (report.ok() && report->status == FunctionStatus::kRace);
  return {ran, !ok, c.result()};
}

class Mutants {
 public:
  // `wanted` of each kind, of a program that gives `right` under `timings` other timings.
  void add(const Case& original, const std::vector<uint8_t>& right, int timings, int64_t wanted,
           const std::string& name, Rng* rng) {
    std::vector<Config> others;
    for (int t = 0; t < timings; ++t) others.push_back(other_times(original.config, rng));
    for (Config& times : others) {
      const Outcome one = outcome(original, times, true);
      ASSERT_FALSE(one.reported) << name;
      ASSERT_EQ(one.result, right) << name;
      // How many instructions a queue holds is no timing: what needs no fewer than the machine's
      // own is right there.
      times.queues.depth = std::max(times.queues.depth, original.config.queues.depth);
    }
    for (const Mutation kind : kMutations) {
      for (int64_t done = 0, tries = 0; done < wanted && tries < 50 * wanted; ++tries) {
        Case mutant = original;
        if (!mutate(kind, &mutant, rng)) continue;
        ++done;
        judge(mutant, right, others, kind, name);
      }
    }
  }

  // Prints them by kind; of each at least `least` change the result, and of all 99 % are reported.
  void expect_reported(int64_t least) const {
    int64_t all_changed = 0, all_reported = 0;
    for (const Mutation kind : kMutations) {
      const int k = static_cast<int>(kind);
      std::printf("%-18s %4d change the result, %4d reported; %4d do not, %4d reported\n",
                  kMutationNames[k], int(changed_[k]), int(reported_[k]), int(harmless_[k]),
                  int(noticed_[k]));
      EXPECT_GE(changed_[k], least) << kMutationNames[k];
      all_changed += changed_[k];
      all_reported += reported_[k];
    }
    EXPECT_GE(all_reported, 0.99 * all_changed);
  }

 private:
  void judge(const Case& mutant, const std::vector<uint8_t>& right,
             const std::vector<Config>& others, Mutation kind, const std::string& name) {
    const int k = static_cast<int>(kind);
    const Outcome own = outcome(mutant, mutant.config, true);
    const bool found = own.reported || own.result != right;
    bool differs = !own.ran || own.result != right;
    for (size_t t = 0; t < others.size() && !differs; ++t) {
      const Outcome other = outcome(mutant, others[t], false);
      differs = !other.ran || other.result != right;
    }
    (differs ? changed_ : harmless_)[k] += 1;
    (differs ? reported_ : noticed_)[k] += found;
    if (differs && !found) std::printf("missed: %s of %s\n", kMutationNames[k], name.c_str());
  }

  int64_t changed_[4] = {}, reported_[4] = {}, harmless_[4] = {}, noticed_[4] = {};
};

}  // namespace lw::npu
