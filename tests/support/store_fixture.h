// Rows for the tests of the Store.
#pragma once

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/rng.h"
#include "tests/support/files.h"
#include "tuner_db/best.h"
#include "tuner_db/store.h"

namespace lw {

struct Target;                             // schedules/targets/target.h

// A matmul of so many rows.
WorkloadRow make_workload(int extent);
Target make_target(const std::string& name = "x86_test");
Key make_key(const WorkloadRow& workload, const Target& target);
// Stores the workload and the target that the key names.
Key put_key(Store& store, int extent = 128, const std::string& target = "x86_test");

inline std::string make_trace(int number) {
  return absl::StrCat("split(C, i; ", number, ", 6, 0)\n");
}

// Verified and OK, with these samples.
inline Measurement make_measurement(int trace, std::vector<double> samples) {
  Measurement m;
  m.trace = make_trace(trace);
  m.kernel_hash = 0x8000000000000000u + static_cast<uint64_t>(trace);
  m.samples_us = samples;
  m.inner = 7;
  const MedianInterval interval = median_interval(samples);
  m.time_us = interval.median;
  m.ci_low_us = interval.low;
  m.ci_high_us = interval.high;
  m.verified = true;
  m.max_rel_error = 0.25;
  m.wall_s = 1.5;
  m.build_s = 0.01;
  m.seed = ~uint64_t{0};
  m.source = "evolve";
  m.environment = "{\"clock_ghz\":3.1}";
  m.unix_ms = 1'800'000'000'000;
  return m;
}

inline Measurement of_kind(Measurement m, TimeKind kind) {
  m.time_kind = kind;
  return m;
}

inline Measurement make_failure(int trace, Verdict verdict) {
  Measurement m;
  m.trace = make_trace(trace);
  m.verdict = verdict;
  m.detail = "signal 11";
  m.unix_ms = 1'800'000'000'000;
  return m;
}

// Everything of a measurement but its id.
inline std::string content(const Measurement& m) {
  std::string text = absl::StrFormat(
      "%s|%x|%s|%s|%d|%.17g|%.17g|%.17g|%d|%.17g|%.17g|%.17g|%x|%s|%s|%d|", m.trace, m.kernel_hash,
      std::string(verdict_name(m.verdict)), m.detail, m.inner, m.time_us, m.ci_low_us, m.ci_high_us,
      m.verified, m.max_rel_error, m.wall_s, m.build_s, m.seed, m.source, m.environment, m.unix_ms);
  for (double sample : m.samples_us) absl::StrAppendFormat(&text, "%.17g,", sample);
  text += time_kind_name(m.time_kind);
  return text;
}

// A directory of its own, deleted with the object. In memory where there is such a place, because
// thousands of syncs of a disk that others use take minutes.
struct Scratch {
  std::string directory;
  std::string file;
  static std::filesystem::path memory() {
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
  }
  explicit Scratch(const std::filesystem::path& where = memory()) {
    std::string name = (where / "store_test_XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    directory = name;
    file = directory + "/test.db";
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
};

// ---- files and processes

inline DatabaseOptions patience(double seconds) {
  DatabaseOptions options;
  options.patience_s = seconds;
  return options;
}

inline DatabaseOptions read_only() {
  DatabaseOptions options = patience(0.2);
  options.read_only = true;
  return options;
}

inline void spill(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

// Runs SQL on a file behind the store's back.
inline void sql(const std::string& file, const std::string& text) {
  sqlite3* handle = nullptr;
  CHECK(sqlite3_open(file.c_str(), &handle) == SQLITE_OK);
  CHECK(sqlite3_exec(handle, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  CHECK(sqlite3_close(handle) == SQLITE_OK);
}

// A database with a few measurements, closed.
inline Key fill(const std::string& file, int count = 3) {
  std::unique_ptr<Store> store = *open_sqlite_store(file);
  const Key key = put_key(*store);
  for (int i = 0; i < count; ++i) {
    std::vector<Measurement> batch = {make_measurement(i, {10.0 + i, 11.0 + i})};
    CHECK(store->append(key, batch).ok());
  }
  return key;
}

// A child process that runs `body` and exits; its pid. The parent must hold no database open.
inline pid_t child(const std::function<void()>& body) {
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

inline int wait_for(pid_t pid) {
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid);
  return status;
}

struct Pipe {
  int read_end, write_end;
  Pipe() {
    int ends[2];
    CHECK(pipe(ends) == 0);
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close(read_end);
    close(write_end);
  }
  void say(char byte) { CHECK(write(write_end, &byte, 1) == 1); }
  void hear() {
    char byte;
    CHECK(read(read_end, &byte, 1) == 1);
  }
};

}  // namespace lw
