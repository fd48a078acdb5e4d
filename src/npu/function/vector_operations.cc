// VE on memory: rows are read as int32 or f32, computed (vector.h), written in their type.
#include <bit>
#include <cstring>

#include "src/npu/function/numbers.h"
#include "src/npu/function/operations.h"
#include "src/npu/function/vector.h"

namespace lw::npu {
namespace {

int32_t word_at(const std::vector<uint8_t>& bytes, int64_t at) {
  int32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The operands that an operation has read, as the numbers that it computes with.
template <class T>
const std::vector<T>& source(const Operands& o, int number) {
  if constexpr (std::is_same_v<T, float>) {
    return o.floats[number];
  } else {
    return o.integers[number];
  }
}

template <class T>
T immediate(uint32_t bits) {
  return std::bit_cast<T>(bits);
}

template <class T>
std::vector<T> binary(const VeBin& b, const Operands& o, int64_t* overflows) {
  const std::vector<T>&x = source<T>(o, 0), &y = source<T>(o, 1);
  std::vector<T> result(x.size());
  for (int64_t r = 0; r < b.n1; ++r) {
    for (int64_t i = 0; i < b.n0; ++i) {
      const int64_t at = r * b.n0 + i;
      const T other = b.broadcast == Broadcast::kNone  ? y[at]
                      : b.broadcast == Broadcast::kRow ? y[i]
                      : b.broadcast == Broadcast::kColumn ? y[r] : immediate<T>(b.imm);
      result[at] = apply(b.fn, x[at], other, overflows);
    }
  }
  return result;
}

}  // namespace

void Operations::read_row(int64_t base, int64_t n0, int number, Operands* o) const {
  std::vector<int32_t>& integers = o->integers[number];
  std::vector<float>& floats = o->floats[number];
  for (int64_t i = 0; i < n0; ++i) {
    switch (dtype_) {
      case Dtype::kI8: integers.push_back(static_cast<int8_t>(memory_.spm[base + i])); break;
      case Dtype::kI32: integers.push_back(static_cast<int32_t>(memory_.acc[base + i])); break;
      case Dtype::kF32: floats.push_back(std::bit_cast<float>(memory_.acc[base + i])); break;
      case Dtype::kBf16: {
        uint16_t half;
        std::memcpy(&half, memory_.spm.data() + base + 2 * i, sizeof half);
        floats.push_back(from_bf16(half));
      }
    }
  }
}

void Operations::write_row(const int32_t* values, int64_t n0, int64_t base) {
  for (int64_t i = 0; i < n0; ++i) {
    if (dtype_ == Dtype::kI8) {
      memory_.spm[base + i] = static_cast<uint8_t>(clamp(values[i], -128, 127));
    } else {
      memory_.acc[base + i] = static_cast<uint32_t>(values[i]);
    }
  }
}

void Operations::write_row(const float* values, int64_t n0, int64_t base) {
  for (int64_t i = 0; i < n0; ++i) {
    if (dtype_ == Dtype::kBf16) {
      const uint16_t half = to_bf16(values[i]);
      std::memcpy(memory_.spm.data() + base + 2 * i, &half, sizeof half);
    } else {
      memory_.acc[base + i] = to_word(values[i]);
    }
  }
}

// i8: sums with their bias, which wrap, and scales. bf16: values as they are.
void Operations::begin(const VeReq& r, Operands* o) {
  for (std::vector<int32_t>& one : o->integers) one.clear();
  o->floats[0].clear();
  for (int64_t i = 0; i < r.n && dtype_ == Dtype::kI8; ++i) {
    o->floats[0].push_back(immediate<float>(word_at(memory_.spm, r.scale + 4 * i)));
    o->integers[1].push_back(word_at(memory_.spm, r.bias + 4 * i));
  }
  for (int64_t row = 0; row < r.rows; ++row) {
    const uint32_t* const from = memory_.acc.data() + r.acc + row * r.accstr;
    o->integers[0].insert(o->integers[0].end(), from, from + r.n);
  }
}

void Operations::finish(const VeReq& r, const Operands& o) {
  std::vector<Scale> scales;
  for (const float scale : o.floats[0]) scales.emplace_back(scale, config_.requant);
  for (int64_t row = 0; row < r.rows; ++row) {
    const int32_t* const sums = o.integers[0].data() + row * r.n;
    uint8_t* const to = memory_.spm.data() + r.dst + row * r.dstr;
    for (int64_t i = 0; i < r.n; ++i) {
      if (dtype_ == Dtype::kI8) {
        const int32_t sum = wrap(int64_t{sums[i]} + o.integers[1][i], &overflows_);
        to[i] = static_cast<uint8_t>(requantise(sum, scales[i], r.zp, r.lo, r.hi));
      } else {
        const uint16_t half = to_bf16(std::bit_cast<float>(sums[i]));
        std::memcpy(to + 2 * i, &half, sizeof half);
      }
    }
  }
}

void Operations::begin(const VeBin& b, Operands* o) {
  for (int s = 0; s < 2; ++s) {
    o->integers[s].clear();
    o->floats[s].clear();
  }
  for (int64_t r = 0; r < b.n1; ++r) {
    read_row(b.src0 + r * b.sstr0, b.n0, 0, o);
    if (b.broadcast == Broadcast::kNone) read_row(b.src1 + r * b.sstr1, b.n0, 1, o);
    if (b.broadcast == Broadcast::kColumn) read_row(b.src1 + r * b.sstr1, 1, 1, o);
  }
  if (b.broadcast == Broadcast::kRow) read_row(b.src1, b.n0, 1, o);
}

void Operations::finish(const VeBin& b, const Operands& o) {
  const auto put = [&](const auto& values) {
    for (int64_t r = 0; r < b.n1; ++r) {
      write_row(values.data() + r * b.n0, b.n0, b.dst + r * b.dstr);
    }
  };
  if (is_float()) {
    put(binary<float>(b, o, &overflows_));
  } else {
    put(binary<int32_t>(b, o, &overflows_));
  }
}

void Operations::begin(const VeUn& u, Operands* o) {
  o->integers[0].clear();
  o->floats[0].clear();
  for (int64_t r = 0; r < u.n1; ++r) read_row(u.src0 + r * u.sstr0, u.n0, 0, o);
}

void Operations::finish(const VeUn& u, const Operands& o) {
  const auto put = [&](auto values) {
    for (auto& value : values) value = apply(u.fn, value, &overflows_);
    for (int64_t r = 0; r < u.n1; ++r) {
      write_row(values.data() + r * u.n0, u.n0, u.dst + r * u.dstr);
    }
  };
  if (is_float()) {
    put(o.floats[0]);
  } else {
    put(o.integers[0]);
  }
}

void Operations::begin(const VeRed& d, Operands* o) {
  o->integers[0].clear();
  o->floats[0].clear();
  for (int64_t r = 0; r < d.n1; ++r) read_row(d.src0 + r * d.sstr0, d.n0, 0, o);
}

void Operations::finish(const VeRed& d, const Operands& o) {
  const auto put = [&](const auto& values) {
    for (int64_t r = 0; r < d.n1; ++r) {
      const auto value =
          reduce(d.fn, values.data() + r * d.n0, d.n0, config_.ve.lanes, &overflows_);
      write_row(&value, 1, d.dst + r * d.dstr);
    }
  };
  if (is_float()) {
    put(o.floats[0]);
  } else {
    put(o.integers[0]);
  }
}

}  // namespace lw::npu
