// Our side on an OpenCL device, through what a user has: `tune` and `export`, and what they write.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "bench/tuner.h"
#include "src/build/simt/program.h"
#include "src/measure/simt/opencl_call.h"

namespace lw {

// Tunes the case on the target and exports its best: the program and what `tune` said.
struct DeviceTuned {
  SimtProgram program;
  nlohmann::json tuning;
};
absl::StatusOr<DeviceTuned> tune_on_device(const TunerOptions& options, const BenchCase& one);

// Ready to be enqueued, on these inputs.
absl::StatusOr<std::unique_ptr<OpenClCall>> load_call(OpenClSession* session, SimtProgram program,
                                                      void* const* arguments);

}  // namespace lw
