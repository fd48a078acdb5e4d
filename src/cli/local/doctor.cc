#include "src/measure/machine/doctor.h"

#include "absl/strings/str_format.h"
#include "schedules/targets/target.h"
#include "src/cli/commands.h"
#include "src/measure/local.h"

namespace lw {
namespace {

struct DoctorOptions {
  std::string target = "host";
  bool quick = false;
  Output output;
};

Table as_table(const DoctorReport& report) {
  Table table{{"what", "threads", "value", "unit"}, {}, {}};
  for (const DoctorReport::Peak& peak : report.peaks) {
    table.rows.push_back({concat("peak ", type_name(peak.type)), concat(peak.threads),
                          number(peak.gflops), "GFLOP/s"});
  }
  for (const DoctorReport::Level& level : report.levels) {
    for (const auto& [what, rate] : {std::pair<const char*, double>{"read", level.read},
                                     {"write", level.write}, {"copy", level.copy}}) {
      table.rows.push_back(
          {concat(level.name, " ", what), concat(level.threads), number(rate), "GB/s"});
    }
  }
  table.rows.push_back({"noise", "1", absl::StrFormat("%.5f", report.noise), ""});
  table.rows.push_back(
      {"timer resolution", "1", absl::StrFormat("%.3g", report.timer_resolution_s), "s"});
  return table;
}

absl::StatusOr<int> run_driven(const Target& target, const Output& output) {
  const absl::StatusOr<DrivenReport> report = probe_driven(target);
  if (!report.ok()) return environment(report.status());
  Json figures = Json::array();
  Table table{{"what", "value", "unit"}, {}, {false, true, false}};
  std::string text = concat(report->device, "\n  driver ", report->driver, "\n");
  for (const DrivenReport::Figure& figure : report->figures) {
    figures.push_back({{"what", figure.what}, {"value", figure.value}, {"unit", figure.unit}});
    table.rows.push_back({figure.what, number(figure.value), figure.unit});
    absl::StrAppendFormat(&text, "  %-24s %10s %s\n", figure.what, number(figure.value), figure.unit);
  }
  Json facts = Json::object();
  for (const auto& [what, said] : report->facts) {
    facts[what] = said;
    table.rows.push_back({what, said, ""});
    absl::StrAppendFormat(&text, "  %-24s %s\n", what, said);
  }
  Json json = {{"device", report->device}, {"driver", report->driver}, {"figures", figures},
               {"facts", facts}};
  if (report->took_s > 0) {
    json["took_s"] = report->took_s;
    json["kept"] = report->problem.empty();
    absl::StrAppendFormat(&text, "  measured in %.1f s, ", report->took_s);
    text += report->problem.empty() ? "and kept: `targets` and searches have constants of it\n"
                                    : concat("but not kept: ", report->problem, "\n");
  }
  emit(output, json, table, text);
  return kDone;
}

absl::StatusOr<int> run_doctor(const DoctorOptions& options) {
  absl::StatusOr<std::shared_ptr<const Target>> named = load_target(options.target);
  if (!named.ok()) return absl::InvalidArgumentError(named.status().message());
  const std::shared_ptr<const Target> target = *named;
  if (!is_simulated(*target) && check_driven(*target).ok()) {
    return run_driven(*target, options.output);
  }
  ASSIGN_OR_RETURN(const Target host, find_target("host"));
  const std::string missing = missing_feature(*target, host);
  if (!missing.empty()) return absl::NotFoundError(concat("this machine lacks ", missing));
  ASSIGN_OR_RETURN(const DoctorReport report, doctor(*target, options.quick));
  emit(options.output, Json::parse(to_json(report)), as_table(report), to_text(report));
  return kDone;
}

Action declare_doctor(CliArguments app) {
  auto options = std::make_shared<DoctorOptions>();
  app.add_option("--target", options->target,
                 "whose instructions to measure with; opencl:NUMBER, opencl:NAME, cuda:NUMBER or "
                 "cuda:NAME: which of a driver's devices")
      .capture_default_str();
  app.add_flag("--quick", options->quick, "about a second");
  add_output(app, &options->output);
  return [options] { return run_doctor(*options); };
}

}  // namespace

const CommandGroup& doctor_commands() {
  static const CommandGroup group = {190, {
      {"doctor", "what this machine can do, and how noisy it is", declare_doctor},
  }};
  return group;
}

}  // namespace lw
