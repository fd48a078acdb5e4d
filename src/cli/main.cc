// The command line: finds the command, parses its options, runs it, turns its end into an exit
// code.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>

#include "CLI/CLI.hpp"
#include "src/cli/commands.h"
#include "src/cli/interrupt.h"
#include "tuner_db/postgres/postgres_url.h"

namespace lw {
namespace {

// The names that a word which nobody knew may have meant: options, else subcommands.
std::string hint_for(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  if (!word.empty() && word[0] == '-') {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  }
  const std::string near = nearest_name(word.substr(0, word.find('=')), names);
  return near.empty() ? "" : concat("; did you mean '", near, "'?");
}

// The innermost command that was recognized: its options are the ones to hint at.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  std::string message = error.what();
  const std::vector<std::string> extra = command.remaining();
  const bool unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const bool lacks_command = command.get_require_subcommand_min() > 0;
  if (lacks_command && extra.empty()) {
    message = "no command is given";
  } else if (lacks_command) {
    message = concat("unknown command '", extra.front(), "'", hint_for(command, extra.front()));
  } else if (unknown && !extra.empty()) {
    message = concat("unknown argument '", extra.front(), "'", hint_for(command, extra.front()));
  }
  std::cerr << "loopwright: " << message << "\n"
            << "Run `loopwright " << (&command == &app ? "" : command.get_name() + " ")
            << "--help` for what there is.\n";
  return kBadRequest;
}

int finish(const absl::StatusOr<int>& result) {
  errno = 0;
  std::cout.flush();
  // A reader that has seen enough (EPIPE) is no failure.
  if (result.ok() && !std::cout && errno != EPIPE) {
    std::cerr << "loopwright: the results could not be written\n";
    return kEnvironmentFailed;
  }
  if (result.ok()) return *result;
  const int code = exit_code(result.status());
  std::string message(result.status().message());
  while (!message.empty() && message.back() == '\n') message.pop_back();
  // Diagnostics of a file begin with its name; everything else with ours.
  const bool diagnostic = message.find(": error: ") != std::string::npos;
  std::cerr << (diagnostic ? "" : "loopwright: ") << message << "\n";
  if (code == kOurBug) std::cerr << "This is a bug in Loopwright.\n";
  return code;
}

int main(int argc, char** argv) {
  exit_on_abort();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);                // a file over its limit is an error of the write
  std::ios::sync_with_stdio(false);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (holds_password(word) || (word.starts_with("--db=") && holds_password(word.substr(5)))) {
      std::cerr << "loopwright: a password on the command line is there for every user of this "
                   "machine to read: put it into the file that PGPASSFILE names, or ~/.pgpass, as "
                   "HOST:PORT:DATABASE:USER:PASSWORD with mode 0600, and leave it out of the "
                   "address\n";
      return kBadRequest;
    }
  }
  CLI::App app("Loopwright finds fast kernels for tensor expressions.", "loopwright");
  app.set_version_flag("--version", "loopwright " LOOPWRIGHT_VERSION);
  app.require_subcommand(1);
  app.fallthrough(false);
  std::vector<std::pair<CLI::App*, Action>> actions;
  std::vector<const CommandGroup*> groups = lw_command_table();
  std::ranges::sort(groups, {}, &CommandGroup::place);
  for (const CommandGroup* group : groups) {
    for (const Command& command : group->commands) {
      CLI::App* sub = app.add_subcommand(command.name, command.help);
      actions.emplace_back(sub, command.declare(CliArguments(sub)));
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  for (const auto& [sub, action] : actions) {
    if (sub->parsed()) return finish(action());
  }
  return kBadRequest;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) { return lw::main(argc, argv); }
