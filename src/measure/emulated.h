// The emulated Measurer: kernels of an architecture that this machine is not are built here, run
// under an emulator and verified with the same oracles as local ones. An emulator's clock says
// nothing about the processor, so no time is taken: the time of a candidate is the cost model's
// analytic estimate for the target (Candidate::draft_us), with no samples' spread, and every
// outcome's environment says "emulated":true, "estimated":true. A study on such a device therefore
// ends with verified kernels, ranked by the analytic model.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "src/measure/local.h"

namespace lw {

struct Program;
struct Target;

// As make_local_measurer; options.cache has no effect, options.threads are workers that one thread
// of the emulator plays in turn, options.run_timeout_s bounds the emulated run (its default here:
// kEmulatedRunTimeout where the caller left the local one).
//
// A candidate that is behind its incumbent is built and not run. REQUIRES: candidates carry
// draft_us > 0 (others are kBuildError). kNotFound: no emulator or no runner for the target's
// architecture (find_emulator says what is missing).
absl::StatusOr<std::unique_ptr<Measurer>> make_emulated_measurer(const Program& program,
                                                                 const Target& target,
                                                                 const LocalOptions& options);

constexpr double kEmulatedRunTimeout = 120;

}  // namespace lw
