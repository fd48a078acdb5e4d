// Stages that disappear into others: maps into their readers, and onto the tile of what they read.
#include <algorithm>

#include "schedules/space/draft.h"

namespace lw::rules {
namespace {

constexpr double kCheapBody = 6;           // vector instructions, cheaper than a store and a load
constexpr double kMostRecomputed = 64;     // and what is worth trying

// Vector instructions that inlining a map adds for each point of a reader that needs it at several:
// a window of a window of a window grows with every step, and past some point storing is cheaper.
double recomputed(const Nest& nest, int s, const std::vector<int>& users) {
  int points = 1;
  for (int user : users) points = std::max(points, points_read(nest, user, nest.stages[s].tensor));
  return (points - 1) * body_cost(nest, s);
}

}  // namespace

void inline_maps(Draft& d, bool (*stays)(const Nest& nest, int stage)) {
  for (int s = static_cast<int>(d.nest.stages.size()) - 1; s >= 0 && !is_over(d); --s) {
    const Stage& stage = d.nest.stages[s];
    const Tensor& tensor = d.nest.program->tensors[stage.tensor];
    if (!is_map(d.nest, s) || tensor.role == Role::kOutput || stage.place != Place::kRoot) continue;
    if (stays != nullptr && stays(d.nest, s)) continue;
    const std::vector<int> users = readers(d.nest, stage.tensor);
    const bool reused = std::any_of(users.begin(), users.end(),
                                    [&](int user) { return has_reuse(d.nest, user); });
    const bool cheap = body_cost(d.nest, s) <= kCheapBody && !(d.maps == Maps::kKeep && reused);
    if (!cheap && d.maps != Maps::kInlineAll && (users.size() != 1 || reused)) continue;
    const double most = d.maps == Maps::kInlineAll ? kMostRecomputed : kCheapBody;
    if (recomputed(d.nest, s, users) > most) continue;
    // What would make too large a body of its reader stays a stage of its own.
    const std::string name = stage.name;
    attempt(d, [&](Draft& next) { fixed(next, "inline_producer", {name}); });
  }
}

void fuse_epilogues(Draft& d) {
  for (int s = 0; s < static_cast<int>(d.nest.stages.size()) && !is_over(d); ++s) {
    if (is_map(d.nest, s) || d.nest.stages[s].place != Place::kRoot) continue;
    int tail = s;
    for (int f = s + 1; f < static_cast<int>(d.nest.stages.size()); ++f) {
      const Stage& stage = d.nest.stages[f];
      if (!is_map(d.nest, f) || stage.place != Place::kRoot) continue;
      const std::vector<int> reads = body_reads(d.nest, f);
      const int value = d.nest.stages[tail].tensor;
      if (std::find(reads.begin(), reads.end(), value) == reads.end()) continue;
      Draft attempt = d;
      fixed(attempt, "reverse_inline", {stage.name, d.nest.stages[s].name});
      if (attempt.failed) break;
      d = std::move(attempt);
      tail = f;
    }
  }
}

}  // namespace lw::rules
