// register_tile(C, k, i, j; 4, 8, 48, 0, 0, 0)
//   before  i: 512          after  i.0: 64 of 8
//             j: 512                 j.0: 11 of 48, compose
//               k: 512                 k.0: 128 of 4
//                                        unroll k.1: 4
//                                          unroll i.1: 8
//                                            vector j.1: 48
// Every loop named is cut in two; the inner parts become the innermost loops in the order listed,
// the last a vector, the others unrolled. The numbers are the tile sizes, then the tails of the
// outer parts.
//
// The domain holds the few tiles that fit the target's registers and hide the latency of its
// arithmetic. For a tile of r rows and v column vectors (r the product of unrolled spatial loops):
//   reduction over columns in lanes   r*v accumulators + v loaded columns + 1 broadcast
//   reduction in the vector loop      r*v partial accumulators + v loaded vectors + 1
//   map                               r*v vectors
// and of machines that load all that a tile reads first, that instead of one step's.
// A reduction is unrolled by a power of two, or whole: of a window that slides over the rows, or
// along the lanes, what was loaded then serves all results in whose windows it is. Of the first kind
// there may be several.
// The best by multiply-adds per load, by the latency hidden and by the points wasted at the edges
// are kept, so that the domain stays below kMaxDomain decisions.
#include <algorithm>
#include <cmath>

#include "schedules/access.h"
#include "schedules/domains.h"
#include "schedules/dot.h"
#include "schedules/legality.h"
#include "schedules/targets/family.h"
#include "schedules/window.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {
namespace {

constexpr size_t kMaxDomain = 400;
constexpr int kMaxNames = 8;
constexpr int64_t kMostSteps = 8;     // of the reduction, unrolled
constexpr int64_t kMostWindow = 36;   // of a window's reductions together
// Of a multiply-add: what a load costs beyond its port, as not all come from the nearest cache.
constexpr double kLoadCost = 0.25;
constexpr double kWorstScore = 0.75;  // of the best tile's

absl::Status apply_register_tile(Nest& nest, const Step& step) {
  const int count = static_cast<int>(step.names.size()) - 1;
  RETURN_IF_ERROR(expect(step, {2, kMaxNames + 1, count, 2 * count}));
  ASSIGN_OR_RETURN(const int stage, target_stage(nest, step));
  Stage& s = nest.stages[stage];
  for (const Loop& loop : s.loops) {
    if (loop.kind == LoopKind::kVector)
      return infeasible(concat(s.name, " has a vector loop already"));
  }
  for (int n = 0; n < count; ++n) {
    const std::string& name = step.names[n + 1];
    ASSIGN_OR_RETURN(const int position, loop_position(s, name));
    ASSIGN_OR_RETURN(const Tail tail, tail_of(number_or(step, count + n, 0)));
    const Loop& loop = s.loops[position];
    if (loop.parts.size() != 1 || loop.parts[0].tile != 1) {
      return infeasible(concat(loop.name, " does not run over single points of one axis"));
    }
    RETURN_IF_ERROR(split_loop(nest, stage, position, {&step.numbers[n], 1}, tail));
    std::rotate(s.loops.begin() + position + 1, s.loops.begin() + position + 2, s.loops.end());
    s.loops.back().kind = n + 1 < count ? LoopKind::kUnroll : LoopKind::kVector;
  }
  return check_legal(nest, stage);
}

struct Dimension {
  int position;  // of the loop
  int64_t extent;
  bool reduction;
  int64_t group;   // points that one instruction takes: sizes are multiples
  int64_t period;  // points after which conditions repeat: sizes are multiples, 1 or all
};

struct Tile {
  Decision sizes;  // per dimension, in the step's order
  double score;
};

int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Tiles {
 public:
  Tiles(const Nest& nest, int stage, const std::vector<Dimension>& dimensions)
      : nest_(nest),
        file_(register_file(*nest.target)),
        stage_(nest.stages[stage]),
        index_(stage),
        dimensions_(dimensions),
        lanes_(stage_lanes(nest, stage)) {
    for (const Loop& loop : stage_.loops) reduces_ = reduces_ || is_reduction(stage_, loop);
    const Type type = nest.program->tensors[stage_.tensor].type;
    const Atom* atom = multiply_add(*nest.target, type);
    if (stage_.dot_axis >= 0) {
      const auto dot = dot_factors(*nest.target, effective_body(nest, stage), type);
      if (dot) atom = dot->atom;
    }
    if (atom != nullptr) per_cycle_ = atom->per_cycle, latency_ = atom->latency;
    if (reduces_) find_windows();
    if (file_.loads_first) addresses_ = addresses(nest, stage);
    const bool transposes = !reduces_ && reads_across(stage);
    const int64_t stages = static_cast<int64_t>(nest.stages.size());
    most_vectors_ = std::min(kMaxTileVectors, kMaxProgramVectors / stages) / (windows() ? 4 : 2);
    most_rows_ = reduces_ ? file_.vectors : transposes ? 2 * lanes_ : 8;
  }

  std::vector<Tile> all() {
    Decision sizes(dimensions_.size(), 1);
    choose(0, 1, 1, sizes);
    return std::move(tiles_);
  }

 private:
  // Whether some read's last index follows another loop than the vector's: a transpose.
  bool reads_across(int stage) const {
    const int axis = stage_.loops[dimensions_.back().position].parts[0].axis;
    for (int tensor : body_reads(nest_, stage)) {
      const int rank = static_cast<int>(nest_.program->tensors[tensor].shape.size());
      const int last = rank > 0 ? index_axis(nest_, stage, tensor, rank - 1) : -1;
      if (last >= 0 && last != axis) return true;
    }
    return false;
  }

  void choose(size_t n, int64_t rows, int64_t steps, Decision& sizes) {
    const Dimension& dimension = dimensions_[n];
    if (n + 1 == dimensions_.size()) return choose_columns(rows, steps, sizes);
    const int64_t limit = dimension.reduction ? (windows() ? kMostWindow : kMostSteps) / steps
                                              : most_rows_ / rows;
    const int64_t most = std::max<int64_t>(1, dimension.extent / dimension.group);
    for (int64_t size = 1; size <= std::min(limit, most); ++size) {
      if (dimension.reduction && size > kMostSteps) break;
      const bool whole = dimension.reduction && size == dimension.extent;
      const bool power = (size & (size - 1)) == 0;
      // Maps are bound by memory: between few rows and a transposed block there is nothing to
      // choose.
      if (!power && !whole && (dimension.reduction || !reduces_)) continue;
      const bool all = size == 1 || size == dimension.extent;
      if (!dimension.reduction && !all && size % dimension.period != 0) continue;
      sizes[n] = std::min(size * dimension.group, dimension.extent);
      dimension.reduction ? choose(n + 1, rows, steps * size, sizes)
                          : choose(n + 1, rows * size, steps, sizes);
    }
    sizes[n] = 1;
  }

  void choose_columns(int64_t rows, int64_t steps, Decision& sizes) {
    const int64_t extent = dimensions_.back().extent;
    const int64_t most = reduces_ ? file_.vectors : 4;
    for (int64_t vectors = 1; vectors <= most; ++vectors) {
      const int64_t size = std::min(vectors * lanes_, extent);
      sizes[dimensions_.size() - 1] = size;
      if (registers(rows, vectors, sizes) > file_.vectors) break;
      // A window's taps are unrolled for each edge that it hangs over: its programs grow faster.
      if (steps == 1 || rows * vectors * steps <= most_vectors_) {
        tiles_.push_back({sizes, score(rows, vectors, sizes)});
      }
      if (size == extent) break;
    }
  }

  int64_t registers(int64_t rows, int64_t vectors, const Decision& sizes) const {
    const int64_t temporaries = file_.fma ? 1 : 2;
    if (file_.loads_first && reduces_) {
      return rows * vectors + div_up(read_by(sizes), lanes_) + temporaries;
    }
    if (!reduces_) return std::min<int64_t>(rows * vectors, 16);  // spills nothing: used at once
    return rows * vectors + (rows == 1 ? 1 : std::min(vectors, rows)) + temporaries;
  }

  // Elements that the tile reads, all steps of the reduction.
  int64_t read_by(const Decision& sizes) const {
    int64_t all = 0;
    for (const Address& address : addresses_) {
      int64_t elements = 1;
      for (size_t n = 0; n < dimensions_.size(); ++n) {
        if (uses(address, axis_of(n))) elements *= sizes[n];
      }
      all += elements;
    }
    return all;
  }

  double score(int64_t rows, int64_t vectors, const Decision& sizes) const {
    double edges = 1;
    for (size_t n = 0; n < dimensions_.size(); ++n) {
      const int64_t extent = dimensions_[n].extent, size = sizes[n];
      if (dimensions_[n].reduction && n + 1 < dimensions_.size()) continue;
      edges *= static_cast<double>(extent) / static_cast<double>(div_up(extent, size) * size);
    }
    const double accumulators = static_cast<double>(rows * vectors);
    if (!reduces_) return std::sqrt(edges) * (accumulators >= 4 ? 1 : 0.9);
    const bool lanes_reduce = dimensions_.back().reduction;
    const double loads = windows()      ? window_loads(vectors, sizes)
                         : lanes_reduce ? partial_loads(rows, vectors, sizes)
                                        : static_cast<double>(rows + vectors);
    const double ports = std::max(accumulators / per_cycle_, loads / file_.loads_per_cycle);
    const double hidden = std::min(1.0, accumulators / (per_cycle_ * latency_));
    const double reuse = accumulators / (accumulators + kLoadCost * loads);
    return accumulators / per_cycle_ / ports * hidden * reuse * std::sqrt(edges);
  }

  // Vectors loaded where lanes run along the reduction: two spatial dimensions share theirs as a
  // product of matrices does; one reads a row of its own for each point.
  double partial_loads(int64_t rows, int64_t vectors, const Decision& sizes) const {
    const bool two = dimensions_.size() == 3 && !dimensions_[0].reduction;
    const int64_t points = two ? sizes[0] + sizes[1] : rows + 1;
    return static_cast<double>(points * vectors);
  }

  // Keeps the reads where some tile of these dimensions has a window that slides.
  void find_windows() {
    reads_ = read_steps(nest_, index_);
    std::vector<int64_t> two(stage_.axes.size(), 1);
    for (size_t n = 0; n < dimensions_.size(); ++n)
      if (dimensions_[n].extent > 1) two[axis_of(n)] = 2;
    const int lanes_along = axis_of(dimensions_.size() - 1);
    if (!slides(stage_, reads_, two, lanes_along)) reads_.clear();
  }
  bool windows() const { return !reads_.empty(); }

  // Points of each axis of the stage; vectors of the last dimension's.
  std::vector<int64_t> points_of(int64_t vectors, const Decision& sizes) const {
    std::vector<int64_t> points(stage_.axes.size(), 1);
    for (size_t n = 0; n < dimensions_.size(); ++n)
      points[axis_of(n)] = n + 1 < dimensions_.size() ? sizes[n] : vectors;
    return points;
  }
  int axis_of(size_t n) const { return stage_.loops[dimensions_[n].position].parts[0].axis; }

  // Vectors loaded by steps of the reduction: where windows overlap once, if registers suffice.
  double window_loads(int64_t vectors, const Decision& sizes) const {
    const int lanes_along = axis_of(dimensions_.size() - 1);
    const std::vector<int64_t> points = points_of(vectors, sizes);
    const auto window = window_of(nest_, index_, reads_, points, lanes_along);
    double loads = window ? window->loads : 0, steps = 1;
    for (size_t r = 0; r < reads_.size() && !window; ++r) {
      double all = 1;
      for (size_t a = 0; a < points.size(); ++a)
        if (moves(reads_[r], a)) all *= static_cast<double>(points[a]);
      loads += all;
    }
    for (size_t n = 0; n + 1 < dimensions_.size(); ++n)
      if (dimensions_[n].reduction) steps *= static_cast<double>(sizes[n]);
    return loads / steps;
  }

  const Nest& nest_;
  const RegisterFile file_;
  const Stage& stage_;
  const int index_;
  const std::vector<Dimension>& dimensions_;
  const int64_t lanes_;
  int64_t most_rows_ = 1, most_vectors_ = 1;
  bool reduces_ = false;
  std::vector<ReadSteps> reads_;           // of windows
  std::vector<Address> addresses_;         // where they count
  double per_cycle_ = 1, latency_ = 4;
  std::vector<Tile> tiles_;
};

// Tail policies of each dimension where its tile comes out even, and where it does not.
struct TailOptions {
  std::vector<int64_t> even, uneven;
};

std::vector<TailOptions> tail_options(const Nest& nest, int stage,
                                      const std::vector<Dimension>& dimensions, const Step& step) {
  const size_t count = dimensions.size();
  bool reduces = false;
  for (const Loop& loop : nest.stages[stage].loops)
    reduces = reduces || is_reduction(nest.stages[stage], loop);
  std::vector<TailOptions> options;
  for (size_t n = 0; n < count; ++n) {
    const int position = dimensions[n].position;
    const int64_t fixed = number_or(step, count + n, -1), extent = dimensions[n].extent;
    options.push_back({tails(nest, stage, position, extent, 1, fixed), {}});
    if (extent > 2) options.back().uneven = tails(nest, stage, position, extent, extent - 1, fixed);
    if (fixed >= 0) continue;
    // Guarded rows and reduction steps never beat an instance of their own.
    if (n + 1 < count) std::erase(options.back().uneven, 1);
    // A shifted tile would rule out every later split of the reduction.
    if (reduces) std::erase(options.back().uneven, 2);
  }
  return options;
}

// Appends `sizes` with every combination of tails.
void add_tails(const std::vector<Dimension>& dimensions, const std::vector<TailOptions>& options,
               Decision decision, std::vector<Decision>& domain) {
  const size_t count = dimensions.size(), n = decision.size() - count;
  if (n == count) {
    domain.push_back(std::move(decision));
    return;
  }
  const bool even = dimensions[n].extent % decision[n] == 0;
  for (int64_t tail : even ? options[n].even : options[n].uneven) {
    decision.push_back(tail);
    add_tails(dimensions, options, decision, domain);
    decision.pop_back();
  }
}

// Tails >= 0 in the step are kept; the sizes are always drawn.
std::vector<Decision> register_tile_domain(const Nest& nest, const Step& step) {
  const absl::StatusOr<int> stage = target_stage(nest, step);
  if (!stage.ok() || step.names.size() < 2 || step.names.size() > kMaxNames + 1) return {};
  const Stage& s = nest.stages[*stage];
  std::vector<Dimension> dimensions;
  const std::vector<int64_t> region = region_extents(nest, *stage);
  for (size_t n = 1; n < step.names.size(); ++n) {
    const int position = find_loop(s, step.names[n]);
    if (position < 0) return {};
    const Loop& loop = s.loops[position];
    const bool fits = loop.kind == LoopKind::kSerial && loop.parts.size() == 1 &&
                      loop.parts[0].tile == 1 && !is_factored(s, loop.parts[0]);
    if (!fits) return {};
    const int64_t group = loop.parts[0].axis == s.dot_axis ? s.dot_group : 1;
    dimensions.push_back(
        {position, region_range(nest, *stage, position, region), is_reduction(s, loop), group,
         period(nest, *stage, loop.parts[0].axis)});
  }
  const std::vector<TailOptions> options = tail_options(nest, *stage, dimensions, step);
  size_t combinations = 1;
  for (const TailOptions& option : options) {
    combinations *= std::max<size_t>({1, option.even.size(), option.uneven.size()});
  }
  const std::vector<Tile> tiles = Tiles(nest, *stage, dimensions).all();
  std::vector<double> scores;
  for (const Tile& tile : tiles) scores.push_back(tile.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  const size_t most = std::min(scores.size(), std::max<size_t>(8, kMaxDomain / combinations));
  std::vector<Decision> domain;
  if (most == 0) return domain;
  const double worst = std::max(scores[most - 1], kWorstScore * scores[0]);
  for (const Tile& tile : tiles) {
    if (tile.score >= worst && domain.size() < kMaxDomain)
      add_tails(dimensions, options, tile.sizes, domain);
  }
  return domain;
}

}  // namespace

const StepKind& register_tile() {
  static constexpr StepKind kind = {"register_tile", 1, apply_register_tile, register_tile_domain};
  return kind;
}

}  // namespace lw
