#include "cost_model/simt/once.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "schedules/access.h"
#include "schedules/costs.h"
#include "schedules/targets/simt/simt_target.h"

namespace lw::cost::simt {
namespace {

struct Touched {
  double bytes = 0;
  bool read = false, written = false;
};
using Tensors = std::map<int, Touched>;

// No more than the tensor has, however many of the units' shares overlap.
void add(const Nest& nest, const StageCost& cost, Tensors* tensors) {
  const double workers = std::min<double>(std::max(1, nest.threads), cost.tasks);
  for (const Array& array : cost.arrays) {
    if (array.local) continue;
    const double whole = static_cast<double>(bytes(nest.program->tensors[array.tensor]));
    Touched& touched = (*tensors)[array.tensor];
    const double all = std::min(whole, array.lines[0] * kLineBytes * workers);
    touched.bytes = std::max(touched.bytes, all);
    (array.written ? touched.written : touched.read) = true;
  }
}

}  // namespace

Once once(const Nest& nest, const Analysis& analysis, int root, double cache_bytes) {
  Tensors program, launch;
  for (const StageCost& cost : analysis.stages) {
    if (!cost.timed) continue;
    add(nest, cost, &program);
    if (&root_of(analysis, cost) == &analysis.stages[root]) add(nest, cost, &launch);
  }
  double all = 0;
  for (const auto& [tensor, touched] : program) all += touched.bytes;
  const double lost = costs(*nest.target).lost(all / cache_bytes);
  Once once;
  for (const auto& [tensor, touched] : launch) {
    if (touched.read) once.read += lost * touched.bytes;
    if (touched.written) once.written += lost * touched.bytes;
  }
  return once;
}

double fetched_again(const Nest& nest, const Launch& launch, double capacity, double sharers) {
  const SimtTarget& target = lw::simt(*nest.target);
  const double access = static_cast<double>(target.access_bytes);
  const double in_step = std::ceil(launch.items / target.simd);
  double at_once = 0, bytes = 0;
  for (const Wide& wide : launch.accesses) {
    const double moved = wide.moved_bytes(access), used = wide.useful_bytes();
    if (wide.where != Where::kGlobal || moved <= used) continue;
    at_once += wide.pieces * access * in_step * launch.resident;
    bytes += moved - used;
  }
  return bytes * launch.groups * costs(*nest.target).lost(at_once * sharers / capacity);
}

double copied_once_for(const Nest& nest, int root, int copy) {
  const Stage& host = nest.stages[root];
  if (host.cluster <= 1) return 1;
  const int along = host.loops[0].parts.back().axis;  // of the grid, which is outermost
  return alike_along(nest, nest.stages[copy], along) ? static_cast<double>(host.cluster) : 1;
}

}  // namespace lw::cost::simt
