// `records annul | reinstate`: see records_annul.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "src/cli/common.h"
#include "src/cli/service/service.h"

namespace lw {

struct AnnulOptions {
  RemoteService service;
  WorkloadOptions workload;                // no words: of all
  Output output;
  std::string record, agent, actor, device, reason, cache = "warm";
  int64_t first = 0, last = 0;
  bool dry_run = false;
};

void add_annul_options(CliArguments app, AnnulOptions* options);
absl::StatusOr<int> annul(const AnnulOptions& options);
absl::StatusOr<int> reinstate(const AnnulOptions& options);

}  // namespace lw
