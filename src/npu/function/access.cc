// One overload of `of` for each instruction, as in isa/check.cc.
#include "src/npu/function/access.h"

#include "src/base/check.h"
#include "src/base/named.h"

namespace lw::npu {
namespace {

constexpr Named<Place> kPlaceNames[] = {
    {Place::kDram, "DRAM"}, {Place::kSpm, "SPM"}, {Place::kAcc, "ACC"}};
constexpr bool kReads = false, kWrites = true;

class Collector {
 public:
  explicit Collector(Dtype dtype) : dtype_(dtype) {}

  void of(const Ld& c) {
    dram(c, kReads);
    local(c, kWrites);
  }
  void of(const St& c) {
    local(c, kReads);
    dram(c, kWrites);
  }
  void of(const MxLdw& w) {
    spm(kReads, w.w, size(w.trans ? w.k : w.n), w.trans ? w.n : w.k, w.wstr);
  }
  void of(const MxMm& m) {
    spm(kReads, m.a, size(m.k), m.m, m.astr1, m.m2, m.astr2);
    acc(kWrites, m.acc, m.n, m.m, m.accstr, m.m2, m.accstr2);
  }
  void of(const MxMmos& m) {
    spm(kReads, m.a, size(m.k), m.m, m.astr);
    spm(kReads, m.b, size(m.n), m.k, m.bstr);
    acc(kWrites, m.acc, m.n, m.m, m.accstr);
  }
  void of(const MxCol& c) {
    windows(c.a, size(c.c), c.m, c.kw, c.kh, c.step, c.astr1, c.astr2);
    spm(kWrites, c.dst, size(int64_t{c.c} * c.kw * c.kh), c.m, c.dstr);
  }
  void of(const VeReq& r) {
    acc(kReads, r.acc, r.n, r.rows, r.accstr);
    if (dtype_ == Dtype::kI8) {
      spm(kReads, r.scale, 4 * r.n);
      spm(kReads, r.bias, 4 * r.n);
    }
    spm(kWrites, r.dst, size(r.n), r.rows, r.dstr);
  }
  void of(const VeBin& b) {
    rows(kReads, b.src0, b.n0, b.n1, b.sstr0);
    if (b.broadcast == Broadcast::kNone) rows(kReads, b.src1, b.n0, b.n1, b.sstr1);
    if (b.broadcast == Broadcast::kRow) rows(kReads, b.src1, b.n0, 1, 0);
    if (b.broadcast == Broadcast::kColumn) rows(kReads, b.src1, 1, b.n1, b.sstr1);
    rows(kWrites, b.dst, b.n0, b.n1, b.dstr);
  }
  void of(const VeUn& u) {
    rows(kReads, u.src0, u.n0, u.n1, u.sstr0);
    rows(kWrites, u.dst, u.n0, u.n1, u.dstr);
  }
  void of(const VeRed& r) {
    rows(kReads, r.src0, r.n0, r.n1, r.sstr0);
    rows(kWrites, r.dst, 1, r.n1, r.dstr);
  }
  void of(const VeDw& d) {
    windows(d.a, size(d.c), d.m, d.kw, d.kh, d.step, d.astr1, d.astr2);
    spm(kReads, d.w, size(int64_t{d.c} * d.kw * d.kh));
    acc(kWrites, d.acc, d.c, d.m, d.accstr);
  }
  void of(const Sync&) {}
  void of(const Stamp&) {}
  void of(const Halt&) {}

  Accesses result;

 private:
  int64_t size(int64_t elements) const { return elements * size_of(dtype_); }

  void add(Access one) {
    for (int d = 0; d < 3 && (one.count[d] == 1 || one.stride[d] == one.length); ++d) {
      one.length *= one.count[d];
      one.count[d] = 1;
    }
    CHECK(result.count < static_cast<int>(result.list.size()));
    result.list[result.count++] = one;
  }
  void spm(bool write, int64_t base, int64_t length, int64_t n1 = 1, int64_t stride1 = 0,
           int64_t n2 = 1, int64_t stride2 = 0) {
    add({Place::kSpm, write, base, length, {n1, n2, 1}, {stride1, stride2, 0}});
  }
  void acc(bool write, int64_t base, int64_t length, int64_t n1 = 1, int64_t stride1 = 0,
           int64_t n2 = 1, int64_t stride2 = 0) {
    add({Place::kAcc, write, base, length, {n1, n2, 1}, {stride1, stride2, 0}});
  }
  // Of VE, in the memory of their type.
  void rows(bool write, int64_t base, int64_t n0, int64_t n1, int64_t stride) {
    if (dtype_ == Dtype::kI32 || dtype_ == Dtype::kF32) {
      acc(write, base, n0, n1, stride);
    } else {
      spm(write, base, size(n0), n1, stride);
    }
  }
  void dram(const Copy& c, bool write) {
    add({Place::kDram, write, static_cast<int64_t>(c.dram), c.n0, {c.n1, c.n2, 1},
         {c.dstr1, c.dstr2, 0}});
  }
  void local(const Copy& c, bool write) {
    const int64_t columns = c.n1 + c.left + c.right, lines = c.n2 + c.top + c.bottom;
    if (c.space == Space::kSpm) return spm(write, c.loc, c.n0, columns, c.lstr1, lines, c.lstr2);
    const int64_t element = c.convert == Convert::kWiden ? size(1) : 4;
    acc(write, c.loc, c.n0 / element, columns, c.lstr1, lines, c.lstr2);
  }
  // Pixels of windows that overlap or touch are read as one row.
  void windows(int64_t base, int64_t pixel, int64_t m, int64_t kw, int64_t kh, int64_t step,
               int64_t stride1, int64_t stride2) {
    if (step <= kw) return spm(kReads, base, pixel, (m - 1) * step + kw, stride1, kh, stride2);
    add({Place::kSpm, kReads, base, pixel, {kw, m, kh}, {stride1, step * stride1, stride2}});
  }

  const Dtype dtype_;
};

}  // namespace

std::string_view name_of(Place place) { return name_in(kPlaceNames, place); }

Accesses accesses_of(const Instruction& instruction) {
  Collector collector(instruction.dtype);
  std::visit([&](const auto& body) { collector.of(body); }, instruction.body);
  return collector.result;
}

}  // namespace lw::npu
