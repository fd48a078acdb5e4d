#include "src/cli/failing_case.h"

#include <filesystem>

#include "absl/strings/str_replace.h"
#include "cost_model/cost_model.h"
#include "schedules/targets/target.h"
#include "src/api/run/tune_task.h"
#include "src/base/clock.h"
#include "src/base/files.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/measure/local.h"

namespace lw {
namespace {

// What load_target() makes it of: the name, or all of a machine that a file described.
std::string given_as(const Target& target) {
  if (target.name == "host") return target.name;
  const absl::StatusOr<Target> named = find_target(target.name);
  const bool is_named = named.ok() && to_text(*named) == to_text(target);
  return is_named ? target.name : to_text(target);
}

constexpr double kRepeatSeconds = 600;     // a check of a kernel never takes that long

absl::StatusOr<std::string> read_text(const std::filesystem::path& file) {
  absl::StatusOr<std::string> text = read_file(file.string());
  if (text.ok()) return text;
  return absl::InvalidArgumentError(concat(std::string(text.status().message()),
                                           ": a case is a folder that `tune --keep-failing` wrote"));
}

absl::StatusOr<Outcome> check_once(const Task& task, const Choice& choice, uint64_t seed) {
  LocalOptions options;
  options.seed = seed;
  ASSIGN_OR_RETURN(const std::unique_ptr<Measurer> measurer, make_measurer(task, options));
  Candidate candidate;
  candidate.kernel = choice.kernel;
  candidate.race = false;
  candidate.verify = true;
  candidate.draft_us = draft_us(*choice.nest);
  measurer->submit({candidate});
  for (const double until = now() + kRepeatSeconds; now() < until;) {
    const std::vector<Outcome> outcomes = measurer->poll(1);
    if (!outcomes.empty()) return outcomes[0];
  }
  return absl::DeadlineExceededError("the kernel was not checked in ten minutes");
}

}  // namespace

absl::Status write_failing_cases(const Task& task, const std::vector<FailureClass>& failures,
                                 uint64_t seed, const std::string& folder) {
  for (const FailureClass& failure : failures) {
    const std::filesystem::path path =
        std::filesystem::path(folder) / absl::StrReplaceAll(failure.name, {{" ", "_"}});
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) {
      return absl::UnavailableError(concat("cannot make ", path.string(), ": ", error.message()));
    }
    const Measurement& example = failure.example;
    const Json facts = {{"workload", task.workload().source_words},
                        {"target", given_as(*task.target())},
                        {"threads", task.threads()},
                        {"winograd", task.start().winograd},
                        {"seed", seed},
                        {"class", failure.name},
                        {"verdict", std::string(verdict_name(example.verdict))},
                        {"detail", example.detail}};
    RETURN_IF_ERROR(write_file((path / "program.te").string(), print(*task.program())));
    RETURN_IF_ERROR(write_file((path / "schedule.txt").string(), example.trace));
    RETURN_IF_ERROR(write_file((path / "case.json").string(), facts.dump(2) + "\n"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> repeat_failing_case(const std::string& folder, const Output& output) {
  const std::filesystem::path path = folder;
  ASSIGN_OR_RETURN(const std::string text, read_text(path / "case.json"));
  const Json facts = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* name, Json::value_t type) {
    return facts.is_object() && facts.contains(name) && facts[name].type() == type;
  };
  if (!has("target", Json::value_t::string) || !has("workload", Json::value_t::string) ||
      !has("threads", Json::value_t::number_unsigned) || !has("detail", Json::value_t::string) ||
      !has("seed", Json::value_t::number_unsigned) || !has("winograd", Json::value_t::boolean) ||
      !has("verdict", Json::value_t::string)) {
    return absl::InvalidArgumentError(concat((path / "case.json").string(), " is no case"));
  }
  ASSIGN_OR_RETURN(const std::string source, read_text(path / "program.te"));
  ASSIGN_OR_RETURN(const std::string trace, read_text(path / "schedule.txt"));
  ASSIGN_OR_RETURN(Program program, parse_program(source, (path / "program.te").string()));
  TaskOptions options;
  options.target = facts["target"].get<std::string>();
  options.threads = facts["threads"].get<int>();
  options.winograd = facts["winograd"].get<bool>();
  ASSIGN_OR_RETURN(const Task task, make_task(std::move(program),
                                              facts["workload"].get<std::string>(), options));
  ASSIGN_OR_RETURN(const Choice choice, choose_trace(task, trace));
  ASSIGN_OR_RETURN(const Outcome outcome,
                   environment(check_once(task, choice, facts["seed"].get<uint64_t>())));
  const bool passes = outcome.verdict == Verdict::kOk;
  const std::string is(verdict_name(outcome.verdict)), was = facts["verdict"].get<std::string>();
  emit(output,
       {{"was", {{"verdict", was}, {"detail", facts["detail"]}}},
        {"is", {{"verdict", is}, {"detail", outcome.detail}}}},
       {{"verdict", "detail"}, {{is, outcome.detail}}, {}},
       concat("was  ", was, ": ", facts["detail"].get<std::string>(), "\nis   ", is,
              outcome.detail.empty() ? "" : ": " + outcome.detail, "\n"));
  return passes ? kDone : kNotValid;
}

}  // namespace lw
