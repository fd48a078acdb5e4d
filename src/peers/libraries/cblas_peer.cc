#include "src/peers/libraries/cblas_peer.h"

#include <dlfcn.h>

#include <cmath>

#include "src/peers/libraries/views.h"

namespace lw {
namespace {

enum { kRowMajor = 101, kNoTrans = 111, kTrans = 112 };

int op(const MatrixLayout& layout) { return layout.transposed ? kTrans : kNoTrans; }

}  // namespace

CblasPeer::CblasPeer(std::string name, const char* library, const char* set_threads_symbol)
    : name_(std::move(name)), library_(dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  set_threads_ = reinterpret_cast<void (*)(long)>(symbol(set_threads_symbol));
  gemm_ = reinterpret_cast<Gemm>(symbol("cblas_sgemm"));
  gemv_ = reinterpret_cast<Gemv>(symbol("cblas_sgemv"));
  nrm2_ = reinterpret_cast<Nrm2>(symbol("cblas_snrm2"));
  dot_ = reinterpret_cast<Dot>(symbol("cblas_sdot"));
}

void* CblasPeer::symbol(const char* name) const {
  return library_ == nullptr ? nullptr : dlsym(library_, name);
}

void CblasPeer::use_threads(int threads) { set_threads_(threads); }

std::vector<PeerKernel> CblasPeer::prepare(const PeerCase& description, void* const* arguments,
                                           int threads) {
  use_threads(threads);
  if (const auto* g = std::get_if<PeerGemm>(&description)) return gemm(*g, arguments);
  if (const auto* r = std::get_if<PeerReduction>(&description)) return reduction(*r, arguments);
  return {};
}

std::vector<PeerKernel> CblasPeer::gemm(const PeerGemm& g, void* const* arguments) const {
  if (g.epilogue != PeerEpilogue::kNone || !is_f32(g)) return {};
  const size_t d = g.batch.size();
  const MatrixLayout a = matrix_layout(g.m, g.k, g.a.strides[d], g.a.strides[d + 1]);
  const MatrixLayout b = matrix_layout(g.k, g.n, g.b.strides[d], g.b.strides[d + 1]);
  const MatrixLayout c = matrix_layout(g.m, g.n, g.c.strides[d], g.c.strides[d + 1]);
  if (!a.valid || !b.valid || !c.valid || c.transposed) return {};
  struct Offsets {
    std::vector<int64_t> a, b, c;
  } at = {batch_offsets(g.batch, g.a.strides), batch_offsets(g.batch, g.b.strides),
          batch_offsets(g.batch, g.c.strides)};
  const float* pa = data_of(g.a, arguments);
  const float* pb = data_of(g.b, arguments);
  float* pc = data_of(g.c, arguments);
  const int m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
  std::vector<PeerKernel> kernels;
  kernels.push_back({"plain", "sgemm", [=, gemm = gemm_] {
    for (size_t i = 0; i < at.a.size(); ++i)
      gemm(kRowMajor, op(a), op(b), m, n, k, 1, pa + at.a[i], static_cast<int>(a.leading),
           pb + at.b[i], static_cast<int>(b.leading), 0, pc + at.c[i], static_cast<int>(c.leading));
  }});
  if (m == 1 && g.c.strides[d + 1] == 1 && g.a.strides[d + 1] == 1) {
    // C = B^T a, one row: b is k x n (or its transpose in memory).
    const int rows = b.transposed ? n : k, columns = b.transposed ? k : n;
    const int transpose = b.transposed ? kNoTrans : kTrans;
    kernels.push_back({"plain", "sgemv", [=, gemv = gemv_] {
      for (size_t i = 0; i < at.a.size(); ++i)
        gemv(kRowMajor, transpose, rows, columns, 1, pb + at.b[i], static_cast<int>(b.leading),
             pa + at.a[i], 1, 0, pc + at.c[i], 1);
    }});
  }
  return kernels;
}

std::vector<PeerKernel> CblasPeer::reduction(const PeerReduction& r, void* const* arguments) const {
  using Kind = PeerReduction::Kind;
  const float* x = data_of(r.x, arguments);
  float* y = data_of(r.y, arguments);
  std::vector<PeerKernel> kernels;
  // One vector per result: {reduced} or {kept, reduced}, contiguous.
  const size_t rank = r.dims.size();
  if (rank == 0 || rank > 2 || r.x.strides[rank - 1] != 1) return {};
  const bool inner = r.reduced[rank - 1] && (rank == 1 || !r.reduced[0]);
  const int rows = rank == 1 ? 1 : static_cast<int>(r.dims[0]);
  const int columns = static_cast<int>(r.dims[rank - 1]);
  if (inner && r.kind == Kind::kNorm2)
    kernels.push_back({"plain", "snrm2", [=, nrm2 = nrm2_] {
      for (int64_t i = 0; i < rows; ++i) y[i] = nrm2(columns, x + i * columns, 1);
    }});
  if (inner && (r.kind == Kind::kNorm2 || r.kind == Kind::kSumOfSquares))
    kernels.push_back({"plain", "sdot", [=, dot = dot_, root = r.kind == Kind::kNorm2] {
      for (int64_t i = 0; i < rows; ++i) {
        const float squares = dot(columns, x + i * columns, 1, x + i * columns, 1);
        y[i] = root ? std::sqrt(squares) : squares;
      }
    }});
  if (r.kind == Kind::kSum && rank == 2 && r.reduced[0] != r.reduced[1]) {
    // Sums of rows or columns: a product with a vector of ones.
    const int transpose = inner ? kNoTrans : kTrans;
    const std::vector<float> ones(inner ? columns : rows, 1.0f);
    kernels.push_back({"plain", "sgemv with ones", [=, gemv = gemv_] {
      gemv(kRowMajor, transpose, rows, columns, 1, x, columns, ones.data(), 1, 0, y, 1);
    }});
  }
  return kernels;
}

}  // namespace lw
