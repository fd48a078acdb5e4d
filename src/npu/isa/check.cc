// One overload of `of` for each instruction. A rule that is broken leaves its words in `error_`, which
// is out of the way of those that are not: checking is a part of every simulated time.
#include "src/npu/isa/check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "src/base/message.h"

namespace lw::npu {
namespace {

constexpr int64_t kDramBytes = int64_t{1} << 40;

// What values have to be multiples of. A division takes longer than the rest of a check, and nearly
// all that is asked for are powers of two.
struct Divisor {
  Divisor(int64_t of, const char* name)
      : value(static_cast<uint32_t>(of)), mask((of & (of - 1)) == 0 ? value - 1 : 0), name(name) {}

  // REQUIRES: number fits into 32 bits, as every field does.
  bool divides(int64_t number) const {
    const uint32_t low = static_cast<uint32_t>(number);
    return mask != 0 || value == 1 ? (low & mask) == 0 : low % value == 0;
  }

  const uint32_t value, mask;
  const char* const name;
};

class Checker {
 public:
  explicit Checker(const Config& config)
      : config_(config), acc_words_(config.acc.bytes / 4), spm_align_(config.spm.align, "spm.align"),
        acc_align_(config.acc.align, "acc.align"), k_align_(config.align.k, "align.k"),
        n_align_(config.align.n, "align.n"), lanes_(config.ve.lanes, "ve.lanes") {}

  const std::string& error() const { return error_; }

  void of(const Instruction& instruction) {
    dtype_ = instruction.dtype;
    std::visit([&](const auto& body) { of(body); }, instruction.body);
  }

 private:
  [[gnu::cold]] void refuse(const char* field, int64_t value, const std::string& allowed) {
    if (error_.empty()) error_ = concat(field, " = ", value, ": ", allowed);
  }
  [[gnu::cold]] void refuse_range(const char* field, int64_t value, int64_t least, int64_t most) {
    refuse(field, value, concat(least, " to ", most));
  }
  [[gnu::cold]] void refuse_multiple(const char* field, int64_t value, const Divisor& of) {
    refuse(field, value, concat("a multiple of ", of.name, " (", of.value, ")"));
  }
  [[gnu::cold]] void refuse_end(const char* field, int64_t value, int64_t end, int64_t capacity,
                                const char* name) {
    refuse(field, value, concat("ends at ", end, ", beyond the ", capacity, " ", name));
  }
  void range(const char* field, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most) refuse_range(field, value, least, most);
  }
  void multiple(const char* field, int64_t value, const Divisor& of) {
    if (!of.divides(value)) refuse_multiple(field, value, of);
  }

  // A block of rows in SPM: `outer` x `inner` of `bytes`.
  struct Block {
    int64_t base, bytes, inner = 1, stride = 0, outer = 1, outer_stride = 0;
    const char *base_name, *stride_name = "", *outer_name = "";
  };
  // Inlined, since most of a block are numbers that are known where it is asked for.
  [[gnu::always_inline]] void spm(const Block& b) {
    block(b, spm_align_, config_.spm.bytes, "spm.bytes");
  }
  [[gnu::always_inline]] void acc(const Block& b) {
    block(b, acc_align_, acc_words_, "words of acc.bytes");
  }
  [[gnu::always_inline]] void block(const Block& b, const Divisor& align, int64_t capacity,
                                    const char* name) {
    multiple(b.base_name, b.base, align);
    if (b.inner > 1) multiple(b.stride_name, b.stride, align);
    if (b.outer > 1) multiple(b.outer_name, b.outer_stride, align);
    fits(b, capacity, name);
  }
  [[gnu::always_inline]] void fits(const Block& b, int64_t capacity, const char* name) {
    const int64_t end =
        b.base + (b.inner - 1) * b.stride + (b.outer - 1) * b.outer_stride + b.bytes;
    if (end > capacity) refuse_end(b.base_name, b.base, end, capacity, name);
  }
  [[gnu::always_inline]] void fold(int64_t k, int64_t k_most, int64_t n) {
    range("k", k, 1, k_most);
    multiple("k", k, k_align_);
    range("n", n, 1, config_.mx.columns);
    multiple("n", n, n_align_);
  }
  int64_t size(int64_t elements) const { return elements * size_of(dtype_); }
  void type(bool allowed, const char* which) {
    if (!allowed && error_.empty()) {
      error_ = absl::StrFormat("dtype = %s: %s", std::string(name_of(dtype_)), which);
    }
  }
  void array_type() {
    const std::vector<Dtype>& all = config_.mx.dtypes;
    type(std::find(all.begin(), all.end(), dtype_) != all.end(), "one of mx.dtypes");
  }
  bool in_acc() const { return dtype_ == Dtype::kI32 || dtype_ == Dtype::kF32; }
  // Rows of VE's, in the memory of their type.
  void rows(int64_t base, int64_t n0, int64_t n1, int64_t stride, const char* name,
            const char* stride_name) {
    if (in_acc()) {
      acc({base, n0, n1, stride, 1, 0, name, stride_name});
    } else {
      spm({base, size(n0), n1, stride, 1, 0, name, stride_name});
    }
  }

  // What MX.COL and VE.DW read. Pixels may lie anywhere: only rows of windows are rows of SPM.
  template <class Windows>
  void windows(const Windows& w) {
    const Block image = {w.a, size(w.c) + (w.kw - 1) * int64_t{w.astr1}, w.m,
                         w.step * int64_t{w.astr1}, w.kh, w.astr2, "a"};
    fits(image, config_.spm.bytes, "spm.bytes");
  }

  void copy(const Copy& c) {
    range("n0", c.n0, 1, 65535);
    range("n1", c.n1, 1, 4095);
    range("n2", c.n2, 1, 4095);
    const int64_t end = static_cast<int64_t>(c.dram) + c.n0 + (c.n1 - 1) * int64_t{c.dstr1} +
                        (c.n2 - 1) * int64_t{c.dstr2};
    if (end > kDramBytes) refuse("dram", c.dram, concat("ends at ", end, ", beyond 2^40"));
    const int64_t columns = c.n1 + c.left + c.right, lines = c.n2 + c.top + c.bottom;
    int64_t length = c.n0;
    if (c.space == Space::kSpm) {
      if (c.convert != Convert::kNone) refuse("cvt", 1, "only into ACC");
      spm({c.loc, length, columns, c.lstr1, lines, c.lstr2, "loc", "lstr1", "lstr2"});
      return;
    }
    if (c.convert == Convert::kWiden) {
      type(!in_acc(), "i8 or bf16 are widened");
      length = c.n0 / std::max<int64_t>(1, size(1));
      multiple("n0", c.n0, {size(1), "an element's bytes"});
    } else {
      multiple("n0", c.n0, {4, "a word's bytes"});
      length = c.n0 / 4;
    }
    acc({c.loc, length, columns, c.lstr1, lines, c.lstr2, "loc", "lstr1", "lstr2"});
  }
  void of(const Ld& c) { copy(c); }
  void of(const St& c) {
    const int padded = c.top + c.bottom + c.left + c.right;
    if (padded > 0) refuse("top, bottom, left, right", padded, "ST pads nothing");
    if (c.convert != Convert::kNone) refuse("cvt", 1, "ST converts nothing");
    copy(c);
  }
  void of(const MxLdw& w) {
    array_type();
    fold(w.k, config_.mx.rows, w.n);
    spm({w.w, size(w.trans ? w.k : w.n), w.trans ? w.n : w.k, w.wstr, 1, 0, "w", "wstr"});
  }
  void of(const MxMm& m) {
    array_type();
    range("m", m.m, 1, 65535);
    range("m2", m.m2, 1, 255);
    fold(m.k, config_.mx.rows, m.n);
    spm({m.a, size(m.k), m.m, m.astr1, m.m2, m.astr2, "a", "astr1", "astr2"});
    acc({m.acc, m.n, m.m, m.accstr, m.m2, m.accstr2, "acc", "accstr", "accstr2"});
  }
  void of(const MxMmos& m) {
    array_type();
    if (!config_.mx.output_stationary) refuse("mx.mmos", 1, "not on this machine (mx.os is 0)");
    range("m", m.m, 1, config_.mx.rows);
    fold(m.k, 65535, m.n);
    spm({m.a, size(m.k), m.m, m.astr, 1, 0, "a", "astr"});
    spm({m.b, size(m.n), m.k, m.bstr, 1, 0, "b", "bstr"});
    acc({m.acc, m.n, m.m, m.accstr, 1, 0, "acc", "accstr"});
  }
  void of(const MxCol& c) {
    array_type();
    range("m", c.m, 1, 65535);
    range("kw", c.kw, 1, 15);
    range("kh", c.kh, 1, 15);
    range("c", c.c, 1, 255);
    range("step", c.step, 1, 15);
    windows(c);
    spm({c.dst, size(c.c) * c.kw * c.kh, c.m, c.dstr, 1, 0, "dst", "dstr"});
  }
  void of(const VeReq& r) {
    type(dtype_ == Dtype::kI8 || dtype_ == Dtype::kBf16, "i8 or bf16");
    range("rows", r.rows, 1, 4095);
    range("n", r.n, 1, 255);
    multiple("n", r.n, n_align_);
    if (r.lo > r.hi) refuse("lo", r.lo, concat("at most hi (", static_cast<int>(r.hi), ")"));
    acc({r.acc, r.n, r.rows, r.accstr, 1, 0, "acc", "accstr"});
    spm({r.dst, size(r.n), r.rows, r.dstr, 1, 0, "dst", "dstr"});
    if (dtype_ != Dtype::kI8) return;
    spm({r.scale, 4 * r.n, 1, 0, 1, 0, "scale"});
    spm({r.bias, 4 * r.n, 1, 0, 1, 0, "bias"});
  }
  void vector(int64_t n0, int64_t n1) {
    range("n0", n0, 1, 4095);
    range("n1", n1, 1, 4095);
    multiple("n0", n0, lanes_);
  }
  void of(const VeBin& b) {
    vector(b.n0, b.n1);
    rows(b.src0, b.n0, b.n1, b.sstr0, "src0", "sstr0");
    rows(b.dst, b.n0, b.n1, b.dstr, "dst", "dstr");
    if (b.broadcast == Broadcast::kNone) rows(b.src1, b.n0, b.n1, b.sstr1, "src1", "sstr1");
    if (b.broadcast == Broadcast::kRow) rows(b.src1, b.n0, 1, 0, "src1", "sstr1");
    if (b.broadcast == Broadcast::kColumn) rows(b.src1, 1, b.n1, b.sstr1, "src1", "sstr1");
  }
  void of(const VeUn& u) {
    vector(u.n0, u.n1);
    rows(u.src0, u.n0, u.n1, u.sstr0, "src0", "sstr0");
    rows(u.dst, u.n0, u.n1, u.dstr, "dst", "dstr");
  }
  void of(const VeRed& r) {
    vector(r.n0, r.n1);
    rows(r.src0, r.n0, r.n1, r.sstr0, "src0", "sstr0");
    rows(r.dst, 1, r.n1, r.dstr, "dst", "dstr");
  }
  void of(const VeDw& d) {
    array_type();
    range("m", d.m, 1, 4095);
    range("kw", d.kw, 1, 15);
    range("kh", d.kh, 1, 15);
    range("step", d.step, 1, 15);
    range("c", d.c, 1, 255);
    multiple("c", d.c, lanes_);
    windows(d);
    spm({d.w, size(d.c) * d.kw * d.kh, 1, 0, 1, 0, "w"});
    acc({d.acc, d.c, d.m, d.accstr, 1, 0, "acc", "accstr"});
  }
  void of(const Sync& s) { range("mask", s.mask, 1, 15); }
  void of(const Stamp&) {}
  void of(const Halt&) {}

  const Config& config_;
  const int64_t acc_words_;
  const Divisor spm_align_, acc_align_, k_align_, n_align_, lanes_;
  Dtype dtype_ = Dtype::kI8;
  std::string error_;
};

absl::Status at(size_t index, const Instruction& instruction, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrFormat("instruction %d (%s): %s", index, std::string(instruction.op().name), why));
}

// Who signals and who waits for each semaphore.
class Ends {
 public:
  explicit Ends(int64_t semaphores) : semaphores_(semaphores) {}

  const std::string& error() const { return error_; }

  void add(const Instruction& instruction) {
    const auto& [first, second] = instruction.wait;
    if (first != kNoToken && first == second) refuse("wait", first, "twice the same semaphore");
    for (const uint8_t id : instruction.wait) {
      if (id != kNoToken) end(id, instruction.op(), "wait", &waits_);
    }
    for (const uint8_t id : instruction.signal) {
      if (id != kNoToken) end(id, instruction.op(), "signal", &signals_);
    }
  }

 private:
  using Owners = std::array<int8_t, 64>;     // 1 + engine; 0: none yet

  [[gnu::cold]] void refuse(const char* what, int id, const std::string& why) {
    if (error_.empty()) error_ = concat(what, " = ", id, ": ", why);
  }
  void end(int id, const OpRow& op, const char* what, Owners* owners) {
    if (id >= semaphores_) return refuse(what, id, concat("0 to ", semaphores_ - 1));
    if (op.dispatcher) return refuse(what, id, "the dispatcher takes no tokens");
    int8_t& owner = (*owners)[id];
    const int8_t own = 1 + static_cast<int8_t>(op.engine);
    if (owner == 0) owner = own;
    if (owner == own) return;
    refuse(what, id,
           concat("that end of the semaphore belongs to ", name_of(static_cast<Engine>(owner - 1)),
                  ", not ", name_of(op.engine)));
  }

  const int64_t semaphores_;
  Owners waits_ = {}, signals_ = {};
  std::string error_;
};

}  // namespace

absl::Status check_instruction(const Config& config, const Instruction& instruction) {
  Checker checker(config);
  checker.of(instruction);
  if (checker.error().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(checker.error());
}

absl::Status check_program(const Config& config, const Program& program) {
  Checker checker(config);
  Ends ends(config.queues.semaphores);
  for (size_t i = 0; i < program.size(); ++i) {
    checker.of(program[i]);
    if (!checker.error().empty()) return at(i, program[i], checker.error());
    ends.add(program[i]);
    if (!ends.error().empty()) return at(i, program[i], ends.error());
  }
  return absl::OkStatus();
}

}  // namespace lw::npu
