// oneDNN: GEMM, convolution, attention, reductions, softmax, layer norm, transposition, functions.
// Threads are OpenMP's, of the runtime library that oneDNN is linked with: libgomp.
#include "src/peers/libraries/onednn.h"

#include <cstdlib>

extern "C" void omp_set_num_threads(int);  // <omp.h>, which comes with GCC alone

namespace lw::onednn {
namespace {

std::vector<PeerKernel> reduction(const PeerReduction& r, void* const* arguments) {
  using Kind = PeerReduction::Kind;
  dnnl::algorithm algorithm = dnnl::algorithm::reduction_sum;
  if (r.kind == Kind::kMean) algorithm = dnnl::algorithm::reduction_mean;
  if (r.kind == Kind::kMax) algorithm = dnnl::algorithm::reduction_max;
  if (r.kind == Kind::kMin) algorithm = dnnl::algorithm::reduction_min;
  if (r.kind == Kind::kSumOfSquares)
    algorithm = dnnl::algorithm::reduction_norm_lp_power_p_sum;
  if (r.kind == Kind::kNorm2) algorithm = dnnl::algorithm::reduction_norm_lp_sum;
  Dims out(r.dims.begin(), r.dims.end()), strides(r.dims.size(), 1);
  int64_t stride = 1;
  for (int d = static_cast<int>(out.size()) - 1; d >= 0; --d) {
    if (r.reduced[d]) out[d] = 1;
    strides[d] = r.reduced[d] ? stride : r.y.strides[d];
    stride = strides[d] * out[d];
  }
  const Desc x = describe(r.x, Dims(r.dims.begin(), r.dims.end())), y(out, kF32, strides);
  const dnnl::reduction::primitive_desc desc(context().engine, algorithm, x, y, 2.0f, 0.0f);
  return {single("plain", desc.impl_info_str(), dnnl::reduction(desc),
                 {{DNNL_ARG_SRC, wrap(x, data_of(r.x, arguments))},
                  {DNNL_ARG_DST, wrap(y, data_of(r.y, arguments))}})};
}

std::vector<PeerKernel> softmax(const PeerRows& r, void* const* arguments) {
  const Desc data({r.rows, r.columns}, kF32, Dims{r.columns, 1});
  const dnnl::softmax_forward::primitive_desc desc(
      context().engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, data,
      data, 1);
  return {single("plain", desc.impl_info_str(), dnnl::softmax_forward(desc),
                 {{DNNL_ARG_SRC, wrap(data, data_of(r.x, arguments))},
                  {DNNL_ARG_DST, wrap(data, data_of(r.y, arguments))}})};
}

std::vector<PeerKernel> layer_norm(const PeerRows& r, void* const* arguments) {
  const Desc data({r.rows, r.columns}, kF32, Dims{r.columns, 1}),
      vector({r.columns}, kF32, Dims{1});
  auto flags = dnnl::normalization_flags::none;
  Arguments all = {{DNNL_ARG_SRC, wrap(data, data_of(r.x, arguments))},
                   {DNNL_ARG_DST, wrap(data, data_of(r.y, arguments))}};
  if (r.gamma.argument >= 0) {
    flags = flags | dnnl::normalization_flags::use_scale;
    all[DNNL_ARG_SCALE] = wrap(vector, data_of(r.gamma, arguments));
  }
  if (r.beta.argument >= 0) {
    flags = flags | dnnl::normalization_flags::use_shift;
    all[DNNL_ARG_SHIFT] = wrap(vector, data_of(r.beta, arguments));
  }
  const dnnl::layer_normalization_forward::primitive_desc desc(
      context().engine, dnnl::prop_kind::forward_inference, data, data,
      static_cast<float>(r.epsilon), flags);
  return {single("plain", desc.impl_info_str(), dnnl::layer_normalization_forward(desc), all)};
}

std::vector<PeerKernel> rows(const PeerRows& r, void* const* arguments) {
  if (r.kind == PeerRows::Kind::kSoftmax) return softmax(r, arguments);
  if (r.kind == PeerRows::Kind::kLayerNorm) return layer_norm(r, arguments);
  return {};                               // RMS norm came after the releases we can get
}

std::vector<PeerKernel> transpose(const PeerTranspose& t, void* const* arguments) {
  const Dims dims(t.dims.begin(), t.dims.end());
  const dnnl::memory from = wrap(describe(t.x, dims), data_of(t.x, arguments));
  const dnnl::memory to = wrap(describe(t.y, dims), data_of(t.y, arguments));
  const dnnl::reorder::primitive_desc desc(from, to);
  return {single("plain", desc.impl_info_str(), dnnl::reorder(desc),
                 {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}})};
}

std::vector<PeerKernel> unary(const PeerUnary& u, void* const* arguments) {
  using Kind = PeerUnary::Kind;
  dnnl::algorithm algorithm = dnnl::algorithm::eltwise_relu;
  switch (u.kind) {
    case Kind::kRelu: algorithm = dnnl::algorithm::eltwise_relu; break;
    case Kind::kGeluErf: algorithm = dnnl::algorithm::eltwise_gelu_erf; break;
    case Kind::kGeluTanh: algorithm = dnnl::algorithm::eltwise_gelu_tanh; break;
    case Kind::kTanh: algorithm = dnnl::algorithm::eltwise_tanh; break;
    case Kind::kExp: algorithm = dnnl::algorithm::eltwise_exp; break;
    case Kind::kSigmoid: algorithm = dnnl::algorithm::eltwise_logistic; break;
    case Kind::kSqrt: algorithm = dnnl::algorithm::eltwise_sqrt; break;
    case Kind::kAbs: algorithm = dnnl::algorithm::eltwise_abs; break;
  }
  const Desc data({u.elements}, kF32, Dims{1});
  const dnnl::eltwise_forward::primitive_desc desc(
      context().engine, dnnl::prop_kind::forward_inference, algorithm, data, data, 0.0f, 0.0f);
  return {single("plain", desc.impl_info_str(), dnnl::eltwise_forward(desc),
                 {{DNNL_ARG_SRC, wrap(data, data_of(u.x, arguments))},
                  {DNNL_ARG_DST, wrap(data, data_of(u.y, arguments))}})};
}

class OneDnn : public Peer {
 public:
  std::string name() const override { return "onednn"; }
  std::string version() const override {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }
  void use_threads(int threads) override { omp_set_num_threads(threads); }

  std::vector<PeerKernel> prepare(const PeerCase& description, void* const* arguments,
                                  int threads) override {
    use_threads(threads);                  // primitives are generated for a number of threads
    try {
      if (const auto* g = std::get_if<PeerGemm>(&description)) return gemm(*g, arguments);
      if (const auto* r = std::get_if<PeerReduction>(&description)) return reduction(*r, arguments);
      if (const auto* r = std::get_if<PeerRows>(&description)) return rows(*r, arguments);
      if (const auto* t = std::get_if<PeerTranspose>(&description)) return transpose(*t, arguments);
      if (const auto* u = std::get_if<PeerUnary>(&description)) return unary(*u, arguments);
      if (const auto* c = std::get_if<PeerConvolution>(&description))
        return convolution(*c, arguments);
      if (const auto* a = std::get_if<PeerAttention>(&description)) return attention(*a, arguments);
    } catch (const dnnl::error&) {         // the library has no implementation of the case
    }
    return {};
  }
};

}  // namespace

Context& context() {
  static Context instance;
  return instance;
}

Desc describe(const PeerView& view, Dims dims) {
  Dims strides;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (view.strides[d] == 0) dims[d] = 1;
    strides.push_back(view.strides[d] == 0 ? 1 : view.strides[d]);
  }
  return Desc(dims, data_type(view.type), strides);
}

dnnl::memory::data_type data_type(PeerType type) {
  switch (type) {
    case PeerType::kBF16: return dnnl::memory::data_type::bf16;
    case PeerType::kU8: return dnnl::memory::data_type::u8;
    case PeerType::kI8: return dnnl::memory::data_type::s8;
    case PeerType::kI32: return dnnl::memory::data_type::s32;
    case PeerType::kF32: break;
  }
  return kF32;
}

PeerKernel single(const char* mode, const std::string& implementation,
                  const dnnl::primitive& primitive, const Arguments& arguments) {
  return {mode, implementation, [primitive, arguments] {
    primitive.execute(context().stream, arguments);
    context().stream.wait();
  }};
}

bool append_activation(PeerEpilogue epilogue, dnnl::post_ops* ops) {
  switch (epilogue) {
    case PeerEpilogue::kNone:
    case PeerEpilogue::kBias:
      return true;
    case PeerEpilogue::kRelu:
    case PeerEpilogue::kBiasRelu:
    case PeerEpilogue::kScaleShiftRelu:
      ops->append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
      return true;
    case PeerEpilogue::kGeluErf:
    case PeerEpilogue::kBiasGeluErf:
      ops->append_eltwise(dnnl::algorithm::eltwise_gelu_erf, 0, 0);
      return true;
    case PeerEpilogue::kGeluTanh:
    case PeerEpilogue::kBiasGeluTanh:
      ops->append_eltwise(dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
      return true;
    case PeerEpilogue::kSoftmax:
      return false;
  }
  return false;
}

}  // namespace lw::onednn

extern "C" lw::Peer* lw_peer(std::string* why) {
  if (dnnl_version()->major < 3) {
    *why = "the loaded oneDNN is older than 3";
    return nullptr;
  }
  // The vector instructions that our kernels have, not the tile multiplier (AMX) that they do not;
  // ONEDNN_MAX_CPU_ISA decides otherwise.
  if (std::getenv("ONEDNN_MAX_CPU_ISA") == nullptr) {
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
  }
  static lw::onednn::OneDnn peer;
  return &peer;
}
