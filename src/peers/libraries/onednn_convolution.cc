// oneDNN's convolutions, dense, grouped and transposed, of one to three dimensions.
#include "src/peers/libraries/onednn.h"

namespace lw::onednn {
namespace {

Dims tensor_dims(int64_t batch, int64_t channels, const std::vector<int64_t>& spatial) {
  Dims dims = {batch, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

// Strides of dimensions of extent 1 mean nothing; ours may be 0, the library's may not.
Desc tensor(const PeerView& view, const Dims& dims) {
  Dims strides(view.strides.begin(), view.strides.end());
  int64_t largest = 1;
  for (size_t d = 0; d < dims.size(); ++d) largest = std::max(largest, strides[d] * dims[d]);
  for (size_t d = 0; d < dims.size(); ++d)
    if (strides[d] == 0) strides[d] = largest;
  return Desc(dims, kF32, strides);
}

}  // namespace

std::vector<PeerKernel> convolution(const PeerConvolution& c, void* const* arguments) {
  const Desc x = tensor(c.x, tensor_dims(c.batch, c.groups * c.in_channels, c.in));
  const Desc y = tensor(c.y, tensor_dims(c.batch, c.groups * c.out_channels, c.out));
  Dims w_dims = {c.groups, c.out_channels, c.in_channels};
  w_dims.insert(w_dims.end(), c.kernel.begin(), c.kernel.end());
  PeerView w_view = c.w;
  if (c.groups == 1) {                     // dense weights have no dimension for the group
    w_dims.erase(w_dims.begin());
    w_view.strides.erase(w_view.strides.begin());
  }
  const Desc w = tensor(w_view, w_dims);
  const Dims stride(c.stride.begin(), c.stride.end()), low(c.pad_low.begin(), c.pad_low.end());
  const Dims high(c.pad_high.begin(), c.pad_high.end());
  Dims dilation;
  for (int64_t d : c.dilation) dilation.push_back(d - 1);

  Arguments all = {{DNNL_ARG_SRC, wrap(x, data_of(c.x, arguments))},
                   {DNNL_ARG_DST, wrap(y, data_of(c.y, arguments))}};
  const int64_t channels = c.groups * c.out_channels;
  Dims per_channel_dims(x.get_dims().size(), 1), unit(x.get_dims().size(), 1);
  per_channel_dims[1] = channels;
  unit[0] = channels;
  const Desc per_channel(per_channel_dims, kF32, unit), bias({channels}, kF32, Dims{1});
  dnnl::post_ops ops;
  const bool scaled = c.epilogue == PeerEpilogue::kScaleShiftRelu;
  if (scaled) {
    ops.append_binary(dnnl::algorithm::binary_mul, per_channel);
    ops.append_binary(dnnl::algorithm::binary_add, per_channel);
    all[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] =
        wrap(per_channel, data_of(c.scale, arguments));
    all[DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1] =
        wrap(per_channel, data_of(c.bias, arguments));
  }
  if (!append_activation(c.epilogue, &ops)) return {};
  const bool biased = c.bias.argument >= 0 && !scaled;
  if (biased) all[DNNL_ARG_BIAS] = wrap(bias, data_of(c.bias, arguments));
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(ops);
  const Desc bias_or_none = biased ? bias : Desc();
  const auto make = [&](const Desc& weights) {
    return dnnl::convolution_forward::primitive_desc(
        context().engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        x, weights, bias_or_none, y, stride, dilation, low, high, attributes);
  };
  const auto make_transposed = [&](const Desc& weights) {
    return dnnl::deconvolution_forward::primitive_desc(
        context().engine, dnnl::prop_kind::forward_inference,
        dnnl::algorithm::deconvolution_direct, x, weights, bias_or_none, y, stride, dilation, low,
        high, attributes);
  };
  const float* weights = data_of(c.w, arguments);
  return c.transposed ? with_weights(make_transposed, c.w, w, weights, all)
                      : with_weights(make, c.w, w, weights, all);
}

}  // namespace lw::onednn
