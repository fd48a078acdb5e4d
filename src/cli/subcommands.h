// A command with commands of its own, which share its options: the one that was named runs.
#pragma once

#include <memory>

#include "src/cli/commands.h"

namespace lw {

template <class Options>
struct Subcommands {
  using Run = absl::StatusOr<int> (*)(const Options&);
  std::shared_ptr<Options> options = std::make_shared<Options>();
  std::shared_ptr<Run> chosen;

  // `usual` runs where none was named; null: one must be.
  Subcommands(CliArguments app, Run usual) : chosen(std::make_shared<Run>(usual)) {
    if (usual == nullptr) app.require_command();
  }
  CliArguments add(CliArguments app, const char* name, const char* help, Run run) {
    CliArguments sub = app.add_command(name, help);
    sub.callback([chosen = chosen, run] { *chosen = run; });
    return sub;
  }
  Action action() const {
    return [options = options, chosen = chosen] { return (*chosen)(*options); };
  }
};

}  // namespace lw
