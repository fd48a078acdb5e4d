// The service's numbers, each beside its bar, one after the other on this machine.
//   lw_service_bench [--rows synchronize,lookup] [--folder DIR] [--json FILE] ...
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "bench/service/rows.h"
#include "src/base/check.h"

namespace lw {

double percentile(std::vector<double>& values, double share) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size()))];
}

void ServiceReport::add(const std::string& row, const std::string& what, double measured,
                        double bar, const std::string& unit, bool at_least) {
  nlohmann::ordered_json entry = {{"row", row}, {"what", what}, {"measured", measured},
                                  {"unit", unit}};
  std::string verdict;
  if (bar != 0) {
    const bool met = at_least ? measured >= bar : measured < bar;
    all_met_ = all_met_ && met;
    entry["bar"] = bar;
    entry["met"] = met;
    verdict =
        absl::StrFormat("%s %10.5g   %s", at_least ? ">=" : "< ", bar, met ? "met" : "MISSED");
  }
  document_.push_back(entry);
  if (quiet_) return;
  std::printf("%-11s  %-58s %11.5g %-5s %s\n", row.c_str(), what.c_str(), measured, unit.c_str(),
              verdict.c_str());
  std::fflush(stdout);
}

namespace {

struct Row {
  const char* name;
  void (*run)(const ServiceBenchOptions&, ServiceReport&);
};
constexpr Row kRows[] = {{"synchronize", bench_synchronize}, {"beside", bench_beside},
                         {"results", bench_results},         {"lookup", bench_lookup},
                         {"snapshot", bench_snapshot},       {"withdrawn", bench_withdrawn},
                         {"tuning", bench_tuning},           {"memory", bench_memory},
                         {"startup", bench_startup}};

int run(int argc, char** argv) {
  ServiceBenchOptions options;
  options.loopwright =
      (std::filesystem::canonical("/proc/self/exe").parent_path() / "loopwright").string();
  options.folder = (std::filesystem::temp_directory_path() / "lw_service_bench").string();
  std::vector<std::string> rows;
  std::string json;
  CLI::App app("Measures the tuning service.");
  app.add_option("--rows", rows, "only these: synchronize, beside, results, lookup, snapshot, "
                                 "withdrawn, tuning, memory, startup")->delimiter(',');
  app.add_option("--folder", options.folder, "databases and logs; the one of a million "
                                             "measurements is kept and used again")
      ->capture_default_str();
  app.add_option("--loopwright", options.loopwright, "the binary")->capture_default_str();
  app.add_option("--seconds", options.seconds, "of each timed stretch")->capture_default_str();
  app.add_option("--agents", options.agents)->capture_default_str();
  app.add_option("--connections", options.connections, "of the simulated agents; 0: one each");
  app.add_option("--measurements", options.measurements)->capture_default_str();
  app.add_option("--keys", options.keys)->capture_default_str();
  app.add_option("--shapes", options.shapes, "of the largest family")->capture_default_str();
  app.add_option("--trials", options.trials, "of a tuning run")->capture_default_str();
  app.add_option("--repeats", options.repeats, "tuning runs of each kind")->capture_default_str();
  app.add_option("--json", json, "a file for the table; '-': stdout, and no text");
  CLI11_PARSE(app, argc, argv);
  options.shapes = std::min(options.shapes, options.keys);
  std::filesystem::create_directories(options.folder);
  ServiceReport report(json == "-");
  for (const std::string& name : rows) {
    const bool known = std::any_of(std::begin(kRows), std::end(kRows),
                                   [&](const Row& row) { return row.name == name; });
    if (!known) return std::fprintf(stderr, "--rows: no row '%s'\n", name.c_str()), 2;
  }
  for (const Row& row : kRows) {
    if (rows.empty() || std::count(rows.begin(), rows.end(), row.name) > 0)
      row.run(options, report);
  }
  if (json == "-") std::puts(report.document().dump(2).c_str());
  else if (!json.empty()) std::ofstream(json) << report.document().dump(2) << "\n";
  return report.all_met() ? 0 : 1;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) { return lw::run(argc, argv); }
