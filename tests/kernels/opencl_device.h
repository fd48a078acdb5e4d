// A device's driver in this process, and kernels that it runs.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/build/simt/backend.h"
#include "src/measure/simt/opencl_call.h"
#include "src/measure/simt/opencl_session.h"
#include "src/measure/simt/opencl_target.h"
#include "tests/kernels/opencl_draws.h"

namespace lw {

// Tests are skipped where there is none.
struct OnDevice {
  std::shared_ptr<const Target> target;
  std::unique_ptr<OpenClSession> session;
  std::string lacks;
};

// `which`: as find_opencl_device() has it. PoCL 3.1 copies the code of groups of few items, unless it
// is told otherwise, and dies of an assertion where that has certain loops around a barrier: a search
// loses such a candidate, a test would lose itself. `loopvec` compiles a few kernels wrongly.
inline OnDevice open_device(const std::string& which) {
  setenv("POCL_WORK_GROUP_METHOD", "loops", /*overwrite=*/0);
  OnDevice d;
  const absl::StatusOr<OpenClDevice> found = find_opencl_device(which);
  absl::StatusOr<Target> target = opencl_target(which);
  if (!found.ok() || !target.ok()) {
    d.lacks = found.ok() ? target.status().ToString() : found.status().ToString();
    return d;
  }
  absl::StatusOr<std::unique_ptr<OpenClSession>> session = OpenClSession::open(*found);
  if (!session.ok()) {
    d.lacks = session.status().ToString();
    return d;
  }
  d.target = std::make_shared<const Target>(*std::move(target));
  d.session = *std::move(session);
  return d;
}

// The outputs of a call, of so many bytes, of which all that is to be written began as poison.
// `options`: for the driver's compiler, beside the program's.
inline absl::StatusOr<std::vector<Data>> run_on(OnDevice& device, const Kernel& kernel,
                                                const std::vector<int64_t>& out,
                                                const std::vector<Data>& in,
                                                const std::string& options = "") {
  OpenClSession& session = *device.session;
  ASSIGN_OR_RETURN(const Artifact artifact, opencl_backend().build(kernel, *device.target));
  ASSIGN_OR_RETURN(SimtProgram code, parse_simt_program(artifact.bytes));
  code.options += options;
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenClCall> call, OpenClCall::load(&session, code));
  CallMemory memory(in, out);
  RETURN_IF_ERROR(call->write_inputs(memory.pointers.data()));
  RETURN_IF_ERROR(call->enqueue_prepack());
  RETURN_IF_ERROR(call->enqueue());
  RETURN_IF_ERROR(session.finish());
  RETURN_IF_ERROR(call->read_outputs(memory.pointers.data()));
  ASSIGN_OR_RETURN(const bool intact, call->intact());
  if (!intact) return absl::DataLossError("wrote beside an output");
  return memory.results();
}

}  // namespace lw
