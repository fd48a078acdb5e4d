// Steps and traces: the currency of the project. A Step is a plain value: a kind, names (stage, loops,
// tensors) and numbers (its decision). A Trace is a list of steps applied to the unscheduled nest. Text
// form, one step a line:  kind(name, name; number, number)  e.g.  split(C, i; 5, 6, 0).
// Kinds with a version above 1 print as kind@version; reading refuses other versions naming both.
//
// Each kind declares the domain of its decision as a function of the nest so far, so one generic
// sampler, mutator and crossover serve all. A trace that does not apply is a value
// (kFailedPrecondition, "infeasible: why"), never an exception and never logged.
// Presence of schedules/steps/NAME.cc is registration (function lw::NAME(), identifier in traces).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "schedules/nest.h"
#include "schedules/targets/family.h"

namespace lw {

class Rng;

struct Program;

using Decision = absl::InlinedVector<int64_t, 6>;

struct StepKind;
struct Step {
  const StepKind* kind = nullptr;
  absl::InlinedVector<std::string, 3> names;
  Decision numbers;
};
using Trace = std::vector<Step>;

struct StepKind {
  const char* name;
  int version;
  // Rewrites `nest`; on a failure status `nest` may be half changed and must be discarded.
  absl::Status (*apply)(Nest& nest, const Step& step);
  // Decisions that `step` may take here (usually all feasible), in an order in which neighbours are
  // similar. Empty: the step has no decision, its numbers are fixed. May be null.
  std::vector<Decision> (*domain)(const Nest& nest, const Step& step);
  // Of the targets that it applies to, whose part it may read; null: of all.
  const char* family = kRegisterMachines;
};

// All kinds, sorted by name (generated table).
const std::vector<const StepKind*>& lw_step_table();
const StepKind* find_step(std::string_view name);

std::string to_text(const Step& step);
std::string to_text(const Trace& trace);                     // one step a line
absl::StatusOr<Trace> parse_trace(std::string_view text);    // kInvalidArgument with line and column
// What is well formed but of another version of this program: its first step that this one does not
// know, "tile_again" or "split@3"; "" for all other texts.
std::string unknown_step(std::string_view text);

// Applies one step / a whole trace. The failing step's text is in the message of replay.
absl::Status apply(Nest& nest, const Step& step);
absl::StatusOr<Nest> replay(const Nest& start, const Trace& trace);

// A sketch is a trace whose decisions are to be drawn: the shape of a schedule. `open[i]`: step i's
// numbers are drawn from its domain (otherwise they are fixed as they stand).
struct Sketch {
  std::string name;
  Trace steps;
  std::vector<bool> open;
  // What the steps before the first open one make of the nest that the space was made for: every
  // draw begins with them, and there may be hundreds. Null: nothing is known.
  struct Settled {
    std::shared_ptr<const Program> program;  // of that nest
    Nest nest;
    size_t steps = 0;
  };
  std::shared_ptr<const Settled> settled;
  bool last_resort = false;                // see last_resort()
};

struct Sample {
  Trace trace;
  Nest nest;
};

// Draws every open decision uniformly from its domain, in order; in every other sample a decision
// whose domain is that of the latest like step, of another stage, is the same. Infeasible when a
// domain is empty or a step fails.
absl::StatusOr<Sample> sample(const Nest& start, const Sketch& sketch, Rng& rng);

// Redraws one open decision (uniformly, or a neighbour in the domain's order with probability 1/2) and
// replays; later decisions that no longer lie in their domains are replaced by the nearest that do.
absl::StatusOr<Sample> mutate(const Nest& start, const Sketch& sketch, const Trace& parent, Rng& rng);

// Each open decision from either parent, repaired as above. REQUIRES: both of this sketch.
absl::StatusOr<Sample> cross(const Nest& start, const Sketch& sketch, const Trace& a, const Trace& b,
                             Rng& rng);

// All traces that differ from `parent` in one open decision moved to a neighbour (coordinate descent).
std::vector<Sample> neighbours(const Nest& start, const Sketch& sketch, const Trace& parent);

// A trace of another workload, its decisions repaired to this one's domains: warm starts.
absl::StatusOr<Sample> adapt(const Nest& start, const Sketch& sketch, const Trace& foreign);

// What a rule meant to do and could not.
struct Refusal {
  std::string sketch;                      // its name
  bool whole = false;                      // it is not in the space; else only this part is left out
  std::string why;                         // the step, and why it does not apply
};

// The space: sketches that the rules (schedules/rules/) yield for the program on the target. Never
// empty: where no rule's sketch holds it is the last resort. `refusals`: if not null, what is not in
// the space and why.
std::vector<Sketch> make_space(const Nest& start, std::vector<Refusal>* refusals = nullptr);

// Every stage at the root on its own, its innermost loops tiled and vectorized, whatever it is. For
// where make_space() has nothing that can be lowered.
Sketch last_resort(const Nest& start);

// Whether the trace is one that the sketch stands for: its steps, with any numbers in the open ones.
bool is_of(const Sketch& sketch, const Trace& trace);

// Product of domain sizes along a sample path (estimate), for `space`.
double estimate_size(const Nest& start, const Sketch& sketch, Rng& rng);

}  // namespace lw
