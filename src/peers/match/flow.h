// What a program does to one tensor, the source: which dimensions stay apart, which are reduced
// together, and the function from the source's values to the results. Recognition by value instead
// of by form: 0.5 * x * (1 + erf(x / sqrt 2)) is GELU however it is written.
#pragma once

#include <optional>
#include <vector>

#include "src/expr/expr.h"

namespace lw {

// Every tensor that depends on the source, and every parameter that it meets, has its dimensions
// labelled by the source's dimension of which it is the same index.
struct Flow {
  int source = -1, output = -1;
  std::vector<std::vector<int>> labels;    // per tensor, per dimension; empty: not involved
  std::vector<int> parameters;             // other inputs that are read, in order of occurrence
  std::vector<int> reduced;                // labels reduced by every reduction, ascending; or none
  int64_t group = 1;                       // elements that are reduced together
};

// Null when some index is more than a bare axis, reductions differ in their dimensions, or there is
// more than one output.
std::optional<Flow> trace_flow(const Program& program, int source);

// True when `tensor` varies along all reduced labels (it has `group` values), false when along
// none; null in between.
std::optional<bool> varies(const Program& program, const Flow& flow, int tensor);

// The output's values for one group: `inputs[t]` holds the values of the source and of parameters.
// One value, or `group` of them; NaN where a value is not a function of the inputs alone.
std::vector<double> run_flow(const Program& program, const Flow& flow,
                             std::vector<std::vector<double>> inputs);

}  // namespace lw
