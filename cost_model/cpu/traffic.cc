// Traffic: how many lines cross each cache boundary in one call, and pages the TLB.
//
// Going outward from the register tile, a loop multiplies what an array moves by its trips when one
// iteration touches more than the cache holds (nothing survives to the next), else only by the
// growth of the array's own footprint. Between the two the share that survives falls linearly,
// which a cache with imperfect replacement does, and which keeps the draft free of cliffs. Around
// all loops stands that of the calls: a program that fits a cache brings nothing into it (the warm
// regime).
#include <algorithm>
#include <cmath>

#include "cost_model/cpu/analysis.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/expr/expr.h"

namespace lw::cost {
namespace {

double footprint(const Array& array, int boundary, int position) {
  position = std::min(position, array.until);
  return boundary == kTlb ? array.pages[position] : array.lines[position];
}
double crowding(const Array& array, int boundary, int position) {
  position = std::min(position, array.until);
  return boundary == kTlb ? array.pages[position] : array.crowded[position];
}

class Traffic {
 public:
  Traffic(const Nest& nest, Analysis& analysis)
      : nest_(nest), target_(*nest.target), machine_(costs(target_)), analysis_(analysis) {
    boundaries_ = std::min<int>(static_cast<int>(target_.caches.size()) - 1, kTlb);
  }

  void run() {
    for (StageCost& cost : analysis_.stages) {
      for (int b = 0; b < kBoundaries; ++b) touch(cost, b);
    }
    sum_program();
    for (StageCost& cost : analysis_.stages) {
      for (int b = 0; b < kBoundaries; ++b) {
        if (b < boundaries_ || b == kTlb) move(cost, b);
      }
      for (int b = 0; b < boundaries_; ++b) cost.memory_cycles[b] = cycles(cost, b);
      for (const Array& array : cost.arrays)
        cost.memory_cycles[kTlb] += array.moved[kTlb] * machine_.page_cycles;
    }
  }

 private:
  // The share of what was touched that does not survive.
  double lost(double touched, double capacity) const {
    return machine_.lost(touched / capacity);
  }

  double capacity(int boundary) const {
    return boundary == kTlb ? lw::cpu(target_).tlb_entries
                            : static_cast<double>(target_.caches[boundary].bytes) / kLineBytes;
  }

  // What is touched inside each loop of the stage, by itself and by what is attached within.
  void touch(StageCost& cost, int boundary) {
    absl::InlinedVector<double, 24>& touched = cost.touched[boundary];
    touched.assign(cost.end + 1, 0);
    for (int p = 0; p <= cost.end; ++p) {
      for (const Array& array : cost.arrays) {
        if (p <= array.until) touched[p] += crowding(array, boundary, p);
      }
    }
    const int self = static_cast<int>(&cost - analysis_.stages.data());
    for (const StageCost& inner : analysis_.stages) {
      if (!inside(inner, self)) continue;
      for (const Array& array : inner.arrays) {
        // The buffer between the two is counted where it is read.
        if (array.written && array.local) continue;
        const int last = std::min(inner.depth, cost.end);
        for (int p = 0; p <= last; ++p) touched[p] += crowding(array, boundary, p);
      }
    }
  }

  bool inside(const StageCost& inner, int host) const {
    int at = inner.host;
    while (at >= 0 && at != host) at = analysis_.stages[at].host;
    return at == host;
  }

  // Every tensor once.
  void sum_program() {
    absl::InlinedVector<int, 16> seen;
    for (const StageCost& cost : analysis_.stages) {
      if (!cost.timed) continue;
      for (const Array& array : cost.arrays) {
        if (array.local) continue;
        if (std::find(seen.begin(), seen.end(), array.tensor) != seen.end()) continue;
        seen.push_back(array.tensor);
        analysis_.program_lines += array.lines[0];
        analysis_.program_pages += array.pages[0];
      }
    }
  }

  // What is touched inside position p of the stage's chain: by its hosts where the loop is theirs.
  double touched(const StageCost& cost, int boundary, int position) const {
    const StageCost* owner = &cost;
    while (owner->host >= 0 && position <= owner->depth) owner = &analysis_.stages[owner->host];
    return owner->touched[boundary][std::min(position, owner->end)];
  }

  void move(StageCost& cost, int boundary) {
    const double room = capacity(boundary);
    absl::InlinedVector<double, 24> lost_inside;  // of what one iteration of each loop touches
    for (int l = 0; l < cost.tile; ++l)
      lost_inside.push_back(lost(touched(cost, boundary, l + 1), room));
    for (Array& array : cost.arrays) {
      double moved = footprint(array, boundary, array.until);
      for (int l = array.until - 1; l >= 0; --l) {
        const double inner = footprint(array, boundary, l + 1),
                     outer = footprint(array, boundary, l);
        const double again = lost_inside[l];
        moved *= again * cost.thread_trips(l) +
                 (1 - again) * std::max(1.0, std::min(outer / inner, cost.thread_trips(l)));
      }
      array.moved[boundary] = moved * lost(since_last_use(cost, array, boundary), room);
    }
  }

  // What is touched between the array's last use by anyone and this stage: a whole call; less where
  // a stage before, under the same loops, touched the tensor in the same iteration; a temporary was
  // written a moment ago, or is read in a moment.
  double since_last_use(const StageCost& cost, const Array& array, int boundary) const {
    double since = boundary == kTlb ? analysis_.program_pages : analysis_.program_lines;
    if (!array.input_or_output) since = std::min(since, 2 * touched(cost, boundary, 0));
    if (array.local) return since;
    for (const StageCost& earlier : analysis_.stages) {
      if (earlier.stage >= cost.stage || !earlier.timed) continue;
      const bool used = std::any_of(
          earlier.arrays.begin(), earlier.arrays.end(),
          [&](const Array& other) { return other.tensor == array.tensor && !other.local; });
      if (used) since = std::min(since, between(earlier, cost, boundary));
    }
    return since;
  }

  // What is touched from the earlier stage to the later one, in one iteration of the loops both
  // share.
  double between(const StageCost& earlier, const StageCost& later, int boundary) const {
    const int host = common_host(earlier, later);
    if (host < 0) return touched(earlier, boundary, 0) + touched(later, boundary, 0);
    const StageCost& shared = analysis_.stages[host];
    return shared
        .touched[boundary][std::min({depth_in(earlier, host), depth_in(later, host), shared.end})];
  }

  int common_host(const StageCost& a, const StageCost& b) const {
    const int first = static_cast<int>(&a - analysis_.stages.data());
    for (int at = first; at >= 0; at = analysis_.stages[at].host) {
      const StageCost& host = analysis_.stages[at];
      if (&host == &b || inside(b, at)) return at;
    }
    return -1;
  }

  // Loops of the chain of `host` around the stage (all of them for the host itself).
  int depth_in(const StageCost& cost, int host) const {
    const StageCost* at = &cost;
    int depth = at->end;
    while (at != &analysis_.stages[host]) depth = at->depth, at = &analysis_.stages[at->host];
    return depth;
  }

  // Whether its stores bypass the caches: of whole vectors only (build/llvm_memory.cc).
  bool streams(const StageCost& cost) const {
    const Stage& stage = nest_.stages[cost.stage];
    if (!stage.non_temporal || cost.vector_axis < 0) return false;
    const int64_t size = size_of(nest_.program->tensors[stage.tensor].type);
    const auto whole = [&](double points) {
      return static_cast<int64_t>(points) * size % lw::cpu(target_).vector_bytes == 0;
    };
    return whole(cost.box_at(cost.tile)[cost.vector_axis]) &&
           whole(static_cast<double>(stage.axes[cost.vector_axis].extent));
  }

  // Time to move the stage's lines over the boundary below cache `b`.
  double cycles(const StageCost& cost, int b) const {
    const CacheLevel& from = target_.caches[b + 1];
    const bool last = b + 1 == boundaries_;
    const bool bypass = streams(cost);
    double sum = 0;
    for (const Array& array : cost.arrays) {
      const double read = kLineBytes / from.read_bytes_per_cycle,
                   write = kLineBytes / from.write_bytes_per_cycle;
      if (array.written && bypass) {
        if (last) sum += visits(cost, array) * write;
        continue;
      }
      // Prefetchers run ahead of long runs; short ones wait for the latency, several at a time.
      const double run = array.run_bytes[run_position(cost, array)] / kLineBytes;
      const double begun = std::clamp(machine_.long_run / std::max(run, 1.0), 0.0, 1.0);
      double waits = from.latency_cycles / machine_.misses * begun;
      if (prefetched(cost, array)) waits *= machine_.asked_for;
      // Rows that fall into the same few sets evict each other whatever runs ahead.
      if (b == 0) {
        const double evicted = lost(crowded(cost, array), capacity(0));
        waits = std::max(waits, evicted * machine_.evicted_wait * from.latency_cycles);
      }
      sum += array.moved[b] * std::max(read, waits);
      if (array.written) sum += array.moved[b] * write;
    }
    return sum;
  }

  // What the array occupies of the nearest cache inside a tile; of rows a page apart, with those of
  // other arrays, which are in the same sets.
  static double crowded(const StageCost& cost, const Array& array) {
    double all = array.crowded[array.until];
    for (const Array& other : cost.arrays) {
      if (&other != &array && array.reused_rows_conflict && other.reused_rows_conflict)
        all += other.crowded[other.until];
    }
    return all;
  }

  // Outside of the loops that walk along memory: those of a sum in registers, or else the innermost,
  // as of a map and of sums that stay in memory (rows are added, one after the other).
  static int run_position(const StageCost& cost, const Array& array) {
    int outside = std::min(array.until, cost.run);
    if (!cost.body.reduces) return std::max(0, outside - 1);
    const auto stands = [](double trips) { return trips <= 1; };
    if (!std::all_of(cost.trips.begin() + cost.run, cost.trips.begin() + cost.tile, stands)) {
      return outside;
    }
    while (outside > 0 && stands(cost.trips[--outside])) {}
    return outside;
  }

  bool prefetched(const StageCost& cost, const Array& array) const {
    const std::vector<Stage::Prefetch>& all = nest_.stages[cost.stage].prefetches;
    return std::any_of(all.begin(), all.end(), [&](const Stage::Prefetch& p) {
      return p.tensor == array.tensor && p.distance > 0;
    });
  }

  double visits(const StageCost& cost, const Array& array) const {
    double lines = array.lines[array.until];
    for (int l = 0; l < array.until; ++l) lines *= cost.thread_trips(l);
    return lines;
  }

  const Nest& nest_;
  const Target& target_;
  const Costs& machine_;
  Analysis& analysis_;
  int boundaries_ = 0;
};

}  // namespace

void find_traffic(const Nest& nest, Analysis& analysis) { Traffic(nest, analysis).run(); }

// A sum of thousands of like terms in one accumulator drifts beyond what a kernel promises
// (docs/numbers.md), and then it is no answer: those that are added in runs are asked first.
static double distrust(const StageCost& cost) {
  constexpr double kTrusted = 512;
  if (!cost.body.drifts) return 1;
  double terms = cost.depth_unroll;
  for (int l = cost.run; l < cost.tile; ++l) terms *= cost.trips[l];
  return 1 + 0.5 * std::log2(std::max(1.0, terms / kTrusted));
}

void combine(const Nest& nest, Analysis& analysis) {
  const Target& target = *nest.target;
  const Costs& machine = costs(target);
  const double threads = std::max(1, nest.threads);
  double total = 0, worst = -1;
  for (int s = 0; s < static_cast<int>(analysis.stages.size()); ++s) {
    StageCost& cost = analysis.stages[s];
    const double workers = std::min(threads, cost.tasks);
    // Of the thread that does most.
    const double share = cost.parallel < 0 ? 1 : cost.chunk / cost.trips[cost.parallel];
    double bounds[kBoundaries + 1] = {cost.compute_cycles * share};
    double largest = bounds[0], sum = bounds[0], slowest = 0;
    for (int b = 0; b < kBoundaries; ++b) {
      bounds[b + 1] = cost.memory_cycles[b];
      largest = std::max(largest, bounds[b + 1]);
      sum += bounds[b + 1];
      const bool shared =
          b < kTlb && b + 1 < static_cast<int>(target.caches.size()) && target.caches[b + 1].shared;
      if (!shared) continue;
      const double reaching = std::min(workers, machine.memory_cores);
      slowest = std::max(slowest, bounds[b + 1] * workers / reaching);
    }
    cost.cycles = largest + machine.overlap * (sum - largest);
    cost.wall_cycles = std::max(cost.cycles, slowest);
    const double overhead =
        (threads > 1 ? 1 : machine.serial_region) * lw::cpu(target).parallel_overhead_us;
    if (cost.tasks > 1) cost.wall_cycles += cost.regions * overhead * target.ghz * 1000;
    cost.wall_cycles *= distrust(cost);
    if (!cost.timed) continue;
    total += cost.wall_cycles;
    if (cost.wall_cycles > worst) worst = cost.wall_cycles, analysis.main = s;
    for (const Ops& ops : cost.body.ops) analysis.flops += ops.slots;
  }
  analysis.us = std::max(1e-3, total / (target.ghz * 1000));
}

}  // namespace lw::cost
