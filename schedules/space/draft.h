// What rules are made of: a trace under construction, and facts about its stages beside what they
// read (schedules/access.h). Internal to schedules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedules/access.h"
#include "schedules/steps.h"
#include "src/expr/expr.h"

namespace lw::rules {

// What becomes of maps that reductions read many times: cheap ones disappear into them, or the
// expensive ones too, or none, which costs a pass but takes their arithmetic off the register tile.
enum class Maps { kInlineCheap, kInlineAll, kKeep };

// A sketch being written: every step is applied to `nest` as it is added, so later rules see the
// stages and loops that exist. Steps with an open decision are applied with the middle of their
// domain.
struct Draft {
  Nest nest;
  Sketch sketch;
  bool failed = false;                     // a step did not apply: the rule does not fit here
  bool dot_products = false;               // use the target's, where it has them
  std::shared_ptr<const Program> program = nest.program;  // as it was written
  Maps maps = Maps::kInlineCheap;          // what has become of them
  bool flat = true;                        // elementwise maps run over all their axes as one
  bool matrices = false;                   // multiply them by instructions, where there are some
  int wide_way = -1;                       // of those of four sub-groups together; -1: by others
  bool vector_reduction = false;           // lanes run along reductions that take it
  bool groups = false;                     // of several items, where machines have groups
  bool sub_groups = false;                 // which exchange registers
  bool several_sub_groups = false;         // of a group
  bool group_reductions = false;           // each result by a group, that is no map's row
  bool transformed = false;                // convolutions are cut into products (rules/winograd.cc)
  bool chosen = false;                     // no choice is left: only its stages are to be tiled
  std::string name = {}, suffix = {};      // of the sketch, in the order in which it is read
  std::string why = {};                    // failed: the step, and why it does not apply
  std::vector<std::string> left_out = {};  // the same of what attempt() left out
};

// Whether nothing more is to be done to it: it failed, or is to stop.
inline bool is_over(const Draft& draft) { return draft.failed || draft.nest.stop.asked(); }

// Applies `act`, a function of the draft. Where a step of it does not apply the draft stays as it
// was, but for the reason in `left_out`: the stage is left to the next rule. Returns whether it did.
template <class Act>
bool attempt(Draft& draft, const Act& act) {
  if (draft.failed) return false;
  Draft next = draft;
  act(next);
  if (next.failed) draft.left_out.push_back(std::move(next.why));
  else draft = std::move(next);
  return !next.failed;
}

void fixed(Draft& draft, std::string_view kind, std::vector<std::string> names,
           Decision numbers = {});
// `numbers`: what the step's domain needs to know (its shape); replaced by the draw.
void open(Draft& draft, std::string_view kind, std::vector<std::string> names,
          Decision numbers = {});
// The same, but what does not apply is left out.
void optional(Draft& draft, std::string_view kind, std::vector<std::string> names,
              Decision numbers = {});

bool is_map(const Nest& nest, int stage);  // no reduction
// Estimated vector instructions of the stage's body, per point.
double body_cost(const Nest& nest, int stage);
// Products that one instruction of the target adds along reduction axis `axis` of the stage's
// tensor; 1: it has none for the stage, or the axis is too short.
int64_t dot_group(const Nest& nest, int stage, int axis);
// The draft with them, where any stage has some; nullopt: none has.
std::optional<Draft> with_dot_products(const Draft& draft);

// What a stage is to the rules that fuse, whatever its operator is called, and when each fuses:
//
//   kInjective   a map: each point from a few points of its operands, no reduction.
//                Into its readers (inlined) where recomputing costs less than a store and a load,
//                or where its only reader evaluates it once; onto the register tile (epilogue) of
//                the reduction that it reads at its own point; else at its reader's rows.
//   kReduction   a reduction none of whose operands serves several results (sums and maxima of
//                rows, moments): bound by memory.
//                At its reader's rows, where the row is still in the nearest cache.
//   kComplexOut  a reduction whose operands are used again (matrix products, convolutions): bound
//                by arithmetic, needs a register tile of several rows. Takes injective stages as
//                epilogues; never inlined, never at single rows.
//                At a block of its reader's rows, where all that lies between the two reads and
//                writes the same rows, or windows of them: then nothing of the whole
//                intermediate's size is stored, and what is computed twice are the rows that
//                windows reach into beyond the block.
//   kOpaque      what the user asked for, what a reader indexes by data, what is placed already.
//                Stays where it is; others may fuse onto it.
//
// kInjective and kReduction join such a block too. Fused by merge.cc and fusion.cc.
enum class FusionClass { kInjective, kReduction, kComplexOut, kOpaque };
FusionClass fusion_class(const Nest& nest, int stage);

// A reduction to at most one value per row of `rows` axes that reads some operand once: a weighted
// sum of the row, say. Its weights are reused, but what it reads once decides how fast it is, and
// that is a row that should still be near when its reader comes: it fuses as kReduction does.
bool is_moment(const Nest& nest, int stage, int rows);

// Fusion at rows. Attaches what `host` reads, directly or through others, at its loop over the
// leading axes that all of them share. With `blocks` complex-out stages join too; where one is
// among them or is the host, they stand at a block of the last of those axes. Returns whether they
// do.
bool attach_rows(Draft& draft, int host, bool blocks);
// The same at every stage that may be a host: maps, with `blocks` products too. What does not apply
// is left out. Returns whether anything stands at blocks.
bool attach_all(Draft& draft, bool blocks);

// A map is inlined where recomputing it costs less than keeping it: into its only reader, unless
// that reader would evaluate it many times: Draft::maps says what then. Those for which `stays`
// holds stay.
void inline_maps(Draft& draft, bool (*stays)(const Nest& nest, int stage) = nullptr);
// Maps that read a reduction at their own point run on its register tile.
void fuse_epilogues(Draft& draft);

// Whether every read of a map, of several axes, is at its own point, in a tensor of the same shape.
bool elementwise(const Nest& nest, int stage);
// All of the stage's loops become one.
void fuse_all(Draft& draft, const std::string& stage);
// Of the stage's copy of a tensor: by its reader, where others may have copies of that too.
std::string name_of_copy(const Nest& nest, const std::string& stage, const std::string& tensor);
// A copy of a tensor for groups that compute the stage: where it stands, whether items share it, and
// at the root, where it is of the whole, how it is dealt to groups of its own.
void copy_for_group(Draft& draft, const std::string& stage, const std::string& tensor);
// Where the stage reads tensors of two dimensions and more, at affine places: of each tensor the first.
std::vector<Address> operands(const Nest& nest, int stage);

// Name of the loop over single points of the stage's axis; "" when there is none.
std::string loop_of(const Stage& stage, int axis);
// Loops around everything that is attached to the stage: their order is settled.
int loops_around_attached(const Nest& nest, int stage);
// Whether it is a map at the root at whose rows others stand.
bool hosts_rows(const Nest& nest, int stage);
// Whether it is a reduction at the root of one axis, along which what it reads lies together.
bool reduces_rows(const Nest& nest, int stage);

}  // namespace lw::rules
