#include "src/npu/timing/array.h"

#include <algorithm>

#include "src/base/check.h"

namespace lw::npu {

int64_t packer_cycles(const ArrayConfig& config, const MxCol& col, Dtype dtype) {
  const int64_t bytes = int64_t{col.m} * col.kh * col.kw * col.c * size_of(dtype);
  return (bytes + config.col_bpc - 1) / config.col_bpc;
}

Array::Array(const Config& config)
    : config_(config.mx), rows_(config.mx.rows), columns_(config.mx.columns),
      m_min_(config.mx.m_min), latency_(config.mx.latency), mode_(config.mx.mode),
      bf16_interval_(1 / config.mx.bf16_rate) {}

int64_t Array::streamed(int64_t count, Dtype dtype) const {
  return dtype == Dtype::kBf16 && bf16_interval_ != 1
             ? static_cast<int64_t>(std::ceil(count * bf16_interval_)) : count;
}

Ticks Array::start(const Instruction& instruction, Ticks ready) const {
  if (mode_ == ArrayMode::kSerial) return std::max(ready, empty_);
  if (std::holds_alternative<MxLdw>(instruction.body)) {
    return std::max(ready, port_);
  }
  const auto* mm = std::get_if<MxMm>(&instruction.body);
  return std::max({ready, next_, mm != nullptr && mm->swap ? shadow_ready_ : 0});
}

Ticks Array::take(const Instruction& instruction, Ticks start) {
  const bool serial = mode_ == ArrayMode::kSerial, direct = mode_ == ArrayMode::kDirect;
  Ticks done = start;
  if (const auto* w = std::get_if<MxLdw>(&instruction.body)) {
    const bool into_empty = !serial && !direct && start >= empty_;
    const int64_t load = direct ? 1 : into_empty ? 2 * rows_ - 1 : rows_;
    port_ = start + from_cycles(direct ? 1 : int64_t{w->k});
    done = start + from_cycles(load);
    shadow_ready_ = done;
    if (serial) empty_ = done;
    return done;
  }
  const int64_t wave = direct ? 0 : rows_ + columns_ - 2;
  if (const auto* mm = std::get_if<MxMm>(&instruction.body)) {
    const int64_t m = std::max(streamed(int64_t{mm->m} * mm->m2, instruction.dtype), m_min_);
    next_ = start + from_cycles(m);
    done = start + from_cycles(m + wave + latency_);
  } else if (const auto* os = std::get_if<MxMmos>(&instruction.body)) {
    const int64_t k = std::max(streamed(os->k, instruction.dtype), direct ? m_min_ : 1);
    next_ = start + from_cycles(serial || direct ? k : std::max(k, rows_));
    done = start + from_cycles(k + wave + (serial ? 0 : direct ? latency_ : rows_));
  } else {
    const auto* col = std::get_if<MxCol>(&instruction.body);
    CHECK(col != nullptr);
    done = next_ = start + from_cycles(packer_cycles(config_, *col, instruction.dtype));
  }
  empty_ = std::max(empty_, done);
  return done;
}

}  // namespace lw::npu
