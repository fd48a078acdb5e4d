// oneDNN's matmul with post-operations; softmax behind it is a second primitive.
#include "src/peers/libraries/onednn.h"

namespace lw::onednn {

std::vector<PeerKernel> gemm(const PeerGemm& g, void* const* arguments) {
  const auto dims = [&g](int64_t rows, int64_t columns) {
    Dims d(g.batch.begin(), g.batch.end());
    d.push_back(rows);
    d.push_back(columns);
    return d;
  };
  // A matrix of one row or column has a stride of 0 there; any number would do.
  const auto matrix = [&](const PeerView& view, int64_t rows, int64_t columns) {
    PeerView v = view;
    const size_t d = g.batch.size();
    if (columns == 1) v.strides[d + 1] = 1;
    if (rows == 1) v.strides[d] = columns * v.strides[d + 1];
    return describe(v, dims(rows, columns));
  };
  const Desc a = matrix(g.a, g.m, g.k), b = matrix(g.b, g.k, g.n), c = matrix(g.c, g.m, g.n);
  Arguments all = {{DNNL_ARG_SRC, wrap(a, data_of(g.a, arguments))},
                   {DNNL_ARG_DST, wrap(c, data_of(g.c, arguments))}};
  Dims vector_dims(g.batch.size() + 2, 1);
  vector_dims.back() = g.n;
  const Desc vector(vector_dims, kF32, Dims(vector_dims.size(), 1));

  dnnl::post_ops ops;
  std::function<void()> after;
  if (g.epilogue == PeerEpilogue::kScaleShiftRelu) {
    ops.append_binary(dnnl::algorithm::binary_mul, vector);
    ops.append_binary(dnnl::algorithm::binary_add, vector);
    all[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] =
        wrap(vector, data_of(g.scale, arguments));
    all[DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1] =
        wrap(vector, data_of(g.bias, arguments));
  }
  if (g.epilogue == PeerEpilogue::kSoftmax) {
    const dnnl::softmax_forward::primitive_desc desc(
        context().engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, c,
        c, static_cast<int>(vector_dims.size()) - 1);
    after = [softmax = dnnl::softmax_forward(desc),
             args = Arguments{{DNNL_ARG_SRC, all.at(DNNL_ARG_DST)},
                              {DNNL_ARG_DST, all.at(DNNL_ARG_DST)}}] {
      softmax.execute(context().stream, args);
    };
  } else if (!append_activation(g.epilogue, &ops)) {
    return {};
  }
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  const bool bias = g.bias.argument >= 0 && g.epilogue != PeerEpilogue::kScaleShiftRelu;
  if (bias) all[DNNL_ARG_BIAS] = wrap(vector, data_of(g.bias, arguments));
  const auto make = [&](const Desc& weights) {
    using PrimitiveDesc = dnnl::matmul::primitive_desc;
    return bias ? PrimitiveDesc(context().engine, a, weights, vector, c, attributes)
                : PrimitiveDesc(context().engine, a, weights, c, attributes);
  };
  return with_weights(make, g.b, b, data_of(g.b, arguments), all, after);
}

}  // namespace lw::onednn
