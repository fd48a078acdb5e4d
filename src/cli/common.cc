#include "src/cli/common.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cost_model/cost_model.h"
#include "cost_model/trees/learned.h"
#include "loopwright/kernel.h"
#include "schedules/targets/target.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/files.h"
#include "src/client/requests.h"
#include "src/expr/language/text.h"
#include "tuner_db/ladder/snapshot.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

constexpr char kEnvironmentPayload[] = "loopwright/environment";

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return "\"" + absl::StrReplaceAll(text, {{"\"", "\"\""}}) + "\"";
}

std::string as_csv(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    return absl::StrJoin(cells, ",", [](std::string* out, const std::string& cell) {
             *out += csv_cell(cell);
           }) + "\n";
  };
  std::string out = line(table.columns);
  for (const std::vector<std::string>& row : table.rows) out += line(row);
  return out;
}

// A program's text, read once.
const std::string& standard_input() {
  static const std::string* text = [] {
    auto* read = new std::string(std::istreambuf_iterator<char>(std::cin), {});
    if (!is_program_text(*read)) *read += '\n';
    return read;
  }();
  return *text;
}

// Characters, not bytes: continuation bytes of UTF-8 take no room.
size_t width(const std::string& text) {
  size_t count = 0;
  for (unsigned char c : text) count += (c & 0xC0) != 0x80;
  return count;
}

}  // namespace

int exit_code(const absl::Status& status) {
  if (status.ok()) return kDone;
  if (status.GetPayload(kEnvironmentPayload)) return kEnvironmentFailed;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented: return kBadRequest;
    case absl::StatusCode::kNotFound: return kNothingFound;
    case absl::StatusCode::kAborted: return kNotValid;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAlreadyExists: return kEnvironmentFailed;
    default: return kOurBug;
  }
}

absl::Status environment(absl::Status status) {
  if (!status.ok() && !absl::IsInternal(status) && !absl::IsInvalidArgument(status)) {
    status.SetPayload(kEnvironmentPayload, absl::Cord("1"));
  }
  return status;
}

TaskOptions WorkloadOptions::task_options() const {
  return {target, threads, const_names ? &*const_names : nullptr, allows(kWinograd)};
}

bool WorkloadOptions::allows(std::string_view what) const {
  return std::find(allow.begin(), allow.end(), what) != allow.end();
}

std::vector<std::string> WorkloadOptions::all_words(std::vector<std::string> of) const {
  if (!of.empty() && of[0] == "-") of[0] = standard_input();
  if (allows(kBf16) && !of.empty()) of.push_back(concat("allow=", kBf16));
  return of;
}

absl::StatusOr<Task> WorkloadOptions::task() const { return task(words); }

absl::StatusOr<Task> WorkloadOptions::task(const std::vector<std::string>& other_words) const {
  return make_task(all_words(other_words), task_options());
}

WorkloadOptions WorkloadOptions::of(const SuiteCase& one) const {
  WorkloadOptions own = *this;
  own.words = one.words;
  if (one.const_names) own.const_names = one.const_names;
  own.allow.insert(own.allow.end(), one.allow.begin(), one.allow.end());
  if (!one.target.empty()) own.target = one.target;
  if (one.threads > 0) own.threads = one.threads;
  return own;
}

absl::StatusOr<Task> WorkloadOptions::task(const SuiteCase& one) const {
  ASSIGN_OR_RETURN(Task task, of(one).task());
  return one.label.empty() ? task : with_words(task, one.label);
}

void add_workload(CliArguments app, WorkloadOptions* options, bool required) {
  CliArgument words = app.add_option("workload", options->words,
                                      "NAME[:OP] and overrides: matmul M=512, my.te:dense_relu; or a program's "
                                      "text, - to read it from standard input");
  if (required) words.required();
  add_workload_options(app, options);
}

void add_workload_options(CliArguments app, WorkloadOptions* options) {
  app.add_option("--target", options->target, "host, a name that `targets` lists, a file's, or opencl:NUMBER or opencl:NAME, "
                 "cuda:NUMBER or cuda:NAME, a device that a driver has here; of `submit`: that an agent has registered")
      .capture_default_str();
  app.add_option("--threads", options->threads, "of the kernel (default: all cores)")
      .between(1, 4096);
  app.add_option("--const", options->const_text,
                 "inputs known before the timed calls: NAME,... or none (default: as the op says)")
      .each([options](const std::string& text) {
        options->const_names = const_names_of(text);
      });
  app.add_option("--allow", options->allow,
                 "winograd: for windows of 3; bf16: f32 products of rounded operands; less exact, so "
                 "results are stored apart")
      .one_of({kWinograd, kBf16});
}

absl::StatusOr<std::vector<Asked>> asked_workloads(const WorkloadOptions& workload,
                                                   const std::string& suite) {
  if (suite.empty() && workload.words.empty()) {
    return absl::InvalidArgumentError("no workload is named (see `loopwright ops`)");
  }
  std::vector<SuiteCase> cases;
  if (suite.empty()) {
    cases.push_back({"", workload.words, 0});
  } else {
    ASSIGN_OR_RETURN(cases, load_suite(suite, workload.words));
  }
  std::vector<Asked> asked;
  for (const SuiteCase& one : cases) {
    ASSIGN_OR_RETURN(Task task, workload.task(one));
    asked.push_back({one.name.empty() ? task.workload().source_words : one.name, std::move(task)});
  }
  return asked;
}

void add_suite(CliArguments app, std::string* suite) {
  app.add_option("--suite", *suite, "a JSON file of cases; the words then name some of them");
}

absl::StatusOr<std::unique_ptr<Model>> model_named(const std::string& name,
                                                   std::string_view architecture) {
  return name == "shipped" ? shipped_model(architecture) : load_model(name, architecture);
}

absl::StatusOr<std::unique_ptr<Store>> DatabaseFlags::open() const {
  DatabaseOptions options;
  options.insecure = insecure;
  return environment(open_store(path, options));
}

absl::StatusOr<std::unique_ptr<Store>> DatabaseFlags::open_to_read() const {
  RETURN_IF_ERROR(check_database_url(path));
  std::error_code error;
  if (!is_postgres_url(path) && !std::filesystem::exists(path, error) && !error) {
    return std::unique_ptr<Store>();
  }
  DatabaseOptions options;
  options.read_only = true;
  options.insecure = insecure;
  return environment(open_store(path, options));
}

absl::StatusOr<DatabaseFlags::Records> DatabaseFlags::open_records() const {
  Records records;
  if (!snapshot.empty()) {
    ASSIGN_OR_RETURN(std::unique_ptr<Snapshot> opened, environment(Snapshot::open(snapshot)));
    records.snapshot = opened.get();
    records.source = std::move(opened);
    return records;
  }
  ASSIGN_OR_RETURN(records.store, open_to_read());
  if (records.store == nullptr) records.store = make_memory_store();
  records.source = make_store_source(*records.store);
  return records;
}

std::string DatabaseFlags::shown() const {
  if (!snapshot.empty()) return snapshot;
  if (!is_postgres_url(path)) return path;
  const size_t user = path.find("://") + 3, host = path.find('@', user);
  const size_t password = path.find(':', user);
  if (host == std::string::npos || password > host) return path;
  return path.substr(0, password) + path.substr(host);
}

void add_database(CliArguments app, DatabaseFlags* options) {
  const char* variable = std::getenv("LOOPWRIGHT_DB");
  options->path = variable != nullptr && *variable != 0 ? variable : "loopwright.db";
  app.add_option(
      "--db", options->path,
      "the database: a file, or postgres://USER@HOST/NAME (default: $LOOPWRIGHT_DB, else "
      "loopwright.db)");
  app.add_flag("--insecure-database", options->insecure,
               "speak to another machine's PostgreSQL without sslmode=verify-full");
}

void add_snapshot(CliArguments app, DatabaseFlags* options) {
  app.add_option("--snapshot", options->snapshot, "read this snapshot, not the database");
}

void add_frozen(CliArguments app, DatabaseFlags* options, bool runs) {
  CliArgument frozen = app.add_flag("--frozen", options->frozen,
                                     "only what was tuned before; exit 2 where it was not");
  if (!runs) return;
  app.add_flag("--unverified", options->unverified,
               "do not check a kernel that nobody has verified in a process of its own first")
      .excludes(frozen);
}

void add_output(CliArguments app, Output* output) {
  app.add_option("--format", output->format, "of the result")
      .one_of({"table", "json", "csv"}).capture_default_str();
  app.add_flag("--json", output->json, "short for --format json");
  app.add_flag("-q,--quiet", output->quiet, "no progress and no notes");
  app.add_flag("-v,--verbose", output->verbose, "more progress: every stored trial");
}

void Output::note(std::string_view line) const {
  if (!quiet) std::cerr << line << std::endl;
}

Json say_refused(const std::vector<RefusedCase>& refused) {
  Json list = Json::array();
  for (const RefusedCase& one : refused) {
    std::cerr << "loopwright: refused: " << one.name << ": " << one.why << std::endl;
    list.push_back({{"name", one.name}, {"why", one.why}});
  }
  return list;
}

absl::Status all_refused(const std::vector<RefusedCase>& refused, const absl::Status& first) {
  if (refused.empty()) return absl::InvalidArgumentError("the suite has no workloads");
  const bool alike = std::all_of(refused.begin(), refused.end(), [&](const RefusedCase& one) {
    return one.why == first.message();
  });
  if (alike) return first;                 // --target, say: not the cases' fault
  std::string message = "nothing of the suite can be tuned";
  for (const RefusedCase& one : refused) message += concat("\n  ", one.name, ": ", one.why);
  return absl::InvalidArgumentError(message);
}

absl::Status frozen_miss(const Task& task, const std::string& where) {
  std::cout << request_file({task});
  return absl::NotFoundError(concat("'", task.workload().source_words, "' is not tuned for ",
                                    task.target()->name, " with ", task.threads(),
                                    task.threads() == 1 ? " thread in " : " threads in ", where,
                                    "; on stdout: what to tune"));
}

absl::Status frozen_miss(const std::vector<Task>& missing, size_t asked, const std::string& where) {
  if (asked == 1) return frozen_miss(missing[0], where);
  std::cout << request_file(missing);
  return absl::NotFoundError(concat(missing.size(), " of ", asked, " workloads are not tuned in ",
                                    where, "; on stdout: what to tune"));
}

namespace {

// The ladder's answer, and a word on stderr where it is not what was tuned.
absl::StatusOr<LookupAnswer> look_up_and_say(const Task& task, const DatabaseFlags& database,
                                             const Output& output) {
  ASSIGN_OR_RETURN(const DatabaseFlags::Records records, database.open_records());
  LookupOptions options;
  if (database.only_own) options.ladder.lowest = Rung::kLoose;
  ASSIGN_OR_RETURN(LookupAnswer answer, environment(look_up(task, *records.source, options)));
  if (database.frozen && answer.outcome != Rung::kExact) {
    return frozen_miss(task, database.shown());
  }
  for (const std::string& note : answer.notes) output.note(note);
  if (answer.record == nullptr) {
    output.note("untuned: this is the zero-trial schedule, chosen without a measurement");
  } else if (answer.outcome != Rung::kExact) {
    output.note(concat("not tuned: this is ", std::string(rung_name(answer.outcome)), " to it, '",
                       answer.record->source_words, "'"));
  }
  return answer;
}

}  // namespace

absl::StatusOr<Choice> choose_and_say(const Task& task, const DatabaseFlags& database,
                                      const Output& output) {
  ASSIGN_OR_RETURN(const LookupAnswer answer, look_up_and_say(task, database, output));
  return as_choice(answer);
}

absl::StatusOr<Choice> choose_to_run(const Task& task, const DatabaseFlags& database,
                                     const Output& output) {
  ASSIGN_OR_RETURN(const LookupAnswer answer, look_up_and_say(task, database, output));
  if (database.unverified) return as_choice(answer);
  std::vector<std::string> notes;
  absl::StatusOr<Choice> choice = checked(task, answer, &notes);
  for (const std::string& note : notes) output.note(note);
  const absl::Status& why = choice.status();
  if (choice.ok() || absl::IsAborted(why) || absl::IsInternal(why)) return choice;
  return absl::Status(why.code(), concat(std::string(why.message()),
                                         ", so that the kernel, which nobody has verified, cannot "
                                         "be checked; --unverified takes it all the same"));
}

std::string as_text(const Table& table) {
  std::vector<size_t> widths;
  for (const std::string& column : table.columns) widths.push_back(width(column));
  for (const std::vector<std::string>& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string room(widths[i] - width(cells[i]), ' ');
      const bool right = i < table.right.size() && table.right[i];
      const bool last = i + 1 == cells.size();
      out += (right ? room + cells[i] : last ? cells[i] : cells[i] + room) + (last ? "" : "  ");
    }
    return out;
  };
  std::string out = bold(line(table.columns)) + "\n";
  for (const std::vector<std::string>& row : table.rows) out += line(row) + "\n";
  return out;
}

void emit(const Output& output, const Json& document, const Table& table, const std::string& text) {
  // Names of files may hold any bytes; JSON is UTF-8.
  if (output.is_json()) {
    std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else if (output.format == "csv") {
    std::cout << as_csv(table);
  } else {
    std::cout << (text.empty() ? as_text(table) : text);
  }
}

std::string bold(const std::string& text) {
  static const bool colors = isatty(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
  return colors ? "\x1b[1m" + text + "\x1b[0m" : text;
}

Json time_json(const Measurement& measurement) {
  return {measurement.ci_low_us, measurement.ci_high_us};
}

Json limits_json(const Bound& bound) {
  Json all = Json::array();
  for (const TimeLimit& limit : bound.limits)
    all.push_back({{"name", limit.name}, {"by", limit.by}, {"us", limit.us}});
  return all;
}

Json simulation_json(const Simulation& simulation) {
  const std::string& unit = simulation.unit;
  Json json = {{unit, simulation.time}, {"efficiency", simulation.efficiency()},
               {"limited_by", simulation.limits.front().name}, {"limits", Json::array()}};
  for (const Simulation::Limit& limit : simulation.limits) {
    json["limits"].push_back({{"name", limit.name}, {unit, limit.time}});
  }
  for (const Simulation::Engine& engine : simulation.engines) {
    Json& shares = json["engines"][engine.name];
    shares = {{"busy", engine.busy}, {"states", Json::object()}};
    for (size_t i = 0; i < simulation.states.size(); ++i) {
      if (engine.shares[i] > 0) shares["states"][simulation.states[i]] = engine.shares[i];
    }
  }
  return json;
}

absl::StatusOr<std::string> read_text(const std::string& path) {
  absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return text;
}

absl::Status write_text(const std::string& path, const std::string& text) {
  return environment(write_file(path, text));
}

}  // namespace lw
