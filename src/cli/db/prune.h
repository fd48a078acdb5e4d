// `db prune`: see prune.cc.
#pragma once

#include "absl/status/statusor.h"
#include "src/cli/common.h"
#include "src/serve/rows/retention.h"

namespace lw {

struct PruneOptions {
  int keep = 10;
  double days = 30;
  Retention retention = {0, 0, 0, 0, 0, 0};  // what is not asked for stays
  bool measurements = false;               // asked for: --keep or --days were given
  bool dry_run = false;
};

void add_prune(CliArguments app, PruneOptions* options);
absl::StatusOr<int> prune(const DatabaseFlags& database, const PruneOptions& options,
                          const Output& output);

}  // namespace lw
