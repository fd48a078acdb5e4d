// Programs of many stages by their parts: what shares no loops can be searched on its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/steps.h"
#include "src/expr/expr.h"

namespace lw {

// A program's definitions that are computed together, as a program of its own. Its names say only
// where they stand, so that parts which differ in names alone are one program.
struct Part {
  Program program;                         // inputs: what others compute or are given
  std::map<std::string, std::string> names;  // of its tensors and axes, in the whole
};

// The parts of a scheduled program, in the order in which they run: for each stage at the root what
// stands at its loops, runs on its tile or is evaluated inside of it; the latter may be in several
// parts. `whole`: as it was written. None where the schedule has made tensors that no definition of
// the whole is, but for what it computes before maps, which is theirs.
std::vector<Part> parts_of(const Program& whole, const Nest& scheduled);

// The traces of all parts as one of the whole. Hints that do not apply there (a result that others
// read is stored past no cache) are left out; infeasible: another step does not.
absl::StatusOr<Trace> join_parts(const Nest& start, const std::vector<Part>& parts,
                                 const std::vector<Trace>& traces);

// A sketch of this one schedule: every step that has a choice is open. REQUIRES: the trace applies.
Sketch sketch_of(const Nest& start, const Trace& trace);

}  // namespace lw
