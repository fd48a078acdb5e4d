#include "bench/service/fill.h"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "loopwright/v1/agent.pb.h"
#include "schedules/steps.h"
#include "schedules/targets/target.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "src/serve/rows/clock.h"
#include "src/serve/rows/rows.h"
#include "src/serve/studies/studies.h"
#include "tuner_db/messages/messages.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kFamilies = 100, kPool = 64, kThreads = 2;
constexpr int64_t kTime_ms = 1'790'000'000'000;

const Target& bench_target() {
  static const Target* const target = new Target(*find_target(kBenchTarget));
  return *target;
}

Task task_of(const std::string& text, const std::string& words) {
  absl::StatusOr<Program> program = parse_program(text, words);
  CHECK(program.ok());
  absl::StatusOr<Task> task = make_task(*std::move(program), words, bench_target(), kThreads);
  CHECK(task.ok());
  return *std::move(task);
}

// `family` 0: the product alone.
Task product(int family, Rng& rng) {
  const auto extent = [&rng] { return std::to_string(1 + rng.below(8192)); };
  const std::string m = extent(), n = extent(), k = extent();
  std::string text = concat("op product(M = ", m, ", N = ", n, ", K = ", k,
                            ") {\n  in A: f32[M, K]\n  in B: f32[K, N]\n  ");
  text += concat(family == 0 ? "out " : "", "C[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])\n");
  if (family != 0) {
    text += concat("  out D[i: M, j: N] = C[i, j] * ", family + 1, ".0\n");
  }
  return task_of(text + "}\n", concat("product M=", m, " N=", n, " K=", k));
}

std::string long_trace(int number, Rng& rng) {
  std::string text = concat("split(C, i; ", number, ", 6, 0)\n");
  for (int64_t lines = 12 + rng.below(15); lines > 0; --lines) {
    text += concat("split(C, i_outer; ", rng.below(64), ", ", rng.below(64), ", 1)\n");
  }
  return text;
}

// Schedules of matrix products as a search finds them: what look-ups give out and adapt.
std::vector<std::string> drawn_traces() {
  std::vector<std::string> traces;
  Rng rng(3);
  while (traces.size() < kPool) {
    const Task task = product(0, rng);
    const std::vector<Sketch> space = make_space(task.start());
    const auto which = rng.below(static_cast<int64_t>(space.size()));
    const absl::StatusOr<Sample> drawn =
        sample(task.start(), space[static_cast<size_t>(which)], rng);
    if (drawn.ok()) traces.push_back(to_text(drawn->trace));
  }
  return traces;
}

// Rows as the store writes them, but all in one transaction and without syncs: SQL of its own, so
// 15 s instead of 5 minutes.
class Filler {
 public:
  explicit Filler(const std::string& file) {
    CHECK(sqlite3_open(file.c_str(), &handle_) == SQLITE_OK);
    run("PRAGMA synchronous = OFF");
    run("BEGIN");
    key_ = prepare("INSERT INTO keys (workload, target, backend, threads, cache, objective)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    candidate_ = prepare("INSERT INTO candidates (key, trace, samples, median_us, high_us,"
                         " eligible, kernel_hash) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)");
    measurement_ = prepare(
        "INSERT INTO measurements (candidate, kernel_hash, verdict, detail, samples_us, inner,"
        " time_us, ci_low_us, ci_high_us, verified, max_rel_error, wall_s, build_s, seed, source,"
        " environment, unix_ms) VALUES (?1, ?2, 'ok', '', ?3, 1, ?4, ?5, ?6, 1, 0, 0, 0, 0, ?7,"
        " ?8, ?9)");
  }
  ~Filler() {
    run("COMMIT");
    for (sqlite3_stmt* statement : {key_, candidate_, measurement_}) sqlite3_finalize(statement);
    CHECK(sqlite3_close(handle_) == SQLITE_OK);
  }

  void add(const Key& key, const std::vector<Measurement>& batch) {
    text(key_, 1, key.workload);
    text(key_, 2, key.target);
    text(key_, 3, key.backend);
    sqlite3_bind_int(key_, 4, key.threads);
    text(key_, 5, key.cache);
    text(key_, 6, key.objective);
    const int64_t id = step(key_);
    for (const Measurement& m : batch) add(id, m);
  }

 private:
  void add(int64_t key, const Measurement& m) {
    const Measurement* only = &m;
    const Pool statistics = pool({&only, 1});
    sqlite3_bind_int64(candidate_, 1, key);
    text(candidate_, 2, m.trace);
    sqlite3_bind_int64(candidate_, 3, statistics.samples);
    sqlite3_bind_double(candidate_, 4, statistics.median_us);
    sqlite3_bind_double(candidate_, 5, statistics.high_us);
    sqlite3_bind_int64(candidate_, 6, static_cast<int64_t>(statistics.kernel_hash));
    const int64_t id = step(candidate_);
    sqlite3_bind_int64(measurement_, 1, id);
    sqlite3_bind_int64(measurement_, 2, static_cast<int64_t>(m.kernel_hash));
    sqlite3_bind_blob(measurement_, 3, m.samples_us.data(),
                      static_cast<int>(m.samples_us.size() * sizeof(double)), SQLITE_STATIC);
    sqlite3_bind_double(measurement_, 4, m.time_us);
    sqlite3_bind_double(measurement_, 5, m.ci_low_us);
    sqlite3_bind_double(measurement_, 6, m.ci_high_us);
    text(measurement_, 7, m.source);
    text(measurement_, 8, m.environment);
    sqlite3_bind_int64(measurement_, 9, m.unix_ms);
    step(measurement_);
  }
  void run(const char* sql) {
    CHECK(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    CHECK(sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr) == SQLITE_OK);
    return statement;
  }
  static void text(sqlite3_stmt* statement, int at, const std::string& value) {
    sqlite3_bind_text(statement, at, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
  }
  int64_t step(sqlite3_stmt* statement) {
    CHECK(sqlite3_step(statement) == SQLITE_DONE);
    sqlite3_reset(statement);
    return sqlite3_last_insert_rowid(handle_);
  }

  sqlite3* handle_ = nullptr;
  sqlite3_stmt *key_ = nullptr, *candidate_ = nullptr, *measurement_ = nullptr;
};

void fill_large(const std::string& file, const ServiceBenchOptions& options) {
  std::vector<Key> keys;
  {
    const std::shared_ptr<Database> database = *open_database(file);
    CHECK(database->write(5, [&](WriteTransaction& tx) -> absl::Status {
      for (int i = 0; i < options.keys; ++i) {
        const Task task = bench_task(i, options.shapes);
        RETURN_IF_ERROR(put_task(*store_in(tx), task));
        keys.push_back(task.key());
      }
      return absl::OkStatus();
    }).ok());
  }
  Rng rng(1);
  const std::vector<std::string> traces = drawn_traces();
  Filler filler(file);
  const int each = std::max(1, options.measurements / options.keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<Measurement> batch;
    for (int n = 0; n < each; ++n) batch.push_back(bench_measurement(n, rng));
    batch[0].trace = traces[i % traces.size()];  // the best
    for (double& us : batch[0].samples_us) us *= 0.05;
    batch[0].time_us *= 0.05, batch[0].ci_low_us *= 0.05, batch[0].ci_high_us *= 0.05;
    filler.add(keys[i], batch);
  }
}

// A study that runs, with its workload; its jobs are not its doing.
absl::Status put_study(WriteTransaction& tx, const Task& task, int number, const QueueShape& shape,
                       int64_t now_ms) {
  RETURN_IF_ERROR(put_task(*store_in(tx), task));
  StudyRow study;
  study.id = concat("BENCH", number);
  study.client = concat("client", number % shape.clients);
  v1::StudyWorkload& workload = *study.spec.add_workloads();
  workload.set_name(task.workload().source_words);
  workload.set_program(print(*task.program()));
  study.spec.set_target(kBenchTarget);
  study.spec.set_trials(1'000'000);
  study.state = v1::STUDY_STATE_RUNNING;
  study.target = study.device_target = task.key().target;
  study.created_ms = study.updated_ms = now_ms;
  RETURN_IF_ERROR(insert_study(tx, study));
  StudyWorkloadRow row;
  row.study = study.id;
  row.name = task.workload().source_words;
  row.workload = task.key().workload;
  row.backend = task.key().backend;
  row.threads = task.key().threads;
  row.cache = task.key().cache;
  RETURN_IF_ERROR(insert_workload(tx, row));
  v1::StudyEvent event;
  event.set_kind(v1::StudyEvent::KIND_CREATED);
  event.set_state(v1::STUDY_STATE_QUEUED);
  return add_event(tx, study.id, now_ms, std::move(event));
}

JobRow job_of(const Task& task, int study, int number, const QueueShape& shape, int64_t now_ms,
              Rng& rng) {
  JobRow job;
  job.study = concat("BENCH", study);
  job.client = concat("client", study % shape.clients);
  job.target = task.key().target;
  job.backend = task.key().backend;
  job.created_ms = now_ms;
  job.candidates = shape.candidates;
  job.payload.set_kind(v1::JOB_KIND_MEASURE);
  job.payload.set_program(print(*task.program()));
  job.payload.set_workload_id(task.key().workload);
  *job.payload.mutable_target() = to_proto(*task.target());
  job.payload.set_threads(task.key().threads);
  job.payload.set_cache(task.key().cache);
  job.payload.set_seed(1);
  job.payload.mutable_timeout()->set_seconds(600);
  for (int i = 0; i < shape.candidates; ++i) {
    v1::CandidateSpec& candidate = *job.payload.add_candidates();
    candidate.set_index(i);
    candidate.set_trace(long_trace(number * shape.candidates + i, rng));
    job.sources.push_back("evolve");
  }
  return job;
}

}  // namespace

Task bench_task(int number, int shapes) {
  Rng rng(1000 + static_cast<uint64_t>(number));
  return product(number < shapes ? 0 : 1 + number % kFamilies, rng);
}

Task unknown_task(Rng& rng) { return product(0, rng); }

std::vector<std::string> bench_traces(const Task& task, int count) {
  const std::vector<Sketch> space = make_space(task.start());
  Rng rng(7);
  std::set<std::string> traces;
  while (static_cast<int>(traces.size()) < count) {
    const auto which = rng.below(static_cast<int64_t>(space.size()));
    const absl::StatusOr<Sample> drawn =
        sample(task.start(), space[static_cast<size_t>(which)], rng);
    if (drawn.ok() && lower(drawn->nest).ok()) traces.insert(to_text(drawn->trace));
  }
  return {traces.begin(), traces.end()};
}

Measurement bench_measurement(int number, Rng& rng) {
  Measurement m;
  m.trace = long_trace(number, rng);
  m.kernel_hash = static_cast<uint64_t>(number) + 1;
  const double us = 10 + 90 * rng.uniform();
  m.samples_us = {us, us * 1.01, us * 1.02, us * 1.03, us * 1.04, us * 1.05};
  const MedianInterval interval = median_interval(m.samples_us);
  m.time_us = interval.median;
  m.ci_low_us = interval.low;
  m.ci_high_us = interval.high;
  m.verified = true;
  m.source = "evolve";
  m.environment = "{}";
  m.unix_ms = kTime_ms;
  return m;
}

std::string large_database(const ServiceBenchOptions& options, ServiceReport& report) {
  const std::string file = concat(options.folder, "/large-", options.measurements, "-",
                                  options.keys, "-", options.shapes, ".db");
  if (std::filesystem::exists(file)) return file;
  const double begin = now();
  const std::string half = file + ".half";
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(half + suffix);
  fill_large(half, options);
  for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(half + suffix);
  std::filesystem::rename(half, file);
  report.tell("database", concat("making ", options.measurements, " measurements"),
              now() - begin, "s");
  return file;
}

void fill_queue(const std::string& file, const QueueShape& shape) {
  const std::shared_ptr<Database> database = *open_database(file);
  const int64_t now_ms = unix_ms();
  std::vector<Task> tasks;
  for (int i = 0; i < shape.studies; ++i) tasks.push_back(bench_task(i, shape.studies));
  CHECK(database->write(5, [&](WriteTransaction& tx) -> absl::Status {
    Rng rng(5);
    for (int i = 0; i < shape.studies; ++i) {
      RETURN_IF_ERROR(put_study(tx, tasks[i], i, shape, now_ms));
    }
    for (int i = 0; i < shape.jobs; ++i) {
      const int study = i % shape.studies;
      RETURN_IF_ERROR(insert_job(tx, job_of(tasks[study], study, i, shape, now_ms, rng)).status());
    }
    return absl::OkStatus();
  }).ok());
}

}  // namespace lw
