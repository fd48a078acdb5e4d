// One instruction on values, in two halves: what it reads when it begins, what it writes when it is
// done. Not thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "src/npu/function/memory.h"
#include "src/npu/function/product.h"

namespace lw::npu {

// What an instruction under way has read.
struct Operands {
  std::vector<uint8_t> bytes;              // of LD, ST, MX.COL: the runs, one after the other
  Rows rows;                               // of MX
  std::shared_ptr<const Weights> weights;
  std::vector<int32_t> integers[3];        // of VE: sources; of VE.REQ sums, biases
  std::vector<float> floats[3];            //                          and scales
};

class Operations {
 public:
  Operations(const Config& config, Memory* memory) : config_(config), memory_(*memory) {}

  // REQUIRES: check_instruction accepts it, and DRAM has what it touches.
  void begin(const Instruction& instruction, Operands* operands);
  void finish(const Instruction& instruction, const Operands& operands);

  int64_t overflows() const { return overflows_; }

 private:
  // A pair of overloads for each instruction: operations.cc those of copies and the array,
  // vector.cc those of VE.
  void begin(const Ld& c, Operands* o);
  void begin(const St& c, Operands* o);
  void begin(const MxLdw& w, Operands* o);
  void begin(const MxMm& m, Operands* o);
  void begin(const MxMmos& m, Operands* o);
  void begin(const MxCol& c, Operands* o);
  void begin(const VeReq& r, Operands* o);
  void begin(const VeBin& b, Operands* o);
  void begin(const VeUn& u, Operands* o);
  void begin(const VeRed& r, Operands* o);
  void begin(const VeDw& d, Operands* o);
  void finish(const Ld& c, const Operands& o);
  void finish(const St& c, const Operands& o);
  void finish(const MxLdw&, const Operands&) {}
  void finish(const MxMm& m, const Operands& o);
  void finish(const MxMmos& m, const Operands& o);
  void finish(const MxCol& c, const Operands& o);
  void finish(const VeReq& r, const Operands& o);
  void finish(const VeBin& b, const Operands& o);
  void finish(const VeUn& u, const Operands& o);
  void finish(const VeRed& r, const Operands& o);
  void finish(const VeDw& d, const Operands& o);
  // Of the dispatcher: no values.
  void begin(const Sync&, Operands*) {}
  void begin(const Stamp&, Operands*) {}
  void begin(const Halt&, Operands*) {}
  void finish(const Sync&, const Operands&) {}
  void finish(const Stamp&, const Operands&) {}
  void finish(const Halt&, const Operands&) {}

  template <class Windows>
  void gather_windows(const Windows& windows, uint8_t* to) const;
  int64_t size(int64_t elements) const;
  bool in_acc() const { return dtype_ == Dtype::kI32 || dtype_ == Dtype::kF32; }
  bool is_float() const { return dtype_ == Dtype::kBf16 || dtype_ == Dtype::kF32; }
  // Appends n0 elements of VE's, as integers or floats; puts them back, saturated or rounded.
  void read_row(int64_t base, int64_t n0, int source, Operands* o) const;
  void write_row(const int32_t* values, int64_t n0, int64_t base);
  void write_row(const float* values, int64_t n0, int64_t base);

  const Config& config_;
  Memory& memory_;
  Dtype dtype_ = Dtype::kI8;               // of the instruction at hand
  std::shared_ptr<const Weights> active_, shadow_;
  int64_t overflows_ = 0;
};

}  // namespace lw::npu
