#include "src/export/ahead.h"

#include <algorithm>
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

// From one row that the tile reads along a dimension to the next.
int64_t row_step(const std::vector<int64_t>& factors, const Tiling& tiling) {
  int64_t step = tiling.lanes >= 0 ? factors[tiling.lanes] : 0;
  for (const TileLoop& loop : tiling.points) step = std::gcd(step, factors[loop.axis]);
  return std::max<int64_t>(1, step);
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
      kept = {Grade::kApproximate, "lines are asked for before a tile, not between its loads"};
      const TileLoop* loop = loop_ahead(operand, tiling, prefetch.loop);
      if (loop == nullptr) continue;       // as in our kernels, none is
      Ahead ahead{n, {}, {}};
      for (const std::vector<int64_t>& factors : operand.factors) {
        ahead.distance.push_back(prefetch.distance * loop->tile * factors[loop->axis]);
        ahead.step.push_back(row_step(factors, tiling));
      }
      ahead.step.back() = std::max(ahead.step.back(), kLineBytes / size_of(tensor.type));
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
  std::string text, indent = "  ";
  const auto line = [&](const std::string& operation_text) {
    text += concat(indent, operation_text, "\n");
  };
  const auto number = [&](const std::string& name, int64_t value, std::string_view of) {
    line(concat(name, " = arith.constant ", value, " : ", of));
  };
  line(concat("%memory = bufferization.to_memref %part read_only : ", memory));
  line(concat("%base, %sum, %size:", rank, ", %stride:", rank,
              " = memref.extract_strided_metadata %memory : ", memory, " -> memref<", element,
              ">, index, ", absl::StrJoin(indices, ", ")));
  line(concat("%start = memref.extract_aligned_pointer_as_index %memory : ", memory, " -> index"));
  number("%zero", 0, "index");
  number("%bytes", size_of(type), "index");
  number("%reads", 0, "i32");
  number("%keeps", 3, "i32");
  number("%data", 1, "i32");
  std::string sum = "%sum";
  for (int d = 0; d < rank; ++d) {
    number(concat("%step", d), ahead.step[d], "index");
    number(concat("%distance", d), ahead.distance[d], "index");
    line(concat("scf.for %i", d, " = %zero to %size#", d, " step %step", d, " {"));
    indent += "  ";
    line(concat("%at", d, " = arith.addi %i", d, ", %distance", d, " : index"));
    line(concat("%move", d, " = arith.muli %at", d, ", %stride#", d, " : index"));
    line(concat("%sum", d, " = arith.addi ", sum, ", %move", d, " : index"));
    sum = concat("%sum", d);
  }
  line(concat("%offset = arith.muli ", sum, ", %bytes : index"));
  line("%place = arith.addi %start, %offset : index");
  line("%number = arith.index_cast %place : index to i64");
  line("%address = llvm.inttoptr %number : i64 to !llvm.ptr");
  line("func.call @llvm.prefetch.p0(%address, %reads, %keeps, %data)");
  line("    : (!llvm.ptr, i32, i32, i32) -> ()");
  for (int d = 0; d < rank; ++d) {
    indent.resize(indent.size() - 2);
    line("}");
  }
  return concat("func.func private @", symbol, "(%part: tensor<", shape,
                "> {bufferization.writable = false,\n    bufferization.buffer_layout = affine_map<(",
                absl::StrJoin(dims, ", "), ")[", absl::StrJoin(symbols, ", "), "] -> (",
                absl::StrJoin(products, " + "), ")>}) {\n", text, "  return\n}\n");
}

}  // namespace lw
