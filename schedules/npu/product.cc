#include "schedules/npu/product.h"

#include <numeric>

#include "schedules/access.h"
#include "schedules/dot.h"
#include "schedules/targets/npu/npu_target.h"
#include "src/expr/expr.h"

namespace lw {
namespace {

// How the axes move each dimension of a read; false where an index is no sum of multiples of them,
// or runs backwards.
bool find_steps(const Nest& nest, int stage, const ExprNode& read,
                std::vector<std::vector<int64_t>>& steps, std::vector<int64_t>& begin) {
  const size_t axes = nest.stages[stage].axes.size();
  for (const Expr& index : read.args) {
    const IndexForm form = index_form(nest, stage, index);
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

bool has_type(const npu::Config& config, Type operand, Type acc) {
  const auto has = [&](npu::Dtype dtype) {
    for (const npu::Dtype one : config.mx.dtypes) {
      if (one == dtype) return true;
    }
    return false;
  };
  if (operand == Type::kI8) return acc == Type::kI32 && has(npu::Dtype::kI8);
  return operand == Type::kBF16 && acc == Type::kF32 && has(npu::Dtype::kBf16);
}

}  // namespace

int64_t padded_to(int64_t extent, int64_t align) { return (extent + align - 1) / align * align; }

int64_t box_extent(const std::vector<int64_t>& steps, const std::vector<int64_t>& extents) {
  int64_t last = 0;
  for (size_t a = 0; a < steps.size(); ++a) last += steps[a] * (extents[a] - 1);
  return last + 1;
}

std::optional<NpuProduct> product_of(const Nest& nest, int stage) {
  const Stage& s = nest.stages[stage];
  const Tensor& tensor = nest.program->tensors[s.tensor];
  if (s.copy_of >= 0 || tensor.reduce != Reduce::kSum || !s.axis_value.empty()) return std::nullopt;
  if (s.factored_axis >= 0) return std::nullopt;
  const Expr body = effective_body(nest, stage);
  const std::optional<DotFactors> factors = dot_factors(*nest.target, body, tensor.type);
  if (!factors || factors->a->op != ExprOp::kRead || factors->b->op != ExprOp::kRead) {
    return std::nullopt;
  }
  if (body->op != ExprOp::kMul || factors->a->type != factors->b->type ||
      !has_type(npu_config(*nest.target), factors->a->type, tensor.type)) {
    return std::nullopt;
  }
  NpuProduct product;
  product.a = factors->a.get();
  product.b = factors->b.get();
  if (!find_steps(nest, stage, *product.a, product.a_steps, product.a_begin) ||
      !find_steps(nest, stage, *product.b, product.b_steps, product.b_begin)) {
    return std::nullopt;
  }
  const size_t rank = tensor.shape.size(), axes = s.axes.size();
  for (size_t d = 0; d < rank; ++d) {
    product.dst_steps.emplace_back(axes);
    product.dst_steps.back()[d] = 1;
  }
  // The last axis of the result along which one operand stands still: its columns.
  for (size_t d = rank; d-- > 0;) {
    const bool by_a = moves(product.a_steps, d), by_b = moves(product.b_steps, d);
    if (s.axes[d].extent == 1 || by_a == by_b) continue;
    if (by_a) {
      std::swap(product.a, product.b);
      std::swap(product.a_steps, product.b_steps);
      std::swap(product.a_begin, product.b_begin);
    }
    break;
  }
  for (size_t a = 0; a < axes; ++a) {
    const bool by_a = moves(product.a_steps, a), by_b = moves(product.b_steps, a);
    if (!by_a && !by_b && s.axes[a].extent > 1) return std::nullopt;
    if (a >= rank && by_a != by_b) return std::nullopt;  // the sum of one operand alone
    product.roles.push_back(a >= rank      ? AxisRole::kSum
                            : by_a == by_b ? AxisRole::kBatch
                            : by_a         ? AxisRole::kRow
                                           : AxisRole::kColumn);
  }
  return product;
}

namespace {

// Dimensions that sums or columns of one instruction run along are as long as it reads.
BoxLayout layout_of(const std::vector<std::vector<int64_t>>& steps, const NpuProduct& product,
                    const std::vector<int64_t>& extents, const npu::Config& config, int64_t align,
                    int64_t element_bytes) {
  BoxLayout layout;
  for (const std::vector<int64_t>& dim : steps) {
    int64_t extent = box_extent(dim, extents);
    for (size_t a = 0; a < dim.size(); ++a) {
      if (dim[a] == 0) continue;
      if (product.roles[a] == AxisRole::kSum) extent = padded_to(extent, config.align.k);
      if (product.roles[a] == AxisRole::kColumn) extent = padded_to(extent, config.align.n);
    }
    layout.extents.push_back(extent);
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

}  // namespace

BoxLayout operand_layout(const npu::Config& config, const NpuProduct& product, bool b,
                         const std::vector<int64_t>& extents) {
  const int64_t size = size_of((b ? product.b : product.a)->type);
  const int64_t align = std::max<int64_t>(1, config.spm.align / size);
  return layout_of(b ? product.b_steps : product.a_steps, product, extents, config, align, size);
}

BoxLayout result_layout(const npu::Config& config, const NpuProduct& product,
                        const std::vector<int64_t>& extents) {
  return layout_of(product.dst_steps, product, extents, config, config.acc.align, 4);
}

}  // namespace lw
