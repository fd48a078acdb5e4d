// Our OpenCL kernels beside CLBlast and a copy on the same device, and beside our CPU family on the
// host:
//   lw_opencl_bench [--device 0] [--rows gemm,copies] [--clblast FOLDER] [--json FILE] ...
// Prints a line per case as it goes, then every bar, met or missed; exits 1 when one is missed.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "bench/opencl/compare.h"
#include "src/base/clock.h"
#include "src/base/message.h"
#include "src/base/parallel_pool.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

struct Row {
  std::string id, what;
  std::vector<BenchCase> cases;
  double each_clblast = 0;                 // bars; 0: none
  double geomean_copy = 0, geomean_cpu = 0;
};

std::vector<Row> device_rows(int trials, double seconds) {
  Row gemm{"gemm", "matrix products beside CLBlast", {}, 3};
  for (const auto& [m, n, k] : {std::array{512, 512, 512}, {1024, 64, 2048}, {333, 555, 777}}) {
    gemm.cases.push_back({concat(m, "x", n, "x", k),
                          {"matmul", concat("M=", m), concat("N=", n), concat("K=", k)}});
  }
  Row copies{"copies", "what memory bounds, beside a copy of its bytes", {}, 0, 0.75};
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"softmax"}, {"softmax", "M=4096"}, {"layer_norm"}, {"layer_norm", "M=4096"},
           {"rms_norm", "M=1024"}, {"rms_norm", "M=4096"}, {"transpose"},
           {"transpose", "M=1000", "N=3000"}, {"transpose_heads", "S=1024"}, {"add"}, {"relu"},
           {"bias_add"}, {"elementwise_chain"}}) {
    std::string name;
    for (const std::string& word : words) name += (name.empty() ? "" : " ") + word;
    copies.cases.push_back({name, words});
  }
  Row library{"library", "operators of the library beside our CPU family", {}, 0, 0, 0.6};
  for (const OpDefinition& op : builtin_ops()) library.cases.push_back({op.name, {op.name}});
  std::vector<Row> rows = {gemm, copies, library};
  for (Row& row : rows) {
    for (BenchCase& one : row.cases) one.trials = trials, one.seconds = seconds;
  }
  return rows;
}

bool is_wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

std::string cell(const std::optional<Estimate>& e) {
  return e ? absl::StrFormat("%8.2f", e->median) : "       -";
}

void print_line(const DeviceResult& r) {
  const nlohmann::json& t = r.tuning;
  std::cout << absl::StrFormat(
                   "%-32s %11.1f %9.1f %8.1f %s %s %s %7.1f %5d %4d  %s", r.name,
                   r.time_us.median, r.flops / r.time_us.median / 1e3,
                   r.bytes / r.time_us.median / 1e3, cell(r.over_clblast), cell(r.over_cpu),
                   cell(r.over_copy), t.value("wall_s", 0.0), t.value("trials", 0),
                   t.value("failed", 0), r.clblast_way)
            << std::endl;
  for (const std::string& why : r.wrong) std::cout << "  refused: " << why << std::endl;
}

using DeviceFigure = std::optional<Estimate> DeviceResult::*;

// The geometric mean of a figure over the cases that have it; 0: none has.
double geomean(const std::vector<DeviceResult>& results, DeviceFigure figure) {
  double logs = 0;
  int count = 0;
  for (const DeviceResult& r : results) {
    if (r.*figure) logs += std::log((r.*figure)->median), ++count;
  }
  return count == 0 ? 0 : std::exp(logs / count);
}

double least(const std::vector<DeviceResult>& results, DeviceFigure figure) {
  double value = 0;
  for (const DeviceResult& r : results) {
    if (r.*figure && (value == 0 || (r.*figure)->median < value)) value = (r.*figure)->median;
  }
  return value;
}

struct Options {
  std::string device = "0", json_file, binary = "build/loopwright", folder = "build/bench_opencl";
  std::string clblast;
  std::vector<std::string> rows, cases;
  int trials = 80, host_threads = 2;
  double seconds = 40, host_seconds = 8, case_seconds = 3;
  bool without_host = false;
};

// `value` of 0: there is no figure, hence no bar.
bool judge_bar(const Row& row, const char* what, double value, double limit, nlohmann::json* log) {
  if (limit <= 0 || value <= 0) return true;
  const bool met = value >= limit;
  std::cout << absl::StrFormat("%s %s: %s %.3f, bar %.2f\n", met ? "met   " : "missed", row.id,
                               what, value, limit);
  log->push_back({{"row", row.id}, {"bar", what}, {"value", value}, {"limit", limit}});
  return met;
}

int run(const Options& o) {
  const std::vector<std::string> environment = own_environment();
  std::filesystem::create_directories(o.folder);
  const absl::StatusOr<OpenClDevice> device = find_opencl_device(o.device);
  if (!device.ok()) {
    std::cerr << device.status().message() << "\n";
    return 1;
  }
  absl::StatusOr<std::unique_ptr<OpenClSession>> session = OpenClSession::open(*device);
  if (!session.ok()) {
    std::cerr << session.status().message() << "\n";
    return 1;
  }
  const absl::StatusOr<ClBlast> clblast = ClBlast::load();
  std::cout << device->name << ", " << device->version << ", driver " << device->driver << "\n";
  if (!clblast.ok()) std::cout << clblast.status().message() << "\n";
  DeviceCompareOptions options;
  options.device = {o.binary, o.folder, o.seconds, allowed_cpus(), environment,
                    "opencl:" + o.device};
  options.host = options.device;
  options.host.seconds_cap = o.host_seconds;
  options.host.target.clear();
  options.host_threads = o.host_threads;
  options.with_host = !o.without_host;
  options.budget_s = o.case_seconds;
  options.clblast = clblast.ok() ? &*clblast : nullptr;
  std::error_code none;                    // without its tuners' files it is as it comes
  for (const auto& folder : std::filesystem::directory_iterator(o.clblast, none)) {
    options.clblast_folders.push_back(folder.path());
  }
  nlohmann::json log = {{"device", device->name}, {"driver", device->driver},
                        {"results", nlohmann::json::array()}, {"bars", nlohmann::json::array()}};
  int missed = 0, failed = 0;
  for (const Row& row : device_rows(o.trials, o.seconds)) {
    if (!is_wanted(o.rows, row.id)) continue;
    std::cout << "\n" << row.what << "\n"
              << absl::StrFormat("%-32s %11s %9s %8s %8s %8s %8s %7s %5s %4s\n", "", "us",
                                 "GFLOP/s", "GB/s", "/CLBlast", "/CPU", "/copy", "tune s", "tried",
                                 "bad");
    std::vector<DeviceResult> results;
    for (const BenchCase& one : row.cases) {
      if (!is_wanted(o.cases, one.name)) continue;
      absl::StatusOr<DeviceResult> result = compare_on_device(one, session->get(), options);
      if (!result.ok()) {
        std::cout << one.name << ": " << result.status().message() << std::endl;
        ++failed;
        continue;
      }
      result->row = row.id;
      print_line(*result);
      log["results"].push_back(to_json(*result));
      if (!o.json_file.empty()) std::ofstream(o.json_file) << log.dump(1) << "\n";
      results.push_back(*std::move(result));
    }
    const auto judged = [&](const char* what, double value, double limit) {
      missed += !judge_bar(row, what, value, limit, &log["bars"]);
    };
    judged("least over CLBlast", least(results, &DeviceResult::over_clblast), row.each_clblast);
    judged("geomean of the copy", geomean(results, &DeviceResult::over_copy), row.geomean_copy);
    judged("geomean of our CPU family", geomean(results, &DeviceResult::over_cpu),
           row.geomean_cpu);
  }
  if (!o.json_file.empty()) std::ofstream(o.json_file) << log.dump(1) << "\n";
  std::cout << "\n" << missed << " bars missed, " << failed << " cases without a result\n";
  return missed + failed > 0 ? 1 : 0;
}

void add_options(CLI::App* app, Options* o) {
  app->add_option("--device", o->device, "number or name, as in opencl:0");
  app->add_option("--rows", o->rows, "only these rows")->delimiter(',');
  app->add_option("--cases", o->cases, "only these cases")->delimiter(',');
  app->add_option("--trials", o->trials, "of a tune");
  app->add_option("--seconds", o->seconds, "of a tune on the device, at most");
  app->add_option("--host-seconds", o->host_seconds, "of a tune of our CPU family, at most");
  app->add_option("--host-threads", o->host_threads, "of our CPU family");
  app->add_option("--case-seconds", o->case_seconds, "of interleaved samples a case");
  app->add_option("--clblast", o->clblast, "folder with a folder of its tuners' files for each product");
  app->add_flag("--without-host", o->without_host, "not beside our CPU family");
  app->add_option("--json", o->json_file, "log of all results");
  app->add_option("--loopwright", o->binary, "the binary that tunes");
  app->add_option("--folder", o->folder, "for databases and exported kernels");
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  CLI::App app("our OpenCL kernels beside CLBlast, copies and our CPU family");
  lw::Options options;
  lw::add_options(&app, &options);
  CLI11_PARSE(app, argc, argv);
  return lw::run(options);
}
