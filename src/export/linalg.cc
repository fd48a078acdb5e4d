#include "src/export/linalg.h"

#include <algorithm>
#include <numeric>
#include <set>
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

// The memref of a tensor's type.
std::string memory_of(const std::string& type) { return concat("memref", type.substr(6)); }

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

// "[[0], [1, 2]]": of `shape`, the dimensions that each of the whole ones was cut into.
std::string groups_text(const std::vector<int64_t>& whole, const std::vector<int64_t>& shape) {
  std::vector<std::string> groups;
  size_t next = 0;
  for (int64_t extent : whole) {
    std::vector<size_t> group = {next};
    for (int64_t points = shape[next++]; points < extent; points *= shape[next++])
      group.push_back(next);
    groups.push_back(concat("[", absl::StrJoin(group, ", "), "]"));
  }
  return concat("[", absl::StrJoin(groups, ", "), "]");
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
    open(made_once(operations), /*prepacks=*/false);
    for (int t : outputs(program_))
      open_memory(concat("o", t), concat("m", t), type_of(program_.tensors[t]));
    for (const Operation& operation : operations) RETURN_IF_ERROR(add(operation));
    for (int t : outputs(program_))
      store(concat("t", t), concat("m", t), type_of(program_.tensors[t]));
    return text_ + "  return\n}\n";
  }

  std::string print_prepack(const std::vector<Operation>& operations) {
    const std::vector<const Packing*> packings = made_once(operations);
    open(packings, /*prepacks=*/true);
    for (const Packing* packing : packings) {
      const std::string name = concat("c", packing->copy), memory = concat("p", packing->copy);
      open_memory(name + "_into", memory, copy_type(*packing));
      pack(*packing, concat("%t", packing->tensor));
      store(name, memory, copy_type(*packing));
    }
    return text_ + "  return\n}\n";
  }

 private:
  std::string copy_type(const Packing& packing) const {
    return tensor_type(packing.shape, program_.tensors[packing.tensor].type);
  }

  // Outputs come in as memory, %m<t>, which is the tensor %o<t>; what is computed is %t<t>. Copies
  // come as tensors, %c<stage>, or, where they are to be made, as memory, %p<stage>.
  void open(const std::vector<const Packing*>& once, bool prepacks) {
    std::vector<std::string> parameters;
    const auto add = [&](const std::string& name, const std::string& type, bool is_written,
                         const std::string& mark) {
      parameters.push_back(concat("%", name, ": ", is_written ? memory_of(type) : type, " {",
                                  is_written ? "" : "bufferization.writable = false, ", mark, "}"));
    };
    for (int t : arguments(program_)) {
      const Tensor& tensor = program_.tensors[t];
      const bool is_output = tensor.role == Role::kOutput;
      add(concat(is_output ? "m" : "t", t), type_of(tensor), is_output,
          concat("loopwright.tensor = \"", tensor.name, "\""));
    }
    for (const Packing* packing : once) {
      add(concat(prepacks ? "p" : "c", packing->copy), copy_type(*packing), prepacks,
          concat("loopwright.packed = \"", program_.tensors[packing->tensor].name, "\""));
    }
    text_ = concat("func.func @", symbol_, "(", absl::StrJoin(parameters, ",\n    "), ") {\n");
  }

  void open_memory(const std::string& name, const std::string& memory, const std::string& type) {
    line(concat("%", name, " = bufferization.to_tensor %", memory, " restrict writable : ",
                memory_of(type)));
  }

  void store(const std::string& name, const std::string& memory, const std::string& type) {
    line(concat("bufferization.materialize_in_destination %", name, " in restrict writable %",
                memory, " : (", type, ", ", memory_of(type), ") -> ()"));
  }

  void reshape(std::string_view operation, const std::string& result, const std::string& from,
               const std::vector<int64_t>& whole, const std::vector<int64_t>& cut, Type type) {
    const bool cuts = operation == "expand";
    line(concat(result, " = tensor.", operation, "_shape ", from, " ", groups_text(whole, cut),
                cuts ? concat(" output_shape [", absl::StrJoin(cut, ", "), "]") : "", " : ",
                tensor_type(cuts ? whole : cut, type), " into ",
                tensor_type(cuts ? cut : whole, type)));
  }

  // The copy %c<stage>, into %c<stage>_into.
  void pack(const Packing& packing, std::string source) {
    const Tensor& tensor = program_.tensors[packing.tensor];
    const std::string name = concat("%c", packing.copy);
    const int rank = static_cast<int>(packing.shape.size());
    std::vector<int> order;                // by dimension of the source: of the copy
    std::vector<int64_t> cut = packing.shape;  // as the source has them
    if (packing.block > 0) {
      cut = tensor.shape;
      cut[packing.dim] /= packing.block;
      cut.insert(cut.begin() + packing.dim + 1, packing.block);
      reshape("expand", name + "_from", source, tensor.shape, cut, tensor.type);
      source = name + "_from";
      for (int d = 0; d < rank - 1; ++d) order.push_back(d < packing.dim ? d + 1 : d);
      order[packing.dim] = 0;
      order.insert(order.begin() + packing.dim + 1, rank - 1);
    } else {
      for (int d = 0; d < rank; ++d) order.push_back(d);
    }
    if (!packing.once) line(concat(name, "_into = tensor.empty() : ", copy_type(packing)));
    copy(name, source, tensor_type(cut, tensor.type), axes_map(order.size(), order), name + "_into",
         copy_type(packing), packing.shape.size(), tensor.type,
         concat("loopwright.copy = \"", nest_.stages[packing.copy].name, "\""));
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
    copy(result, from, type, identity_text(rank), into, type, rank, element, mark);
  }

  void copy(const std::string& result, const std::string& from, const std::string& from_type,
            const std::string& map, const std::string& into, const std::string& type, size_t rank,
            Type element, const std::string& mark) {
    line(concat(result, " = linalg.generic {indexing_maps = [", map, ", ", identity_text(rank),
                "], iterator_types = [", parallel(rank), "]}"));
    line(concat("    ins(", from, " : ", from_type, ") outs(", into, " : ", type, ") attrs = {",
                mark, "} {"));
    const std::string_view word = mlir_type(element);
    line(concat("  ^bb0(%in: ", word, ", %out: ", word, "):"));
    // MLIR takes a copy out of its operation and makes loops over elements of it. Of its own sign a
    // number is itself: LLVM sees that, once it is vectors.
    const bool has_sign = element == Type::kF32 || element == Type::kF64;
    if (has_sign) line(concat("    %same = math.copysign %in, %in : ", word));
    line(concat("    linalg.yield ", has_sign ? "%same" : "%in", " : ", word));
    line(concat("} -> ", type));
  }

  // What is read: its name. A copy is made before.
  std::string read(const Operation& operation, int number) {
    const Operand& operand = operation.operands[number];
    const std::string whole = concat("%t", operand.tensor);
    if (operand.in_blocks) return whole + "_blocks";
    if (operand.copy < 0) return part(operation, number);
    const std::string copy = concat("%c", operand.copy);
    for (const Packing& packing : operation.packings) {
      if (packing.copy != operand.copy || packing.once || !copied_.insert(operand.copy).second)
        continue;
      pack(packing, packing.block > 0 ? whole : part(operation, number));
    }
    return copy;
  }

  // What is read of a tensor where that is not all of it, or more: its name.
  std::string part(const Operation& operation, int number) {
    const Operand& operand = operation.operands[number];
    const Tensor& tensor = program_.tensors[operand.tensor];
    const std::string name = concat("%t", nest_.stages[operation.stage].tensor, "_in", number);
    std::string source = concat("%t", operand.tensor);
    if (operand.from != tensor.shape) {
      reshape("collapse", name + "_from", source, operand.from, tensor.shape, tensor.type);
      source = name + "_from";
    }
    if (operand.shape == operand.from &&
        std::all_of(operand.low.begin(), operand.low.end(), [](int64_t n) { return n == 0; }))
      return source;
    const Slab inside = inside_slab(operand);
    const std::string inside_type = tensor_type(inside.shape, tensor.type);
    if (inside.shape != operand.from) {    // cut off what is not read
      std::vector<int64_t> from;
      for (int64_t added : operand.low) from.push_back(std::max<int64_t>(0, -added));
      line(concat(name, "_part = tensor.extract_slice ", source, slice_text(from, inside.shape),
                  " : ", tensor_type(operand.from, tensor.type), " to ", inside_type));
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

  // Adds up the last dimension.
  void combine(const Operation& operation, const std::string& result, const std::string& from,
               const std::string& from_type, const std::string& into, const std::string& type) {
    const Stage& stage = nest_.stages[operation.stage];
    const Tensor& tensor = program_.tensors[stage.tensor];
    std::vector<int> kept(operation.shape.size());
    std::iota(kept.begin(), kept.end(), 0);
    const size_t rank = kept.size() + 1;
    std::vector<NestAxis> axes(rank);
    axes.back().reduction = true;
    const std::string_view word = mlir_type(tensor.type);
    line(concat(result, " = linalg.generic {indexing_maps = [", identity_text(rank), ", ",
                axes_map(rank, kept), "], iterator_types = [", iterators(axes), "]}"));
    line(concat("    ins(", from, " : ", from_type, ") outs(", into, " : ", type,
                ") attrs = {loopwright.combine = \"", stage.name, "\"} {"));
    line(concat("  ^bb0(%in: ", word, ", %out: ", word, "):"));
    line(concat("    %sum = ", combiner_word(tensor.reduce, tensor.type), " %out, %in : ", word));
    line(concat("    linalg.yield %sum : ", word));
    line(concat("} -> ", type));
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
    // What is computed has its dimensions cut where axes are; others see it whole.
    const bool is_cut = operation.shape != tensor.shape;
    const std::string type = tensor_type(operation.shape, tensor.type);
    const std::string made = is_cut ? name + "_blocks" : name;
    const std::string result = operation.copies_out ? name + "_sums" : made;
    std::string destination = concat("%o", stage.tensor);
    if (tensor.role != Role::kOutput) {
      destination = name + "_empty";
      line(concat(destination, " = tensor.empty() : ", type));
    } else if (is_cut) {
      reshape("expand", destination + "_blocks", destination, tensor.shape, operation.shape,
              tensor.type);
      destination += "_blocks";
    }
    std::string into = destination;
    if (operation.copies_out) {
      into = name + "_temporary";
      line(concat(into, " = tensor.empty() : ", type));
    }
    std::string summed = result, summed_type = type;
    std::vector<int> summed_axes = operation.result_axes;
    if (tensor.reduce != Reduce::kNone) {
      const std::string value =
          constant(name + "_identity", tensor.type, identity_float(tensor.reduce),
                   is_float(tensor.type) ? 0 : identity_int(tensor.reduce, tensor.type));
      const bool in_lanes = operation.lanes >= 0;
      fill(name + "_init", into, type, operation.shape.size(), tensor.type, value,
           concat("loopwright.", in_lanes ? "combine_init" : "init", " = \"", stage.name, "\""));
      into = name + "_init";
      if (in_lanes) {
        std::vector<int64_t> shape = operation.shape;
        shape.push_back(operation.axes[operation.lanes].extent);
        summed_axes.push_back(operation.lanes);
        summed_type = tensor_type(shape, tensor.type);
        summed = name + "_lanes";
        line(concat(summed, "_empty = tensor.empty() : ", summed_type));
        fill(summed + "_init", summed + "_empty", summed_type, shape.size(), tensor.type, value,
             concat("loopwright.init = \"", stage.name, "\""));
      }
    }
    const std::string begun = operation.lanes >= 0 ? summed + "_init" : into;
    maps.push_back(axes_map(rank, summed_axes));
    block.push_back(concat("%out: ", mlir_type(tensor.type)));
    line(concat(summed, " = linalg.generic {indexing_maps = [", absl::StrJoin(maps, ",\n      "),
                "],\n      iterator_types = [", iterators(operation.axes), "]}"));
    if (!names.empty())
      line(concat("    ins(", absl::StrJoin(names, ", "), " : ", absl::StrJoin(types, ", "), ")"));
    line(concat("    outs(", begun, " : ", summed_type, ") attrs = {loopwright.stage = \"",
                stage.name, "\"} {"));
    line(concat("  ^bb0(", absl::StrJoin(block, ", "), "):"));
    text_ += body;
    line(concat("} -> ", summed_type));
    if (operation.lanes >= 0) combine(operation, result, summed, summed_type, into, type);
    if (operation.copies_out) {
      copy(made, result, destination, type, operation.shape.size(), tensor.type,
           concat("loopwright.store = \"", stage.name, "\""));
    }
    if (is_cut) reshape("collapse", name, made, tensor.shape, operation.shape, tensor.type);
    return absl::OkStatus();
  }

  const Nest& nest_;
  const Program& program_;
  const std::string symbol_;
  std::string text_;
  std::set<int> copied_;                   // copies that are made
};

}  // namespace

std::string margin_name(const Nest& nest, const Operation& operation, int operand) {
  return concat(nest.stages[operation.stage].name, ".", operand);
}

std::string linalg_prepack(const Nest& nest, const std::vector<Operation>& operations,
                           const std::string& symbol) {
  return FunctionPrinter(nest, symbol).print_prepack(operations);
}

absl::StatusOr<std::string> linalg_function(const Nest& nest,
                                            const std::vector<Operation>& operations,
                                            const std::string& symbol) {
  return FunctionPrinter(nest, symbol).print(operations);
}

}  // namespace lw
