#include "cost_model/simt/features.h"

#include <algorithm>
#include <cmath>

#include "cost_model/cpu/analysis.h"
#include "cost_model/cpu/features.h"
#include "cost_model/simt/launches.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::cost::simt {
namespace {

// Of a wait for copies alone, which somebody else has begun and which are there already. (From the
// reference of the design: a phase that is handed from warp to warp has 95 cycles, bench/gpu/README.md,
// which slots that take turns hide.)
constexpr double kPhaseCycles = 20;

double product_of_trips(const Stage& stage, int begin, int end) {
  double product = 1;
  for (int l = begin; l < end; ++l) product *= static_cast<double>(trips(stage, l));
  return product;
}

// How often a group's items meet: at each loop that has copies which they share, before these are
// read and before they are overwritten, or once where they take turns in slots. `inside`: the first
// loop inside of the items'.
double meetings(const Nest& nest, int stage, int inside) {
  const Stage& s = nest.stages[stage];
  double count = 0;
  for (int l = 0; l < static_cast<int>(s.loops.size()); ++l) {
    double each = 0;
    for (const Stage& copy : nest.stages) {
      const bool here = copy.place == Place::kAt && copy.host == stage && copy.memory >= 0 &&
                        copy.loop == s.loops[l].name;
      if (here) each = std::max(each, copy.slots > 1 ? 1.0 : 2.0);
    }
    count += each * product_of_trips(s, inside, l + 1);
  }
  return count;
}

// What groups cost beyond the work of their items, which the analysis of processors counts: to
// begin them, and for all of their items to meet.
double groups_us(const Nest& nest) {
  const SimtTarget& target = lw::simt(*nest.target);
  double us = 0;
  for (int s = 0; s < static_cast<int>(nest.stages.size()); ++s) {
    const Stage& stage = nest.stages[s];
    if (stage.place != Place::kRoot) continue;
    double groups = 1, items = 1;
    int inside = 0;                        // first loop inside of the items'
    for (int l = 0; l < static_cast<int>(stage.loops.size()); ++l) {
      const double count = static_cast<double>(trips(stage, l));
      if (stage.loops[l].kind == LoopKind::kParallel) groups = count;
      if (stage.loops[l].kind == LoopKind::kItem) items = count, inside = l + 1;
    }
    if (stage.items > 0) items = static_cast<double>(stage.items);
    // Items in step meet at once, others one after the other, those of clusters all together.
    const double own = target.barrier_us * std::ceil(items / target.simd);
    const double met = stage.cluster > 1 ? std::max(own, target.cluster_barrier_us) : own;
    const double each = stage.producer ? kPhaseCycles / (1e3 * nest.target->ghz) : met;
    us += groups * (target.group_us + meetings(nest, s, inside) * each) /
          units_for(target, stage.cluster);
  }
  return us;
}

// Items that run in step: a processor is no likeness of their machine.
double in_step_us(const Nest& nest, const std::vector<Launch>& list) {
  double us = groups_us(nest);
  for (const Launch& launch : list) us += launch.us + lw::simt(*nest.target).launch_us;
  return std::max(1e-3, us);
}

bool in_step(const Nest& nest) { return !is_processor(lw::simt(*nest.target)); }

float log_of(double x) { return static_cast<float>(std::log2(1 + std::max(0.0, x))); }

// Pieces for which neighbours wait beyond those that hold what they ask for, of a kind of memory.
float crowd(const Launch& launch, Where where, double piece) {
  double pieces = 0, least = 0;
  for (const Wide& wide : launch.accesses) {
    if (wide.where != where) continue;
    pieces += wide.count * wide.pieces;
    least += wide.count * std::max(1.0, wide.lanes * wide.bytes / piece);
  }
  return least > 0 ? static_cast<float>(std::log2(pieces / least)) : 0;
}

// Of the launch that takes longest, and of all. Processors' items are in no step: all are 0.
struct Row {
  Feature feature;
  float (*value)(const Nest& nest, const Launch& launch);
};
const Row kRows[] = {
    {{"groups"}, [](const Nest&, const Launch& l) { return log_of(l.groups); }},
    {{"group_items"}, [](const Nest&, const Launch& l) { return log_of(l.items); }},
    {{"group_local_bytes"}, [](const Nest&, const Launch& l) { return log_of(l.local_bytes); }},
    {{"item_bytes"}, [](const Nest&, const Launch& l) { return log_of(l.item_bytes); }},
    {{"occupancy"}, [](const Nest&, const Launch& l) { return static_cast<float>(l.occupancy); }},
    {{"tail"}, [](const Nest&, const Launch& l) { return static_cast<float>(l.tail); }},
    {{"uncoalesced"},
     [](const Nest& nest, const Launch& l) {
       return crowd(l, Where::kGlobal, static_cast<double>(lw::simt(*nest.target).access_bytes));
     }},
    {{"bank_conflicts"},
     [](const Nest& nest, const Launch& l) {
       return crowd(l, Where::kLocal, 4.0 * lw::simt(*nest.target).simd);
     }},
    {{"group_issue"}, [](const Nest&, const Launch& l) { return log_of(l.issue); }},
    {{"group_global"}, [](const Nest&, const Launch& l) { return log_of(l.global); }},
    {{"group_local"}, [](const Nest&, const Launch& l) { return log_of(l.local); }},
    {{"group_latency", true},
     [](const Nest&, const Launch& l) { return log_of(l.latency / l.resident); }},
};

}  // namespace

const std::vector<Feature>& table() {
  static const std::vector<Feature>* table = [] {
    auto* list = new std::vector<Feature>(cpu::table());
    for (const Row& row : kRows) list->push_back(row.feature);
    list->push_back({"launches"});
    return list;
  }();
  return *table;
}

std::vector<float> features(const Nest& nest) {
  const Nest processor = as_processor(nest);
  const Analysis analysis = analyze(processor);
  std::vector<float> values = cpu::features(processor, analysis);
  float& draft = values[kDraftFeature];
  if (!in_step(nest)) {
    draft = std::log2(std::exp2(draft) + static_cast<float>(groups_us(nest)));
    values.resize(table().size(), 0);
    return values;
  }
  const std::vector<Launch> list = launches(nest, processor, analysis);
  draft = static_cast<float>(std::log2(in_step_us(nest, list)));
  const Launch& longest = *std::max_element(
      list.begin(), list.end(), [](const Launch& a, const Launch& b) { return a.us < b.us; });
  for (const Row& row : kRows) values.push_back(row.value(nest, longest));
  values.push_back(static_cast<float>(list.size()));
  return values;
}

double draft_us(const Nest& nest) {
  const Nest processor = as_processor(nest);
  const Analysis analysis = analyze(processor);
  if (!in_step(nest)) return analysis.us + groups_us(nest);
  return in_step_us(nest, launches(nest, processor, analysis));
}

}  // namespace lw::cost::simt
