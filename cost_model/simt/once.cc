#include "cost_model/simt/once.h"

#include <algorithm>
#include <map>

#include "schedules/costs.h"

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

}  // namespace lw::cost::simt
