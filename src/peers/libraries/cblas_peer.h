// Any library with the CBLAS interface as a peer: GEMMs by sgemm or sgemv, norms by snrm2 and sdot,
// sums by sgemv or sdot. The library is opened at run time.
#pragma once

#include <string>
#include <vector>

#include "src/peers/peer.h"

namespace lw {

class CblasPeer : public Peer {
 public:
  // `set_threads` is the library's symbol void(int) or void(long). REQUIRES: ok().
  CblasPeer(std::string name, const char* library, const char* set_threads_symbol);
  bool ok() const { return gemm_ != nullptr && set_threads_ != nullptr; }
  void* symbol(const char* name) const;
  void set_version(std::string version) { version_ = std::move(version); }

  std::string name() const override { return name_; }
  std::string version() const override { return version_; }
  std::vector<PeerKernel> prepare(const PeerCase& description, void* const* arguments,
                                  int threads) override;
  void use_threads(int threads) override;

 private:
  using Gemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                        float, float*, int);
  using Gemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float,
                        float*, int);
  using Nrm2 = float (*)(int, const float*, int);
  using Dot = float (*)(int, const float*, int, const float*, int);

  std::vector<PeerKernel> gemm(const PeerGemm& g, void* const* arguments) const;
  std::vector<PeerKernel> reduction(const PeerReduction& r, void* const* arguments) const;

  std::string name_, version_;
  void* library_ = nullptr;
  void (*set_threads_)(long) = nullptr;    // an int argument fits the same register
  Gemm gemm_ = nullptr;
  Gemv gemv_ = nullptr;
  Nrm2 nrm2_ = nullptr;
  Dot dot_ = nullptr;
};

}  // namespace lw
