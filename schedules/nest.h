// The nest: in which order, and where, the definitions of a program are computed. Steps rewrite it,
// the lowering executes it, features and the draft model read it. A value of a few kilobytes: copying
// one costs a microsecond, which is what lets the search replay tens of thousands of traces a second.
//
// A program has one Stage per computed tensor (in program order), plus one per staged copy. A stage
// runs the points of its tensor's axes (spatial axes, then reduction axes) in a list of loops.
//
// Loops and tiles. Every axis is covered by a chain of loops, outer before inner. An iteration of a
// loop covers `tile` consecutive points of its axis within the tile of the next outer loop of the same
// axis (or within the extent); the innermost loop of an axis has tile 1. Splitting `i` (extent 100) by
// factors [_, 5, 6] gives loops i.0 (tile 30), i.1 (tile 6), i.2 (tile 1). Extents need not divide;
// what the last, partial tile does is the outer loop's Tail:
//   kCompose  the remainder gets a code instance of its own, with its exact smaller constant extents
//             (a full tile of 6 rows and then one of 4): no checks at run time.
//   kMask     one instance; points beyond the end are masked: lanes off, rows guarded.
//   kShift    the last tile is moved back until it fits, recomputing points of its neighbour.
//             Legal where recomputing is harmless: spatial axes, and no partial sums in memory that an
//             outer reduction loop would add to twice.
//
// The register tile. The longest suffix of loops that are all kUnroll or kVector is the stage's tile:
// its points are unrolled into registers. The reduction loops directly outside the tile (the longest
// such run) keep their accumulators in registers; reduction loops further out accumulate in memory (in
// the stage's buffer), the first iteration starting from the identity, the last applying the epilogue.
// At most one loop is kVector, the last one of the list: its points are lanes (chunks of the vector
// width, the last chunk masked). An unrolled reduction loop continues the same accumulator; a vector
// reduction loop has an accumulator for each lane and chunk, combined when the run ends.
//
// Dot products. Of the tile's points along `dot_axis`, a reduction, each `dot_group` in a row are
// one instruction of the target (an Atom with a group), where the tile holds that many; the rest,
// and what the instruction cannot do (points under different masks), are multiply-adds.
//
// Where a stage runs (Place):
//   kRoot      on its own, in program order.
//   kAt        inside `host`'s loop named `loop`, before that loop's other contents: computes just the
//              region that one iteration reads, into a buffer of that size.
//              Or, with its axis `along` >= 0: before the contents of that loop, which runs over an axis
//              of as many points, the same part of its own; all of it is kept, for readers behind the
//              host too, and the host, if it reads it, reads its own part.
//   kInlined   nowhere: its body is evaluated where it is read. A reduction may be so in the boxes
//              of an NPU's vector engine, which hold whole what it reduces: of the one stage, its
//              `host`, that reads it and over whose axes it is.
//   kEpilogue  on the register tile of `host`, when a point of host is finished.
//   kPrepack   (copies of const tensors, and what `winograd` makes of const weights) once, before
//              the timed calls. Nothing stands at its loops.
//
// Copies (packing): stage.copies maps a tensor that the stage reads to the copy stage that serves it.
// A copy stage has `copy_of` >= 0: it copies the region of that tensor which one iteration of the loop
// at which it stands reads (kAt), the whole (kRoot, kPrepack); its axes are the tensor's dimensions.
// Its layout: row-major over the region, or with `block` > 0 dimension `block_dim` is cut into blocks
// that come outermost, the position within a block innermost: [d/block][other dims in order][d%block].
// With `group` > 0 each run of that many positions of dimension `group_dim` is put together, as the
// innermost: [d/block][other dims, that one / group][d%block][position in the group]. So lie the
// operands of dot products. The last group may be partly unused. A `wide` copy of 16-bit floats
// holds f32: they are converted once, not at every use. With `pad` > 0 the innermost dimension (a
// block, or without one the last) is so many elements longer: rows then begin in different banks.
//
// Groups (machines of many threads). An iteration of a parallel loop is computed by a group of items,
// as many as the first loop of kItem inside of it has iterations; every such loop's iterations are
// dealt to them in turn. All that stands at other loops, or in no loop, each of them does for itself,
// but for what has `memory` >= 0, copies and stages at loops outside of theirs: that lies where all see
// it, over the box that all of them read. With several `slots` the iterations of a copy's loop use them
// in turn, and each fetches, before all else, what the next one reads. Where a stage at the root has
// `items` > 0, its groups have so many, whatever its loops say. Where it has `sub_group` > 0 as well,
// these exchange registers: it, and what stands at its loops, may have a kItem loop that runs a
// reduction, in the run. Each item accumulates its iterations, and all get what all have accumulated;
// at the root the first keeps it. If that is fewer than `items`, the group is several sub-groups: the
// first kItem loop of each stage is dealt to these, a second one to the items of each.
//
// Products of matrices (machines of many threads). The tile of a stage with `matrix` >= 0 is a
// sub-group's, by an instruction that multiplies matrices (targets/matrix_shape.h): its points
// along two axes of results and one reduction, each a multiple of the instruction's or masked at the
// end. Its innermost loops are unrolled, those along n last. The first kItem loop is dealt to
// sub-groups, as many as it has iterations; copies that all of the group share are dealt to all of
// its items. Where the instruction is one of four sub-groups (`is_wide`, schedules/dot.h) these follow
// each other along m, and both operands are read where the group shares them, swizzled: rows of 128
// bytes along k, or panels of 128 bytes of columns, along k in each; but a may be `made`. Where the
// rows are of two axes, those along m of a point along `rows_over` follow those of the one before;
// a group's, and among them a sub-group's, are a box of both.
//
// Machines of managed memories (schedules/npu). The tile of a stage with `variant` >= 0 is one of
// the target's instructions for boxes, not registers; its reduction loops outside the tile add to
// results in managed memory `memory`, which are there while the loops inside `held` run (all of them
// if that is empty), and are then copied to where the tensor is. A copy with `memory` >= 0 lies in
// that managed memory, row-major over its box, padded as instructions want it; with several `slots`
// it, or what is held, uses them in turn, so that one is filled while another is read. An epilogue
// is applied to what is held, which is then stored nowhere; where the variant is the vector
// engine's (schedules/npu/vector.h), the tile is a box, whose body is evaluated at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "loopwright/type.h"
#include "src/base/stop.h"

namespace lw {

struct ExprNode;
using Expr = std::shared_ptr<const ExprNode>;
struct Program;
struct Target;
struct Tensor;

enum class LoopKind : uint8_t { kSerial, kUnroll, kVector, kParallel, kItem };
enum class Tail : uint8_t { kCompose, kMask, kShift };  // values are part of the trace format

struct LoopPart {
  int axis;                                // index into Stage::axes
  int64_t tile;                            // points that one iteration covers
  bool operator==(const LoopPart&) const = default;
};

struct Loop {
  std::string name;                        // "i", "i.0", "i.0.1"; fused: "i.0*j.0"
  absl::InlinedVector<LoopPart, 2> parts;  // more than one: fused, the last part runs fastest
  LoopKind kind = LoopKind::kSerial;
  Tail tail = Tail::kCompose;              // of this loop's last iteration
};

struct NestAxis {
  std::string name;
  int64_t extent = 0;
  bool reduction = false;
};

enum class Place : uint8_t { kRoot, kAt, kInlined, kEpilogue, kPrepack };

// What a stage evaluates at a point of its TENSOR's axes, inlined producers included: a DAG in which
// equal values are one node, each evaluated once there.
struct StageBody {
  Expr value;
  std::vector<int> reads;                  // tensors, each once, in order of first occurrence
  std::vector<const ExprNode*> read_nodes; // reads_in(value)
  int widest = 1;                          // bytes of the widest value in registers
  bool functions = false;                  // some value is_function() of others
};
std::shared_ptr<const StageBody> make_body(const Expr& value);
// The reads in `value`, each node once; they live as long as it does.
std::vector<const ExprNode*> reads_in(const Expr& value);

// What inlining may make of a body. Beyond, producers are stages of their own: a body is evaluated
// in registers, at every point of a tile, and walked by recursion.
constexpr int64_t kMaxBodyNodes = 4096;
constexpr int64_t kMaxBodyDepth = 1024;

struct Stage {
  int tensor = -1;                         // what it computes; for copies the tensor copied
  std::string name;                        // the tensor's; copies: "A.copy" (unique)
  std::shared_ptr<const StageBody> body;   // null for copies
  // Axes of the loops. Usually the tensor's axes then its reduction axes; `fuse` of whole axes
  // replaces two by one, `phase` one by two. axis_value[a] is the value of the tensor's axis a (spatial, then reduction)
  // over the stage's axes; empty: the identity. Points whose values the tensor's axes have not, as
  // steps/npu/phase_taps.cc makes some, are not computed.
  std::vector<NestAxis> axes;
  std::vector<Expr> axis_value;
  std::vector<Loop> loops;                 // outermost first

  Place place = Place::kRoot;
  int host = -1;                           // kAt, kEpilogue, reductions kInlined: index of a stage
  std::string loop;                        // kAt: name of a loop of host
  int along = -1;                          // kAt: its axis that the loop deals; -1: none

  int copy_of = -1;                        // copies only: the tensor
  int block_dim = -1;
  int64_t block = 0;
  int group_dim = -1;
  int64_t group = 0;
  bool wide = false;
  int64_t pad = 0;
  bool swizzled = false;                   // as kernels' buffers are (src/kernel/kernel.h)
  bool boxed = false;                      // a copy: by the machine's engine, boxes at once

  int64_t items = 0;                       // of a group; 0: loops say how many
  int64_t sub_group = 0;                   // items that exchange registers; 0: none do
  int64_t cluster = 1;                     // groups that run at once; they follow each other
  bool producer = false;                   // a sub-group besides the items copies boxes for them
  int memory = -1;                         // managed, of the target; -1: none
  int slots = 1;
  int variant = -1;                        // of the target's instruction; -1: registers
  std::string held;                        // name of a loop, or ""

  int dot_axis = -1;                       // index into axes; -1: multiply-adds only
  int64_t dot_group = 1;

  int matrix = -1;                         // of the target's atoms; -1: the tile is registers' lanes
  int matrix_axes[3] = {-1, -1, -1};       // of m, n, k: indices into axes
  int rows_over = -1;                      // the axis over m's, where rows are of two; -1: of one
  bool made = false;                       // of four sub-groups: items compute a, into registers

  // rfactor: this stage computes partial results. The loop over `factored_axis` with tile
  // `factored_tile` counts as spatial; its iteration number is axis 0 of the tensor and of the stage,
  // which has no loop of its own (axes are [partial] ++ axes of the original).
  int factored_axis = -1;
  int64_t factored_tile = 0;

  std::vector<int> epilogue;               // stages applied on the tile, in order
  struct Copy {
    int tensor, stage;
  };
  std::vector<Copy> copies;
  struct Prefetch {
    int tensor;
    int64_t distance;                      // iterations ahead
    int loop = 0;                          // of the innermost loop that moves the address; 1: of the
                                           // second innermost such loop
  };
  std::vector<Prefetch> prefetches;
  bool non_temporal = false;               // the final store bypasses the caches
  bool slide = false;                      // vectors of the tile that overlap are made from others
                                           // that do not
};

// Legality checks, each of which a property test turns off to see that it is needed.
enum class Legality : uint8_t {
  kParallelReduction,       // a parallel loop must not run a reduction
  kShiftAccumulates,        // kShift where partial sums in memory would be added twice
  kInlineReduction,         // only pure maps are inlined
  kEpilogueIdentity,        // an epilogue reads its host at its own point only
  kComputeAtConsumers,      // every reader stands inside the loop at which a stage is computed
  kChainOrder,              // loops of an axis keep their order
  kVectorInnermost,         // the vector loop is the last
  kRfactorReduction,        // rfactor splits a reduction, of an associative kind
  kEpilogueStoredElsewhere, // an epilogue's host that others read too is still stored
  kStageReadsFinal,         // a copy is taken only of what is complete when it is taken
};

struct Nest {
  std::shared_ptr<const Program> program;  // extended by rfactor and winograd
  std::shared_ptr<const Target> target;
  int threads = 1;
  bool winograd = false;                   // the rules may propose it: less exact, so asked for
  // How many times the rounding errors of the program as written its results may have.
  double error_growth = 1;
  std::vector<Stage> stages;               // in an order in which they may run: what a stage reads is
                                           // computed by earlier ones, a copy precedes its reader
  uint32_t unchecked = 0;                  // tests only: bit per Legality check that is turned off
  Stop stop;                               // of whatever is computed of this nest; once it is asked,
                                           // steps fail (kCancelled, kDeadlineExceeded) and values
                                           // mean nothing

  bool checks(Legality check) const { return !(unchecked >> static_cast<int>(check) & 1); }
};

// The unscheduled nest: every stage at the root, one serial loop per axis, in order. Machines whose
// kernels always run on all of their units (TargetFamily::units) have these as threads.
Nest make_nest(std::shared_ptr<const Program> program, std::shared_ptr<const Target> target,
               int threads);

// The unscheduled stage of a computed tensor.
Stage make_stage(const Program& program, int tensor);

// Inserts `stage` so that it gets index `position`, and renumbers all mentions of later stages.
void insert_stage(Nest& nest, int position, Stage stage);

// Inserts `tensor` into the program so that it gets index `position`, and renumbers all mentions of
// later tensors; those of its own body are by the new numbers already. The caller adds its stage.
void insert_tensor(Nest& nest, int position, Tensor tensor);
// Inserts a tensor of partial results, side by side along its first axis, before the reduction
// `tensor`, which then combines them.
void insert_partials(Nest& nest, int tensor, Tensor partial);
// Where the stage computes such partial results by now: inserts that which combines them behind it.
// It stands where the stage does, and the epilogue and how that is stored are its.
void insert_combining_stage(Nest& nest, int stage);

// Positions; -1 when there is none.
int find_stage(const Nest& nest, std::string_view name);
int find_loop(const Stage& stage, std::string_view name);
int find_tensor(const Program& program, std::string_view name);
int stage_of_tensor(const Nest& nest, int tensor);  // the stage that computes it (not a copy)

// The axis of its host's along which the stage is dealt. REQUIRES: stage.along >= 0.
int dealt_axis(const Nest& nest, const Stage& stage);

// Whether some value of a tensor's axis is more than a sum of multiples of the stage's: after whole
// axes were fused, but not after one was cut into phases.
bool has_fused_axes(const Stage& stage);
// Whether vectors may begin at any point of the stage's rows: not where others are slid out of them, nor
// where they are stored past the caches, line by line.
bool begins_anywhere(const Stage& stage);

// Whether the stage's axis `d` runs along dimension `d` of its tensor as it is: no step fused it or
// cut it into phases.
bool runs_along(const Stage& stage, size_t d);

// A loop is a reduction when any of its parts is over a reduction axis (the factored loop is not).
bool is_reduction(const Stage& stage, const Loop& loop);
bool is_factored(const Stage& stage, const LoopPart& part);
// Whether one of its loops has such a tail.
bool has_tail(const Stage& stage, Tail tail);

// Points of its axis that the loop at position `loop` runs over in a full instance: the tile of the
// next outer loop of the axis, or the extent where that is less (the outermost tile may exceed it by
// less than the next inner tile: 500 in blocks of 11 x 48). Trips: iterations over those, rounded up.
int64_t range_of(const Stage& stage, int loop, int part = 0);
int64_t trips(const Stage& stage, int loop);

// First loop of the register tile (== loops.size() when there is none), and first loop of the
// reduction run whose accumulators are registers (== tile_begin when there is none).
int tile_begin(const Stage& stage);
int run_begin(const Stage& stage);

// Points of the stage's axis that one iteration of the loops before position `loop` leaves: the
// extent of each axis inside loop position `loop` (full instance).
std::vector<int64_t> inner_extents(const Stage& stage, int loop);

// The body that the stage evaluates, over the TENSOR's axes, with inlined producers substituted: as
// large as their definitions, times the points at which it needs each. For copies: a read of the
// tensor at its axes.
Expr effective_body(const Nest& nest, int stage);

// Puts the value of the stage, a map, into the bodies of its readers. Infeasible where that makes
// one too large.
absl::Status inline_into_readers(Nest& nest, int stage);

// At how many points the stage's effective body reads `tensor` to compute one of its own (for each
// iteration of its reductions).
int points_read(const Nest& nest, int stage, int tensor);

// Tensors that the stage's effective body reads, each once (the served ones of copies included).
std::vector<int> body_reads(const Nest& nest, int stage);

// Stages that read `tensor` directly, after inlining; epilogue stages count as themselves, for an
// inlined reduction its host does, and where a copy serves a stage's reads the copy counts instead.
std::vector<int> readers(const Nest& nest, int tensor);
// The same of every tensor.
std::vector<std::vector<int>> all_readers(const Nest& nest);

// Lanes of the vectors the stage computes with: of the widest type that it holds in registers.
int stage_lanes(const Nest& nest, int stage);

// Structure every step must leave behind (chains cover axes, names unique, hosts valid, ...);
// kInternal. Used after every step in debug builds and in all tests.
absl::Status verify(const Nest& nest);

// Readable text: stages, loops with kinds and trips, places, copies.
std::string print(const Nest& nest);

// kFailedPrecondition: the value "infeasible: why".
absl::Status infeasible(std::string_view why);

}  // namespace lw
