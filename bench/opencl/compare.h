// One case on an OpenCL device: our kernel beside our CPU family's on the host, CLBlast on the same
// queue, and a copy of as many bytes, all in turn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/cases.h"
#include "bench/opencl/clblast.h"
#include "bench/tuner.h"
#include "nlohmann/json.hpp"
#include "src/measure/run/timing.h"
#include "src/measure/simt/opencl_session.h"

namespace lw {

struct DeviceResult {
  std::string row, name;
  double bytes = 0, flops = 0;             // that must be moved; useful
  Estimate time_us;                        // ours, of a call among many in the queue
  // Round by round, the other's time over ours: higher is better for us.
  std::optional<Estimate> over_cpu, over_clblast, over_copy;
  double copy_us = 0, clblast_us = 0, cpu_us = 0;
  std::string clblast_way;                 // the fastest
  double max_error = 0;                    // |error| over the admissible, on sampled points
  std::vector<std::string> wrong;          // others whose results were refused
  nlohmann::json tuning;                   // what `tune` said
};

struct DeviceCompareOptions {
  TunerOptions device, host;               // `device.target` is the OpenCL device
  int host_threads = 2;
  bool with_host = true;
  double budget_s = 3;                     // of interleaved samples
  const ClBlast* clblast = nullptr;        // may be null
  std::vector<std::string> clblast_folders;  // with its tuners' files, each for one product
};

absl::StatusOr<DeviceResult> compare_on_device(const BenchCase& one, OpenClSession* session,
                                               const DeviceCompareOptions& options);

nlohmann::json to_json(const DeviceResult& result);

}  // namespace lw
