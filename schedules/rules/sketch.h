// What rules are made of: facts about accesses, and a trace under construction. Internal to schedules/rules.
#pragma once

#include <string>
#include <vector>

#include "schedules/steps.h"

namespace lw::rules {

// A sketch being written: every step is applied to `nest` as it is added, so later rules see the stages
// and loops that exist. Steps with an open decision are applied with the middle of their domain.
struct Draft {
  Nest nest;
  Sketch sketch;
  bool failed = false;                     // a fixed step did not apply: the rule does not fit here
};

void fixed(Draft& draft, std::string_view kind, std::vector<std::string> names, Decision numbers = {});
// `numbers`: what the step's domain needs to know (its shape); replaced by the draw.
void open(Draft& draft, std::string_view kind, std::vector<std::string> names, Decision numbers = {});

// One read of a tensor in a stage's effective body: how each of the tensor's axes moves its address.
struct Access {
  int tensor;
  std::vector<int64_t> stride;             // elements per step of each TENSOR axis (spatial ++ reduction)
  bool affine = true;                      // false: gathered or divided; strides are then 0 or guesses
  bool guarded = false;                    // under a pad or a where: may be outside its tensor
};
std::vector<Access> accesses(const Nest& nest, int stage);

bool uses(const Access& access, int axis);
// Whether several points of the result read the same element: some axis of it does not move the access.
bool reused(const Tensor& result, const Access& access);
bool is_map(const Nest& nest, int stage);  // no reduction
// Estimated vector instructions of the stage's body, per point.
double body_cost(const Nest& nest, int stage);
// Whether every read of `tensor` in the stage is at the stage's first `dims` axes, in order.
bool reads_at_prefix(const Nest& nest, int stage, int tensor, int dims);
// A reduction some operand of which serves several points of the result: worth a register tile.
bool has_reuse(const Nest& nest, int stage);

// The rules: each appends what schedules one stage (and what is attached to it).
void tile_reduction(Draft& draft, int stage, bool vector_reduction);
void tile_map(Draft& draft, int stage);

}  // namespace lw::rules
