// The lowering's working state: the kernel under construction, where tensors live, and the values
// of integer expressions at a point, lane by lane. Internal to src/lower.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "schedules/nest.h"
#include "src/expr/expr.h"
#include "src/lower/lower.h"

namespace lw::lowering {

// Value of an integer expression at a point: base + l * lane + sum(coefficient * register lane l).
// The registers hold lane-varying quotients; they often cancel when an address is put together
// (fused axes of a contiguous tensor: (f / E) * E + f % E = f).
struct Index {
  Affine base;
  int64_t lane = 0;
  struct Term {
    int reg;                               // kI64 vector register
    int64_t coefficient;
  };
  absl::InlinedVector<Term, 2> terms;
  Interval range;                          // over all values of the variables and lanes
  bool uniform() const { return lane == 0 && terms.empty(); }
};

// Where the points of a tensor are for the code being emitted: the box of `shape` from `origin`.
struct Storage {
  int buffer = -1;
  std::vector<Affine> origin;
  std::vector<int64_t> shape;
  int block_dim = -1;
  int64_t block = 0;
  int group_dim = -1;
  int64_t group = 1;
  int64_t pad = 0;                         // elements more of the innermost dimension
  Affine offset;                           // elements before the box: of a slot
  bool beyond = false;                     // it has the tensor's zeros too, where it reaches beyond
};

// An axis within the current instance: points base .. base + extent - 1, of which those below every
// limit exist (limits come from Tail::kMask).
struct AxisState {
  Affine base;
  int64_t extent = 0;
  absl::InlinedVector<Affine, 1> limits;
};

struct Emitter {
  const Nest& nest;
  const LowerOptions& options;
  Stop stop;                               // the nest's; that of `nest` never asks, or what is
                                           // lowered would change half-way
  Kernel kernel;
  std::vector<Stmt>* out = nullptr;        // where statements go
  std::vector<Interval> var_range;         // of every integer variable
  struct Extreme {
    bool greatest;
    Affine a, b;
  };
  absl::flat_hash_map<int, Extreme> extremes;  // variables that are the least or greatest of two,
                                           // on CPUs: of groups' numbers the verifier knows too
                                           // little to follow
  std::vector<Expr> bodies;                // effective body per stage
  std::vector<Storage> home;               // per tensor: what readers without a copy read
  std::vector<Storage> copies;             // per stage: of copy stages
  std::vector<Affine> assumed;             // >= 0 here: conditions of the branches around
  struct Quotient {
    Affine of;
    int64_t divisor;
    Affine quotient, remainder;
  };
  std::vector<Quotient> quotients;         // variables in scope that hold divisions
  bool in_parallel = false;
  int64_t items = 1;                       // of the group around
  int64_t sub_group = 0;                   // that exchange registers; 0: none do
  int64_t statements = 0;
  bool counting = false;                   // statements only: nothing is kept of them
  absl::Status failure;                    // the first limit that was broken

  Emitter(const Nest& n, const LowerOptions& o, const Stop& s) : nest(n), options(o), stop(s) {}
  const Tensor& tensor(int t) const { return nest.program->tensors[t]; }

  Stmt& emit(Stmt&& stmt);
  void emit(Op op, int64_t integer = 0);   // without registers
  // What `body` emits goes into the list.
  void emit_into(std::vector<Stmt>& list, absl::FunctionRef<void()> body);
  void count(int64_t more);                // statements, made or not; too many: a failure
  int new_register(Type type, int lanes);
  int new_var(Interval range);
  // var = op(a, b or divisor), its range derived.
  Affine emit_int(Stmt::IntOp op, const Affine& a, const Affine& b, int64_t divisor);
  Affine clamp(const Affine& a, int64_t extent);  // into [0, extent)
  Affine item();                           // the running item's number
  // A buffer of at least `elements`; one per (stage), grown when asked again.
  int stage_buffer(int stage, Type type, int64_t elements);
  // Where the stage's slot for an iteration begins in its buffer, of slots of at least `elements`.
  Affine slot(int stage, int buffer, int64_t elements, const Affine& iteration);

 private:
  absl::flat_hash_map<int, int> stage_buffers_;
  absl::flat_hash_map<int, int64_t> slot_elements_;
};

// Of all values that it may have; of what follows a least or greatest of two, of either.
Interval range_of(const Emitter& e, const Affine& a);
bool known_at_least_zero(const Emitter& e, const Affine& a);  // by ranges and assumptions
Index make_index(const Emitter& e, const Affine& base, int64_t lane, int lanes);
Index add(const Index& a, const Index& b, int64_t factor);  // a + factor * b
Index scale(const Index& a, int64_t factor);

// The box of points of a tensor dimension that an expression reaches.
struct Range {
  Affine lo;
  int64_t extent = 1;
  bool known = true;                       // false: anything
};

// Of an index expression, given boxes of its axes. May emit a division.
Range range_of_expr(Emitter& e, const Expr& expr, const std::vector<Range>& axes);

// Emits one stage at its place: `axes` are the points to compute (the whole for roots, a region for
// attached stages). See loops.cc.
void emit_stage(Emitter& e, int stage, std::vector<AxisState> axes);

// An iteration of a loop at which stages are attached.
struct AtLoop {
  const std::vector<AxisState>& axes;      // the host's, inside the loop
  const std::vector<AxisState>& group;     // of all items together, for copies that they share
  Affine iteration;
  // Copies of several slots, which take turns: fetched with the others, or alone for an iteration
  // that comes, or they are there already.
  enum class Slots : uint8_t { kFetched, kAhead, kThere } slots = Slots::kFetched;
};

// The stages attached at `host`'s loop, each over the region that one iteration needs (region.cc).
void emit_attached(Emitter& e, int host, const std::string& loop, const AtLoop& at);

// Adds storage for what `stage` stores (its own tensor unless nothing but its epilogue reads it,
// and its epilogue's tensors); region.cc.
void allocate(Emitter& e, int stage, const std::vector<Range>& region,
              const Affine& iteration = {});
bool must_store(const Nest& nest, int stage);
bool accumulates_in_memory(const Stage& stage);  // a reduction loop runs outside the register run

// Initial states: the whole axes of a stage.
std::vector<AxisState> whole_axes(const Nest& nest, int stage);

}  // namespace lw::lowering
