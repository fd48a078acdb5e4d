#include "schedules/npu/product.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "schedules/access.h"
#include "schedules/dot.h"
#include "schedules/npu/index_steps.h"
#include "schedules/npu/phases.h"
#include "schedules/npu/windows.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/base/message.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/expr/round_operands.h"

namespace lw {
namespace {

// How the axes move an index; false where it is no sum of multiples of them.
bool find_steps(const Nest& nest, int stage, const Expr& index,
                std::vector<std::vector<int64_t>>& steps, std::vector<int64_t>& begin) {
  const std::optional<IndexSteps> found = index_steps(nest, stage, index);
  if (!found) return false;
  steps.push_back(found->steps);
  begin.push_back(found->begin);
  return true;
}

bool find_steps(const Nest& nest, int stage, const ExprNode& read,
                std::vector<std::vector<int64_t>>& steps, std::vector<int64_t>& begin) {
  return std::all_of(read.args.begin(), read.args.end(), [&](const Expr& index) {
    return find_steps(nest, stage, index, steps, begin);
  });
}

// The same by the tensor's own axes, of which the stage may have made others.
bool find_steps_of_tensor(const ExprNode& read, size_t axes,
                          std::vector<std::vector<int64_t>>& steps, std::vector<int64_t>& begin) {
  for (const Expr& index : read.args) {
    const IndexForm form = index_form(index);
    if (!form.affine || form.gather) return false;
    std::vector<int64_t> moved(axes);
    for (size_t a = 0; a < axes; ++a) {
      moved[a] = step_of(form, static_cast<int>(a));
      if (moved[a] < 0) return false;
    }
    steps.push_back(std::move(moved));
    begin.push_back(form.constant);
  }
  return true;
}

// The read that the factor is, perhaps padded with zeros; null: another expression.
const ExprNode* read_of(const ExprNode& factor, bool* padded) {
  *padded = factor.op == ExprOp::kPad;
  if (*padded) {
    const ExprNode& value = *factor.args[1];
    const bool zero = value.op == ExprOp::kConst &&
                      (is_float(value.type) ? value.number == 0 : value.integer == 0);
    if (!zero) return nullptr;
  }
  const ExprNode& read = *padded ? *factor.args[0] : factor;
  return read.op == ExprOp::kRead ? &read : nullptr;
}

// What the array multiplies into 32 bits.
std::vector<Type> operand_types(const npu::Config& config) {
  std::vector<Type> types;
  for (const npu::Dtype dtype : config.mx.dtypes) {
    types.push_back(dtype == npu::Dtype::kI8 ? Type::kI8 : Type::kBF16);
  }
  return types;
}

Type sum_type(Type operand) { return operand == Type::kI8 ? Type::kI32 : Type::kF32; }

bool has(const std::vector<Type>& types, Type type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool has_type(const npu::Config& config, Type operand, Type acc) {
  return has(operand_types(config), operand) && acc == sum_type(operand);
}

// Of the axes of a role the longest but `other`, the last of equals; of those that move `dim`, if
// there are some.
int longest(const Stage& s, const NpuProduct& product, AxisRole role,
            const std::vector<int64_t>& dim, int other = -1) {
  int axis = -1;
  for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
    if (product.roles[a] != role || a == other) continue;
    const bool moves = dim[a] != 0, best_moves = axis >= 0 && dim[axis] != 0;
    if (axis >= 0 && (moves != best_moves ? best_moves : s.axes[a].extent < s.axes[axis].extent)) {
      continue;
    }
    axis = a;
  }
  return axis;
}

// Whether what an instruction reads and gives begins at aligned addresses, row by row: the last
// dimension of each is moved by what runs along its rows, from element to element, and by nothing
// else that runs inside a tile.
bool has_rows(const Stage& s, const NpuProduct& p) {
  const auto only = [&](const std::vector<std::vector<int64_t>>& steps, int along) {
    if (steps.empty()) return false;
    for (int a = 0; a < static_cast<int>(s.axes.size()); ++a) {
      const bool inside = p.roles[a] == AxisRole::kSum || a == p.row || a == p.outer_row ||
                          a == p.column;
      if (!inside || s.axes[a].extent == 1) continue;
      if (steps.back()[a] != (a == along ? 1 : 0)) return false;
    }
    return true;
  };
  return only(p.a_steps, p.sum) && only(p.dst_steps, p.column) &&
         (only(p.b_steps, p.column) || only(p.b_steps, p.sum));
}

// Whether rows of what is read are all in the tensor: no copy begins in the middle of one.
bool has_whole_rows(const std::vector<int64_t>& extents,
                    const std::vector<std::vector<int64_t>>& steps,
                    const std::vector<int64_t>& begin, int64_t row) {
  return begin.back() >= 0 && begin.back() + box_extent(steps.back(), extents) <= row;
}

bool runs_backwards(const std::vector<int64_t>& dim) {
  return std::any_of(dim.begin(), dim.end(), [](int64_t step) { return step < 0; });
}

// Whether only b is read backwards, all of which there is, and that not within rows.
bool runs_forward(const NpuProduct& p) {
  const auto backwards = [](const auto& steps) {
    return std::any_of(steps.begin(), steps.end(), runs_backwards);
  };
  return !backwards(p.a_steps) && !backwards(p.dst_steps) && !runs_backwards(p.b_steps.back()) &&
         !(p.b_padded && backwards(p.b_steps));
}

void exchange(NpuProduct& product) {
  std::swap(product.a, product.b);
  std::swap(product.a_steps, product.b_steps);
  std::swap(product.a_begin, product.b_begin);
  std::swap(product.a_padded, product.b_padded);
}

// The roles of the axes; false where instructions compute no such product.
bool find_roles(const Stage& s, NpuProduct& product) {
  product.roles.clear();
  for (size_t a = 0; a < s.axes.size(); ++a) {
    const bool by_a = moves(product.a_steps, a), by_b = moves(product.b_steps, a);
    if (!by_a && !by_b && s.axes[a].extent > 1) return false;
    const bool sum = s.axes[a].reduction;
    if (sum && by_a != by_b) return false;  // of one operand alone
    product.roles.push_back(sum            ? AxisRole::kSum
                            : by_a == by_b ? AxisRole::kBatch
                            : by_a         ? AxisRole::kRow
                                           : AxisRole::kColumn);
  }
  const std::vector<int64_t> any(s.axes.size());
  product.row = longest(s, product, AxisRole::kRow, any);
  product.outer_row = longest(s, product, AxisRole::kRow, any, product.row);
  product.column = longest(s, product, AxisRole::kColumn, product.dst_steps.back());
  product.sum = longest(s, product, AxisRole::kSum, product.a_steps.back());
  return has_rows(s, product);
}

}  // namespace

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

int64_t padded_to(int64_t extent, int64_t align) { return (extent + align - 1) / align * align; }

int64_t box_extent(const std::vector<int64_t>& steps, const std::vector<int64_t>& extents) {
  int64_t last = 0;
  for (size_t a = 0; a < steps.size(); ++a) last += std::abs(steps[a]) * (extents[a] - 1);
  return last + 1;
}

std::vector<int64_t> result_box(const NpuProduct& product, const std::vector<int64_t>& extents) {
  std::vector<int64_t> box(static_cast<size_t>(product.dst_dims.back()) + 1, 1);
  for (size_t d = 0; d < product.dst_steps.size(); ++d) {
    box[static_cast<size_t>(product.dst_dims[d])] *= box_extent(product.dst_steps[d], extents);
  }
  return box;
}

bool is_dense(const NpuProduct& product, const std::vector<int64_t>& extents) {
  for (size_t d = 0; d < product.dst_steps.size(); ++d) {
    const std::vector<int64_t>& dim = product.dst_steps[d];
    int64_t points = 1;
    for (size_t a = 0; a < dim.size(); ++a) points *= dim[a] != 0 ? extents[a] : 1;
    if (points != box_extent(dim, extents)) return false;
    const bool remainders = d > 0 && product.dst_dims[d] == product.dst_dims[d - 1];
    if (remainders && points > 1) return false;
  }
  return true;
}

std::optional<NpuProduct> product_of(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  // Traces of other machines may name steps of this one's.
  if (nest.target->part.family() != &kNpuFamily) return std::nullopt;
  if (s.copy_of >= 0 || tensor.reduce != Reduce::kSum || s.factored_axis >= 0) return std::nullopt;
  const Expr body = chosen_body(nest, stage);
  const std::optional<DotFactors> factors = dot_factors(*nest.target, body, tensor.type);
  if (!factors || body->op != ExprOp::kMul || factors->a->type != factors->b->type ||
      !has_type(npu_config(*nest.target), factors->a->type, tensor.type)) {
    return std::nullopt;
  }
  NpuProduct product;
  product.a = read_of(*factors->a, &product.a_padded);
  product.b = read_of(*factors->b, &product.b_padded);
  if (product.a == nullptr || product.b == nullptr) return std::nullopt;
  std::vector<int64_t> extents;
  for (const NestAxis& axis : s.axes) extents.push_back(axis.extent);
  const bool windows = !find_steps(nest, stage, *product.a, product.a_steps, product.a_begin) ||
                       !find_steps(nest, stage, *product.b, product.b_steps, product.b_begin);
  if (windows) {
    // Perhaps one of the stage's axes is several of a window.
    if (s.axis_value.empty()) return std::nullopt;
    extents = axis_extents(tensor);
    product.a_steps.clear(), product.a_begin.clear();
    product.b_steps.clear(), product.b_begin.clear();
    if (!find_steps_of_tensor(*product.a, extents.size(), product.a_steps, product.a_begin) ||
        !find_steps_of_tensor(*product.b, extents.size(), product.b_steps, product.b_begin)) {
      return std::nullopt;
    }
  }
  const size_t rank = tensor.shape.size();
  if (rank == 0 || product.a_steps.empty() || product.b_steps.empty()) return std::nullopt;
  const auto row_of = [&](const ExprNode& read) {
    return nest.program->tensors[read.index].shape.back();
  };
  if (!has_whole_rows(extents, product.a_steps, product.a_begin, row_of(*product.a)) ||
      !has_whole_rows(extents, product.b_steps, product.b_begin, row_of(*product.b))) {
    return std::nullopt;
  }
  for (size_t d = 0; d < rank; ++d) {
    const Expr index = make_axis(static_cast<int>(d));
    if (!find_steps(nest, stage, index, product.dst_steps, product.dst_begin)) return std::nullopt;
    product.dst_dims.push_back(static_cast<int>(d));
  }
  product.dst_shape = tensor.shape;
  product.dst_strides = row_major(tensor.shape);
  product.limits = limits_of(nest, stage);
  // The last axis of the result along which one operand stands still: its columns. Where rows do
  // not lie so, perhaps they do the other way about.
  for (size_t a = s.axes.size(); a-- > 0;) {
    const bool by_a = moves(product.a_steps, a), by_b = moves(product.b_steps, a);
    if (s.axes[a].reduction || s.axes[a].extent == 1 || by_a == by_b) continue;
    if (by_a) exchange(product);
    break;
  }
  for (const bool exchanged : {false, true}) {
    if (exchanged) exchange(product);
    NpuProduct one = product;
    one.b_shape = nest.program->tensors[one.b->index].shape;
    if (!runs_forward(one) || (windows && !take_windows(nest, stage, one))) continue;
    if (!find_roles(s, one)) continue;
    one.b_strides = row_major(one.b_shape);
    separate_phases(s, one);
    return one;
  }
  return std::nullopt;
}

namespace {

// Of a sum of types that the NPU has not, how to ask the library for one of those that it has, and
// that its operands may be rounded to one.
std::string typed_form(const Program& program, int tensor, std::vector<Type> types) {
  if (program.tensors[tensor].reduce != Reduce::kSum) return "";
  for (const int input : inputs(program)) {
    if (has(types, program.tensors[input].type)) return "";
  }
  std::sort(types.begin(), types.end(), [](Type a, Type b) { return is_float(a) > is_float(b); });
  const std::vector<std::string> forms = typed_forms(program, types);
  const bool rounds = has(types, Type::kBF16) && has_operands_to_round(program.tensors[tensor]);
  return concat(forms.empty() ? "" : concat("; ", program.name, " has ",
                                            absl::StrJoin(forms, " and ")),
                rounds ? "; --allow bf16 rounds its operands" : "");
}

// "i8 into i32, or of bf16 into f32".
std::string products_of(const std::vector<Type>& types) {
  return absl::StrJoin(types, ", or of ", [](std::string* out, Type type) {
    *out += concat(type_name(type), " into ", type_name(sum_type(type)));
  });
}

}  // namespace

std::string no_product(const Nest& nest, int stage) {
  bool chosen = false, narrow = false;
  visit(effective_body(nest, stage), [&](const ExprNode& e) {
    chosen = chosen || e.op == ExprOp::kSelect;
    narrow = narrow || (e.op == ExprOp::kRead && e.type == Type::kBF16);
  });
  const std::vector<Type> types = operand_types(npu_config(*nest.target));
  return concat(nest.stages[stage].name, " is no sum of products that the NPU computes: of ",
                products_of(types),
                ", read at sums of multiples of the axes in whole rows along the sum",
                chosen ? ", and not chosen by a where" : "",
                narrow && !has(types, Type::kBF16) ? "; mx.dtypes has no bf16" : "",
                typed_form(*nest.program, nest.stages[stage].tensor, types));
}

namespace {

// Of a dimension, what instructions read: along the sum and the columns whole ones.
int64_t read_extent(const std::vector<int64_t>& dim, const NpuProduct& product,
                    const std::vector<int64_t>& extents, const npu::Config& config) {
  int64_t extent = box_extent(dim, extents);
  const auto add = [&](int axis, int64_t align) {
    if (axis >= 0) extent += dim[axis] * (padded_to(extents[axis], align) - extents[axis]);
  };
  add(product.sum, config.align.k);
  add(product.column, config.align.n);
  return extent;
}

BoxLayout layout_of(const std::vector<std::vector<int64_t>>& steps, const NpuProduct& product,
                    const std::vector<int64_t>& extents, const npu::Config& config, int64_t align,
                    int64_t element_bytes) {
  BoxLayout layout;
  for (const std::vector<int64_t>& dim : steps) {
    layout.extents.push_back(read_extent(dim, product, extents, config));
  }
  layout.strides.resize(layout.extents.size());
  int64_t stride = 1;
  for (size_t d = layout.extents.size(); d-- > 0;) {
    layout.strides[d] = stride;
    stride *=
        d + 1 == layout.extents.size() ? padded_to(layout.extents[d], align) : layout.extents[d];
  }
  layout.elements = padded_to(stride, std::lcm(align, config.ve.lanes));
  layout.bytes = layout.elements * element_bytes;
  return layout;
}

// Elements of so many bytes that rows in SPM are multiples of.
int64_t spm_align(const npu::Config& config, int64_t size) {
  return std::max<int64_t>(1, config.spm.align / size);
}

int64_t bytes_of(const std::vector<std::vector<int64_t>>& steps, const NpuProduct& product,
                 const std::vector<int64_t>& extents, const npu::Config& config, int64_t align,
                 int64_t element_bytes) {
  int64_t elements = 1;
  for (const std::vector<int64_t>& dim : steps) {
    const int64_t extent = read_extent(dim, product, extents, config);
    elements *= &dim == &steps.back() ? padded_to(extent, align) : extent;
  }
  return padded_to(elements, std::lcm(align, config.ve.lanes)) * element_bytes;
}

}  // namespace

BoxLayout operand_layout(const npu::Config& config, const NpuProduct& product, bool b,
                         const std::vector<int64_t>& extents) {
  if (!b && !product.window.empty() && !product.packs) {
    return picture_layout(config, product, extents);
  }
  const int64_t size = size_of((b ? product.b : product.a)->type);
  return layout_of(b ? product.b_steps : product.a_steps, product, extents, config,
                   spm_align(config, size), size);
}

BoxLayout picture_layout(const npu::Config& config, const NpuProduct& product,
                         const std::vector<int64_t>& extents) {
  const int64_t size = size_of(product.a->type);
  return layout_of(product.picture_steps, product, with_window(product, extents), config,
                   spm_align(config, size), size);
}

BoxLayout result_layout(const npu::Config& config, const NpuProduct& product,
                        const std::vector<int64_t>& extents) {
  return layout_of(product.dst_steps, product, extents, config, config.acc.align, 4);
}

int64_t operand_bytes(const npu::Config& config, const NpuProduct& product, bool b,
                      const std::vector<int64_t>& extents) {
  const int64_t size = size_of((b ? product.b : product.a)->type);
  const int64_t align = spm_align(config, size);
  const auto bytes = [&](const std::vector<std::vector<int64_t>>& steps,
                         const std::vector<int64_t>& box) {
    return bytes_of(steps, product, box, config, align, size);
  };
  if (b) return bytes(product.b_steps, extents);
  if (product.window.empty()) return bytes(product.a_steps, extents);
  return bytes(product.picture_steps, with_window(product, extents)) +
         (product.packs ? bytes(product.a_steps, extents) : 0);
}

int64_t result_bytes(const npu::Config& config, const NpuProduct& product,
                     const std::vector<int64_t>& extents) {
  return bytes_of(product.dst_steps, product, extents, config, config.acc.align, 4);
}

}  // namespace lw
