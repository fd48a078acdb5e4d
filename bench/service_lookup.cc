// What a lookup costs in a database of a million measurements: in the daemon's index, in a
// snapshot, and in the database itself. Builds the database first.
//   lw_lookup_bench [--measurements N] [--keys N] [--shapes N] [--folder DIR] [--json]
#include <sqlite3.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/rng.h"
#include "src/expr/message.h"
#include "tuner_db/best.h"
#include "tuner_db/ladder_index.h"
#include "tuner_db/snapshot.h"

namespace lw {
namespace {

using Json = nlohmann::ordered_json;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of this thread alone: what others run on the machine does not count.
double cpu_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Options {
  int measurements = 1'000'000, keys = 20'000, shapes = 10'000;  // shapes: of the largest family
  std::string folder;
  bool json = false;
};

WorkloadRow workload(int family, int number, Rng& rng) {
  WorkloadRow row;
  const int64_t m = 1 + rng.below(8192), n = 1 + rng.below(8192), k = 1 + rng.below(8192);
  row.name = concat("family", family);
  row.canonical_text = concat("lw 1\nfamily ", family, " C[", m, ",", n, "] sum ", k, " #", number);
  row.id = sha256(row.canonical_text);
  row.source_words = concat("matmul M=", m, " N=", n, " K=", k);
  row.flops = 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
  row.bytes = 4.0 * static_cast<double>(m * n);
  row.shape = {m, k, k, n, m, n, k};
  row.family = sha256(row.name);
  return row;
}

// About as long as a real one: 400 to 900 characters.
std::string trace(int number, Rng& rng) {
  std::string text = concat("split(C, i; ", number, ", 6, 0)\n");
  for (int64_t lines = 12 + rng.below(15); lines > 0; --lines) {
    text += concat("split(C, i_outer; ", rng.below(64), ", ", rng.below(64), ", 1)\n");
  }
  return text;
}

Measurement measurement(int number, Rng& rng) {
  Measurement m;
  m.trace = trace(number, rng);
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
  m.unix_ms = 1'800'000'000'000;
  return m;
}

// Rows as the store writes them, but all in one transaction and without syncs, which are not what
// is timed: SQL of its own, so 15 s instead of 5 minutes.
class Filler {
 public:
  explicit Filler(const std::string& file) {
    CHECK(sqlite3_open(file.c_str(), &handle_) == SQLITE_OK);
    run("PRAGMA synchronous = OFF");
    run("BEGIN");
    key_ = prepare(
        "INSERT INTO keys (workload, target, backend, threads, cache, objective)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    candidate_ = prepare(
        "INSERT INTO candidates (key, trace, samples, median_us, high_us,"
        " eligible) VALUES (?1, ?2, ?3, ?4, ?5, 1)");
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

std::vector<LookupRequest> fill(const std::string& file, const Options& options) {
  Rng rng(1);
  const Target target = *find_target("x86_avx512");
  const std::string target_id = sha256(to_text(target));
  const auto shared = std::make_shared<const Target>(target);
  std::vector<LookupRequest> requests;
  {
    const std::unique_ptr<Store> store = *open_sqlite_store(file);
    CHECK(store->put_target(target_id, target).ok());
    for (int i = 0; i < options.keys; ++i) {
      const WorkloadRow row = workload(i < options.shapes ? 0 : 1 + i % 100, i, rng);
      CHECK(store->put_workload(row).ok());
      const Key key{row.id, target_id, "llvm 19.1.7 r1", 2, "warm", "time"};
      requests.push_back({key, row.family, row.shape, shared});
    }
  }
  Filler filler(file);
  const int each = std::max(1, options.measurements / options.keys);
  for (const LookupRequest& request : requests) {
    std::vector<Measurement> batch;
    for (int n = 0; n < each; ++n) batch.push_back(measurement(n, rng));
    filler.add(request.key, batch);
  }
  return requests;
}

// A question that nothing answers exactly.
LookupRequest miss_like(const LookupRequest& request, Rng& rng) {
  LookupRequest other = request;
  other.key.workload = sha256(concat("miss ", rng.next()));
  const int64_t m = 1 + rng.below(8192), n = 1 + rng.below(8192), k = 1 + rng.below(8192);
  other.shape = {m, k, k, n, m, n, k};
  return other;
}

struct Times {
  double p50_us = 0, p99_us = 0;
};
Times time_each(const std::vector<LookupRequest>& requests,
                const std::function<bool(const LookupRequest&)>& look) {
  std::vector<double> us;
  for (const LookupRequest& request : requests) {
    const double begin = now();
    CHECK(look(request));
    us.push_back((now() - begin) * 1e6);
  }
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us[us.size() * 99 / 100]};
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {}

  int run() {
    const std::filesystem::path folder = std::filesystem::path(options_.folder) / "lw_lookup_bench";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const std::string file = (folder / "bench.db").string();
    const std::string shot = (folder / "bench.lws").string();
    double begin = now();
    stored_ = fill(file, options_);
    put("build_s", now() - begin);
    SqliteOptions read_only;
    read_only.read_only = true;
    const std::unique_ptr<Store> store = *open_sqlite_store(file, read_only);
    put("measurements", static_cast<double>(store->stats()->measurements));
    ask();
    measure_store(*store);
    LadderIndex index(*store);
    begin = now();
    CHECK(index.refresh().ok());
    put("index_load_s", now() - begin);
    put("index_resident_mb", static_cast<double>(index.stats().resident_bytes) / 1e6);
    measure("index", index);
    begin = now();
    CHECK(write_snapshot(*store, shot, 3, 1).ok());
    put("snapshot_write_s", now() - begin);
    put("snapshot_mb", static_cast<double>(std::filesystem::file_size(shot)) / 1e6);
    begin = now();
    std::unique_ptr<Snapshot> snapshot = *Snapshot::open(shot);
    put("snapshot_open_us", (now() - begin) * 1e6);
    measure("snapshot", *snapshot);
    std::filesystem::remove_all(folder);
    if (options_.json) std::puts(document_.dump(2).c_str());
    return 0;
  }

 private:
  void put(const std::string& name, double value) {
    document_[name] = value;
    if (!options_.json) std::printf("%-36s %12.2f\n", name.c_str(), value);
  }

  void ask() {
    Rng rng(2);
    const auto any = [&](int64_t below) { return stored_[static_cast<size_t>(rng.below(below))]; };
    for (int i = 0; i < 2000; ++i) hits_.push_back(any(options_.keys));
    for (int i = 0; i < 2000; ++i) misses_.push_back(miss_like(any(options_.shapes), rng));
  }

  void measure_store(const Store& store) {
    const Times times = time_each(
        hits_, [&](const LookupRequest& request) { return store.best(request.key).ok(); });
    put("store_best_p50_us", times.p50_us);
    put("store_best_p99_us", times.p99_us);
  }

  void measure(const std::string& name, const RecordSource& source) {
    const auto look = [&](const LookupRequest& request) {
      const auto found = climb(request, source, {});
      return found.ok() && !found->empty();
    };
    const double begin = now();
    CHECK(look(misses_[0]));
    put(name + "_first_miss_us", (now() - begin) * 1e6);
    const Times exact = time_each(hits_, look), near = time_each(misses_, look);
    put(name + "_exact_p50_us", exact.p50_us);
    put(name + "_exact_p99_us", exact.p99_us);
    put(name + "_nearest_p50_us", near.p50_us);
    put(name + "_nearest_p99_us", near.p99_us);
    for (const auto& [what, share] :
         {std::pair("hits", 0), std::pair("half_missed", 2), std::pair("all_missed", 1)}) {
      std::vector<double> ms, cpu_ms;
      for (int repeat = 0; repeat < 21; ++repeat) {
        const double start = now(), cpu_start = cpu_now();
        for (int i = 0; i < 500; ++i) {
          const size_t at = static_cast<size_t>((500 * repeat + i) % 2000);
          CHECK(look(share != 0 && i % share == 0 ? misses_[at] : hits_[at]));
        }
        ms.push_back((now() - start) * 1e3);
        cpu_ms.push_back((cpu_now() - cpu_start) * 1e3);
      }
      std::sort(ms.begin(), ms.end());
      put(concat(name, "_batch_500_", what, "_p50_ms"), ms[ms.size() / 2]);
      put(concat(name, "_batch_500_", what, "_worst_ms"), ms.back());
      put(concat(name, "_batch_500_", what, "_worst_cpu_ms"),
          *std::max_element(cpu_ms.begin(), cpu_ms.end()));
    }
  }

  const Options options_;
  std::vector<LookupRequest> stored_, hits_, misses_;
  Json document_;
};

}  // namespace
}  // namespace lw

int main(int argc, char** argv) {
  lw::Options options;
  options.folder = std::filesystem::temp_directory_path().string();
  CLI::App app("Times lookups in a large database.");
  app.add_option("--measurements", options.measurements);
  app.add_option("--keys", options.keys);
  app.add_option("--shapes", options.shapes, "of the largest family, at most --keys");
  app.add_option("--folder", options.folder, "where the database is built");
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  options.shapes = std::min(options.shapes, options.keys);
  return lw::Bench(options).run();
}
