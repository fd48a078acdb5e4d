// From a nest to a kernel: the program that one schedule yields.
//
// Everything static is decided here. Extents are constants, so every partial tile becomes an
// instance of the loop body of its own with its exact extents (Tail::kCompose), and no checks
// remain at run time; addresses become affine in loop variables; reductions become registers.
// Takes about a tenth of a millisecond for a GEMM. Thread-safe, deterministic.
#pragma once

#include "absl/status/statusor.h"
#include "schedules/nest.h"
#include "src/kernel/kernel.h"

namespace lw {

// kFailedPrecondition ("infeasible: ..."): what only shows here, such as a body too large after
// unrolling (over `max_statements`) or a workspace over the limit.
struct LowerOptions {
  int64_t max_statements = 16000;         // times more for programs of many stages, or large ones
  int64_t max_workspace_bytes = int64_t{1} << 32;
  bool async_copies = false;              // the family's to set: copies in slots go on their way
};
absl::StatusOr<Kernel> lower(const Nest& nest, const LowerOptions& options = {});

// About how many statements the unrolled program has: a count that leaves some out (what guards and
// prefetches need). For draws that lower() would find too large (the same error), and for how long
// a program takes to build: a small part of the 12 to 45 ms that lowering a large one takes, and
// about 15 us of a GEMM's.
absl::StatusOr<int64_t> count_statements(const Nest& nest, const LowerOptions& options = {});

}  // namespace lw
