// The table of the project: our kernels beside the vendor libraries and beside what the host can
// do.
//   lw_bench [--rows gemm,random] [--threads 1,2] [--seed N] [--json FILE] [--peers-only] ...
// Prints a line per case as it goes, then every bar, met or missed; exits 1 when one is missed.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/compare.h"
#include "bench/report.h"
#include "bench/tuner.h"
#include "schedules/targets/family.h"
#include "schedules/targets/target.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/measure/run/timing.h"
#include "src/peers/loader.h"

namespace lw {
namespace {

struct Options {
  std::string workloads = "bench/workloads", json_file, binary = "build/loopwright";
  std::string folder = "build/bench", target = "host", python = "build/bench/arrays/bin/python";
  std::vector<std::string> rows, cases, libraries = {"xla"};
  std::vector<int> threads = {1, 2};
  uint64_t seed = 1;
  bool peers_only = false;
  double case_seconds = 3, tune_seconds = 60, total_seconds = 1e9;
};

void add_options(CLI::App* app, Options* o) {
  app->add_option("--rows", o->rows, "only these rows")->delimiter(',');
  app->add_option("--cases", o->cases, "only these cases")->delimiter(',');
  app->add_option("--threads", o->threads, "thread counts")->delimiter(',');
  app->add_option("--seed", o->seed, "of the random shapes");
  app->add_option("--json", o->json_file, "log of all results");
  app->add_option("--target", o->target, "everyone is held to its instructions");
  app->add_option("--peers", o->libraries, "of arrays, beside whole programs")
      ->delimiter(',')
      ->check(CLI::IsMember({"xla", "inductor", "eager"}));
  app->add_option("--python", o->python, "which has these libraries");
  app->add_flag("--peers-only", o->peers_only, "the libraries alone");
  app->add_option("--case-seconds", o->case_seconds, "of interleaved samples a case");
  app->add_option("--tune-seconds", o->tune_seconds, "of one tune, at most");
  app->add_option("--total-seconds", o->total_seconds, "after which no case begins");
  app->add_option("--workloads", o->workloads, "folder with ansor.json and table.te");
  app->add_option("--loopwright", o->binary, "the binary that tunes");
  app->add_option("--folder", o->folder, "for databases and exported kernels");
}

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

// Results and verdicts, and their log, rewritten after each case so that nothing is lost.
struct Log {
  nlohmann::json document = {{"results", nlohmann::json::array()},
                             {"bars", nlohmann::json::array()}};
  std::string file;
  int missed = 0, failed = 0;

  void save() const {
    if (!file.empty()) std::ofstream(file) << document.dump(1) << "\n";
  }
  void add(const std::string& where, const std::vector<BarVerdict>& verdicts) {
    for (const BarVerdict& v : verdicts) {
      std::cout << to_text(v) << std::endl;
      nlohmann::json entry = to_json(v);
      entry["row"] = where;
      document["bars"].push_back(entry);
      missed += !v.met;
    }
    save();
  }
};

std::vector<CaseResult> run_row(const BenchRow& row, int threads, const Options& o,
                                const OurSide& ours, const CompareOptions& compare_options,
                                double deadline, Log* log) {
  std::vector<CaseResult> results;
  for (const BenchCase& c : row.cases) {
    if (!wanted(o.cases, c.name)) continue;
    if (now() > deadline) {
      std::cout << c.name << ": no time left" << std::endl;
      ++log->failed;
      continue;
    }
    absl::StatusOr<CaseResult> result = compare(row, c, threads, ours, compare_options);
    if (!result.ok()) {
      std::cout << c.name << ": " << result.status().message() << std::endl;
      ++log->failed;
      continue;
    }
    std::cout << table_line(*result) << std::endl;
    log->document["results"].push_back(to_json(*result));
    log->save();
    results.push_back(*std::move(result));
  }
  return results;
}

void print_peers(Log* log) {
  for (Peer* peer : load_peers().peers) {
    std::cout << "peer " << peer->name() << " " << peer->version() << "\n";
    log->document["peers"].push_back({{"name", peer->name()}, {"version", peer->version()}});
  }
  for (const std::string& why : load_peers().missing) std::cout << "no peer " << why << "\n";
}

// Whether a target's vectors are of 32 bytes at most: what libraries are held to, which read this
// when they are loaded, is AVX2 then.
bool hold_to(const Target& target) {
  constexpr int kNarrow = 32;
  const bool narrow = target.part.family()->registers(target).vector_bytes <= kNarrow;
  if (!narrow) return false;
  for (const auto& [name, value] : {std::pair{kPeersHeld, "1"},
                                    {"ONEDNN_MAX_CPU_ISA", "AVX2"},
                                    {"OPENBLAS_CORETYPE", "Haswell"},
                                    {"BLIS_ARCH_TYPE", "3"},  // haswell, of 0.9's
                                    {"LIBXSMM_TARGET", "hsw"}}) {
    setenv(name, value, 1);
  }
  return true;
}

int run(const Options& o) {
  const double deadline = now() + o.total_seconds;
  Log log;
  log.file = o.json_file;
  log.document["seed"] = o.seed;
  // Loading a library with OpenMP may bind this thread to one processor.
  const std::vector<int> cpus = allowed_cpus();
  const std::vector<std::string> environment = own_environment();
  const absl::StatusOr<Target> target = find_target(o.target);
  if (!target.ok()) {
    std::cerr << target.status().message() << "\n";
    return 1;
  }
  const bool short_vectors = hold_to(*target);
  print_peers(&log);
  pin_to(cpus);
  absl::StatusOr<std::vector<BenchRow>> rows = bench_rows(o.workloads, o.seed, o.threads,
                                                            short_vectors);
  if (!rows.ok()) {
    std::cerr << rows.status().message() << "\n";
    return 1;
  }
  CompareOptions compare_options;
  compare_options.budget_s = o.case_seconds;
  compare_options.cpus = cpus;
  compare_options.folder = o.folder;
  compare_options.target = o.target;
  compare_options.libraries = o.libraries;
  compare_options.arrays = {o.python, "bench/fused/peer.py", o.folder, short_vectors ? "AVX2" : "",
                            environment};
  TunerOptions tuner{o.binary, o.folder, o.tune_seconds, compare_options.cpus, environment,
                     o.target};
  std::filesystem::create_directories(o.folder);
  const OurSide ours = o.peers_only ? OurSide() : our_side(tuner);
  std::vector<CaseResult> all;
  for (int threads : o.threads) {          // all of one count first: pools are not torn down
                                           // between
    for (const BenchRow& row : *rows) {
      if (!wanted(o.rows, row.id) || !std::count(row.threads.begin(), row.threads.end(), threads))
        continue;
      std::cout << "\n"
                << row.what << ", threads: " << threads << "\n"
                << table_header() << std::endl;
      const std::vector<CaseResult> results =
          run_row(row, threads, o, ours, compare_options, deadline, &log);
      log.add(absl::StrCat(row.id, " t", threads), judge_row(row, results));
      all.insert(all.end(), results.begin(), results.end());
    }
  }
  if (!o.peers_only) {
    std::cout << "\nthe suite\n";
    log.add("suite", judge_suite(all));
    std::cout << "\nthe search\n";
    log.add("search", judge_search(all));
    if (wanted(o.rows, "tune")) {
      absl::StatusOr<std::vector<BarVerdict>> verdicts = judge_tune(tuner);
      if (verdicts.ok()) {
        log.add("tune", *verdicts);
      } else {
        std::cout << verdicts.status().message() << "\n";
        ++log.failed;
      }
    }
  }
  std::cout << "\n" << log.missed << " bars missed, " << log.failed << " cases without a result\n";
  return log.missed + log.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  CLI::App app("our kernels beside vendor libraries and the host's bounds");
  lw::Options options;
  lw::add_options(&app, &options);
  CLI11_PARSE(app, argc, argv);
  return lw::run(options);
}
