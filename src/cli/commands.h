// The commands. Presence of src/cli/local/NAME.cc or src/cli/remote/NAME.cc is registration
// (function lw::NAME_commands()): each has one command or some that are near to each other, and
// nothing else; what they share stands in the other folders.
#pragma once

#include <functional>
#include <vector>

#include "src/cli/common.h"

namespace lw {

// What runs once the options are parsed. The status of a failed run becomes an exit code by
// exit_code().
using Action = std::function<absl::StatusOr<int>()>;
struct Command {
  const char* name;
  const char* help;
  Action (*declare)(CliArguments app);     // its options
};
struct CommandGroup {
  int place;                               // in the list of the help, by itself: the least first
  std::vector<Command> commands;           // in their order there
};

// All of them, sorted by folder and name (generated table).
const std::vector<const CommandGroup*>& lw_command_table();

}  // namespace lw
