// What is said of a kernel: that it failed, and of its errors which inputs showed them, how large they
// are and where.
#pragma once

#include <string>

#include "src/measure/judge/verify.h"
#include "src/measure/workers/workbench.h"
#include "src/measure/workers/worker_link.h"
#include "src/search/measurer.h"

namespace lw {

// A candidate whose request failed; whose results are wrong; whose times its own process has made up.
// All give false.
bool fail(const Answer& answer, Outcome* outcome);
bool wrong(const std::string& detail, Outcome* outcome);
bool forged(const std::string& detail, Outcome* outcome);

// The median of its samples and the interval. And none of these, nor verified.
void summarize(Outcome* outcome);
void forget_times(Outcome* outcome);

// A failure and the inputs that showed it, where they are not the natural ones.
std::string on_inputs(int set, const std::string& detail);

// Keeps the check's worst element in the outcome if it is worse than what is there.
void note_error(const Check& check, Outcome* outcome);

// That element as the `error` of an Environment; "" where all was exact.
std::string error_json(const Outcome& outcome);

// Of the points of a set, those whose value is known; why not all natural ones are or can be judged,
// "" if they are.
int64_t count_known(const Workbench& bench, int set);
std::string what_oracle_lacks(const Workbench& bench);

// Asks the oracle for single elements on the inputs of a set. REQUIRES: `bench` outlives it.
Appeal appeal_to_oracle(const Workbench& bench, int set);

}  // namespace lw
