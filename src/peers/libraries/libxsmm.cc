// libxsmm: small GEMMs by its just-in-time kernels. Above 64^3 multiply-adds it is a front of a
// BLAS, so it has no kernels of its own to compare with.
#include <libxsmm.h>

#include "src/peers/libraries/views.h"

namespace lw {
namespace {

class Libxsmm : public Peer {
 public:
  Libxsmm() { libxsmm_init(); }
  std::string name() const override { return "libxsmm"; }
  std::string version() const override { return LIBXSMM_VERSION; }
  void use_threads(int) override {}

  std::vector<PeerKernel> prepare(const PeerCase& description, void* const* arguments,
                                  int threads) override {
    const auto* g = std::get_if<PeerGemm>(&description);
    if (g == nullptr || g->epilogue != PeerEpilogue::kNone || !is_f32(*g)) return {};
    if (g->m * g->n * g->k > int64_t{64} * 64 * 64) return {};
    const size_t d = g->batch.size();
    const MatrixLayout a = matrix_layout(g->m, g->k, g->a.strides[d], g->a.strides[d + 1]);
    const MatrixLayout b = matrix_layout(g->k, g->n, g->b.strides[d], g->b.strides[d + 1]);
    const MatrixLayout c = matrix_layout(g->m, g->n, g->c.strides[d], g->c.strides[d + 1]);
    if (!a.valid || !b.valid || !c.valid || a.transposed || b.transposed || c.transposed) return {};
    // Column-major: C^T = B^T A^T.
    const int m = static_cast<int>(g->n), n = static_cast<int>(g->m), k = static_cast<int>(g->k);
    const int lda = static_cast<int>(b.leading), ldb = static_cast<int>(a.leading);
    const int ldc = static_cast<int>(c.leading);
    const float alpha = 1, beta = 0;
    const libxsmm_smmfunction kernel =
        libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &alpha, &beta, nullptr, nullptr);
    if (kernel == nullptr) return {};
    std::vector<int64_t> oa = batch_offsets(g->batch, g->a.strides);
    std::vector<int64_t> ob = batch_offsets(g->batch, g->b.strides);
    std::vector<int64_t> oc = batch_offsets(g->batch, g->c.strides);
    const float* pa = data_of(g->a, arguments);
    const float* pb = data_of(g->b, arguments);
    float* pc = data_of(g->c, arguments);
    return {{"plain", "libxsmm_smmdispatch", [=] {
      for (size_t i = 0; i < oa.size(); ++i) kernel(pb + ob[i], pa + oa[i], pc + oc[i]);
    }}};
  }
};

}  // namespace
}  // namespace lw

extern "C" lw::Peer* lw_peer(std::string* why) {
  static lw::Libxsmm peer;
  if (libxsmm_get_target_archid() < LIBXSMM_X86_AVX) {
    *why = "libxsmm has no just-in-time kernels for this host";
    return nullptr;
  }
  return &peer;
}
