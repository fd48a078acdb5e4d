#include "src/export/ahead.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "src/base/message.h"
#include "src/export/linalg_body.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr int64_t kMostLines = 128;        // that a tile asks for

bool moves_operand(const Operand& operand, int axis) {
  return std::any_of(operand.factors.begin(), operand.factors.end(),
                     [&](const std::vector<int64_t>& factors) { return factors[axis] != 0; });
}

// The loop along which is looked ahead: the innermost that moves the operand, or the `number`th
// around it. nullptr: there are fewer.
const TileLoop* loop_ahead(const Operand& operand, const Tiling& tiling, int number) {
  std::vector<const TileLoop*> moving;
  const auto add = [&](const TileLoop& loop) {
    if (moves_operand(operand, loop.axis)) moving.push_back(&loop);
  };
  for (const std::vector<TileLoop>& run : tiling.shared) std::for_each(run.begin(), run.end(), add);
  std::for_each(tiling.own.begin(), tiling.own.end(), add);
  const int outside = static_cast<int>(moving.size()) - 1 - number;
  return outside < 0 ? nullptr : moving[outside];
}

// The first of the tile's loops are those that move the operand: so many, between whose rows lines
// are asked for. 0: they are not the first, and a line would be asked for at each of several rows.
int loops_between(const Operand& operand, const Tiling& tiling) {
  size_t loops = 0;
  const std::vector<TileLoop>& points = tiling.points;
  while (loops < points.size() && moves_operand(operand, points[loops].axis)) ++loops;
  const bool moves_further =
      std::any_of(points.begin() + static_cast<std::ptrdiff_t>(loops), points.end(),
                  [&](const TileLoop& loop) { return moves_operand(operand, loop.axis); });
  return moves_further ? 0 : static_cast<int>(loops);
}

// Most points of each axis inside of so many of the tile's loops.
std::vector<int64_t> points_inside(const Tiling& tiling, int loops) {
  std::vector<int64_t> points = tiling.tile;
  for (int n = 0; n < loops; ++n) {
    const TileLoop& loop = tiling.points[n];
    points[loop.axis] = std::min(points[loop.axis], loop.tile);
  }
  return points;
}

// Positions that these points read along a dimension, from the first: one of each `line` elements.
std::vector<int64_t> positions(const std::vector<int64_t>& factors,
                               const std::vector<int64_t>& points, int64_t line) {
  int64_t last = 0, step = 0;
  for (size_t axis = 0; axis < factors.size(); ++axis) {
    if (points[axis] == 1) continue;
    last += factors[axis] * (points[axis] - 1);
    step = std::gcd(step, factors[axis]);
  }
  std::vector<int64_t> all;
  for (int64_t at = 0; at <= last; at += std::max(line, step)) all.push_back(at);
  return all;
}

// Of each dimension any: all of them together.
std::vector<std::vector<int64_t>> together(const std::vector<std::vector<int64_t>>& dimensions) {
  std::vector<std::vector<int64_t>> all = {{}};
  for (const std::vector<int64_t>& positions : dimensions) {
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& begun : all) {
      for (int64_t at : positions) {
        longer.push_back(begun);
        longer.back().push_back(at);
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

std::vector<Ahead> fetched_ahead(const Nest& nest, const Operation& operation,
                                 const Tiling& tiling, std::map<std::string, Fidelity>* fidelity) {
  std::vector<Ahead> all;
  for (const Stage::Prefetch& prefetch : nest.stages[operation.stage].prefetches) {
    const Tensor& tensor = nest.program->tensors[prefetch.tensor];
    Fidelity& kept = (*fidelity)[tensor.name];
    kept = {Grade::kLost, "it is read at computed indices"};
    for (int n = 0; n < static_cast<int>(operation.operands.size()); ++n) {
      const Operand& operand = operation.operands[n];
      if (operand.tensor != prefetch.tensor || operand.shape.empty()) continue;
      kept = {Grade::kApproximate, "lines are asked for a tile or a row at a time"};
      const TileLoop* loop = loop_ahead(operand, tiling, prefetch.loop);
      if (loop == nullptr) continue;       // as in our kernels, none is
      Ahead ahead{n, loops_between(operand, tiling), {}, {}};
      const std::vector<int64_t> points = points_inside(tiling, ahead.loops);
      std::vector<std::vector<int64_t>> dimensions;
      int64_t lines = 1;
      for (size_t d = 0; d < operand.factors.size(); ++d) {
        const std::vector<int64_t>& factors = operand.factors[d];
        const bool in_line = d + 1 == operand.factors.size();
        ahead.distance.push_back(prefetch.distance * loop->tile * factors[loop->axis]);
        dimensions.push_back(
            positions(factors, points, in_line ? kLineBytes / size_of(tensor.type) : 1));
        lines = std::min(lines * static_cast<int64_t>(dimensions.back().size()), kMostLines + 1);
      }
      if (lines > kMostLines) {
        kept = {Grade::kLost, "a tile reads too many lines"};
        continue;
      }
      ahead.lines = together(dimensions);
      all.push_back(std::move(ahead));
    }
  }
  return all;
}

std::string ahead_declaration() {
  return "func.func private @llvm.prefetch.p0(!llvm.ptr, i32, i32, i32)\n";
}

std::string ahead_function(const Nest& nest, const Operation& operation, const Ahead& ahead,
                           const std::string& symbol) {
  const Type type = nest.program->tensors[operation.operands[ahead.operand].tensor].type;
  const int rank = static_cast<int>(ahead.distance.size());
  std::vector<std::string> dims, symbols = {"s0"}, products = {"s0"}, unknown, indices;
  for (int d = 0; d < rank; ++d) {
    dims.push_back(concat("d", d));
    symbols.push_back(concat("s", d + 1));
    products.push_back(concat("d", d, " * s", d + 1));
    unknown.push_back("?");
    indices.insert(indices.end(), {"index", "index"});
  }
  const std::string element = std::string(mlir_type(type));
  const std::string shape = concat(absl::StrJoin(unknown, "x"), "x", element);
  const std::string memory =
      concat("memref<", shape, ", strided<[", absl::StrJoin(unknown, ", "), "], offset: ?>>");
  std::string text;
  const auto line = [&](const std::string& words) { text += concat("  ", words, "\n"); };
  const auto number = [&](const std::string& name, int64_t value, std::string_view of) {
    line(concat(name, " = arith.constant ", value, " : ", of));
  };
  line(concat("%memory = bufferization.to_memref %part read_only : ", memory));
  line(concat("%base, %first, %size:", rank, ", %stride:", rank,
              " = memref.extract_strided_metadata %memory : ", memory, " -> memref<", element,
              ">, index, ", absl::StrJoin(indices, ", ")));
  line(concat("%start = memref.extract_aligned_pointer_as_index %memory : ", memory, " -> index"));
  number("%reads", 0, "i32");
  number("%keeps", 3, "i32");
  number("%data", 1, "i32");
  line("%number = arith.index_cast %start : index to i64");
  line("%whole = llvm.inttoptr %number : i64 to !llvm.ptr");
  line("%offset = arith.index_cast %first : index to i64");
  const std::string element_at = concat("] : (!llvm.ptr, i64) -> !llvm.ptr, ", element);
  line(concat("%read = llvm.getelementptr %whole[%offset", element_at));
  for (size_t n = 0; n < ahead.lines.size(); ++n) {
    std::string sum;
    for (int d = 0; d < rank; ++d) {
      const std::string place = concat(n, "_", d), before = sum;
      number("%at" + place, ahead.lines[n][d] + ahead.distance[d], "index");
      line(concat("%moved", place, " = arith.muli %at", place, ", %stride#", d, " : index"));
      sum = "%moved" + place;
      if (before.empty()) continue;
      sum = "%sum" + place;
      line(concat(sum, " = arith.addi ", before, ", %moved", place, " : index"));
    }
    line(concat("%elements", n, " = arith.index_cast ", sum, " : index to i64"));
    line(concat("%line", n, " = llvm.getelementptr %read[%elements", n, element_at));
    line(concat("func.call @llvm.prefetch.p0(%line", n, ", %reads, %keeps, %data)"));
    line("    : (!llvm.ptr, i32, i32, i32) -> ()");
  }
  return concat("func.func private @", symbol, "(%part: tensor<", shape,
                "> {bufferization.writable = false,\n    bufferization.buffer_layout = affine_map<(",
                absl::StrJoin(dims, ", "), ")[", absl::StrJoin(symbols, ", "), "] -> (",
                absl::StrJoin(products, " + "), ")>}) {\n", text, "  return\n}\n");
}

}  // namespace lw
