#include "src/measure/npu/simulation.h"

#include <algorithm>
#include <array>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/npu/module.h"
#include "src/npu/timing/timing.h"

namespace lw {
namespace {

enum State { kBusy, kBus, kToken, kDispatch, kEngine, kQueueFull, kStates };
constexpr std::array<const char*, kStates> kNames = {
    "busy", "busy, waits for a bus", "waits for a token", "waits for dispatch",
    "not ready for the next", "a queue is full"};
// Where several hold at once, the first: an engine may be at work while its next instruction waits.
constexpr State kFirst[] = {kBus, kBusy, kToken, kDispatch, kEngine, kQueueFull};

State state_of(npu::Cause cause) {
  switch (cause) {
    case npu::Cause::kToken: return kToken;
    case npu::Cause::kDispatch: return kDispatch;
    case npu::Cause::kEngine: return kEngine;
    case npu::Cause::kBus: return kBus;
    case npu::Cause::kQueueFull: return kQueueFull;
  }
  CHECK(false);
}

struct Range {
  npu::Ticks begin, end;
};
using Ranges = std::vector<Range>;         // once united(): in order, and none touches another
using Track = std::array<Ranges, kStates>;

Ranges united(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  Ranges all;
  for (const Range& one : ranges) {
    if (all.empty() || one.begin > all.back().end) {
      all.push_back(one);
    } else {
      all.back().end = std::max(all.back().end, one.end);
    }
  }
  return all;
}

Ranges without(const Ranges& ranges, const Ranges& others) {
  Ranges left;
  size_t at = 0;
  for (Range one : ranges) {
    while (at < others.size() && others[at].end <= one.begin) ++at;
    for (size_t i = at; i < others.size() && others[i].begin < one.end; ++i) {
      if (others[i].begin > one.begin) left.push_back({one.begin, others[i].begin});
      one.begin = std::max(one.begin, others[i].end);
    }
    if (one.begin < one.end) left.push_back(one);
  }
  return left;
}

Simulation::Engine engine_of(std::string_view name, Track track, double cycles) {
  Simulation::Engine engine;
  engine.name = name;
  engine.shares.assign(kStates, 0);
  Ranges taken;
  for (const State state : kFirst) {
    const Ranges own = without(united(std::move(track[state])), taken);
    for (const Range& range : own) {
      engine.intervals.push_back({npu::to_cycles(range.begin), npu::to_cycles(range.end), state});
      engine.shares[state] += npu::to_cycles(range.end - range.begin) / cycles;
    }
    taken.insert(taken.end(), own.begin(), own.end());
    taken = united(std::move(taken));
  }
  std::sort(engine.intervals.begin(), engine.intervals.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  engine.busy = engine.shares[kBusy] + engine.shares[kBus];
  return engine;
}

std::vector<Simulation::Limit> limits_of(const npu::Bounds& bounds) {
  std::vector<Simulation::Limit> limits = {{"compute", bounds.mac},
                                           {"array", bounds.array},
                                           {"dma", bounds.dma},
                                           {"vector", bounds.vector},
                                           {"dispatch", bounds.dispatch}};
  std::stable_sort(limits.begin(), limits.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  return limits;
}

}  // namespace

absl::StatusOr<Simulation> simulate_npu(const Artifact& artifact) {
  ASSIGN_OR_RETURN(const npu::Module module, npu::read_module(artifact.bytes));
  std::vector<npu::Span> spans;
  std::vector<npu::Stall> stalls;
  npu::TimingOptions options;
  options.timeline = &spans;
  options.stalls = &stalls;
  ASSIGN_OR_RETURN(const npu::Timing timing,
                   npu::simulate(module.config, module.program, options));
  if (timing.ending != npu::Ending::kDone) {
    return absl::DataLossError(concat(name_of(timing.ending), ": ", timing.blocked));
  }
  std::array<Track, npu::kEngines + 1> tracks;
  for (const npu::Span& span : spans) {
    tracks[static_cast<size_t>(span.engine)][kBusy].push_back({span.begin, span.end});
  }
  for (const npu::Stall& stall : stalls) {
    const bool dispatchers = stall.cause == npu::Cause::kQueueFull;
    Track& track = tracks[dispatchers ? npu::kEngines : static_cast<size_t>(stall.engine)];
    track[state_of(stall.cause)].push_back({stall.begin, stall.end});
  }
  Simulation simulation;
  simulation.unit = "cycles";
  simulation.time = static_cast<double>(timing.cycles);
  simulation.us = timing.ns / 1000;
  simulation.limits = limits_of(timing.bounds);
  simulation.states.assign(kNames.begin(), kNames.end());
  for (int e = 0; e < npu::kEngines; ++e) {
    simulation.engines.push_back(
        engine_of(name_of(static_cast<npu::Engine>(e)), std::move(tracks[e]), simulation.time));
  }
  simulation.engines.push_back(
      engine_of("dispatcher", std::move(tracks[npu::kEngines]), simulation.time));
  // Of the dispatcher it is known how long it works, but not when: an instruction at a time.
  simulation.engines.back().busy = timing.bounds.dispatch / simulation.time;
  return simulation;
}

}  // namespace lw
