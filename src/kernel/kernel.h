// The kernel: the last form before machine code, and what every backend reads. Flat loops with
// constant trip counts, explicit buffers, vector and register operations. Everything that needs
// thought (tiling, tails, masks, storage, order) has already happened.
//
// Meaning:
//   integer variables  are i64; a For's lives in its body, an Int's to the end of the enclosing
//   list;
//                      addresses are affine in them.
//   registers          are mutable typed vectors (lanes == 1: scalars), defined before use on every
//                      path; they never cross the boundary of a parallel For.
//   masks              are registers of type kBool; lanes that are off neither read nor write
//                      memory, and load as zero.
//   arithmetic         is Expr's (floor division, wrapping, saturating casts, NaN unspecified);
//                      float operations may be contracted. Registers hold f32 instead of f16 and
//                      bf16 except directly after a Load and before a Store (kCast converts).
//   a parallel For     runs its iterations in any order on any worker; consecutive statements are
//                      separated by a barrier. Parallel Fors do not nest.
//   a group            is an iteration of a parallel For of several `items`, which all run its body
//                      side by side, each with variables, registers and private buffers of its own.
//                      Managed buffers are the group's. kItem is an item's number; what one item
//                      writes another sees after a kBarrier or a kLanded, at which all of them
//                      arrive: it stands
//                      under no condition, and in no loop, that items may see differently; nor does
//                      a kAcross, a kMatrixProduct, a kMatrixParts, a kWideProduct or a kMultiplied,
//                      by which the items of a sub-group work together, and which order no accesses.
//   a cluster          is of so many iterations that follow each other, groups that run at once:
//                      copies of boxes that are alike in all of them may be made once for all. So
//                      these groups meet as well at each kBarrier and kLanded, and make as many sets.
//   a producer         is a sub-group more than a group's items, which does nothing but ask for its
//                      copies of boxes, ahead of the items as far as barriers let it. Nothing else
//                      is on its way to the group's memory.
//   a block            is one instruction of a machine whose instructions work on boxes of elements
//                      (an NPU): a copy between memories, a product, ... on strided views. In
//                      program order, each as if it were done before the next begins; what may run
//                      beside what, and what waits for what, follows from the views and is the
//                      backend's. A source has no element of dst; none stands in a parallel For.
//   managed buffers    lie in memories that the program itself fills; they begin as anything.
// Values; thread-safe when shared read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loopwright/type.h"

namespace lw {

// constant + sum(coefficient * variable), terms sorted by variable, no zero coefficients.
struct Affine {
  struct Term {
    int var;
    int64_t coefficient;
    bool operator==(const Term&) const = default;
  };
  int64_t constant = 0;
  absl::InlinedVector<Term, 4> terms;
  bool is_constant() const { return terms.empty(); }
  bool operator==(const Affine&) const = default;
};
Affine affine(int64_t constant);
Affine variable(int var, int64_t coefficient = 1);
Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, int64_t factor);
// The largest power of two up to 64 that divides `size` times the index, whatever variables are.
int64_t byte_alignment(const Affine& index, int64_t size);

// Buffers in a workspace, and workspaces that follow each other (the shared one, then each worker's
// own: loopwright/context.h), begin at multiples of so many bytes.
inline constexpr int64_t kWorkspaceAlignment = 64;
// Of a swizzled buffer, which begins at a multiple of kSwizzle bytes, the pieces of 16 bytes of each
// 128 change places: the address' bits 4 to 6 are those of before, exclusive or its bits 7 to 9.
inline constexpr int64_t kSwizzle = 1024;
// Up to where the next one begins.
constexpr int64_t aligned_bytes(int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

enum class Scope : uint8_t {
  kArgument,                               // `slot`: position among the kernel's arguments
  kWorkspace,                              // `offset` bytes into the shared workspace
  kPrivate,                                // `offset` bytes into the running worker's own workspace
  kPacked,                                 // `offset` bytes into what prepack wrote (read-only in
                                           // body)
  kManaged,                                // `offset` bytes into the target's memory `memory`
};

struct Buffer {
  std::string name;
  Type type = Type::kF32;
  int64_t elements = 0;
  Scope scope = Scope::kArgument;
  int slot = -1;                           // kArgument
  int memory = -1;                         // kManaged
  int64_t offset = 0;                      // all but arguments; aligned
  bool written = false;                    // arguments: outputs
  bool swizzled = false;                   // kManaged: of an address' bits, those from 4 on are
                                           // exchanged by those from 7 on (kSwizzle), for who reads
                                           // columns; no index sees it
};

struct Register {
  Type type = Type::kF32;
  int lanes = 1;
};

enum class Op : uint8_t {
  // dst = constant splat (`number` / `integer`)
  kImmediate,
  kMove,                                   // dst = a
  kBroadcast,                              // dst = a's lanes (usually one) again and again
  kUnary, kBinary,                         // `expr_op`; comparisons give kBool registers
  kFma,                                    // dst = a * b + c (floats: fused; integers: wrapping)
  kSelect,                                 // dst = a ? b : c, lane by lane
  kCast,                                   // dst = a converted to dst's type
  kIota,                                   // dst lane l = index + l * stride (integer types)
  kLaneMask,                               // dst (kBool) lane l = (index + l * stride >= 0)
  kHorizontal,                             // dst (scalar) = a's lanes combined by `reduce`
  kTranspose,                              // dsts = transpose of the square block of sources:
                                           // `many` = {sources..., destinations...}, lanes each
  kInterleave,                             // dst lane l * n + i = lane l of source i of `many` (n)
  kDot,                                    // dst lane l = c[l] + sum of a[l * g + i] b[l * g + i],
                                           // i < g; the products in dst's type, added in any order;
                                           // of floats, denormals may count as zeros
  kLoad,                                   // dst = buffer[index + l * stride]; `mask`, `indices`
  kStore,                                  // buffer[index + l * stride] = a; `mask`
  kPrefetch,                               // cache line of buffer[index]; `integer` = locality
                                           // 1..3; never faults, the address may lie outside
  kFence,                                  // what was loaded before is loaded again after it: no
                                           // value of a long block is held in a register for later
  kSlide,                                  // dst lane l = lane l + `integer` of a and then b, which
                                           // follows it: 0 < `integer` < lanes
  kBarrier,                                // of a group's items; they see what others wrote before it
                                           // (but for what is on its way)
  kAcross,                                 // dst = a's lanes, each combined by `reduce` with those
                                           // that a sub-group's other items have: `integer` items
                                           // that follow each other, from a multiple of it on
  kMatrixProduct,                          // acc += a b, of matrices of which each item of a
                                           // sub-group has a part: `many` = the registers of acc, of
                                           // a, of b, as schedules/targets/matrix_shape.h says.
                                           // Products are exact, added in any order, and the sum is
                                           // rounded once or more
  kMatrixParts,                            // of four matrices of eight rows, of 16 bytes each, item
                                           // i of a sub-group has row i % 8 of matrix i / 8, in
                                           // `srcs[0]`. `many` = for each matrix a register of the
                                           // item's own part, 4 bytes: lane l is column t n + l of
                                           // row g, of n lanes, g and t as for kMatrixProduct; or,
                                           // where `integer` is 1, row 2 t + l of column g, of
                                           // elements of two bytes
  kWideProduct,                            // acc += a b, by four sub-groups that follow each other:
                                           // `many` = the item's registers of acc as of products
                                           // 16 x 8 side by side; `block`, a kProduct without dst,
                                           // says where the sub-group's 16 rows of a and all of b
                                           // lie, in swizzled memory of the group, box (rows,
                                           // panels of columns, columns, k). A sub-group's rows
                                           // follow those of the one before. Or a, of no buffer, is
                                           // in registers, as of a kMatrixProduct: the last of
                                           // `many`. It is on its way: until
                                           // the kMultiplied that covers it nobody writes what it
                                           // reads, nor touches acc. Those that follow each other
                                           // directly are a set
  kMultiplied,                             // all sets of the sub-group's kWideProduct but the newest
                                           // `integer` are done
  kCommit,                                 // ends a set of an item's stores that go on their way
  kLanded,                                 // all sets but the newest `integer` of each item are in
                                           // memory; then as a kBarrier
  kBoxCopy,                                // a box of a tensor that nobody writes goes on its way to
                                           // the group's memory, as the first item's stores do, whose
                                           // sets it belongs to: `block`, a kCopy of one type, of
                                           // which each extent has a clip: where one leaves a
                                           // position out it is 0
};
inline constexpr int kOps = static_cast<int>(Op::kBoxCopy) + 1;  // the last; rows: kernel/ops.cc

// Elements buffer[index + sum of position[d] * strides[d]] over the positions of a block's box.
struct View {
  int buffer = -1;
  Affine index;
  absl::InlinedVector<int64_t, 4> strides;  // one for each extent; 0: the same all along it
  bool operator==(const View&) const = default;
};

enum class BlockOp : uint8_t {
  kFill,                                   // dst = `integer`; a float's is converted
  kCopy,                                   // dst = srcs[0], converted to dst's type; where `clips`
                                           // leave a position out it is `integer` (`pads`) or stays
  kProduct,                                // dst = (accumulate ? dst : 0) + the sum of srcs[0] *
                                           // srcs[1] along the extents that dst has not (stride 0),
                                           // ascending; in dst's type, which the sources are
                                           // converted to: integers, wrapping, or f32 or f64,
                                           // rounded after each product and each sum
  kUnary,                                  // dst = `expr_op` of srcs[0]
  kBinary,                                 // dst = srcs[0] `expr_op` srcs[1]; comparisons give
                                           // 1 or 0
  kScalar,                                 // dst = `number` `expr_op` srcs[0]; no comparison
  kReduce,                                 // dst, or what `reduce` begins with, combined by it with
                                           // srcs[0] along the extents that dst has not (stride 0),
                                           // in any order; these four in one type, no 16-bit float
  kRequantise,                             // i8 dst = f32(srcs[0] + srcs[2]), i32 that wraps, times
                                           // srcs[1], f32, rounded half to even (NaN: 0), saturated
                                           // to i32; `zero` added, saturated; then into [lo, hi]
};
inline constexpr int kBlockOps = static_cast<int>(BlockOp::kRequantise) + 1;

// Of a box's extent `dim` the positions p with 0 <= first + p < size have a source.
struct Clip {
  int dim = 0;
  Affine first;
  int64_t size = 0;
  bool operator==(const Clip&) const = default;
};

// One instruction for all positions of a box; dst's elements differ but for those of a sum or
// another reduction.
struct Block {
  BlockOp op = BlockOp::kCopy;
  absl::InlinedVector<int64_t, 4> extents;  // of the box, each at least 1; the last runs fastest
  View dst, srcs[3];
  bool accumulate = false;                 // kProduct, kReduce: onto dst
  ExprOp expr_op = ExprOp::kAdd;           // kUnary, kBinary, kScalar
  Reduce reduce = Reduce::kNone;           // kReduce
  int8_t zero = 0, lo = -128, hi = 127;    // kRequantise
  int64_t integer = 0;                     // kFill, kCopy that pads
  double number = 0;                       // kScalar; of dst's type, integers too
  std::vector<Clip> clips;                 // kCopy; by ascending dim, each once
  bool pads = false;
  int variant = 0;                         // which of the target's instructions for it
};

struct Stmt {
  enum class Kind : uint8_t { kFor, kIf, kInt, kOp, kBlock } kind = Kind::kOp;

  // kFor: var = 0 .. count - 1
  int var = -1;                            // also the variable that kInt defines
  int64_t count = 0;
  bool parallel = false;
  int64_t items = 1;                       // parallel: of each iteration, which is a group of them
  int64_t cluster = 1;                     // parallel: iterations of a cluster; divides the count
  bool producer = false;                   // parallel: each group has one, besides its items
  // kIf: every condition >= 0. kInt: var = int_op(a, b)
  std::vector<Affine> conditions;
  enum class IntOp : uint8_t {
    kAffine,                               // a
    kDiv, kMod,                            // floor(a / divisor), a - divisor * that; divisor > 0
    kMin, kMax,                            // of a and b
    kRegister,                             // scalar integer register `srcs[0]`, sign-extended
    kItem,                                 // the number of the item that runs it, below the group's
                                           // `items`; in a parallel For
  } int_op = IntOp::kAffine;
  Affine a, b;
  int64_t divisor = 1;
  std::vector<Stmt> body, otherwise;       // kFor: body; kIf: both

  // kOp
  Op op = Op::kMove;
  ExprOp expr_op = ExprOp::kAdd;
  Reduce reduce = Reduce::kNone;
  int dst = -1;                            // register
  int srcs[3] = {-1, -1, -1};              // registers
  int mask = -1;                           // register; kLoad, kStore
  int indices = -1;                        // kLoad: i64 vector register added to index lane by lane
                                           // (stride is then 0): a gather
  int buffer = -1;
  Affine index;                            // in elements
  int64_t stride = 0;                      // elements between lanes: 0 same element for all (load
                                           // of a scalar, broadcast), 1 contiguous, else strided
  bool non_temporal = false;               // kStore; honoured where alignment allows
  bool on_its_way = false;                 // kStore, to a group's memory: done at some time before
                                           // the kLanded that covers it, until when nobody else may
                                           // touch the place; of what a load in front of it reads,
                                           // at the same time, from memory that nobody writes
  double number = 0;
  int64_t integer = 0;
  std::vector<int> many;                   // kTranspose, kInterleave, kMatrix..., kWideProduct

  std::shared_ptr<const Block> block;      // kBlock, kWideProduct, kBoxCopy
};

// Sets of an item's stores that may be on their way.
inline constexpr int64_t kMostOnTheirWay = 64;

struct Kernel {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Register> registers;
  int variables = 0;                       // integer variables are 0 .. variables - 1
  std::vector<Stmt> body;
  std::vector<Stmt> prepack;               // fills kPacked buffers from const arguments; may be
                                           // empty
  int arguments = 0;
  int64_t workspace_bytes = 0;             // shared
  int64_t private_bytes = 0;               // per worker
  int64_t packed_bytes = 0;
  std::vector<int64_t> managed_bytes;      // of each managed memory, up to the last that is used
  double error_growth = 1;                 // Nest::error_growth: for who verifies
};

// Every register and variable defined before use, lanes and types agree, accesses in bounds by
// intervals, parallel rules hold, transposes square. kInternal says which statement: a failure is
// our bug. Used after lowering in debug builds and in all tests, and by every backend before it
// builds or runs a kernel. kMeaning leaves out where accesses go: what a kernel does that goes astray
// is for the process to bear in which it runs.
enum class Checked : uint8_t { kAll, kMeaning };
absl::Status verify(const Kernel& kernel, Checked checked = Checked::kAll);

// Readable text, one statement a line, stable (golden tests compare it). parse_kernel is its inverse
// in meaning: of a constant's two numbers the text has the one that its register's type reads.
std::string print(const Kernel& kernel);
absl::StatusOr<Kernel> parse_kernel(std::string_view text);

// Hash of the meaning (names of buffers and of the kernel do not count): equal kernels are measured
// once. It covers both numbers of a constant, though one of them means nothing, and so tells some
// kernels apart that are equal, also from what parse_kernel makes of their texts: databases hold
// hashes, of what is withdrawn too, so they stay as they are.
uint64_t hash(const Kernel& kernel);

// Whether the body, prepack aside, touches the argument.
bool uses_argument(const Kernel& kernel, int slot);

}  // namespace lw
