#include "src/npu/timing/bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/base/check.h"
#include "src/npu/timing/array.h"

namespace lw::npu {
namespace {

int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of; }

double rate(const RateConfig& cpi, BinaryFn fn) {
  switch (fn) {
    case BinaryFn::kAdd: case BinaryFn::kSub: case BinaryFn::kShr: return cpi.add;
    case BinaryFn::kMul: return cpi.mul;
    case BinaryFn::kMax: case BinaryFn::kMin: case BinaryFn::kCmp: return cpi.max;
  }
  CHECK(false);
  return 0;
}

double rate(const RateConfig& cpi, UnaryFn fn) {
  switch (fn) {
    case UnaryFn::kCopy: case UnaryFn::kAbs: return cpi.add;
    case UnaryFn::kRelu: return cpi.max;
    case UnaryFn::kExp: case UnaryFn::kTanh: case UnaryFn::kSigm: case UnaryFn::kGelu:
      return cpi.exp;
    case UnaryFn::kRecip: case UnaryFn::kRsqrt: return cpi.rsqrt;
  }
  CHECK(false);
  return 0;
}

// Adds what MX takes one after the other.
class ArrayBound {
 public:
  explicit ArrayBound(const ArrayConfig& mx)
      : mx_(mx), pipelined_(mx.mode == ArrayMode::kPipelined),
        serial_(mx.mode == ArrayMode::kSerial) {}

  void add(const Instruction& instruction) {
    if (std::holds_alternative<MxLdw>(instruction.body)) {
      if (serial_) total_ += mx_.rows;
      loaded_ = pipelined_;
      return;
    }
    int64_t cycles = 0;
    if (const auto* mm = std::get_if<MxMm>(&instruction.body)) {
      if (loaded_ && mm->swap) last_ = std::max(last_, mx_.rows);
      cycles = std::max(int64_t{mm->m} * mm->m2, mx_.m_min);
    } else if (const auto* os = std::get_if<MxMmos>(&instruction.body)) {
      cycles = pipelined_ ? std::max<int64_t>(os->k, mx_.rows) : int64_t{os->k};
    } else if (const auto* col = std::get_if<MxCol>(&instruction.body)) {
      cycles = packer_cycles(mx_, *col, instruction.dtype);
      if (serial_) cycles -= mx_.rows + mx_.columns - 2;
    } else {
      return;
    }
    total_ += last_;
    last_ = cycles + (serial_ ? mx_.rows + mx_.columns - 2 : 0);
    loaded_ = false;
  }
  int64_t total() const { return total_ + last_; }

 private:
  const ArrayConfig& mx_;
  const bool pipelined_, serial_;
  int64_t total_ = 0, last_ = 0;           // up to the last one; of the last one
  bool loaded_ = false;                    // weights, since the last one
};

}  // namespace

int64_t macs(const Instruction& instruction) {
  if (const auto* mm = std::get_if<MxMm>(&instruction.body)) {
    return int64_t{mm->m} * mm->m2 * mm->k * mm->n;
  }
  if (const auto* os = std::get_if<MxMmos>(&instruction.body)) {
    return int64_t{os->m} * os->k * os->n;
  }
  return 0;
}

int64_t dram_bytes(const Instruction& instruction) {
  const Copy* copy = std::get_if<Ld>(&instruction.body);
  if (copy == nullptr) copy = std::get_if<St>(&instruction.body);
  return copy == nullptr ? 0 : int64_t{copy->n0} * copy->n1 * copy->n2;
}

double vector_cycles(const Config& config, const Instruction& instruction) {
  const VectorConfig& ve = config.ve;
  const Body& body = instruction.body;
  if (const auto* r = std::get_if<VeReq>(&body)) {
    return ve.startup + r->rows * up(r->n, ve.lanes) * ve.cpi.req;
  }
  if (const auto* b = std::get_if<VeBin>(&body)) {
    return ve.startup + b->n1 * up(b->n0, ve.lanes) * rate(ve.cpi, b->fn);
  }
  if (const auto* u = std::get_if<VeUn>(&body)) {
    return ve.startup + u->n1 * up(u->n0, ve.lanes) * rate(ve.cpi, u->fn);
  }
  if (const auto* r = std::get_if<VeRed>(&body)) {
    const double vector = r->fn == ReduceFn::kSum ? ve.cpi.add : ve.cpi.max;
    const int tree = std::bit_width(static_cast<uint64_t>(ve.lanes - 1));
    return ve.startup + r->n1 * (up(r->n0, ve.lanes) * vector + tree);
  }
  const auto* d = std::get_if<VeDw>(&body);
  CHECK(d != nullptr);
  return ve.startup + int64_t{d->m} * d->kh * d->kw * up(d->c, ve.lanes) * ve.cpi.mul;
}

Bounds find_bounds(const Config& config, const Program& program) {
  ArrayBound array(config.mx);
  int64_t products = 0, bytes = 0, instructions = 0;
  double vector = 0;
  for (const Instruction& one : program) {
    ++instructions;
    if (std::holds_alternative<Halt>(one.body)) break;
    if (one.op().dispatcher) continue;
    if (one.op().engine == Engine::kMx) {
      array.add(one);
      products += macs(one);
    } else if (one.op().engine == Engine::kVe) {
      vector += vector_cycles(config, one);
    } else {
      bytes += dram_bytes(one);
    }
  }
  Bounds bounds;
  bounds.mac = static_cast<double>(products) / (config.mx.rows * config.mx.columns);
  bounds.array = array.total();
  bounds.dma = compulsory_cycles(config, bytes);
  bounds.vector = vector;
  bounds.dispatch = static_cast<double>(instructions * config.queues.dispatch);
  return bounds;
}

double Bounds::largest() const { return std::max({mac, array, dma, vector, dispatch}); }

int64_t conv_mac_cycles(const Config& config, const ConvShape& s) {
  return s.out_h * s.out_w * s.k_h * s.k_w * up(s.channels, config.mx.rows) *
         up(s.outputs, config.mx.columns);
}

double compulsory_cycles(const Config& config, int64_t bytes) {
  return static_cast<double>(bytes) / peak_bytes_per_cycle(config);
}

}  // namespace lw::npu
