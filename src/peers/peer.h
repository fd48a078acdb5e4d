// What a vendor library must offer to stand beside our kernels: for a case described by shapes and
// strides (never by an operator's name) it returns the ways in which it can compute it, ready to
// run.
//
// A peer is a shared object lw_peer_<name>.so that exports `lw_peer`; loader.h finds and loads them
// at run time, so Loopwright itself links no vendor library. Host and plugin are built together,
// hence a C++ interface. Data are row-major or strided views of row-major arguments, f32 but for
// the matrix products of narrow types.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace lw {

// In the environment: libraries are held to some instructions by variables of their own, which peers
// otherwise set to what makes them fastest here.
inline constexpr char kPeersHeld[] = "LOOPWRIGHT_PEERS_HELD";

enum class PeerType : uint8_t { kF32, kBF16, kU8, kI8, kI32 };

// A view of one kernel argument: strides in elements, one per dimension that the case names.
struct PeerView {
  int argument = -1;                       // position among the kernel's arguments; -1: absent
  std::vector<int64_t> strides;
  bool is_const = false;                   // may be laid out anew before the timed calls
  PeerType type = PeerType::kF32;
};

// What happens to a result before it is stored. `kBias*`: the operand is added per last dimension.
enum class PeerEpilogue : uint8_t {
  kNone, kRelu, kGeluErf, kGeluTanh, kBias, kBiasRelu, kBiasGeluErf, kBiasGeluTanh,
  kScaleShiftRelu,                         // max(x * scale + bias, 0)
  kSoftmax,                                // over the last dimension
};

// C[batch..., m, n] = epilogue(sum over k of A[batch..., m, k] * B[batch..., k, n]). Views have one
// stride per batch dimension, then two.
struct PeerGemm {
  std::vector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  PeerView a, b, c;
  PeerEpilogue epilogue = PeerEpilogue::kNone;
  PeerView scale, bias;                    // one stride: along n
};

// Whether all of it is f32; else bf16 by bf16 into f32 or u8 by i8 into i32, without an epilogue.
inline bool is_f32(const PeerGemm& g) {
  return g.a.type == PeerType::kF32 && g.b.type == PeerType::kF32 && g.c.type == PeerType::kF32;
}

// y = reduction of x over the dimensions marked `reduced`; y's strides are 0 there.
struct PeerReduction {
  enum class Kind : uint8_t { kSum, kMean, kMax, kMin, kSumOfSquares, kNorm2 } kind = Kind::kSum;
  std::vector<int64_t> dims;
  std::vector<bool> reduced;
  PeerView x, y;
};

// Row by row over `columns` contiguous elements; `gamma` and `beta` have one stride, if present.
struct PeerRows {
  enum class Kind : uint8_t { kSoftmax, kLayerNorm, kRmsNorm } kind = Kind::kSoftmax;
  int64_t rows = 1, columns = 1;
  PeerView x, y, gamma, beta;
  double epsilon = 0;
};

// y[dims] = x[dims] through different strides.
struct PeerTranspose {
  std::vector<int64_t> dims;
  PeerView x, y;
};

// y = f(x) on contiguous elements.
struct PeerUnary {
  enum class Kind : uint8_t { kRelu, kGeluErf, kGeluTanh, kTanh, kExp, kSigmoid, kSqrt, kAbs } kind;
  int64_t elements = 0;
  PeerView x, y;
};

// An n-dimensional grouped convolution. Spatial vectors have one entry per spatial dimension;
// strides: x and y {batch, channel, spatial...}, w {group, output channel, input channel,
// spatial...}.
struct PeerConvolution {
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  // of one group
  std::vector<int64_t> in, out, kernel, stride, dilation, pad_low, pad_high;
  bool transposed = false;
  PeerView x, w, y;
  PeerEpilogue epilogue = PeerEpilogue::kNone;
  PeerView scale, bias;                    // per output channel
};

// y[batch..., i, e] = sum over j of softmax over j(scale * sum over d of q[batch..., i, d] *
// k[batch..., j, d]) * v[batch..., j, e]. Views have one stride per batch dimension, then two, in
// the order of these indices.
struct PeerAttention {
  std::vector<int64_t> batch;
  int64_t queries = 1, keys = 1, depth = 1, columns = 1;
  double scale = 1;
  PeerView q, k, v, y;
};

using PeerCase = std::variant<std::monostate, PeerGemm, PeerReduction, PeerRows, PeerTranspose,
                              PeerUnary, PeerConvolution, PeerAttention>;

// One way in which a library computes a case.
//   plain          all operands in the caller's layouts, nothing prepared
//   plain_reorder  the same for the caller; the library reorders the weights in every call
//   packed         const weights reordered before, as inference engines do
struct PeerKernel {
  std::string mode;
  std::string implementation;              // what the library says it runs: "brg:avx512_core", ...
  std::function<void()> run;               // on the pointers given to prepare
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;    // "onednn"
  virtual std::string version() const = 0;  // "3.6.2"

  // All ways to compute `description` with `threads` threads; empty when the library has none.
  // `arguments` outlive the kernels. Runs of different thread counts must not be mixed: call
  // use_threads before running kernels that were prepared for another count.
  virtual std::vector<PeerKernel> prepare(const PeerCase& description, void* const* arguments,
                                          int threads) = 0;
  virtual void use_threads(int threads) = 0;
};

}  // namespace lw

// What a plugin exports. Null when the library is missing or of the wrong version; `why` says so.
extern "C" lw::Peer* lw_peer(std::string* why);
