// `model gather`: what the shipped model is trained on.
#pragma once

#include <string>

#include "src/cli/common.h"

namespace lw {

struct GatherOptions {
  int first = 0, tasks = 300;
  double seconds = 1e9;
  uint64_t seed = 1;
  int uniform = 24, searched = 8, guided = 0;  // programs a task
  std::string model = "shipped";           // of the guided ones
  int threads = 2;                         // of the tasks that have more than one
  std::vector<std::string> lesser;         // targets that some tasks are for
  std::vector<std::string> targets;        // for which all tasks are, in turns; empty: this machine
  std::string file = "data.lwd", objects;
  bool build_only = false;
};
void add_gather(CliArguments app, GatherOptions* options);
// Adds to the file what it lacks; the same command goes on where it was interrupted.
absl::StatusOr<int> gather(const GatherOptions& options, const Output& output);

}  // namespace lw
