// The Measurer of a GPU that is not here: candidates are built, the assembler included, and a number
// of each best one's groups are run on the emulator of many threads, which finds races, accesses out
// of bounds and items that part at barriers, and whose results both oracles' reference judges. The
// time is the cost model's estimate (Candidate::draft_us), and says so: TimeKind::kEstimated,
// "estimated":true in the environment, with what the assembler found.
#pragma once

#include <memory>

#include "src/measure/workers/options.h"
#include "src/search/measurer.h"

namespace lw {

struct Program;
struct Target;

// Of `options`: seed, builders, points, oracle_budget_s. A kernel of several launches is emulated whole,
// if that takes no more than some 10^8 operations of lanes; what takes more is not, and its outcome
// not `verified`. REQUIRES: candidates carry draft_us > 0 (others are kBuildError);
// program and target outlive the Measurer.
std::unique_ptr<Measurer> make_estimating_measurer(const Program& program, const Target& target,
                                                   const LocalOptions& options);

}  // namespace lw
