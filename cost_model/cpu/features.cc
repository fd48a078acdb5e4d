// The features: one table of {name, function}, from which width and schema follow. Counts are
// logarithms (a tree splits ratios), shares are plain; target numbers let one model serve several
// machines.
//
// What concerns one stage is taken of the main one, the stage that the draft says costs most; the
// other stages enter through sums.
#include "cost_model/cpu/features.h"

#include <algorithm>
#include <cmath>

#include "cost_model/cpu/analysis.h"
#include "schedules/targets/cpu/cpu_target.h"
#include "src/base/check.h"
#include "src/base/hash.h"

namespace lw {
namespace {

float log1(double x) { return static_cast<float>(std::log2(1 + std::max(0.0, x))); }
float ratio(double a, double b) { return static_cast<float>(std::log2((a + 1e-3) / (b + 1e-3))); }
float share(double a, double b) { return static_cast<float>(b > 0 ? a / b : 0); }

const StageCost& main_of(const Analysis& a) { return a.stages[a.main]; }
const Stage& stage_of(const Nest& nest, const Analysis& a) { return nest.stages[main_of(a).stage]; }

template <class Value>
double sum(const Analysis& a, const Value& value) {
  double total = 0;
  for (const StageCost& cost : a.stages) total += cost.timed ? value(cost) : 0;
  return total;
}

// The main stage's read array of rank `n` by lines touched at the tile; its result for n < 0.
const Array* array_of(const Analysis& a, int n) {
  const StageCost& cost = main_of(a);
  absl::InlinedVector<const Array*, 6> reads;
  for (const Array& array : cost.arrays) {
    if (array.written && n < 0) return &array;
    if (!array.written && !array.epilogue) reads.push_back(&array);
  }
  std::stable_sort(reads.begin(), reads.end(), [](const Array* x, const Array* y) {
    return x->lines[x->until] > y->lines[y->until];
  });
  return n >= 0 && n < static_cast<int>(reads.size()) ? reads[n] : nullptr;
}

float moved(const Analysis& a, int n, int boundary) {
  const Array* array = array_of(a, n);
  return array == nullptr ? 0 : log1(array->moved[boundary]);
}
float run_length(const Analysis& a, int n) {
  const Array* array = array_of(a, n);
  return array == nullptr ? 0 : log1(array->run_bytes[std::min(array->until, main_of(a).run)]);
}
float conflicts(const Analysis& a, int n) {
  const Array* array = array_of(a, n);
  if (array == nullptr) return 0;
  const int p = std::min(array->until, main_of(a).run);
  return ratio(array->crowded[p], array->lines[p]);
}
float is_local(const Analysis& a, int n) {
  const Array* array = array_of(a, n);
  return array != nullptr && array->local ? 1.f : 0.f;
}

// How far ahead software asks for the operand; below 0 along the second innermost loop.
float asked_ahead(const Nest& nest, const Analysis& a, int n) {
  const Array* array = array_of(a, n);
  if (array == nullptr) return 0;
  for (const Stage::Prefetch& p : nest.stages[main_of(a).stage].prefetches) {
    const float distance = log1(static_cast<double>(p.distance));
    if (p.tensor == array->tensor) return p.loop > 0 ? -distance : distance;
  }
  return 0;
}

// Lines inside the main stage's position (from the tile outward) against a cache.
float fill(const Nest& nest, const Analysis& a, int outward, int boundary) {
  const StageCost& cost = main_of(a);
  const int p = std::max(0, cost.tile - outward);
  const bool known = boundary + 1 < static_cast<int>(nest.target->caches.size());
  const double room =
      !known ? 1e9 : static_cast<double>(nest.target->caches[boundary].bytes) / kLineBytes;
  return ratio(cost.touched[std::min<int>(boundary, kTlb)][p], room);
}
// How far outward the working set still fits.
float fits(const Nest& nest, const Analysis& a, int boundary) {
  const StageCost& cost = main_of(a);
  if (boundary + 1 >= static_cast<int>(nest.target->caches.size())) return 0;
  const double room = static_cast<double>(nest.target->caches[boundary].bytes) / kLineBytes;
  double points = 1;
  for (int p = cost.tile; p >= 0; --p) {
    if (cost.touched[boundary][p] > room) break;
    if (p > 0) points *= cost.trips[p - 1];
  }
  return log1(points);
}

double copy_lines(const Nest& nest, const Analysis& a) {
  double lines = 0;
  for (const StageCost& cost : a.stages) {
    if (nest.stages[cost.stage].copy_of < 0 || !cost.timed) continue;
    lines += cost.mix.stores * cpu(*nest.target).vector_bytes / kLineBytes;
  }
  return lines;
}
double copy_cycles(const Nest& nest, const Analysis& a) {
  return sum(
      a, [&](const StageCost& c) { return nest.stages[c.stage].copy_of >= 0 ? c.cycles : 0.0; });
}
double cycles(const Analysis& a) {
  return sum(a, [](const StageCost& c) { return c.cycles; });
}
double compute(const Analysis& a) {
  return sum(a, [](const StageCost& c) { return c.compute_cycles; });
}
double memory(const Analysis& a, int b) {
  return sum(a, [&](const StageCost& c) { return c.memory_cycles[b]; });
}
double fma_per_cycle(const Target& target) {
  const Atom* atom = multiply_add(target, Type::kF32);
  return atom != nullptr ? atom->per_cycle * atom->lanes : 1;
}
const CacheLevel& level(const Target& target, size_t n) {
  static const CacheLevel* none = new CacheLevel;
  return n < target.caches.size() ? target.caches[n] : *none;
}
int count_kind(const Stage& stage, LoopKind kind) {
  return static_cast<int>(std::count_if(stage.loops.begin(), stage.loops.end(),
                                        [&](const Loop& l) { return l.kind == kind; }));
}
double trips_at(const Analysis& a, int outward) {
  const StageCost& cost = main_of(a);
  const int l = cost.tile - outward;
  return l >= 0 && l < static_cast<int>(cost.trips.size()) ? cost.trips[l] : 1;
}

// P: predicted, that is, made of the draft's times or cycles; all of one version.
#define FEATURE(name, expression, predicted, version)        \
  {                                                          \
    name, [](const Nest& nest, const Analysis& a) -> float { \
      (void)nest;                                            \
      (void)a;                                               \
      return expression;                                     \
    }, predicted, version                                    \
  }
#define F(name, expression) FEATURE(name, expression, false, 1)
#define P(name, expression) FEATURE(name, expression, true, 3)

// A value for each feature.
struct Row {
  const char* name;
  float (*value)(const Nest& nest, const Analysis& analysis);
  bool predicted = false;
  int version = 1;
};
const Row kTable[] = {
    // the draft
    P("log_draft_us", static_cast<float>(std::log2(a.us))),
    P("draft_compute_share", share(compute(a), cycles(a))),
    P("draft_main_share", share(main_of(a).cycles, cycles(a))),
    P("log_compute_cycles", log1(compute(a))),
    P("compute_vs_l2", ratio(compute(a), memory(a, 0))),
    P("compute_vs_l3", ratio(compute(a), memory(a, 1))),
    P("compute_vs_dram", ratio(compute(a), memory(a, 2))),
    P("compute_vs_tlb", ratio(compute(a), memory(a, kTlb))),
    P("l2_share", share(memory(a, 0), cycles(a))),
    P("l3_share", share(memory(a, 1), cycles(a))),
    P("dram_share", share(memory(a, 2), cycles(a))),
    P("tlb_share", share(memory(a, kTlb), cycles(a))),
    P("arithmetic_per_cycle", share(main_of(a).arithmetic_cycles, main_of(a).compute_cycles)),
    P("load_cycles_share", share(main_of(a).load_cycles, main_of(a).compute_cycles)),
    P("store_cycles_share", share(main_of(a).store_cycles, main_of(a).compute_cycles)),
    P("issue_cycles_share", share(main_of(a).issue_cycles, main_of(a).compute_cycles)),
    // the register tile
    F("tile_rows", static_cast<float>(main_of(a).rows)),
    F("tile_columns", static_cast<float>(main_of(a).columns)),
    F("tile_unroll", static_cast<float>(main_of(a).depth_unroll)),
    F("tile_accumulators", static_cast<float>(main_of(a).rows * main_of(a).columns)),
    F("tile_registers_left",
      static_cast<float>(cpu(*nest.target).vector_registers - main_of(a).registers)),
    F("tile_lanes_used", static_cast<float>(main_of(a).lanes_used)),
    F("tile_full_share", static_cast<float>(main_of(a).full_share)),
    F("tile_instances", log1(main_of(a).instances)),
    F("tile_body_slots", log1(main_of(a).body_slots)),
    F("tile_code", log1(main_of(a).instances * main_of(a).body_slots)),
    F("tile_points", log1(main_of(a).rows * main_of(a).columns * main_of(a).depth_unroll)),
    P("tile_latency_vs_ports", ratio(main_of(a).latency_bound, main_of(a).port_bound)),
    P("tile_loads_vs_ports", ratio(main_of(a).load_bound, main_of(a).port_bound)),
    P("tile_update_vs_ports", ratio(main_of(a).update_cycles, main_of(a).port_bound)),
    F("tile_vector_reduces", main_of(a).vector_reduces ? 1.f : 0.f),
    F("tile_lanes", static_cast<float>(main_of(a).lanes)),
    F("tile_shifted",
      count_kind(stage_of(nest, a), LoopKind::kVector) > 0 &&
              has_tail(stage_of(nest, a), Tail::kShift)
          ? 1.f
          : 0.f),
    F("tile_masked", has_tail(stage_of(nest, a), Tail::kMask) ? 1.f : 0.f),
    // instructions
    F("updates", log1(main_of(a).updates)),
    F("finishes", log1(main_of(a).finishes)),
    F("updates_per_finish", ratio(main_of(a).updates, main_of(a).finishes)),
    F("arithmetic", log1(sum(a, [](const StageCost& c) { return c.mix.arithmetic; }))),
    F("shuffles", log1(sum(a, [](const StageCost& c) { return c.mix.shuffles; }))),
    F("loads", log1(sum(a, [](const StageCost& c) { return c.mix.loads; }))),
    F("stores", log1(sum(a, [](const StageCost& c) { return c.mix.stores; }))),
    F("loads_per_arithmetic", share(main_of(a).mix.loads, main_of(a).mix.arithmetic)),
    F("stores_per_arithmetic", share(main_of(a).mix.stores, main_of(a).mix.arithmetic)),
    F("issue_per_arithmetic", share(main_of(a).mix.issue, main_of(a).mix.arithmetic)),
    F("arithmetic_per_line", ratio(main_of(a).mix.arithmetic, a.program_lines)),
    P("loop_share", share(main_of(a).loop_cycles, main_of(a).compute_cycles)),
    F("body_slots_per_point", static_cast<float>(a.flops)),
    F("branches", static_cast<float>(main_of(a).body.branches)),
    // loops, from the tile outward
    F("trips_1", log1(trips_at(a, 1))),
    F("trips_2", log1(trips_at(a, 2))),
    F("trips_3", log1(trips_at(a, 3))),
    F("trips_4", log1(trips_at(a, 4))),
    F("trips_5", log1(trips_at(a, 5))),
    F("loops", static_cast<float>(main_of(a).end)),
    F("memory_accumulation", main_of(a).accumulates_in_memory ? 1.f : 0.f),
    // what is inside each loop against the caches
    F("fill_1_l1", fill(nest, a, 1, 0)),
    F("fill_2_l1", fill(nest, a, 2, 0)),
    F("fill_3_l1", fill(nest, a, 3, 0)),
    F("fill_2_l2", fill(nest, a, 2, 1)),
    F("fill_3_l2", fill(nest, a, 3, 1)),
    F("fill_4_l2", fill(nest, a, 4, 1)),
    F("fill_5_l3", fill(nest, a, 5, 2)),
    F("fits_l1", fits(nest, a, 0)),
    F("fits_l2", fits(nest, a, 1)),
    F("fits_l3", fits(nest, a, 2)),
    // traffic by operand
    F("first_moved_l1", moved(a, 0, 0)),
    F("first_moved_l2", moved(a, 0, 1)),
    F("first_moved_tlb", moved(a, 0, kTlb)),
    F("first_run", run_length(a, 0)),
    F("first_conflicts", conflicts(a, 0)),
    F("first_copied", is_local(a, 0)),
    F("first_prefetch", asked_ahead(nest, a, 0)),
    F("second_moved_l1", moved(a, 1, 0)),
    F("second_moved_l2", moved(a, 1, 1)),
    F("second_moved_tlb", moved(a, 1, kTlb)),
    F("second_run", run_length(a, 1)),
    F("second_conflicts", conflicts(a, 1)),
    F("second_copied", is_local(a, 1)),
    F("second_prefetch", asked_ahead(nest, a, 1)),
    F("result_moved_l1", moved(a, -1, 0)),
    F("result_moved_l2", moved(a, -1, 1)),
    F("result_run", run_length(a, -1)),
    P("moved_dram", log1(memory(a, 2))),
    F("program_lines", log1(a.program_lines)),
    // copies and other stages
    F("copies", static_cast<float>(stage_of(nest, a).copies.size())),
    F("copy_lines", log1(copy_lines(nest, a))),
    P("copy_share", share(copy_cycles(nest, a), cycles(a))),
    F("prepacked",
      static_cast<float>(std::count_if(nest.stages.begin(), nest.stages.end(),
                                       [](const Stage& s) { return s.place == Place::kPrepack; }))),
    F("stages", static_cast<float>(a.stages.size())),
    F("attached",
      static_cast<float>(std::count_if(nest.stages.begin(), nest.stages.end(),
                                       [](const Stage& s) { return s.place == Place::kAt; }))),
    F("epilogues", static_cast<float>(stage_of(nest, a).epilogue.size())),
    F("non_temporal", stage_of(nest, a).non_temporal ? 1.f : 0.f),
    // parallel
    F("threads", static_cast<float>(nest.threads)),
    F("tasks", log1(main_of(a).tasks)),
    F("balance",
      share(main_of(a).tasks / nest.threads, std::ceil(main_of(a).tasks / nest.threads))),
    F("regions", log1(sum(a, [](const StageCost& c) { return c.regions; }))),
    P("serial_share",
      share(sum(a, [](const StageCost& c) { return c.tasks <= 1 ? c.cycles : 0.0; }), cycles(a))),
    // the machine
    F("vector_bytes", static_cast<float>(cpu(*nest.target).vector_bytes)),
    F("vector_registers", static_cast<float>(cpu(*nest.target).vector_registers)),
    F("l1_bytes", log1(static_cast<double>(level(*nest.target, 0).bytes))),
    F("l2_bytes", log1(static_cast<double>(level(*nest.target, 1).bytes))),
    F("l3_bytes", log1(static_cast<double>(level(*nest.target, 2).bytes))),
    F("l2_bandwidth", static_cast<float>(level(*nest.target, 1).read_bytes_per_cycle)),
    F("l3_bandwidth", static_cast<float>(level(*nest.target, 2).read_bytes_per_cycle)),
    F("dram_bandwidth", static_cast<float>(level(*nest.target, 3).read_bytes_per_cycle)),
    F("fma_per_cycle", static_cast<float>(fma_per_cycle(*nest.target))),
    F("loads_per_cycle", static_cast<float>(cpu(*nest.target).loads_per_cycle)),
    F("issue_per_cycle", static_cast<float>(cpu(*nest.target).issue_per_cycle)),
};

#undef P
#undef F
#undef FEATURE

int position(std::string_view name) {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (name == kTable[i].name) return static_cast<int>(i);
  }
  CHECK(false);
}

}  // namespace

namespace cost::cpu {

const std::vector<Feature>& table() {
  static const std::vector<Feature>* table = [] {
    auto* list = new std::vector<Feature>;
    for (const Row& row : kTable) list->push_back({row.name, row.predicted, row.version});
    return list;
  }();
  return *table;
}

std::vector<float> features(const Nest& nest) { return features(nest, analyze(nest)); }

std::vector<float> features(const Nest& nest, const Analysis& analysis) {
  std::vector<float> values;
  values.reserve(std::size(kTable));
  for (const Row& row : kTable) values.push_back(row.value(nest, analysis));
  return values;
}

double draft_us(const Nest& nest) { return analyze(nest).us; }

uint64_t kind(uint64_t hash, const std::vector<float>& features) {
  static const int rows = position("tile_rows"), columns = position("tile_columns"),
                   copies = position("copies");
  return hash_combine(hash_combine(hash, static_cast<uint64_t>(features[rows])),
                      static_cast<uint64_t>(16 * features[columns] + features[copies]));
}

}  // namespace cost::cpu
}  // namespace lw
