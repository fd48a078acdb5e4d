// Copies and the array.
#include "src/npu/function/operations.h"

#include <algorithm>
#include <cstring>

#include "src/npu/function/numbers.h"

namespace lw::npu {
namespace {

// Visits the runs of a copy: (number, byte of DRAM, place in SPM or ACC).
template <class Visit>
void each_run(const Copy& c, Visit&& visit) {
  int64_t number = 0;
  for (int64_t y = 0; y < c.n2; ++y) {
    for (int64_t x = 0; x < c.n1; ++x, ++number) {
      visit(number, c.dram + y * c.dstr2 + x * c.dstr1,
            c.loc + (y + c.top) * int64_t{c.lstr2} + (x + c.left) * int64_t{c.lstr1});
    }
  }
}

}  // namespace

void Operations::begin(const Instruction& instruction, Operands* operands) {
  dtype_ = instruction.dtype;
  std::visit([&](const auto& body) { begin(body, operands); }, instruction.body);
}

void Operations::finish(const Instruction& instruction, const Operands& operands) {
  dtype_ = instruction.dtype;
  std::visit([&](const auto& body) { finish(body, operands); }, instruction.body);
}

int64_t Operations::size(int64_t elements) const { return elements * size_of(dtype_); }

void Operations::begin(const Ld& c, Operands* o) {
  o->bytes.resize(int64_t{c.n0} * c.n1 * c.n2);
  each_run(c, [&](int64_t number, uint64_t dram, int64_t) {
    std::memcpy(o->bytes.data() + number * c.n0, find_bytes(memory_, dram, c.n0, false), c.n0);
  });
}

// Padding is `value` as a number of the type: in ACC that of an int32, or of an f32.
void Operations::finish(const Ld& c, const Operands& o) {
  const bool widen = c.convert == Convert::kWiden, floats = is_float();
  const int64_t words = c.n0 / (widen ? size(1) : 4);
  const auto put = [&](int64_t place, const uint8_t* from) {
    if (c.space == Space::kSpm) {
      std::memcpy(memory_.spm.data() + place, from, c.n0);
    } else if (!widen) {
      std::memcpy(memory_.acc.data() + place, from, c.n0);
    } else {
      for (int64_t i = 0; i < words; ++i) {
        uint16_t half;
        if (floats) std::memcpy(&half, from + 2 * i, sizeof half);
        memory_.acc[place + i] =
            floats ? to_word(from_bf16(half))
                   : static_cast<uint32_t>(int32_t{static_cast<int8_t>(from[i])});
      }
    }
  };
  const auto pad = [&](int64_t place) {
    const float value = c.value;
    if (c.space == Space::kAcc) {
      std::fill_n(memory_.acc.begin() + place, words,
                  floats ? to_word(value) : static_cast<uint32_t>(int32_t{c.value}));
    } else if (dtype_ == Dtype::kBf16) {
      const uint16_t half = to_bf16(value);
      for (int64_t i = 0; i < c.n0; ++i) {
        memory_.spm[place + i] = static_cast<uint8_t>(i % 2 == 0 ? half : half >> 8);
      }
    } else {
      std::memset(memory_.spm.data() + place, c.value, c.n0);
    }
  };
  if (c.top + c.bottom + c.left + c.right > 0) {
    for (int64_t y = 0; y < c.n2 + c.top + c.bottom; ++y) {
      for (int64_t x = 0; x < c.n1 + c.left + c.right; ++x) {
        const bool inside = y >= c.top && y < c.top + c.n2 && x >= c.left && x < c.left + c.n1;
        if (!inside) pad(c.loc + y * int64_t{c.lstr2} + x * int64_t{c.lstr1});
      }
    }
  }
  each_run(c, [&](int64_t number, uint64_t, int64_t place) {
    put(place, o.bytes.data() + number * c.n0);
  });
}

void Operations::begin(const St& c, Operands* o) {
  o->bytes.resize(int64_t{c.n0} * c.n1 * c.n2);
  each_run(c, [&](int64_t number, uint64_t, int64_t place) {
    uint8_t* const to = o->bytes.data() + number * c.n0;
    if (c.space == Space::kSpm) {
      std::memcpy(to, memory_.spm.data() + place, c.n0);
    } else {
      std::memcpy(to, memory_.acc.data() + place, c.n0);
    }
  });
}

void Operations::finish(const St& c, const Operands& o) {
  each_run(c, [&](int64_t number, uint64_t dram, int64_t) {
    std::memcpy(find_bytes(memory_, dram, c.n0, true), o.bytes.data() + number * c.n0, c.n0);
  });
}

void Operations::begin(const MxLdw& w, Operands*) {
  const uint8_t* const from = memory_.spm.data() + w.w;
  shadow_ = std::make_shared<const Weights>(
      w.trans ? pack_weights(dtype_, w.k, w.n, from, size(1), w.wstr)
              : pack_weights(dtype_, w.k, w.n, from, w.wstr, size(1)));
}

void Operations::begin(const MxMm& m, Operands* o) {
  if (m.swap) std::swap(active_, shadow_);
  o->weights = active_ != nullptr && active_->dtype == dtype_
                   ? active_ : std::make_shared<const Weights>(Weights{dtype_, 0, 0, {}, {}});
  clear_rows(dtype_, int64_t{m.m} * m.m2, m.k, &o->rows);
  for (int64_t y = 0; y < m.m2; ++y) {
    for (int64_t x = 0; x < m.m; ++x) {
      set_row(dtype_, y * m.m + x,
              memory_.spm.data() + m.a + y * m.astr2 + x * m.astr1, &o->rows);
    }
  }
}

void Operations::finish(const MxMm& m, const Operands& o) {
  for (int64_t y = 0; y < m.m2; ++y) {
    overflows_ += multiply(o.rows, y * m.m, m.m, *o.weights, m.n, m.accumulate,
                           memory_.acc.data() + m.acc + y * m.accstr2, m.accstr);
  }
}

void Operations::begin(const MxMmos& m, Operands* o) {
  o->weights = std::make_shared<const Weights>(
      pack_weights(dtype_, m.k, m.n, memory_.spm.data() + m.b, m.bstr, size(1)));
  clear_rows(dtype_, m.m, m.k, &o->rows);
  for (int64_t x = 0; x < m.m; ++x) {
    set_row(dtype_, x, memory_.spm.data() + m.a + x * m.astr, &o->rows);
  }
}

void Operations::finish(const MxMmos& m, const Operands& o) {
  overflows_ += multiply(o.rows, 0, m.m, *o.weights, m.n, m.accumulate,
                         memory_.acc.data() + m.acc, m.accstr);
}

// The pixels of windows, one behind the other, in the order of MX.COL's rows.
template <class Windows>
void Operations::gather_windows(const Windows& w, uint8_t* to) const {
  const int64_t pixel = size(w.c);
  for (int64_t m = 0; m < w.m; ++m) {
    for (int64_t y = 0; y < w.kh; ++y) {
      for (int64_t x = 0; x < w.kw; ++x, to += pixel) {
        const int64_t from = w.a + y * int64_t{w.astr2} + (m * w.step + x) * int64_t{w.astr1};
        std::memcpy(to, memory_.spm.data() + from, pixel);
      }
    }
  }
}

void Operations::begin(const MxCol& c, Operands* o) {
  o->bytes.resize(int64_t{c.m} * c.kh * c.kw * size(c.c));
  gather_windows(c, o->bytes.data());
}

void Operations::finish(const MxCol& c, const Operands& o) {
  const int64_t row = size(int64_t{c.c}) * c.kh * c.kw;
  for (int64_t m = 0; m < c.m; ++m) {
    std::memcpy(memory_.spm.data() + c.dst + m * c.dstr, o.bytes.data() + m * row, row);
  }
}

// Of the depthwise convolution: rows of windows, and the weights as one row.
void Operations::begin(const VeDw& d, Operands* o) {
  const int64_t pixel = size(d.c), window = int64_t{d.kh} * d.kw;
  o->bytes.resize((d.m + 1) * window * pixel);
  gather_windows(d, o->bytes.data());
  std::memcpy(o->bytes.data() + d.m * window * pixel, memory_.spm.data() + d.w, window * pixel);
}

void Operations::finish(const VeDw& d, const Operands& o) {
  const int64_t window = int64_t{d.kh} * d.kw, row = window * d.c;
  const uint8_t* const w = o.bytes.data() + d.m * size(row);
  const auto half = [](const uint8_t* bytes, int64_t i) {
    return from_bf16(static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8));
  };
  for (int64_t m = 0; m < d.m; ++m) {
    const uint8_t* const a = o.bytes.data() + m * size(row);
    for (int64_t c = 0; c < d.c; ++c) {
      int32_t sum = 0;
      float chain = 0;
      for (int64_t i = c; i < row; i += d.c) {
        if (dtype_ == Dtype::kBf16) {
          chain += half(a, i) * half(w, i);
        } else {
          sum += static_cast<int8_t>(a[i]) * static_cast<int8_t>(w[i]);
        }
      }
      memory_.acc[d.acc + m * d.accstr + c] =
          dtype_ == Dtype::kBf16 ? to_word(chain) : static_cast<uint32_t>(sum);
    }
  }
}

}  // namespace lw::npu
