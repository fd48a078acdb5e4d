#include "src/export/linalg.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/export/linalg_body.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

std::string tensor_type(const std::vector<int64_t>& shape, Type type) {
  std::string text = "tensor<";
  for (int64_t extent : shape) text += concat(extent, "x");
  return concat(text, mlir_type(type), ">");
}

std::string type_of(const Tensor& tensor) { return tensor_type(tensor.shape, tensor.type); }

std::string memory_type(const Tensor& tensor) { return concat("memref", type_of(tensor).substr(6)); }

std::string dims_text(size_t rank) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < rank; ++d) dims.push_back(concat("d", d));
  return absl::StrJoin(dims, ", ");
}

std::string map_text(size_t rank, const std::vector<std::string>& results) {
  return concat("affine_map<(", dims_text(rank), ") -> (", absl::StrJoin(results, ", "), ")>");
}

std::string identity_text(size_t rank) {
  return concat("affine_map<(", dims_text(rank), ") -> (", dims_text(rank), ")>");
}

std::string axes_map(size_t rank, const std::vector<int>& axes) {
  std::vector<std::string> results;
  for (int axis : axes) results.push_back(concat("d", axis));
  return map_text(rank, results);
}

std::string operand_map(const Operand& operand, size_t rank) {
  std::vector<std::string> results;
  for (const std::vector<int64_t>& factors : operand.factors) {
    std::string sum;
    for (size_t a = 0; a < factors.size(); ++a) {
      if (factors[a] == 0) continue;
      sum += concat(sum.empty() ? "" : " + ", "d", a);
      if (factors[a] != 1) sum += concat(" * ", factors[a]);
    }
    results.push_back(sum.empty() ? "0" : sum);
  }
  return map_text(rank, results);
}

std::string iterators(const std::vector<NestAxis>& axes) {
  std::vector<std::string> words;
  for (const NestAxis& axis : axes)
    words.push_back(axis.reduction ? "\"reduction\"" : "\"parallel\"");
  return absl::StrJoin(words, ", ");
}

std::string parallel(size_t rank) { return iterators(std::vector<NestAxis>(rank)); }

// "[a, b] [c, d] [1, 1]": a slice at `offsets`.
std::string slice_text(const std::vector<int64_t>& offsets, const std::vector<int64_t>& shape) {
  return concat("[", absl::StrJoin(offsets, ", "), "] [", absl::StrJoin(shape, ", "), "] [",
                absl::StrJoin(std::vector<int>(shape.size(), 1), ", "), "]");
}

class FunctionPrinter {
 public:
  FunctionPrinter(const Nest& nest, const std::string& symbol)
      : nest_(nest), program_(*nest.program), symbol_(symbol) {}

  absl::StatusOr<std::string> print(const std::vector<Operation>& operations) {
    open();
    for (const Operation& operation : operations) RETURN_IF_ERROR(add(operation));
    for (int t : outputs(program_)) {
      const Tensor& tensor = program_.tensors[t];
      line(concat("bufferization.materialize_in_destination %t", t, " in restrict writable %m", t,
                  " : (", type_of(tensor), ", ", memory_type(tensor), ") -> ()"));
    }
    return text_ + "  return\n}\n";
  }

 private:
  // Outputs come in as memory, %m<t>, which is the tensor %o<t>; what is computed is %t<t>.
  void open() {
    std::vector<std::string> parameters;
    for (int t : arguments(program_)) {
      const Tensor& tensor = program_.tensors[t];
      const bool is_output = tensor.role == Role::kOutput;
      parameters.push_back(
          is_output ? concat("%m", t, ": ", memory_type(tensor), " {")
                    : concat("%t", t, ": ", type_of(tensor), " {bufferization.writable = false, "));
      parameters.back() += concat("loopwright.tensor = \"", tensor.name, "\"}");
    }
    text_ = concat("func.func @", symbol_, "(", absl::StrJoin(parameters, ",\n    "), ") {\n");
    for (int t : outputs(program_)) {
      line(concat("%o", t, " = bufferization.to_tensor %m", t, " restrict writable : ",
                  memory_type(program_.tensors[t])));
    }
  }

  void line(const std::string& operation) { text_ += concat("  ", operation, "\n"); }

  std::string constant(const std::string& name, Type type, double number, int64_t integer) {
    line(concat(name, " = arith.constant ", mlir_constant(type, number, integer),
                type == Type::kBool ? "" : concat(" : ", mlir_type(type))));
    return name;
  }

  // The whole of `into`, a tensor of that type, filled with a constant.
  void fill(const std::string& result, const std::string& into, const std::string& type,
            size_t rank, Type element, const std::string& value, const std::string& mark) {
    line(concat(result, " = linalg.generic {indexing_maps = [", identity_text(rank),
                "], iterator_types = [", parallel(rank), "]}"));
    line(concat("    outs(", into, " : ", type, ") attrs = {", mark, "} {"));
    line(concat("  ^bb0(%out: ", mlir_type(element), "):"));
    line(concat("    linalg.yield ", value, " : ", mlir_type(element)));
    line(concat("} -> ", type));
  }

  void copy(const std::string& result, const std::string& from, const std::string& into,
            const std::string& type, size_t rank, Type element, const std::string& mark) {
    line(concat(result, " = linalg.generic {indexing_maps = [", identity_text(rank), ", ",
                identity_text(rank), "], iterator_types = [", parallel(rank), "]}"));
    line(concat("    ins(", from, " : ", type, ") outs(", into, " : ", type, ") attrs = {", mark,
                "} {"));
    const std::string_view word = mlir_type(element);
    line(concat("  ^bb0(%in: ", word, ", %out: ", word, "):"));
    // MLIR takes a copy out of its operation and makes loops over elements of it. Of its own sign a
    // number is itself: LLVM sees that, once it is vectors.
    const bool has_sign = element == Type::kF32 || element == Type::kF64;
    if (has_sign) line(concat("    %same = math.copysign %in, %in : ", word));
    line(concat("    linalg.yield ", has_sign ? "%same" : "%in", " : ", word));
    line(concat("} -> ", type));
  }

  // What is read of a tensor where that is not all of it, or more: its name.
  std::string read(const Operation& operation, int number) {
    const Operand& operand = operation.operands[number];
    const Tensor& tensor = program_.tensors[operand.tensor];
    std::string source = concat("%t", operand.tensor);
    if (operand.shape == tensor.shape &&
        std::all_of(operand.low.begin(), operand.low.end(), [](int64_t n) { return n == 0; }))
      return source;
    const std::string name = concat("%t", nest_.stages[operation.stage].tensor, "_in", number);
    const Slab inside = inside_slab(operand);
    const std::string inside_type = tensor_type(inside.shape, tensor.type);
    if (inside.shape != tensor.shape) {    // cut off what is not read
      std::vector<int64_t> from;
      for (int64_t added : operand.low) from.push_back(std::max<int64_t>(0, -added));
      line(concat(name, "_part = tensor.extract_slice ", source, slice_text(from, inside.shape),
                  " : ", type_of(tensor), " to ", inside_type));
      source = name + "_part";
    }
    if (!has_margin(operand)) return source;
    const std::string value =
        operand.fill == nullptr
            ? constant(name + "_fill", tensor.type, 0, 0)
            : constant(name + "_fill", tensor.type, operand.fill->number, operand.fill->integer);
    const std::string type = tensor_type(operand.shape, tensor.type);
    const size_t rank = operand.shape.size();
    std::string whole = name + "_empty";
    line(concat(whole, " = tensor.empty() : ", type));
    // Makes a slab of it: into the slice `_hole`, by `make`.
    const auto put = [&](const Slab& slab, const std::string& result, const auto& make) {
      const std::string slab_type = tensor_type(slab.shape, tensor.type);
      const std::string slice = slice_text(slab.offsets, slab.shape);
      line(concat(result, "_hole = tensor.extract_slice ", whole, slice, " : ", type, " to ",
                  slab_type));
      make(result + "_made", result + "_hole", slab_type);
      line(concat(result, " = tensor.insert_slice ", result, "_made into ", whole, slice, " : ",
                  slab_type, " into ", type));
      whole = result;
    };
    const std::vector<Slab> margins = margin_slabs(operand);
    for (int n = 0; n < static_cast<int>(margins.size()); ++n) {
      put(margins[n], concat(name, "_margin", n), [&](const auto& made, const auto& hole,
                                                      const auto& slab_type) {
        fill(made, hole, slab_type, rank, tensor.type, value,
             concat("loopwright.margin = \"", margin_name(nest_, operation, number), ".", n, "\""));
      });
    }
    put(inside, name, [&](const auto& made, const auto& hole, const auto& slab_type) {
      copy(made, source, hole, slab_type, rank, tensor.type,
           concat("loopwright.inside = \"", margin_name(nest_, operation, number), "\""));
    });
    return name;
  }

  absl::Status add(const Operation& operation) {
    const Stage& stage = nest_.stages[operation.stage];
    const Tensor& tensor = program_.tensors[stage.tensor];
    const size_t rank = operation.axes.size();
    ASSIGN_OR_RETURN(const std::string body, linalg_body(nest_, operation));
    std::vector<std::string> maps, names, types, block;
    for (int n = 0; n < static_cast<int>(operation.operands.size()); ++n) {
      const Operand& operand = operation.operands[n];
      const Type type = program_.tensors[operand.tensor].type;
      names.push_back(read(operation, n));
      types.push_back(tensor_type(operand.shape, type));
      maps.push_back(operand_map(operand, rank));
      block.push_back(concat("%in", n, ": ", mlir_type(type)));
    }
    const std::string name = concat("%t", stage.tensor);
    if (!operation.hidden_axes.empty()) {  // a tensor that nobody reads shows their extents
      std::vector<int64_t> shape;
      for (int axis : operation.hidden_axes) shape.push_back(operation.axes[axis].extent);
      types.push_back(tensor_type(shape, Type::kF32));
      line(concat(name, "_window = tensor.empty() : ", types.back()));
      names.push_back(name + "_window");
      maps.push_back(axes_map(rank, operation.hidden_axes));
      block.push_back("%window: f32");
    }
    const std::string result = operation.copies_out ? name + "_sums" : name;
    const bool is_output = tensor.role == Role::kOutput;
    std::string into = concat("%o", stage.tensor);
    if (!is_output || operation.copies_out) {
      into = name + "_empty";
      line(concat(into, " = tensor.empty() : ", type_of(tensor)));
    }
    if (tensor.reduce != Reduce::kNone) {
      const std::string value =
          constant(name + "_identity", tensor.type, identity_float(tensor.reduce),
                   is_float(tensor.type) ? 0 : identity_int(tensor.reduce, tensor.type));
      fill(name + "_init", into, type_of(tensor), tensor.shape.size(), tensor.type, value,
           concat("loopwright.init = \"", stage.name, "\""));
      into = name + "_init";
    }
    maps.push_back(axes_map(rank, operation.result_axes));
    block.push_back(concat("%out: ", mlir_type(tensor.type)));
    line(concat(result, " = linalg.generic {indexing_maps = [", absl::StrJoin(maps, ",\n      "),
                "],\n      iterator_types = [", iterators(operation.axes), "]}"));
    if (!names.empty())
      line(concat("    ins(", absl::StrJoin(names, ", "), " : ", absl::StrJoin(types, ", "), ")"));
    line(concat("    outs(", into, " : ", type_of(tensor), ") attrs = {loopwright.stage = \"",
                stage.name, "\"} {"));
    line(concat("  ^bb0(", absl::StrJoin(block, ", "), "):"));
    text_ += body;
    line(concat("} -> ", type_of(tensor)));
    if (!operation.copies_out) return absl::OkStatus();
    into = concat("%o", stage.tensor);
    if (!is_output) {
      into = name + "_stored";
      line(concat(into, " = tensor.empty() : ", type_of(tensor)));
    }
    copy(name, result, into, type_of(tensor), tensor.shape.size(), tensor.type,
         concat("loopwright.store = \"", stage.name, "\""));
    return absl::OkStatus();
  }

  const Nest& nest_;
  const Program& program_;
  const std::string symbol_;
  std::string text_;
};

}  // namespace

std::string margin_name(const Nest& nest, const Operation& operation, int operand) {
  return concat(nest.stages[operation.stage].name, ".", operand);
}

absl::StatusOr<std::string> linalg_function(const Nest& nest,
                                            const std::vector<Operation>& operations,
                                            const std::string& symbol) {
  return FunctionPrinter(nest, symbol).print(operations);
}

}  // namespace lw
