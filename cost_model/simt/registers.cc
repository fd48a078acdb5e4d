// What a tile accumulates, what of it is on its way from memory, and what says where all that lies.
//
// The parts are what ptxas has been seen to keep: it begins loads as early as it can, those from
// afar before those of shared memory, which soon arrive, and what masks and borders ask it holds in
// registers too. The figures were fitted to what ptxas 13.0 says of drawn schedules of the cases of
// bench/gpu/gate.cc, by least absolute errors, two seeds to fit and another one to check.
#include "cost_model/simt/registers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cost_model/simt/matrices.h"
#include "cost_model/simt/where.h"
#include "schedules/dot.h"

namespace lw::cost::simt {
namespace {

constexpr double kRegisterBytes = 4;
constexpr double kAllotted = 8;            // at once

// Copies: vectors on their way at once. Where rows become columns all of a block is there.
constexpr double kCopyWords = 16, kCopiedAtOnce = 12, kTurnWords = 19;

// Maps: of shared memory, and where masks part lanes, so much is there at once.
constexpr double kMapWords = 18, kSharedWords = 4, kSharedAtOnce = 48, kMaskedAtOnce = 12;

// Sums along lanes. In loops partial sums stand beside what is added to them; without one they
// are what was loaded, twice that where an edge goes on with them.
constexpr double kSumWords = 10, kLoopSum = 1.4, kLoopsSum = 2.05, kEdgeSum = 1.7,
                 kSharedSum = 0.58, kSummedAtOnce = 73;

// Other tiles of sums: loads, as shares of them are on their way; masked rows, masked vectors, and
// axes beyond a product's three; vectors that are both masked and at a border.
constexpr double kTileWords = 25, kLoadShare = 0.8, kMaskedRow = 1.4, kMaskedVector = 0.95,
                 kAxis = 2, kBorderVector = 5.1, kPartWords = 43;
// Functions of results: lanes under way at once (src/build/simt/ptx/ptx_turns.cc), values for each.
constexpr double kAppliedWords = 21, kAppliedAtOnce = 16, kAppliedValues = 4.6;
constexpr double kFunctionValues = 1.2;    // of what is added up
// Bytes that are multiplied four at once, under masks.
constexpr double kDotWords = 30, kMaskedDots = 22, kBothMaskedDots = 29;

// Tiles of matrices: their loop along k, if there is one, and what copies their operands; rows that
// items read for each other, and the next step's; what else comes from shared memory, and from afar
// as long as there is room; masks along m and n; operands that end in k.
constexpr double kMatrixWords = 2.6, kMatrixLoop = 25, kCopiedOperand = 6.2, kRowShare = 0.26,
                 kNextRows = 0.6, kNearShare = 0.12, kNextNear = 0.14, kNearAtOnce = 64,
                 kFarShare = 0.89, kRoom = 14, kMatrixAxis = 1.85, kMaskedM = 1.7, kMaskedN = 1.5,
                 kEnding = 0.58, kEndingNext = 1.15, kEndingAtOnce = 72;
constexpr double kProductAxes = 3;

// Of the loops outside of a tile that add to the same results.
int64_t sum_loops(const StageCost& cost) {
  return std::count_if(cost.trips.begin() + cost.run, cost.trips.begin() + cost.tile,
                       [](double trips) { return trips >= 2; });
}

double words_of(Type type) { return std::max(1.0, size_of(type) / kRegisterBytes); }

// Elements that a tile reads, each once.
double elements_of(const Nest& nest, const Access& access, const double* tile, int axes) {
  const std::vector<int64_t>& shape = nest.program->tensors[access.tensor].shape;
  double points = 1, places = 1;
  for (int a = 0; a < axes; ++a) {
    if ((access.axes >> (a & 63) & 1) != 0) points *= tile[a];
  }
  for (size_t d = 0; d < access.dims.size(); ++d) {
    places *= extent(access.dims[d], tile, static_cast<double>(shape[d]));
  }
  return access.gathers ? points : std::min(points, places);
}

double copied_words(const Nest& nest, const StageCost& cost, const double* tile) {
  const Tensor& tensor = nest.program->tensors[nest.stages[cost.stage].copy_of];
  const double words = size_of(tensor.type) / kRegisterBytes;
  if (cost.rows == 1) {
    return kCopyWords + std::min(kCopiedAtOnce, cost.columns * cost.lanes * words);
  }
  double box = 1;
  for (int a = 0; a < cost.axes(); ++a) box *= tile[a];
  return kTurnWords + box * words;
}

// A tile of a stage without matrices.
struct Tile {
  double results = 0, rows = 1;
  double afar = 0, shared = 0, own = 0;    // what is loaded
  double dots = 0;                         // the same, of bytes that are multiplied as they lie
  double border_vectors = 0;
  bool masked_rows = false, masked_lanes = false;
  double loaded() const { return afar + shared + own; }
};

Tile tile_of(const Nest& nest, const StageCost& cost, std::vector<double> box) {
  const Stage& stage = nest.stages[cost.stage];
  Tile tile;
  // The number of the part of a sum is an axis that has no loop.
  const double parts = stage.factored_axis >= 0 ? std::exchange(box[0], 1) : 1;
  const double type = words_of(nest.program->tensors[stage.tensor].type);
  tile.rows = cost.rows / parts;
  tile.results = tile.rows * cost.columns * cost.lanes * type;
  const AxisMask masked = masked_axes(stage, cost);
  const AxisMask lanes = cost.vector_axis >= 0 ? AxisMask{1} << (cost.vector_axis & 63) : 0;
  tile.masked_lanes = (masked & lanes) != 0;
  tile.masked_rows = (masked & ~lanes) != 0;
  for (const Access& access : cost.body.accesses) {
    if (access.epilogue) continue;
    const Type read = nest.program->tensors[access.tensor].type;
    const double elements = elements_of(nest, access, box.data(), cost.axes());
    const Where where = where_read(nest, cost, access);
    double& words =
        where == Where::kOwn ? tile.own : where == Where::kLocal ? tile.shared : tile.afar;
    words += elements * words_of(read);
    tile.dots += elements * size_of(read) / kRegisterBytes;
    if ((masked & lanes & access.axes) != 0 && access.leaves) {
      tile.border_vectors += elements / cost.lanes;
    }
  }
  return tile;
}

double mapped_words(const Tile& tile) {
  double words = tile.afar;
  if (tile.shared > 0) words += kSharedWords + std::min(kSharedAtOnce, tile.shared);
  if (tile.masked_lanes) words = std::min(words, kMaskedAtOnce);
  return kMapWords + words + tile.own;
}

double summed_words(const StageCost& cost, const Tile& tile) {
  const int64_t loops = sum_loops(cost);
  if (loops > 0) return kSumWords + (loops > 1 ? kLoopsSum : kLoopSum) * tile.loaded();
  return kSumWords + kSharedSum * (tile.shared + tile.own) +
         (cost.instances > 1 ? kEdgeSum : 1) * std::min(kSummedAtOnce, tile.afar);
}

double reduced_words(const Nest& nest, const StageCost& cost, const Tile& tile) {
  const Stage& stage = nest.stages[cost.stage];
  if (stage.dot_group > 1) {
    return kDotWords + tile.results + tile.dots + (tile.masked_rows ? kMaskedDots : 0) +
           (tile.masked_rows && tile.masked_lanes ? kBothMaskedDots : 0);
  }
  double words = kTileWords + tile.results + kLoadShare * tile.loaded() +
                 kAxis * std::max(0.0, cost.axes() - kProductAxes) +
                 kBorderVector * tile.border_vectors;
  if (tile.masked_rows) words += kMaskedRow * tile.rows;
  if (tile.masked_lanes) words += kMaskedVector * cost.columns;
  if (stage.factored_axis >= 0 && !cost.body.multiples.empty()) words += kPartWords;
  if (stage.body->functions && !cost.body.fma) words += kFunctionValues * tile.results;
  const bool applied = std::any_of(stage.epilogue.begin(), stage.epilogue.end(), [&](int e) {
    return nest.stages[e].body->functions;
  });
  if (!applied) return words;
  return std::max(words, kAppliedWords + tile.results +
                             kAppliedValues * std::min(kAppliedAtOnce, tile.results));
}

// What of operands is on its way, of one step along k and of the next ones.
double multiplied_words(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                        const double* box, double most) {
  const Stage& stage = nest.stages[cost.stage];
  const MatrixTile tile = matrix_tile(nest, stage, box);
  if (tile.wide) return tile.words;
  const MatrixShape& shape = matrix_shape_of(nest, stage);
  const double wide = shape.acc == Type::kF64 ? 2 : 1;
  const double results = 2 * wide * shape.acc_registers() * tile.m * tile.n;
  const AxisMask masked = masked_axes(stage, cost);
  const auto ends = [&](int side) { return (masked >> (stage.matrix_axes[side] & 63) & 1) != 0; };
  double rows = 0, near = 0, far = 0, ending = 0, copied = 0;
  for (const Access& access : cost.body.accesses) {
    if (access.epilogue) continue;
    const int side = (access.axes >> (stage.matrix_axes[0] & 63) & 1) != 0 ? 0 : 1;
    const bool shared = where_read(nest, cost, access) == Where::kLocal;
    const double element = size_of(nest.program->tensors[access.tensor].type);
    const auto stride = [&](int axis) {
      return element * storage_stride(nest, analysis, cost, access, axis);
    };
    const FragmentMoves moves = fragment_moves(nest, stage, tile, side, shared, element, stride);
    const bool along_k = std::abs(stride(stage.matrix_axes[2])) <= element;
    const double whole = side == 0 ? tile.m * shape.a_registers() : tile.n * shape.b_registers();
    if (shared) ++copied;
    if (moves.rows && !ends(2) && !access.leaves && (!ends(side) || along_k)) {
      rows += whole;
    } else if (ends(2) && wide == 1) {
      ending += whole * shape.pack;
    } else {
      (shared ? near : far) += wide * whole * (along_k && !ends(2) ? 1 : shape.pack);
    }
  }
  // Of what comes from afar as many steps as there is room for.
  double steps = tile.k;
  while (steps > 1 && results + rows + near + far * steps + kRoom > most) {
    steps = std::floor(steps / 2);
  }
  const double next = tile.k - 1;
  return kMatrixWords + (sum_loops(cost) > 0 ? kMatrixLoop : 0) + kCopiedOperand * copied + results +
         (kRowShare + (next > 0 ? kNextRows : 0)) * rows + kNearShare * near +
         kNextNear * std::min(kNearAtOnce, near * next) + kFarShare * far * steps +
         kEnding * ending + kEndingNext * std::min(kEndingAtOnce, ending * next) +
         kMatrixAxis * std::max(0.0, cost.axes() - kProductAxes) +
         (ends(0) ? kMaskedM * tile.m : 0) + (ends(1) ? kMaskedN * tile.n : 0);
}

}  // namespace

double item_registers(const Nest& nest, const Analysis& analysis, const StageCost& cost,
                      double items) {
  const Stage& stage = nest.stages[cost.stage];
  const SimtTarget& target = lw::simt(*nest.target);
  if (target.unit_register_bytes == 0) return 0;
  const double* box = cost.box_at(cost.tile);
  if (stage.matrix >= 0) {
    return multiplied_words(nest, analysis, cost, box, most_registers(target, items));
  }
  if (stage.copy_of >= 0) return copied_words(nest, cost, box);
  const Tile tile = tile_of(nest, cost, {box, box + cost.axes()});
  if (!cost.body.reduces) return mapped_words(tile);
  return cost.vector_reduces ? summed_words(cost, tile) : reduced_words(nest, cost, tile);
}

double most_registers(const SimtTarget& target, double items) {
  const double all = static_cast<double>(register_items(target, static_cast<int64_t>(items)));
  const double of_unit = static_cast<double>(target.unit_register_bytes) / kRegisterBytes / all;
  return std::min(static_cast<double>(target.register_bytes) / kRegisterBytes,
                  std::max(kAllotted, kAllotted * std::floor(of_unit / kAllotted)));
}

}  // namespace lw::cost::simt
