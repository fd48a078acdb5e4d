// Random programs that a machine accepts and that end: an instruction waits only for tokens that
// instructions before it signal. Not thread-safe.
#pragma once

#include <algorithm>

#include "src/base/rng.h"
#include "src/npu/isa/isa.h"

namespace lw::npu {

class RandomProgram {
 public:
  RandomProgram(const Config& config, Rng* rng) : config_(config), rng_(*rng) {}

  Program make(int count) {
    Program program;
    for (int i = 0; i < count; ++i) {
      Instruction one = instruction(static_cast<Engine>(rng_.below(kEngines)));
      const int own = static_cast<int>(one.op().engine);
      for (int from = 0, waits = 0; from < kEngines && waits < 2; ++from) {
        const int id = from * kEngines + own;
        if (tokens_[id] == 0 || rng_.below(2) == 0) continue;
        --tokens_[id];
        one.wait[waits++] = id;
      }
      for (int s = 0, signals = 0; s < 2; ++s) {
        const int id = own * kEngines + static_cast<int>(rng_.below(kEngines));
        if (rng_.below(3) > 0 || tokens_[id] > 30) continue;
        ++tokens_[id];
        one.signal[signals++] = id;
      }
      program.push_back(one);
      if (rng_.below(40) == 0) program.push_back({Sync{static_cast<uint8_t>(1 + rng_.below(15))}});
      if (rng_.below(40) == 0) program.push_back({Stamp{static_cast<uint16_t>(rng_.below(9))}});
    }
    if (rng_.below(2) == 0) program.push_back({Halt()});
    return program;
  }

  Instruction instruction(Engine engine) {
    const Dtype dtype = config_.mx.dtypes[rng_.below(config_.mx.dtypes.size())];
    size_ = dtype == Dtype::kBf16 ? 2 : 1;
    switch (engine) {
      case Engine::kLd: return {Ld{copy(true)}};
      case Engine::kSt: return {St{copy(false)}};
      case Engine::kMx: return typed(array(), dtype);
      case Engine::kVe: break;
    }
    switch (rng_.below(5)) {
      case 0: return typed(requant(), dtype);
      case 1: return typed(binary(), Dtype::kI32);
      case 2: return typed(unary(), Dtype::kI8);
      case 3: return typed(reduce(), Dtype::kF32);
      default: return typed(depthwise(), dtype);
    }
  }

 private:
  static Instruction typed(Body body, Dtype dtype) {
    Instruction one{body};
    one.dtype = dtype;
    return one;
  }
  static int64_t up(int64_t value, int64_t of) { return (value + of - 1) / of * of; }
  int64_t some(int64_t most) { return 1 + rng_.below(most); }
  int64_t spm(int64_t bytes) {             // where so many find place
    const int64_t align = config_.spm.align;
    return align * rng_.below((config_.spm.bytes - bytes) / align + 1);
  }
  int64_t acc(int64_t words) {
    const int64_t align = config_.acc.align;
    return align * rng_.below((config_.acc.bytes / 4 - words) / align + 1);
  }
  int64_t stride(int64_t bytes) {
    return up(bytes, config_.spm.align) + config_.spm.align * rng_.below(2);
  }
  int64_t row(int64_t words) { return up(words, config_.acc.align); }

  Copy copy(bool load) {
    Copy c;
    const bool to_acc = rng_.below(4) == 0;
    c.space = to_acc ? Space::kAcc : Space::kSpm;
    c.n0 = to_acc ? 4 * some(128) : some(600);
    c.n1 = some(8);
    c.n2 = some(3);
    if (load && rng_.below(4) == 0) {
      c.top = rng_.below(3);
      c.left = rng_.below(3);
      c.right = rng_.below(3);
      c.value = static_cast<int8_t>(rng_.below(256) - 128);
    }
    const int64_t columns = c.n1 + c.left + c.right, lines = c.n2 + c.top;
    c.lstr1 = to_acc ? row(c.n0 / 4) : stride(c.n0);
    c.lstr2 = columns * c.lstr1;
    c.loc = to_acc ? acc(lines * c.lstr2) : spm(lines * c.lstr2);
    c.dram = rng_.below(int64_t{1} << 30);
    c.dstr1 = rng_.below(2) ? c.n0 : c.n0 + rng_.below(5000);
    c.dstr2 = rng_.below(2) ? c.n1 * c.dstr1 : c.n1 * c.dstr1 + rng_.below(70000);
    return c;
  }
  int64_t folds(int64_t of, int64_t align) { return align * some(of / align); }

  Body array() {
    const int64_t rows = config_.mx.rows, columns = config_.mx.columns;
    const int64_t k = folds(rows, config_.align.k), n = folds(columns, config_.align.n);
    switch (rng_.below(8)) {
      case 0: case 1: case 2: {
        MxLdw w;
        w.k = k;
        w.n = n;
        w.trans = rng_.below(2);
        w.wstr = stride((w.trans ? k : n) * size_);
        w.w = spm((w.trans ? n : k) * w.wstr);
        return w;
      }
      case 3: case 4: case 5: {
        MxMm m;
        m.m = some(64);
        m.m2 = some(2);
        m.k = k;
        m.n = n;
        m.astr1 = stride(k * size_);
        m.astr2 = m.m * m.astr1;
        m.a = spm(m.m2 * m.astr2);
        m.accstr = row(n);
        m.accstr2 = m.m * m.accstr;
        m.acc = acc(m.m2 * m.accstr2);
        m.accumulate = rng_.below(2);
        m.swap = rng_.below(3) > 0;
        return m;
      }
      case 6: {
        MxCol c;
        c.kw = some(3);
        c.kh = some(3);
        c.c = some(16);
        c.m = some(30);
        c.step = some(2);
        c.astr1 = c.c * size_;
        c.astr2 = (c.m * c.step + c.kw) * c.astr1;
        c.a = spm(c.kh * c.astr2);
        c.dstr = stride(c.kw * c.kh * c.c * size_);
        c.dst = spm(c.m * c.dstr);
        return c;
      }
      default: {
        MxMmos m;
        m.m = some(rows);
        m.n = n;
        m.k = config_.align.k * some(4);
        m.astr = stride(m.k * size_);
        m.a = spm(m.m * m.astr);
        m.bstr = stride(n * size_);
        m.b = spm(m.k * m.bstr);
        m.accstr = row(n);
        m.acc = acc(m.m * m.accstr);
        return m;
      }
    }
  }
  VeReq requant() {
    VeReq r;
    r.rows = some(40);
    r.n = folds(config_.mx.columns, config_.align.n);
    r.accstr = row(r.n);
    r.acc = acc(r.rows * r.accstr);
    r.dstr = stride(r.n * size_);
    r.dst = spm(r.rows * r.dstr);
    r.scale = spm(4 * r.n);
    r.bias = spm(4 * r.n);
    r.zp = static_cast<int8_t>(rng_.below(256) - 128);
    r.lo = -128;
    r.hi = 127;
    return r;
  }
  VeBin binary() {
    VeBin b;
    b.n0 = config_.ve.lanes * some(2);
    b.n1 = some(12);
    b.fn = static_cast<BinaryFn>(rng_.below(kCount<BinaryFn>));
    b.broadcast = static_cast<Broadcast>(rng_.below(kCount<Broadcast>));
    b.imm = static_cast<uint32_t>(rng_.next());
    b.sstr0 = b.sstr1 = b.dstr = row(b.n0);
    b.src0 = acc(b.n1 * b.sstr0);
    b.src1 = acc(b.n1 * b.sstr1);
    b.dst = acc(b.n1 * b.dstr);
    return b;
  }
  VeUn unary() {
    VeUn u;
    u.n0 = config_.ve.lanes * some(2);
    u.n1 = some(12);
    u.fn = static_cast<UnaryFn>(rng_.below(kCount<UnaryFn>));
    u.sstr0 = u.dstr = stride(u.n0);
    u.src0 = spm(u.n1 * u.sstr0);
    u.dst = spm(u.n1 * u.dstr);
    return u;
  }
  VeRed reduce() {
    VeRed r;
    r.n0 = config_.ve.lanes * some(2);
    r.n1 = some(12);
    r.fn = static_cast<ReduceFn>(rng_.below(kCount<ReduceFn>));
    r.sstr0 = row(r.n0);
    r.src0 = acc(r.n1 * r.sstr0);
    r.dstr = row(1);
    r.dst = acc(r.n1 * r.dstr);
    return r;
  }
  VeDw depthwise() {
    VeDw d;
    d.c = config_.ve.lanes;
    d.m = some(12);
    d.kh = some(3);
    d.kw = some(3);
    d.step = some(2);
    d.astr1 = d.c * size_;
    d.astr2 = (d.m * d.step + d.kw) * d.astr1;
    d.a = spm(d.kh * d.astr2);
    d.w = spm(d.kh * d.kw * d.c * size_);
    d.accstr = row(d.c);
    d.acc = acc(d.m * d.accstr);
    return d;
  }

  const Config& config_;
  Rng& rng_;
  int64_t size_ = 1;
  std::array<int, kEngines * kEngines> tokens_ = {};
};

}  // namespace lw::npu
