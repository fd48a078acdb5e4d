// The operations of kernels as rows of one table: what stands in the text after the operation's
// word, which is also what the hash covers, and what the verifier asks of types and lanes. An
// operation is its line in Op (kernel.h), its row here, and what the backends make of it: a row in
// src/build/interpreter/execute.cc and a case in src/build/llvm_memory.cc.
#pragma once

#include <span>
#include <string_view>

#include "src/kernel/kernel.h"
#include "schedules/targets/matrix_shape.h"

namespace lw {

// Fields of a statement, as one part of its text.
enum class Field : uint8_t {
  kNone,
  kSources,                                // r1, r2, r3: as many of `srcs` as are set
  kSlid,                                   // 2 r1, r2: `integer` and sources
  kConstant,                               // `integer`, or `number` where dst is a float
  kIndex, kPlace,                          // 16*v0 + 4; A[16*v0 + 4]
  kStored,                                 // = r1: srcs[0], which goes to memory
  kStride, kMask, kIndices, kNonTemporal,  // stride 1; mask r1, indices r1, nt: where set
  kOnItsWay,                               // async: where set
  kLocality,                               // locality 2: `integer`
  kReduce,                                 // sum
  kMany, kBlock, kGiven,                   // r1, r2; r1 -> r2; -> r1, r2: `many`, sources and
                                           // destinations
  kFactors,                                // += a[64*v0] (64, 0, 0, 1), b[0] (0, 4096, 1, 64) over
                                           // 16, 2, 64, 16; += r1, r2, r3, r4, b[0] ...
  kBox,                                    // `block`, as of a statement that is one
};

// A statement whose registers, buffer and box (blocks.h: block_defect) are sound.
struct Operands {
  const Kernel& kernel;
  const Stmt& s;
  const Register& reg(int i) const { return kernel.registers[i]; }
  const Register& dst() const { return reg(s.dst); }
  const Register& src(int i) const { return reg(s.srcs[i]); }
};

struct OpRow {
  Op op;
  std::string_view word;                   // kUnary, kBinary: none, but the name of `expr_op`
  bool gives;                              // a dst: "rN = " stands before the word
  int sources;                             // how many of `srcs` it needs
  Field fields[6];                         // in the text's order, up to kNone
  const char* (*defect)(const Operands&);  // of types, lanes, numbers, if any; null: none possible
};

inline bool is_op(const Stmt& s, Op op) { return s.kind == Stmt::Kind::kOp && s.op == op; }
inline bool is_parallel(const Stmt& s) { return s.kind == Stmt::Kind::kFor && s.parallel; }

extern const OpRow kOpRows[kOps];          // by Op
inline const OpRow& row_of(Op op) { return kOpRows[static_cast<int>(op)]; }

// Of a kMatrixProduct or a kWideProduct, of 16 rows and 8 columns of that; null: its registers make
// none.
const MatrixShape* matrix_shape(const Kernel& kernel, const Stmt& s);

// Where a kWideProduct's factors lie, of b alone where a is in registers; of others nothing.
std::span<const View> factors_of(const Stmt& s);
// Those of `many` that a is in; none: it lies in memory.
std::span<const int> factor_registers(const Stmt& s);

// Whether nobody writes it while the kernel's body runs.
inline bool is_constant(const Buffer& buffer) {
  return (buffer.scope == Scope::kArgument && !buffer.written) || buffer.scope == Scope::kPacked;
}

// What a kBoxCopy copies; of others null.
inline const Block* box_of(const Stmt& s) { return is_op(s, Op::kBoxCopy) ? s.block.get() : nullptr; }

// Those of `many` that the statement writes (of a kMatrixProduct, its operands too; of a kWideProduct,
// acc).
std::span<const int> written_of_many(const Stmt& s);

// Calls `visit` with each register that the statement reads, as often as it does.
void visit_read(const Stmt& s, const auto& visit) {
  for (const int r : {s.srcs[0], s.srcs[1], s.srcs[2], s.mask, s.indices}) {
    if (r >= 0) visit(r);
  }
  size_t read = s.many.size();
  if (s.op == Op::kTranspose) read /= 2;
  if (s.op == Op::kMatrixParts) read = 0;
  for (size_t i = 0; i < read; ++i) visit(s.many[i]);
}

// Calls `visit` with each buffer that the operation reads or writes, and whether it writes.
void visit_buffers(const Stmt& s, const auto& visit) {
  if (s.kind != Stmt::Kind::kOp) return;
  if (s.buffer >= 0 && s.op != Op::kPrefetch) visit(s.buffer, s.op == Op::kStore);
  for (const View& view : factors_of(s)) visit(view.buffer, false);
  if (const Block* box = box_of(s); box != nullptr) {
    visit(box->srcs[0].buffer, false);
    visit(box->dst.buffer, true);
  }
}

// "fma"; of kUnary and kBinary, the name of the statement's ExprOp.
inline std::string_view word_of(const Stmt& s) {
  const std::string_view word = row_of(s.op).word;
  return word.empty() ? op_name(s.expr_op) : word;
}

// Whether a table by Op has each operation's row in its place.
template <class Row>
constexpr bool in_order(const Row (&rows)[kOps]) {
  for (int i = 0; i < kOps; ++i) {
    if (rows[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}

}  // namespace lw
