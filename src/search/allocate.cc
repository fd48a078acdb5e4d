#include "src/search/allocate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lw {
namespace {

// Of what a row does not tell: loading, verifying, the search's own share; and of a call that had
// to be killed.
constexpr double kOverheadSeconds = 0.02, kTimeoutSeconds = 2;

// The best after `trials` trials; 0: none yet.
double best_after(const WorkloadState& state, int trials) {
  const auto later = std::upper_bound(
      state.history.begin(), state.history.end(), trials,
      [](int n, const WorkloadState::Point& point) { return n < point.trials; });
  return later == state.history.begin() ? 0 : std::prev(later)->best_us;
}

double spent_after(const WorkloadState& state, int trials) {
  if (trials <= 0 || state.spent.empty()) return 0;
  return state.spent[std::min(static_cast<size_t>(trials), state.spent.size()) - 1];
}

int window_trials(const AllocateOptions& options) { return options.window * options.batch; }

double backward(const WorkloadState& state, const AllocateOptions& options) {
  const int before = state.trials - window_trials(options);
  const double then = best_after(state, before);
  const double seconds = state.seconds - spent_after(state, before);
  if (before < 1 || then <= 0 || seconds <= 0) return 0;
  return std::max(0.0, then - state.best_us) / (state.best_us * seconds);
}

// How time fell over the last doubling of trials: t ~ n^-s.
double slope(const WorkloadState& state) {
  const double then = best_after(state, state.trials / 2);
  return then > 0 ? std::log2(then / state.best_us) : 1;
}

double exponent(const std::vector<WorkloadState>& states, const WorkloadState& state,
                const AllocateOptions& options) {
  double all = 2;
  for (const WorkloadState& other : states) all += other.trials + other.in_flight;
  const int tried = state.trials + state.in_flight;
  return slope(state) +
         options.optimism * std::sqrt(std::log(all) / std::max(tried, 1));
}

double efficiency(const WorkloadState& state) {
  return state.best_us > 0 ? state.bound_us / state.best_us : 0;
}

double attainable(const std::vector<WorkloadState>& states, const WorkloadState& state,
                  const AllocateOptions& options) {
  const double own = efficiency(state);
  if (state.group.empty() || own <= 0) return 0;
  double best = own;
  for (const WorkloadState& other : states) {
    if (other.group == state.group) best = std::max(best, efficiency(other));
  }
  return std::max(0.0, 1 - options.beta * own / best);
}

double trial_seconds(const WorkloadState& state) {
  return state.trials > 0 ? state.seconds / state.trials : 0;
}

}  // namespace

double machine_seconds(const Measurement& m) {
  const double sampled =
      std::accumulate(m.samples_us.begin(), m.samples_us.end(), 0.0) * 1e-6;
  return m.build_s + sampled * static_cast<double>(std::max<int64_t>(m.inner, 1)) +
         kOverheadSeconds + (m.verdict == Verdict::kTimeout ? kTimeoutSeconds : 0);
}

void record(WorkloadState& state, const Measurement& m) {
  if (m.time_kind != state.time_kind || !is_pooled(m)) return;
  state.seconds += machine_seconds(m);
  if (is_trial(m)) state.spent.push_back(state.seconds);
  const double before = state.best_us;
  if (m.time_kind == TimeKind::kSimulated && m.verdict == Verdict::kOk && !m.verified) {
    // It is as fast as it is, though nobody had a reason to run it; who has depends on what else has
    // been measured where.
    Measurement known = m;
    known.verified = true;
    state.take(known);
  } else {
    state.take(m);
  }
  if (state.best_us == before) return;
  if (state.first_us == 0) state.first_us = state.best_us;
  state.history.push_back({state.trials, state.seconds, state.best_us});
}

bool is_dead(const WorkloadState& state, const AllocateOptions& options) {
  return state.best_us == 0 && state.trials >= options.warm_up * options.batch;
}

bool has_stopped(const WorkloadState& state, const AllocateOptions& options) {
  if (options.flat_windows <= 0) return false;
  const bool exact = state.time_kind == TimeKind::kSimulated;
  const int flat = exact ? options.exact_flat_windows : options.flat_windows;
  const double least = exact ? options.exact_least_gain : options.least_gain;
  const int window = window_trials(options);
  if (state.trials < (flat + 1) * window) return false;
  if (state.trials < state.resumed + window) return false;
  for (int i = 0; i < flat; ++i) {
    const double now = best_after(state, state.trials - i * window);
    const double then = best_after(state, state.trials - (i + 1) * window);
    if (then <= 0 || 1 - now / then >= least) return false;
  }
  return true;
}

int64_t trials_left(const std::vector<WorkloadState>& states, const SharedBudget& budget) {
  int64_t left = budget.trials;
  for (const WorkloadState& state : states) left -= state.trials + state.in_flight;
  return std::max<int64_t>(left, 0);
}

double expected_gain(const std::vector<WorkloadState>& states, int i, int current,
                     const AllocateOptions& options) {
  const WorkloadState& state = states[i];
  if (state.best_us <= 0 || state.seconds <= 0) return 0;
  const double headroom = std::clamp(1 - efficiency(state), 0.0, 1.0);
  const double hoped = headroom * std::clamp(exponent(states, state, options), 0.0, 1.0);
  const double seconds = state.seconds + state.in_flight * trial_seconds(state);
  const double ahead = std::max(hoped, attainable(states, state, options)) / seconds;
  const double weight = state.weight > 0 ? state.weight : 1 / state.first_us;
  const double rate = weight * state.best_us *
                      (options.alpha * backward(state, options) + (1 - options.alpha) * ahead);
  const double round = trial_seconds(state) * options.batch;
  return i == current || round <= 0 ? rate : rate * round / (round + state.switch_s);
}

int choose(const std::vector<WorkloadState>& states, const SharedBudget& budget, double elapsed_s,
           int current, const AllocateOptions& options) {
  if (elapsed_s >= budget.seconds || trials_left(states, budget) == 0) return -1;
  int best = -1;
  double best_gain = 0;
  for (int i = 0; i < static_cast<int>(states.size()); ++i) {
    if (!is_open(states[i], options)) continue;
    // A round for everybody first; nothing valid yet: on until it is dead, or is not.
    const int tried = states[i].trials + states[i].in_flight;
    const bool unknown = tried < options.batch ||
                         (states[i].best_us <= 0 && tried < options.warm_up * options.batch);
    const double gain = unknown ? std::numeric_limits<double>::infinity()
                                : expected_gain(states, i, current, options);
    const bool wins = best < 0 || gain > best_gain || (gain == best_gain && i == current);
    if (wins) best = i, best_gain = gain;
  }
  return best;
}

}  // namespace lw
