// Tasks to learn from: operators of the library with random shapes, none of which is one that the
// benchmarks ask for. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "loopwright/program.h"
#include "src/learn/dataset.h"

namespace lw {

// Task `index` of the seed's sequence; every stretch of the sequence mixes all classes. On `host`
// with one or `threads` threads, or on one of the `lesser` targets.
TaskSpec draw_task(uint64_t seed, int index, int threads, const std::vector<std::string>& lesser);

// Task `index` of the seed's sequence for targets of this one's family, on this one, which is called
// `name`. kInvalidArgument: no operators of the family are known.
absl::StatusOr<TaskSpec> draw_task_on(uint64_t seed, int index, const std::string& name,
                                      const Target& target);

// Whether both run over the same number of loops, and each extent of one is within 10 % of the
// other's (in order of size; extents of 1 and what the axes are called do not count): the
// definition of most work decides.
bool resembles(const Program& a, const Program& b);

// What a training set must not hold, nor what resembles it: the suite and the other shapes that
// benchmarks publish.
const std::vector<Program>& withheld_programs();
bool is_withheld(const Program& program);

}  // namespace lw
