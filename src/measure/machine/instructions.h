// The third limit of a program's time, beside its multiply-adds and its bytes: the instructions
// that it must execute at all.
//
// Additions, products, multiply-adds and comparisons may share the machine's vector pipes or have
// some of their own, so they are judged together: a loop of them in the program's own proportions
// is measured (the bandwidth's mix of reads and writes is found likewise). What takes many
// instructions or a unit of its own (quotients, roots, exp, tanh, erf, log, pow, loads at places
// that data says) is judged by a loop of it alone, over operands in the nearest cache. Each is a
// limit for itself, and the largest counts: how far two overlap is not known.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/targets/target.h"
#include "src/expr/work/work.h"

namespace lw {

// So many elements, each of which takes all of these.
struct InstructionMix {
  std::string name;                        // "add 2, multiply-add 1, f32", "exp f32", "gather"
  Type type = Type::kF32;                  // f32, f64 or i32: what it is computed in
  // How many of each, at most 8 together; one of one for a mix of its own.
  struct Part {
    ExprOp op = ExprOp::kAdd;
    bool adds = false;                     // a kMul that adds its product
    int count = 1;
  };
  std::vector<Part> parts;                 // empty: a gathered element
  double elements = 0;
};

// The program's, where they are no multiply-adds alone (the peak judges those). Never more elements
// than are required: what a mix of few small numbers does not cover is left out, narrow integers
// count as the share of a 32-bit lane that they fill, and products that one of the target's
// instructions adds several of to a lane count as that.
std::vector<InstructionMix> instruction_mixes(const Work& work, const Target& target);

// 1e9 elements a second, all threads together. Takes about `budget_s` and, the first time, 50 ms of
// building. Thread-safe.
absl::StatusOr<double> measure_instruction_rate(const Target& target, const InstructionMix& mix,
                                                int threads, double budget_s);
// The same by the target's data and its costs of operations (schedules/costs.h).
double nominal_instruction_rate(const Target& target, const InstructionMix& mix, int threads);

}  // namespace lw
