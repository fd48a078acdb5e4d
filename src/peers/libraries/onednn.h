// What the files of the oneDNN peer share.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/peers/libraries/views.h"
#include "src/peers/peer.h"

namespace lw::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Arguments = std::unordered_map<int, dnnl::memory>;
inline constexpr auto kF32 = dnnl::memory::data_type::f32;
dnnl::memory::data_type data_type(PeerType type);

struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};
Context& context();

inline dnnl::memory wrap(const Desc& desc, const void* data) {
  return dnnl::memory(desc, context().engine, const_cast<void*>(data));
}

// A view as a oneDNN tensor. Dimensions of stride 0 are broadcast: extent 1.
Desc describe(const PeerView& view, Dims dims);

// One primitive with its arguments as a kernel.
PeerKernel single(const char* mode, const std::string& implementation,
                  const dnnl::primitive& primitive, const Arguments& arguments);

// The kernels of a primitive with weights: plain, plain_reorder and, for const weights, packed.
// `make(weights)` gives the primitive descriptor for a layout of the weights and throws where there
// is none; `after` (may be empty) runs behind it on the same stream.
template <class Make>
std::vector<PeerKernel> with_weights(const Make& make, const PeerView& weights_view,
                                     const Desc& weights, const void* data, Arguments arguments,
                                     std::function<void()> after = {});

std::vector<PeerKernel> gemm(const PeerGemm& g, void* const* arguments);
std::vector<PeerKernel> convolution(const PeerConvolution& c, void* const* arguments);
std::vector<PeerKernel> attention(const PeerAttention& a, void* const* arguments);

// Appends the epilogue's operations that follow a bias; false when they are not post-operations.
bool append_activation(PeerEpilogue epilogue, dnnl::post_ops* ops);

// ---------------------------------------------------------------------------------- implementation

template <class Make>
std::vector<PeerKernel> with_weights(const Make& make, const PeerView& weights_view,
                                     const Desc& weights, const void* data, Arguments arguments,
                                     std::function<void()> after) {
  std::vector<PeerKernel> kernels;
  const auto run_of = [after](const dnnl::primitive& primitive, const Arguments& all) {
    return [primitive, all, after] {
      primitive.execute(context().stream, all);
      if (after) after();
      context().stream.wait();
    };
  };
  try {
    const auto desc = make(weights);
    Arguments all = arguments;
    all[DNNL_ARG_WEIGHTS] = wrap(weights, data);
    kernels.push_back({"plain", desc.impl_info_str(), run_of(dnnl::primitive(desc), all)});
  } catch (const dnnl::error&) {           // not in this layout
  }
  try {
    const auto desc =
        make(Desc(weights.get_dims(), weights.get_data_type(), dnnl::memory::format_tag::any));
    if (desc.weights_desc() == weights) return kernels;  // plain is what the library wants
    const dnnl::primitive primitive(desc);
    const dnnl::memory from = wrap(weights, data), to(desc.weights_desc(), context().engine);
    const dnnl::primitive reorder = dnnl::reorder(from, to);
    Arguments all = arguments;
    all[DNNL_ARG_WEIGHTS] = to;
    const auto run = run_of(primitive, all);
    kernels.push_back({"plain_reorder", desc.impl_info_str(), [reorder, from, to, run] {
      reorder.execute(context().stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
      run();
    }});
    if (weights_view.is_const) {
      const dnnl::memory packed(desc.weights_desc(), context().engine);
      reorder.execute(context().stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, packed}});
      context().stream.wait();
      all[DNNL_ARG_WEIGHTS] = packed;
      kernels.push_back({"packed", desc.impl_info_str(), run_of(primitive, all)});
    }
  } catch (const dnnl::error&) {
  }
  return kernels;
}

}  // namespace lw::onednn
