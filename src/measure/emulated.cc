#include "src/measure/emulated.h"

#include "absl/strings/str_cat.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/measure/cpu/devices.h"
#include "src/measure/workers/workbench.h"

namespace lw {
namespace {

// That the emulator starts and that the runner speaks our version and is of the target's
// architecture.
absl::Status shake_hands(const Emulator& emulator, const Target& target) {
  absl::StatusOr<RunnerAnswer> answer =
      ask_runner(emulator, runner::Frame::kHello, "", /*timeout_s=*/30, int64_t{1} << 30);
  if (!answer.ok()) {
    return absl::UnavailableError(
        absl::StrCat(emulator.name, " does not run ", emulator.runner, ": ",
                     std::string(answer.status().message())));
  }
  const std::optional<runner::Greeting> greeting = runner::decode_greeting(answer->payload);
  if (answer->type != runner::Frame::kGreeting || !greeting ||
      greeting->machine != target.architecture) {
    return absl::UnavailableError(
        absl::StrCat(emulator.runner, " is no runner for ", target.architecture,
                     " of this version"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Measurer>> make_emulated_measurer(const Program& program,
                                                                 const Target& target,
                                                                 const LocalOptions& options) {
  ASSIGN_OR_RETURN(Emulator emulator, find_emulator(target));
  RETURN_IF_ERROR(shake_hands(emulator, target));
  LocalOptions mine = options;
  if (mine.run_timeout_s == LocalOptions().run_timeout_s) mine.run_timeout_s = kEmulatedRunTimeout;
  ASSIGN_OR_RETURN(std::unique_ptr<Workbench> bench,
                   make_workbench(program, target, mine, emulated_driver(std::move(emulator))));
  return start_measurer(std::move(bench));
}

}  // namespace lw
