// Generic moves over the decisions of a sketch: no step kind is named here. Every move ends in
// `repaired`: replay with the decisions wanted, each kept where it still applies and else replaced
// by the nearest one of its domain, so offspring are almost always feasible.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "schedules/steps.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/rng.h"

namespace lw {
namespace {

constexpr int kMaxTries = 8;  // nearest decisions tried before a step is given up

bool is_open(const Sketch& sketch, size_t step) {
  return step < sketch.open.size() && sketch.open[step] &&
         sketch.steps[step].kind->domain != nullptr;
}

std::vector<Decision> domain_of(const Nest& nest, const Sketch& sketch, size_t step) {
  return sketch.steps[step].kind->domain(nest, sketch.steps[step]);
}

// Decisions are sizes, so ratios count; what is not a size differs by its step.
double distance(const Decision& a, const Decision& b) {
  double sum = 100.0 * std::abs(static_cast<double>(a.size()) - static_cast<double>(b.size()));
  for (size_t n = 0; n < std::min(a.size(), b.size()); ++n) {
    if (a[n] == b[n]) continue;
    if (a[n] < 0 || b[n] < 0) {
      sum += 2;
    } else {
      sum += std::abs(std::log2((static_cast<double>(a[n]) + 1) / (static_cast<double>(b[n]) + 1)));
    }
  }
  return sum;
}

// Positions in the domain by distance from `wanted`; equals in the domain's order.
std::vector<int> by_distance(const std::vector<Decision>& domain, const Decision& wanted,
                             size_t most) {
  std::vector<std::pair<double, int>> order;
  for (size_t n = 0; n < domain.size(); ++n)
    order.push_back({distance(domain[n], wanted), static_cast<int>(n)});
  most = std::min(most, order.size());
  std::partial_sort(order.begin(), order.begin() + most, order.end());
  std::vector<int> positions;
  for (size_t n = 0; n < most; ++n) positions.push_back(order[n].second);
  return positions;
}

// The nest after the sketch's first steps that are known, and how many those are.
std::pair<const Nest*, size_t> beginning(const Nest& start, const Sketch& sketch) {
  const Sketch::Settled* settled = sketch.settled.get();
  const bool fits = settled != nullptr && settled->program == start.program &&
                    settled->nest.target == start.target &&
                    settled->nest.threads == start.threads &&
                    settled->nest.unchecked == start.unchecked &&
                    settled->nest.stop == start.stop;
  if (!fits) return {&start, 0};
  return {&settled->nest, settled->steps};
}

// REQUIRES: `trace` is of the sketch.
absl::StatusOr<Nest> prefix_nest(const Nest& start, const Sketch& sketch, const Trace& trace,
                                 size_t steps) {
  const auto [known, from] = beginning(start, sketch);
  Nest nest = steps < from ? start : *known;
  for (size_t n = steps < from ? 0 : from; n < steps; ++n) RETURN_IF_ERROR(apply(nest, trace[n]));
  return nest;
}

// Replays sketch.steps with the numbers of `trace` from step `from` on; `nest` is the state before
// it, reached by the steps before it. `strict`: decisions outside their domain are replaced even
// where they would apply.
absl::StatusOr<Sample> repaired(const Sketch& sketch, Trace trace, size_t from, Nest nest,
                                bool strict) {
  // A step that fails leaves no nest: what it began with is made again of one kept not long before.
  constexpr size_t kKeptEvery = 16;
  Nest kept = nest;
  size_t kept_at = from;
  const auto restore = [&](size_t step) -> absl::Status {
    nest = kept;
    for (size_t n = kept_at; n < step; ++n) RETURN_IF_ERROR(apply(nest, trace[n]));
    return absl::OkStatus();
  };
  for (size_t step = from; step < trace.size(); ++step) {
    if (step - kept_at == kKeptEvery) kept = nest, kept_at = step;
    const bool open = is_open(sketch, step);
    std::optional<std::vector<Decision>> domain;
    if (strict && open) domain = domain_of(nest, sketch, step);
    const Decision wanted = trace[step].numbers;
    const bool known =
        !domain || std::find(domain->begin(), domain->end(), wanted) != domain->end();
    if (known) {
      const absl::Status status = apply(nest, trace[step]);
      if (status.ok()) continue;
      if (!open) return status;
      RETURN_IF_ERROR(restore(step));
    }
    if (!domain) domain = domain_of(nest, sketch, step);
    bool applied = false;
    for (int position : by_distance(*domain, wanted, kMaxTries)) {
      trace[step].numbers = (*domain)[position];
      applied = apply(nest, trace[step]).ok();
      if (applied) break;
      RETURN_IF_ERROR(restore(step));
    }
    if (!applied) return infeasible(concat("no decision for ", to_text(sketch.steps[step])));
  }
  return Sample{std::move(trace), std::move(nest)};
}

// Decisions next to the one at `position`: in each number alone the next smaller and larger value
// that the domain has, and the ones before and after in its order.
std::vector<int> neighbours_of(const std::vector<Decision>& domain, int position) {
  const Decision& here = domain[position];
  const int count = static_cast<int>(domain.size());
  std::vector<int> found;
  for (size_t number = 0; number < here.size(); ++number) {
    int below = -1, above = -1;
    for (int n = 0; n < count; ++n) {
      const Decision& other = domain[n];
      bool alone = other.size() == here.size() && other[number] != here[number];
      for (size_t m = 0; alone && m < here.size(); ++m) alone = m == number || other[m] == here[m];
      if (!alone) continue;
      if (other[number] < here[number] && (below < 0 || other[number] > domain[below][number]))
        below = n;
      if (other[number] > here[number] && (above < 0 || other[number] < domain[above][number]))
        above = n;
    }
    found.insert(found.end(), {below, above});
  }
  found.insert(found.end(), {position - 1, position + 1 < count ? position + 1 : -1});
  std::erase(found, -1);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Draws uniformly; in every other trace stages alike are decided alike. A program of fifty equal
// layers has too many decisions to draw fifty good ones by chance, and is as small as its layers.
class Likeness {
 public:
  Decision choose(const Step& step, std::vector<Decision> domain, Rng& rng) {
    Last& last = last_[key(step)];
    if (!last.domain.empty() && last.domain == domain) {
      if (!alike_) alike_ = rng.below(2) == 0;
      if (*alike_) return last.domain[last.at];
    }
    last.at = static_cast<size_t>(rng.below(static_cast<int64_t>(domain.size())));
    last.domain = std::move(domain);
    return last.domain[last.at];
  }

 private:
  struct Last {
    std::vector<Decision> domain;
    size_t at = 0;
  };
  // The step but for its stage.
  static std::string key(const Step& step) {
    std::string text = step.kind->name;
    for (size_t n = 1; n < step.names.size(); ++n) text += concat(" ", step.names[n]);
    return text;
  }

  absl::flat_hash_map<std::string, Last> last_;
  std::optional<bool> alike_;              // not known before it matters
};

std::vector<size_t> open_steps(const Sketch& sketch) {
  std::vector<size_t> steps;
  for (size_t n = 0; n < sketch.steps.size(); ++n) {
    if (is_open(sketch, n)) steps.push_back(n);
  }
  return steps;
}

}  // namespace

absl::StatusOr<Sample> sample(const Nest& start, const Sketch& sketch, Rng& rng) {
  const auto [known, from] = beginning(start, sketch);
  Sample drawn{sketch.steps, *known};
  Likeness likeness;
  for (size_t n = from; n < drawn.trace.size(); ++n) {
    if (is_open(sketch, n)) {
      std::vector<Decision> domain = domain_of(drawn.nest, sketch, n);
      if (domain.empty()) return infeasible(concat("no decision for ", to_text(sketch.steps[n])));
      drawn.trace[n].numbers = likeness.choose(sketch.steps[n], std::move(domain), rng);
    }
    RETURN_IF_ERROR(apply(drawn.nest, drawn.trace[n]));
  }
  return drawn;
}

absl::StatusOr<Sample> mutate(const Nest& start, const Sketch& sketch, const Trace& parent,
                              Rng& rng) {
  CHECK(parent.size() == sketch.steps.size());
  std::vector<size_t> steps = open_steps(sketch);
  while (!steps.empty()) {
    const int64_t chosen = rng.below(static_cast<int64_t>(steps.size()));
    const size_t step = steps[chosen];
    ASSIGN_OR_RETURN(Nest nest, prefix_nest(start, sketch, parent, step));
    const std::vector<Decision> domain = domain_of(nest, sketch, step);
    // A domain of one decision has nothing to redraw: another step is changed.
    if (domain.size() < 2) {
      steps.erase(steps.begin() + chosen);
      continue;
    }
    const int now = by_distance(domain, parent[step].numbers, 1)[0];
    int next = now;
    if (rng.below(2) == 0) {
      const std::vector<int> near = neighbours_of(domain, now);
      next = near[rng.below(static_cast<int64_t>(near.size()))];
    } else {
      next = static_cast<int>(rng.below(static_cast<int64_t>(domain.size()) - 1));
      next += next >= now;
    }
    Trace trace = parent;
    trace[step].numbers = domain[next];
    return repaired(sketch, std::move(trace), step, std::move(nest), false);
  }
  return infeasible("no decision is open");
}

absl::StatusOr<Sample> cross(const Nest& start, const Sketch& sketch, const Trace& a,
                             const Trace& b, Rng& rng) {
  CHECK(a.size() == sketch.steps.size() && b.size() == sketch.steps.size());
  Trace trace = a;
  for (size_t step : open_steps(sketch)) {
    if (rng.below(2) == 0) trace[step].numbers = b[step].numbers;
  }
  const auto [known, from] = beginning(start, sketch);
  return repaired(sketch, std::move(trace), from, *known, false);
}

std::vector<Sample> neighbours(const Nest& start, const Sketch& sketch, const Trace& parent) {
  CHECK(parent.size() == sketch.steps.size());
  std::vector<Sample> result;
  std::vector<std::string> seen = {to_text(parent)};
  const auto [known, from] = beginning(start, sketch);
  Nest nest = *known;
  for (size_t step = from; step < parent.size() && !start.stop.asked(); ++step) {
    if (is_open(sketch, step)) {
      const std::vector<Decision> domain = domain_of(nest, sketch, step);
      if (!domain.empty()) {
        const int now = by_distance(domain, parent[step].numbers, 1)[0];
        for (int next : neighbours_of(domain, now)) {
          Trace trace = parent;
          trace[step].numbers = domain[next];
          absl::StatusOr<Sample> moved =
              repaired(sketch, std::move(trace), step, nest, false);
          if (!moved.ok()) continue;
          std::string text = to_text(moved->trace);
          if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
          seen.push_back(std::move(text));
          result.push_back(*std::move(moved));
        }
      }
    }
    if (!apply(nest, parent[step]).ok()) break;
  }
  return result;
}

absl::StatusOr<Sample> adapt(const Nest& start, const Sketch& sketch, const Trace& foreign) {
  Trace trace = sketch.steps;
  std::vector<bool> taken(foreign.size());
  const auto find = [&](const Step& step, bool same_names) {
    for (size_t f = 0; f < foreign.size(); ++f) {
      if (!taken[f] && foreign[f].kind == step.kind &&
          (!same_names || foreign[f].names == step.names))
        return f;
    }
    return foreign.size();
  };
  // Steps of the same names first; the rest in order of their kind, as another workload names its
  // stages otherwise.
  std::vector<bool> matched(trace.size());
  for (const bool same_names : {true, false}) {
    for (size_t step : open_steps(sketch)) {
      if (matched[step]) continue;
      const size_t match = find(trace[step], same_names);
      if (match == foreign.size()) continue;
      taken[match] = matched[step] = true;
      trace[step].numbers = foreign[match].numbers;
    }
  }
  const auto [known, from] = beginning(start, sketch);
  return repaired(sketch, std::move(trace), from, *known, true);
}

bool is_of(const Sketch& sketch, const Trace& trace) {
  if (sketch.steps.size() != trace.size()) return false;
  for (size_t i = 0; i < trace.size(); ++i) {
    const Step &drawn = sketch.steps[i], &step = trace[i];
    if (drawn.kind != step.kind || drawn.names != step.names) return false;
    if (!is_open(sketch, i) && drawn.numbers != step.numbers) return false;
  }
  return true;
}

double estimate_size(const Nest& start, const Sketch& sketch, Rng& rng) {
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    const absl::StatusOr<Sample> path = sample(start, sketch, rng);
    if (start.stop.asked()) break;
    if (!path.ok()) continue;
    const auto [known, from] = beginning(start, sketch);
    Nest nest = *known;
    double size = 1;
    for (size_t step = from; step < path->trace.size(); ++step) {
      if (is_open(sketch, step)) size *= static_cast<double>(domain_of(nest, sketch, step).size());
      CHECK(apply(nest, path->trace[step]).ok() || start.stop.asked());
    }
    return size;
  }
  return 0;
}

}  // namespace lw
