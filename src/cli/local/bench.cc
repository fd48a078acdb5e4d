// `bench`: the stored best once more, beside every library that is installed, sample by sample in
// turn (src/peers/interleave.h), on the same arguments, and with the bound of the same minute.
//
// A library is compared only where its result agrees with the reference at sampled points.
#include "absl/strings/str_format.h"
#include "loopwright/kernel.h"
#include "schedules/targets/target.h"
#include "src/api/run/devices.h"
#include "src/api/task.h"
#include "src/base/clock.h"
#include "src/base/parallel_pool.h"
#include "src/cli/commands.h"
#include "src/measure/local.h"
#include "src/measure/machine/processors.h"
#include "src/measure/run/timing.h"
#include "src/peers/interleave.h"
#include "src/peers/judge.h"
#include "src/peers/loader.h"
#include "src/peers/match/match.h"

namespace lw {
namespace {

constexpr int64_t kPoints = 64;            // of each output, compared with the reference
constexpr double kSettleSeconds = 0.02;    // OpenMP's idle threads spin for some milliseconds

struct BenchOptions {
  WorkloadOptions workload;
  DatabaseFlags database;
  Output output;
  bool peers = false;
  double seconds = 3;
};

// One row: who, how, how fast.
struct Row {
  std::string name, version, mode;
  Estimate time_us;
  double over_ours = 1;                    // the median of the rounds' ratios
};

struct Contest {
  std::vector<Row> rows;                   // ours first
  std::vector<Contender> contenders;
};

absl::Status enter_peers(const BenchOptions& options, const Task& task,
                         const ArgumentMemory& memory, const std::vector<int>& cpus,
                         const Judge& judge, Contest* contest) {
  for (const std::string& why : load_peers().missing) options.output.note("no peer " + why);
  const PeerCase description = match_peer_case(*task.program());
  if (std::holds_alternative<std::monostate>(description)) {
    options.output.note("no library has an operator for this workload");
    return absl::OkStatus();
  }
  for (PeerContender& peer : prepare_peers(description, memory.pointers(), task.threads(), cpus)) {
    Contender contender{peer.name + " " + peer.mode, peer.run, peer.select};
    const Check check = judge.run(contender);
    if (!check.ok) {
      options.output.note(concat(contender.name, " is wrong and left out: ", check.detail));
      continue;
    }
    contest->rows.push_back({peer.name, peer.version, peer.mode, {}});
    contest->contenders.push_back(std::move(contender));
  }
  return absl::OkStatus();
}

Json row_json(const Row& row) {
  return {{"name", row.name}, {"version", row.version}, {"mode", row.mode},
          {"time_us", row.time_us.median}, {"ci_us", {row.time_us.low, row.time_us.high}},
          {"over_ours", row.over_ours}};
}

void print_contest(const BenchOptions& options, const Task& task, const Choice& choice,
                   std::vector<Row> rows, const Bound& bound) {
  const Row ours = rows.front();
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.time_us.median < b.time_us.median;
  });
  Json peers = Json::array();
  Table table{{"who", "version", "mode", "time", "95 % interval", "GFLOP/s", "of bound", "ours is"},
              {},
              {false, false, false, true, true, true, true, true}};
  for (const Row& row : rows) {
    const bool is_ours = row.name == ours.name;
    if (!is_ours) peers.push_back(row_json(row));
    const double us = row.time_us.median;
    table.rows.push_back({row.name, row.version, row.mode, micros(us),
                          concat(number(row.time_us.low), " .. ", number(row.time_us.high)),
                          number(bound.flops.useful / us / 1e3), percent(bound.bound_us / us),
                          is_ours ? "" : absl::StrFormat("%.2fx", row.over_ours)});
  }
  Json mine = row_json(ours);
  mine["gflops"] = bound.flops.useful / ours.time_us.median / 1e3;
  mine["bound_fraction"] = bound.bound_us / ours.time_us.median;
  mine["outcome"] = choice.outcome;
  emit(options.output,
       {{"workload", task.workload().source_words}, {"threads", task.threads()}, {"ours", mine},
        {"peers", peers}, {"bound_us", bound.bound_us}, {"bound_by", bound.set_by().name},
        {"bound_limits", limits_json(bound)}, {"peak_gflops", bound.peak_gflops},
        {"bandwidth_gbytes_per_s", bound.bandwidth_gbytes}}, table);
  options.output.note(concat("the bound, ", micros(bound.bound_us), ", is set by ",
                             bound.set_by().name, " (", bound.set_by().by, ")"));
  if (rows.size() > 1)
    options.output.note("`ours is` compares within rounds in which all ran in turn; a time is the "
                        "median of its own samples");
}

// ---- a machine that is simulated ----------------------------------------------------------------

// What a simulator says of a schedule is all that there is to know, so nothing is sampled, and no
// library runs there: ours beside the answer that nothing tuned.
struct Simulated {
  std::string mode;
  Simulation call;
};

Json simulated_json(const Simulated& row, const Bound& bound) {
  Json json = simulation_json(row.call);
  json["mode"] = row.mode;
  json["time_us"] = row.call.us;
  json["gflops"] = bound.flops.useful / row.call.us / 1e3;
  json["bound_fraction"] = bound.bound_us / row.call.us;
  return json;
}

void print_simulated(const BenchOptions& options, const Task& task,
                     const std::vector<Simulated>& rows, const Bound& bound) {
  const Simulation& ours = rows.front().call;
  Table table{{"schedule", ours.unit, "time (simulated)", "GFLOP/s", "of its limit", "which is",
               "of bound", "ours is"},
              {}, {false, true, true, true, true, false, true, true}};
  for (const Simulated& row : rows) {
    table.rows.push_back({row.mode, whole(row.call.time), micros(row.call.us),
                          number(bound.flops.useful / row.call.us / 1e3),
                          percent(row.call.efficiency()), row.call.limits.front().name,
                          percent(bound.bound_us / row.call.us),
                          &row == &rows.front()
                              ? "" : absl::StrFormat("%.2fx", row.call.us / ours.us)});
  }
  Json document = {{"workload", task.workload().source_words}, {"target", task.target()->name},
                   {"time_kind", time_kind_name(TimeKind::kSimulated)},
                   {"ours", simulated_json(rows.front(), bound)}, {"peers", Json::array()},
                   {"bound_us", bound.bound_us}, {"bound_by", bound.set_by().name},
                   {"bound_limits", limits_json(bound)}};
  if (rows.size() > 1) {
    document["untuned"] = simulated_json(rows[1], bound);
    document["untuned"]["over_ours"] = rows[1].call.us / ours.us;
  }
  emit(options.output, document, table);
  std::string limits;
  for (const Simulation::Limit& limit : ours.limits) {
    limits += concat(limits.empty() ? "" : ", ", limit.name, " ",
                     percent(ours.time > 0 ? limit.time / ours.time : 0));
  }
  options.output.note(concat("ours, of the ", ours.unit, " that its instructions cannot be below: ",
                             limits));
  options.output.note(concat("the bound, that no schedule is below, ", micros(bound.bound_us),
                             ", is set by ", bound.set_by().name, " (", bound.set_by().by, ")"));
}

// One run, judged; `ran`: whether it came to its end.
Check judge_run(const Task& task, Executable& kernel, const ArgumentMemory& memory,
                absl::Status* ran) {
  const Judge judge(*task.program(), memory.pointers(), kPoints);
  return judge.run({"loopwright", [&] { *ran = kernel.run(memory.pointers()); }, {}});
}

absl::StatusOr<int> bench_simulated(const BenchOptions& options, const Task& task) {
  if (options.peers) options.output.note("no library runs on a machine that is simulated");
  RETURN_IF_ERROR(find_device(task).status());
  ASSIGN_OR_RETURN(const Choice choice, choose_to_run(task, options.database, options.output));
  ASSIGN_OR_RETURN(ArgumentMemory memory, ArgumentMemory::create(*task.program()));
  memory.fill_inputs(*task.program(), 1);
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> kernel, Executable::create(task, choice));
  absl::Status ran;
  const Check check = judge_run(task, *kernel, memory, &ran);
  if (!ran.ok() || !check.ok) {
    options.output.note("our result is wrong: " +
                        (ran.ok() ? check.detail : std::string(ran.message())));
    return kNotValid;
  }
  std::vector<Simulated> rows(1);
  rows[0].mode = choice.outcome;
  ASSIGN_OR_RETURN(rows[0].call, simulate(task, choice));
  ASSIGN_OR_RETURN(const Choice untuned, choose(task, nullptr));
  if (untuned.kernel != nullptr && untuned.outcome != choice.outcome) {
    ASSIGN_OR_RETURN(Simulation call, simulate(task, untuned));
    rows.push_back({"untuned", std::move(call)});
  }
  ASSIGN_OR_RETURN(const Bound bound, measure_bound_beside(task, choice, rows[0].call.us));
  print_simulated(options, task, rows, bound);
  return kDone;
}

// ---- a device of a driver -----------------------------------------------------------------------

// The kernel alone: its arguments are carried there and back around each call, which is not counted.
absl::StatusOr<int> bench_driven(const BenchOptions& options, const Task& task) {
  if (options.peers) options.output.note("libraries are compared on this machine's processors only");
  ASSIGN_OR_RETURN(const Choice choice, choose_to_run(task, options.database, options.output));
  ASSIGN_OR_RETURN(ArgumentMemory memory, ArgumentMemory::create(*task.program()));
  memory.fill_inputs(*task.program(), 1);
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> kernel, Executable::create(task, choice));
  RETURN_IF_ERROR(kernel->prepack(memory.pointers()));
  absl::Status ran;
  const Check check = judge_run(task, *kernel, memory, &ran);
  RETURN_IF_ERROR(ran);
  if (!check.ok) {
    options.output.note("our result is wrong: " + check.detail);
    return kNotValid;
  }
  std::vector<double> samples_us;
  for (const double end = now() + options.seconds; samples_us.empty() || now() < end;) {
    RETURN_IF_ERROR(kernel->run(memory.pointers()));
    samples_us.push_back(kernel->last_us());
  }
  const Row row{"loopwright", LOOPWRIGHT_VERSION, choice.outcome, estimate(samples_us)};
  ASSIGN_OR_RETURN(const Bound bound, measure_bound_beside(task, choice, row.time_us.median));
  print_contest(options, task, choice, {row}, bound);
  return kDone;
}

// ---- this machine -------------------------------------------------------------------------------

absl::StatusOr<int> run_bench(const BenchOptions& options) {
  ASSIGN_OR_RETURN(const Task task, options.workload.task());
  if (is_simulated(*task.target())) return bench_simulated(options, task);
  const absl::StatusOr<RunsOn> device = find_device(task);
  if (device.ok() && *device == RunsOn::kDriver) return bench_driven(options, task);
  RETURN_IF_ERROR(check_runs_here(task));
  ASSIGN_OR_RETURN(const Choice choice, choose_to_run(task, options.database, options.output));
  // Libraries start threads and count processors when loaded: after the workers that check an
  // unverified kernel, which are forked, and before any thread of ours.
  if (options.peers) load_peers();
  ASSIGN_OR_RETURN(ArgumentMemory memory, ArgumentMemory::create(*task.program()));
  memory.fill_inputs(*task.program(), 1);
  const std::vector<int> allowed = allowed_cpus();
  const std::vector<int> cpus = measuring_processors(allowed, task.threads());
  ASSIGN_OR_RETURN(const std::unique_ptr<Executable> kernel, Executable::create(task, choice));
  RETURN_IF_ERROR(kernel->prepack(memory.pointers()));
  pin_to({cpus.front()});

  const Judge judge(*task.program(), memory.pointers(), kPoints);
  Contest contest;
  contest.rows.push_back({"loopwright", LOOPWRIGHT_VERSION, choice.outcome, {}});
  contest.contenders.push_back(
      {"loopwright", [&] { CHECK(kernel->run(memory.pointers()).ok()); }, {}});
  const Check check = judge.run(contest.contenders.front());
  if (!check.ok) {
    options.output.note("our result is wrong: " + check.detail);
    return kNotValid;
  }
  if (options.peers) RETURN_IF_ERROR(enter_peers(options, task, memory, cpus, judge, &contest));
  InterleaveOptions interleaving;
  interleaving.budget_s = options.seconds;
  interleaving.settle_s = options.peers && task.threads() > 1 ? kSettleSeconds : 0;
  const std::vector<Series> series = interleave(contest.contenders, interleaving);
  for (size_t i = 0; i < series.size(); ++i) {
    contest.rows[i].time_us = series[i].time_us;
    contest.rows[i].over_ours = paired_ratio(series[i].samples_us, series[0].samples_us).median;
  }
  pin_to(allowed);
  ASSIGN_OR_RETURN(const Bound bound,
                   measure_bound_beside(task, choice, contest.rows.front().time_us.median));
  print_contest(options, task, choice, contest.rows, bound);
  return kDone;
}

Action declare_bench(CliArguments app) {
  auto options = std::make_shared<BenchOptions>();
  add_workload(app, &options->workload);
  add_database(app, &options->database);
  add_frozen(app, &options->database, /*runs=*/true);
  add_output(app, &options->output);
  app.add_flag("--peers", options->peers, "beside every library found");
  app.add_option("--seconds", options->seconds, "of samples, all contenders together")
      .positive().capture_default_str();
  return [options] { return run_bench(*options); };
}

}  // namespace

const CommandGroup& bench_commands() {
  static const CommandGroup group = {30, {
      {"bench", "re-measure the stored best, beside libraries with --peers", declare_bench},
  }};
  return group;
}

}  // namespace lw
