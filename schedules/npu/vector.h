// What an NPU's vector engine computes: maps, and reductions that are no products, a box of a
// stage's axes at a time. A body becomes operations on values, each of which lies in a managed
// memory as the engine wants it: i32 and f32 in ACC, where bf16 computes as f32, i8 in SPM.
// Thread-safe, deterministic.
//
// One axis is the vectors': along it all that varies lies contiguously, in rows padded to vectors;
// what does not vary along it is a column, an element a row. Maps have the result's last axis
// there, and so do reductions whose operands are contiguous along it: they add up row by row. Others have
// the reduction's axis there, and reduce rows. Where operands are contiguous along neither, all are
// columns.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/access.h"
#include "schedules/npu/product.h"

namespace lw {

// How a value lies over a box: row-major, the last dimension padded. steps[d][a]: by how much axis
// a of the stage moves dimension d.
struct VectorTile {
  Type type = Type::kF32;
  int memory = -1;
  std::vector<std::vector<int64_t>> steps;
  bool computes = true;                    // is computed with; else only copied
  bool operator==(const VectorTile&) const = default;
};

// A dimension of a read's tile of which not all positions are in the tensor: position p is the
// tensor's begin + what the axes move + p, of `size`.
struct VectorBorder {
  int dim;
  int64_t begin, size;
  std::vector<int64_t> steps;
};

struct VectorValue {
  enum class Kind : uint8_t {
    kOperand,                              // a read: a copy from DRAM
    kRow,                                  // the same all along: `number`, or a read's
    kHeld,                                 // a product's results, where its array left them
    kComputed,
  } kind = Kind::kComputed;
  VectorTile tile;
  // Reads: by how many elements of the tensor a step along each dimension of the tile moves; which
  // element is read where all axes are 0, and by how many each axis moves that. An operand without
  // a tensor is of the numbers 0, 1, 2, ..., i32, which lie in DRAM too.
  int tensor = -1;
  std::vector<int64_t> source_strides;
  int64_t source_begin = 0;
  std::vector<int64_t> source_steps;
  std::vector<VectorBorder> borders;       // by dimension; beyond them is `number`
  double number = 0;                       // of borders; of a kRow without a tensor
  int place = -1;                          // kComputed: number of VectorCode::places
};

// What of BlockOp (src/kernel/kernel.h) has that name, on values; kZero fills in zeros.
struct VectorOp {
  enum class Kind : uint8_t { kZero, kCopy, kUnary, kBinary, kScalar, kRequantise, kReduce };
  Kind kind = Kind::kBinary;
  ExprOp expr_op = ExprOp::kAdd;
  double number = 0;                       // kScalar
  Reduce reduce = Reduce::kNone;           // kReduce: along all that its result does not vary along
  int8_t zero = 0, lo = -128, hi = 127;
  bool words = false;                      // on the 32 bits of each as i32, whatever their types
  int dst = -1, srcs[3] = {-1, -1, -1};
};

struct VectorCode {
  std::vector<int> order;                  // axes that vary, outermost first, the vectors' last
  int vector_axis = -1;                    // -1: none varies
  std::vector<VectorValue> values;
  std::vector<VectorOp> ops;               // of the body: its value is `body`
  int body = -1;
  // Axes that boxes do not cut, and their extents: the body has what reductions that are inlined
  // make of them.
  std::vector<std::pair<int, int64_t>> whole;
  // Of a reduction: the body's value reduced along all but rows (`rows`), along rows too
  // (`partial`), and over all boxes (`result`); each is the one before where there is nothing to do.
  Reduce reduce = Reduce::kNone;
  bool by_rows = false;                    // along the vectors' axis
  int rows = -1, partial = -1, result = -1;
  int stored = -1;                         // the result in the tensor's type
  // The inlined reductions of rows that end within a vector, each kind once: words beyond are
  // filled up with its identity.
  struct Ragged {
    Reduce reduce;
    Type type;
    bool operator==(const Ragged&) const = default;
  };
  std::vector<Ragged> ragged;
  int64_t numbers = 0;                     // of which operands without a tensor are
  // Computed values of which one is dead before the next is written share a place; as large as its
  // largest.
  std::vector<std::vector<int>> places;    // of values
};

// Whether a kReduce makes elements of rows.
bool reduces_rows(const VectorCode& code, const VectorOp& op);

// Gives the computed values of complete code places.
void find_places(VectorCode& code);

// What a reduction begins with; rows that are reduced are filled up with it.
double identity_of(Reduce reduce, Type type);

// kFailedPrecondition says what the engine does not compute, and what to write instead.
absl::StatusOr<VectorCode> vector_code(const Nest& nest, int stage);

// How many of the code's numbers are made at once, in ACC.
int64_t numbers_at_once(const npu::Config& config, const VectorCode& code);

inline bool varies(const VectorTile& tile, int axis) {
  return moves(tile.steps, static_cast<size_t>(axis));
}

// To what rows of operations are padded; to what rows of the tile are.
int64_t vector_padding(const npu::Config& config);
int64_t tile_padding(const npu::Config& config, const VectorTile& tile);
BoxLayout tile_layout(const npu::Config& config, const VectorTile& tile,
                      const std::vector<int64_t>& extents);

bool is_whole(const VectorCode& code, int axis);
// Whether boxes of these extents cut no axis that is whole.
bool holds_whole(const VectorCode& code, const std::vector<int64_t>& extents);

// Bytes of the managed memories that boxes of these extents take: once, and for each slot of
// operands and of results.
struct VectorBytes {
  int64_t spm = 0, acc = 0;
};
struct VectorRoom {
  VectorBytes once, slot;
  VectorBytes with(int64_t slots) const {
    return {once.spm + slots * slot.spm, once.acc + slots * slot.acc};
  }
};
VectorRoom vector_room(const npu::Config& config, const VectorCode& code,
                       const std::vector<int64_t>& extents);
// What finishes the product's results where they are held, its epilogue; null: nothing does.
absl::StatusOr<std::optional<VectorCode>> epilogue_code(const Nest& nest, int product);
bool fits(const npu::Config& config, const VectorBytes& bytes);

}  // namespace lw
