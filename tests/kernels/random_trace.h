// Random traces, for the property test.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/steps.h"
#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/rng.h"

namespace lw {

// Step kinds that apply to the target.
inline std::vector<const StepKind*> kinds_of(const Target& target) {
  std::vector<const StepKind*> kinds;
  for (const StepKind* kind : lw_step_table()) {
    if (serves(target, kind->family)) kinds.push_back(kind);
  }
  return kinds;
}

// Draws steps from what the nest offers: names at random, decisions mostly from the step's domain.
class TraceWriter {
 public:
  // `favoured`: step kinds that are drawn more often.
  TraceWriter(Rng& rng, std::vector<std::string> favoured)
      : rng_(rng), favoured_(std::move(favoured)) {}

  int attempted = 0, accepted = 0;

  // Applies up to `steps` random steps to `nest`.
  Trace write(Nest& nest, int steps) {
    Trace trace;
    for (int n = 0; n < steps; ++n) {
      // What takes a stage as it was written has its chance before others have scheduled it.
      Step step;
      if (n == 0 && favoured_.empty() && chance(90)) {
        step.kind = find_step("precompute");
        step.names.push_back(nest.stages.back().name);
      } else {
        step = draw(nest);
      }
      if (step.kind == nullptr) continue;
      ++attempted;
      Nest next = nest;
      if (!apply(next, step).ok()) continue;
      ++accepted;
      nest = std::move(next);
      trace.push_back(std::move(step));
    }
    return trace;
  }

 private:
  template <class List>
  const auto& any(const List& list) {
    return list[rng_.below(static_cast<int64_t>(list.size()))];
  }
  bool chance(int percent) { return rng_.below(100) < percent; }

  Step draw(const Nest& nest) {
    Step step;
    step.kind = !favoured_.empty() && chance(50)
                    ? find_step(any(favoured_))
                    : any(kinds_of(*nest.target));
    const std::string_view kind = step.kind->name;
    const Stage& stage = any(nest.stages);
    step.names.push_back(stage.name);
    const int index = static_cast<int>(&stage - nest.stages.data());
    if (kind == "reverse_inline" || kind == "compute_at" || kind == "compute_with" ||
        kind == "stage" || kind == "prefetch") {
      if (!add_relation(nest, index, kind, step)) return {};
    } else if (kind != "inline_producer" && kind != "non_temporal" && kind != "slide" &&
               kind != "precompute" && !add_loops(stage, kind, step)) {
      return {};
    }
    decide(nest, step);
    return step;
  }

  bool add_relation(const Nest& nest, int stage, std::string_view kind, Step& step) {
    const std::vector<int> reads = body_reads(nest, stage);
    if (kind == "compute_at") {
      const std::vector<int> users = readers(nest, nest.stages[stage].tensor);
      if (users.empty()) return false;
      const Stage& user = nest.stages[any(users)];
      step.names.push_back(user.host >= 0 && chance(50) ? nest.stages[user.host].name : user.name);
      return true;
    }
    if (kind == "compute_with") {
      const int64_t later = static_cast<int64_t>(nest.stages.size()) - 1 - stage;
      if (later == 0) return false;
      step.names.push_back(nest.stages[stage + 1 + rng_.below(later)].name);
      return true;
    }
    if (reads.empty()) return false;
    const int tensor = any(reads);
    if (kind != "reverse_inline") {
      step.names.push_back(nest.program->tensors[tensor].name);
      return true;
    }
    int host = stage_of_tensor(nest, tensor);
    if (host < 0) return false;
    if (nest.stages[host].place == Place::kEpilogue) host = nest.stages[host].host;
    step.names.push_back(nest.stages[host].name);
    return true;
  }

  bool add_loops(const Stage& stage, std::string_view kind, Step& step) {
    const int64_t count = static_cast<int64_t>(stage.loops.size());
    if (count == 0) return false;
    if (kind == "parallel" && chance(50)) return true;
    if (kind == "unroll" || kind == "vectorize") {
      const int64_t from_last = chance(60) ? 0 : rng_.below(count);
      step.names.push_back(stage.loops[count - 1 - from_last].name);
    } else if (kind == "fuse" || kind == "parallel") {
      const int64_t first = rng_.below(count);
      const int64_t most = kind == "fuse" ? 2 : 1 + rng_.below(2);
      for (int64_t l = first; l < std::min(count, first + most); ++l)
        step.names.push_back(stage.loops[l].name);
      return kind == "parallel" || step.names.size() == 3;
    } else if (kind == "reorder" || kind == "register_tile") {
      std::vector<std::string> names;
      for (const Loop& loop : stage.loops) {
        const bool whole =
            loop.parts.size() == 1 && loop.parts[0].tile == 1 && loop.kind == LoopKind::kSerial;
        if (kind == "reorder" || whole) names.push_back(loop.name);
      }
      for (int64_t n = 1 + rng_.below(3); n > 0 && !names.empty(); --n) {
        const int64_t at = rng_.below(static_cast<int64_t>(names.size()));
        step.names.push_back(names[at]);
        names.erase(names.begin() + at);
      }
      return step.names.size() > (kind == "reorder" ? 2u : 1u);
    } else if (kind == "rfactor" || kind == "dot") {
      std::vector<std::string> names;
      for (const Loop& loop : stage.loops) {
        if (is_reduction(stage, loop) || chance(10)) names.push_back(loop.name);
      }
      if (names.empty()) return false;
      step.names.push_back(any(names));
    } else {
      step.names.push_back(stage.loops[rng_.below(count)].name);
    }
    return true;
  }

  // Phases of an axis: mostly a number that divides its extent.
  int64_t phases_of(const Nest& nest, const Step& step) {
    const Stage& stage = nest.stages[find_stage(nest, step.names[0])];
    const int64_t extent = trips(stage, find_loop(stage, step.names[1]));
    std::vector<int64_t> divisors;
    for (int64_t n = 2; n <= std::min<int64_t>(extent / 2, 8); ++n) {
      if (extent % n == 0) divisors.push_back(n);
    }
    return divisors.empty() || chance(5) ? 1 + rng_.below(4) : any(divisors);
  }

  void decide(const Nest& nest, Step& step) {
    if (step.kind->name == std::string_view("phase")) {
      step.numbers = {phases_of(nest, step)};
      return;
    }
    if (step.kind->domain == nullptr) return;
    const std::string_view kind = step.kind->name;
    const int64_t loops = static_cast<int64_t>(step.names.size()) - 1;
    // Domains leave out what is legal but slow; that has to be right as well.
    if (kind == "split" && chance(60)) {
      step.numbers = {1 + rng_.below(6), rng_.below(3)};
      if (chance(30)) step.numbers.insert(step.numbers.begin(), 1 + rng_.below(3));
      return;
    }
    if (kind == "register_tile" && chance(60)) {
      for (int64_t n = 0; n < loops; ++n)
        step.numbers.push_back(1 + rng_.below(n + 1 < loops ? 5 : 20));
      for (int64_t n = 0; n < loops; ++n) step.numbers.push_back(rng_.below(3));
      return;
    }
    if (kind == "reorder" && chance(30)) {
      step.numbers = {rng_.below(loops == 2 ? 2 : 6)};
      return;
    }
    if (kind == "split") step.numbers = {1, -1};
    const std::vector<Decision> domain = step.kind->domain(nest, step);
    if (!domain.empty()) {
      step.numbers = any(domain);
      // Groups serve dot products, and are right for any reader.
      if (kind == "stage" && step.numbers.size() <= 4 && chance(10)) {
        step.numbers.resize(4);
        step.numbers.push_back(rng_.below(3));
        step.numbers.push_back(2 + rng_.below(3));
      }
    } else if (step.numbers.empty()) {
      step.numbers = {rng_.below(3), rng_.below(3) - 1};
    }
  }

  Rng& rng_;
  std::vector<std::string> favoured_;
};

}  // namespace lw
