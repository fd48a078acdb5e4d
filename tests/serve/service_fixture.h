// A database as a busy service leaves it, filled through SQL: studies in every state with curves,
// devices in every condition, jobs, measurements over a day, schedules to search.
#pragma once

#include <cmath>
#include <string>

#include "loopwright/v1/agent.pb.h"
#include "loopwright/v1/study.pb.h"
#include "schedules/targets/target.h"
#include "src/api/run/devices.h"
#include "src/api/task.h"
#include "src/base/rng.h"
#include "src/measure/run/simulation.h"
#include "tests/support/store_fixture.h"
#include "tuner_db/sql/database.h"

namespace lw {

constexpr int64_t kNow_ms = 1'795'285'917'000;  // 2026-11-21 18:31:57 UTC
constexpr char kHostileName[] = "<img src=x onerror=\"document.title='owned'\">";

class ServiceData {
 public:
  explicit ServiceData(const std::string& file) : database_(*open_database(file)) {}

  Database& database() { return *database_; }

  template <class... Values>
  void run(const std::string& sql, const Values&... values) {
    const absl::Status status =
        database_->write(5, [&](WriteTransaction& tx) { return tx.query(sql, values...).run(); });
    if (!status.ok()) std::fprintf(stderr, "%s\n%s\n", sql.c_str(), status.ToString().c_str());
    CHECK(status.ok());
  }

  // A target row; its id.
  std::string target(const std::string& name) {
    const Target made = make_target(name);
    const std::string id = sha256(to_text(made));
    run("INSERT INTO targets VALUES (?,?) ON CONFLICT DO NOTHING", id, to_text(made));
    return id;
  }

  void agent(const std::string& id, int64_t seen_ms) {
    run("INSERT INTO agents (id, sessions, version, labels, peer, seen_ms) "
        "VALUES (?,?,?,?,?,?)", id, std::string("s1"), std::string("0.4.0"),
        std::string("{\"rack\":\"r2\"}"), std::string("ipv4:127.0.0.1:5"), seen_ms);
  }

  void device(const std::string& id, const std::string& agent, const std::string& target_id,
              const std::string& admission, const std::string& health, const std::string& reason,
              int64_t seen_ms, int done, int failed) {
    loopwright::v1::Device device;
    device.set_name("devices/" + id);
    device.set_kind(id[0] == 'q' ? "qemu-aarch64" : "cpu");
    device.mutable_target()->set_name(id[0] == 'q' ? "aarch64_neon" : "x86_avx512");
    device.mutable_target()->set_cores(16);
    const std::string bytes = device.SerializeAsString();
    run("INSERT INTO devices (id, agent, description, target, admission, reason, evidence, health, "
        "failures, jobs_done, jobs_failed, seen_ms) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", id, agent, Blob{bytes}, target_id,
        admission, reason, std::string("[]"), health, failed > 5 ? 3 : 0, done, failed, seen_ms);
  }

  struct Workload {
    std::string name;
    double zero_us, best_us;
    bool done = false;
    std::string note;
  };

  // A study and its events: each workload improves in steps from its untuned answer to its best.
  void study(const std::string& id, const std::string& client, const std::string& state,
             const std::string& target_id, int64_t created_ms, int64_t ended_ms, int trials,
             int wanted, const std::vector<Workload>& workloads, const std::string& error = "") {
    loopwright::v1::StudySpec spec;
    spec.set_trials(wanted);
    spec.set_target("any");
    (*spec.mutable_labels())["model"] = "resnet50";
    const std::string bytes = spec.SerializeAsString();
    run("INSERT INTO studies (id, client, spec, state, priority, target, device_target, error, "
        "trials, failed, created_ms, updated_ms, ended_ms, owner, owner_epoch, owner_until) "
        "VALUES (?,?,?,?,0,?,?,?,?,?,?,?,?,'',0,0)", id, client, Blob{bytes}, state, target_id,
        target_id, error, trials, trials / 31, created_ms, created_ms, ended_ms);
    Rng random(sha256(id)[0]);
    const double seconds =
        static_cast<double>((ended_ms > 0 ? ended_ms : kNow_ms) - created_ms) / 1e3;
    std::vector<std::pair<double, loopwright::v1::StudyEvent>> events;
    const int count = static_cast<int>(workloads.size());
    for (int i = 0; i < count; ++i) {
      const Workload& w = workloads[i];
      run("INSERT INTO study_workloads (study, position, name, workload, backend, threads, cache, "
          "weight, trials, failed, best_us, zero_us, busy_s, done, note) VALUES "
          "(?,?,?,?,'llvm 19.1.7 r2',?,'warm',1,?,?,?,?,?,?,?)", id, i, w.name, sha256(w.name),
          1 + 7 * (i % 2), trials / count, trials / 31 / count, w.best_us, w.zero_us,
          seconds / count, w.done, w.note);
      if (w.best_us <= 0) continue;
      for (int step = 0; step <= 9; ++step) {
        const double share = 1 - std::pow(1 - step / 9.0, 2.5);
        loopwright::v1::StudyEvent event;
        event.set_kind(loopwright::v1::StudyEvent::KIND_IMPROVED);
        event.set_workload(w.name);
        event.set_best_us(w.zero_us * std::pow(w.best_us / w.zero_us, share));
        const double at = 0.6 * (i + 1) * std::pow(seconds * 0.9 / (0.6 * (i + 1)),
                                                   (step + 0.4 * uniform(random)) / 9.5);
        event.set_elapsed_s(at);
        events.emplace_back(at, event);
      }
    }
    std::sort(events.begin(), events.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    if (ended_ms > 0) {
      loopwright::v1::StudyEvent event;
      event.set_kind(loopwright::v1::StudyEvent::KIND_ENDED);
      events.emplace_back(seconds, event);
    }
    int64_t sequence = 0;
    for (auto& [at, event] : events) {
      event.set_sequence(++sequence);
      const std::string text = event.SerializeAsString();
      run("INSERT INTO events VALUES (?,?,?)", id, sequence, Blob{text});
    }
  }

  // A study of a product on a simulated NPU that has measured its untuned schedule, which is given
  // back with its task.
  struct Simulated {
    Task task;
    Choice untuned;
  };
  Simulated simulated(const std::string& id) {
    TaskOptions options;
    options.target = "npu_mid32";
    const std::vector<std::string> words = {"matmul", "M=64", "N=96", "K=80", "T=i8"};
    Simulated made = {*make_task(words, options), {}};
    made.untuned = *choose(made.task, nullptr);
    const Key& key = made.task.key();
    study(id, "ci", "succeeded", key.target, kNow_ms - 1000, kNow_ms, 1, 1,
          {{"matmul T=i8", 9, 8, true, ""}});
    run("UPDATE study_workloads SET workload = ?, backend = ?, time_kind = 20 WHERE study = ?",
        key.workload, key.backend, id);
    CHECK(put_task(*make_store(database_), made.task).ok());
    measured(made, made.untuned.trace, simulate(made.task, made.untuned)->us);
    return made;
  }
  void measured(const Simulated& of, const std::string& trace, double us) {
    Measurement one = of_kind(make_measurement(0, {us}), TimeKind::kSimulated);
    one.trace = trace;
    one.kernel_hash = sha256(trace)[0];
    std::vector<Measurement> list = {one};
    CHECK(make_store(database_)->append(of.task.key(), list).ok());
  }

  void job(const std::string& study, const std::string& target_id, const std::string& state,
           const std::string& device, int64_t created_ms, int64_t ended_ms, int attempt = 1) {
    run("INSERT INTO jobs (study, position, client, target, state, priority, run_after, attempt, "
        "epoch, device, agent, session, lease_until, created_ms, ended_ms, candidates, payload, "
        "sources, lost_on, digest, detail) VALUES (?,0,'ci',?,?,0,0,?,1,?,'lab-a','s1',?,?,?,16,?,"
        "'','','','')", study, target_id, state, attempt, device, kNow_ms + 20'000, created_ms,
        ended_ms, Blob{""});
  }

  // What failed of a study's first workload.
  void failed(const std::string& study, const std::string& workload, const std::string& target_id,
              const std::string& verdict, const std::string& detail) {
    const std::string id = sha256(workload);
    run("INSERT INTO workloads (id, name, canonical_text, source_words, flops, bytes, shape, "
        "family) VALUES (?,?,'','',1.0,1.0,'','') ON CONFLICT DO NOTHING", id,
        workload);
    run("INSERT INTO keys (workload, target, backend, threads, cache, objective) VALUES "
        "(?,?,'llvm 19.1.7 r2',1,'warm','time') ON CONFLICT DO NOTHING", id, target_id);
    run("INSERT INTO candidates (key, trace) SELECT id, ? FROM keys WHERE workload = ? "
        "ON CONFLICT DO NOTHING", make_trace(0), id);
    run("INSERT INTO measurements (candidate, kernel_hash, verdict, detail, samples_us, \"inner\", "
        "time_us, ci_low_us, ci_high_us, verified, max_rel_error, wall_s, build_s, seed, source, "
        "environment, unix_ms) SELECT c.id,1,?,?,?,1,0.0,0.0,0.0,0,0.0,0.1,0.1,1,'evolve','{}',? "
        "FROM candidates c JOIN keys k ON k.id = c.key WHERE k.workload = ?", verdict, detail,
        Blob{""}, kNow_ms - 1000, id);
    run("UPDATE study_workloads SET failed = failed + 1 WHERE study = ? AND name = ?", study,
        workload);
  }

  // A whole busy service. `extra`: a study and a device with hostile names too.
  void fill(bool extra = false);

 private:
  static double uniform(Rng& random) { return random.uniform(); }
  void fill_jobs(const std::string& x86, const std::string& arm);
  void fill_schedules(const std::string& x86);
  std::shared_ptr<Database> database_;
};

inline void ServiceData::fill_jobs(const std::string& x86, const std::string& arm) {
  Rng random(7);
  const std::string devices[] = {"board-1", "board-2", "qemu-1"};
  for (int d = 0; d < 3; ++d) {
    int64_t at = kNow_ms - 25 * 60'000;
    while (at < kNow_ms - 40'000) {
      const int64_t length = 14'000 + static_cast<int64_t>(45'000 * uniform(random));
      const bool dead = uniform(random) < 0.03;
      job("STUDY7", d == 2 ? arm : x86, dead ? "dead" : "done", devices[d], at, at + length,
          dead ? 3 : 1);
      at += length + static_cast<int64_t>(12'000 * uniform(random) * (d == 2 ? 6 : 1));
    }
    job(d == 2 ? "STUDY6" : "STUDY7", d == 2 ? arm : x86, "leased", devices[d], kNow_ms - 21'000,
        0);
  }
  for (int i = 0; i < 23; ++i) {
    job("STUDY7", i % 5 == 0 ? arm : x86, "queued", "", kNow_ms - 1000 * (240 - i), 0, 0);
  }
}

inline void ServiceData::fill_schedules(const std::string& x86) {
  Rng random(3);
  const char* names[] = {"matmul", "conv2d", "batch_matmul", "softmax", "layer_norm", "depthwise"};
  for (int i = 0; i < 60; ++i) {
    WorkloadRow row = make_workload(64 * (i + 1));
    row.name = names[i % 6];
    row.source_words = absl::StrCat(row.name, " M=", 64 * (i + 1), " N=64 K=64");
    row.flops *= 8;
    run("INSERT INTO workloads (id, name, canonical_text, source_words, flops, bytes, shape, "
        "family) VALUES (?,?,?,?,?,?,?,?)", row.id, row.name, row.canonical_text,
        row.source_words, row.flops, row.bytes, std::string("64"), row.structure);
    run("INSERT INTO keys (workload, target, backend, threads, cache, objective) VALUES "
        "(?,?,'llvm 19.1.7 r2',?,'warm','time')", row.id, x86, 1 + i % 2);
    for (int c = 0; c < 3; ++c) {
      run("INSERT INTO candidates (key, trace, samples, median_us, high_us, eligible) VALUES "
          "(?,?,20,?,?,1)", i + 1, make_trace(c), row.flops / 1e3 / (150 - 20 * c),
          row.flops / 1e3 / (150 - 20 * c) * 1.02);
    }
  }
  const char* verdicts[] = {"ok", "ok", "ok", "ok", "ok", "build_error", "crash", "timeout",
                            "wrong_result", "device_limit", "worker_lost"};
  CHECK(database_->write(5, [&](WriteTransaction& tx) -> absl::Status {
    for (int i = 0; i < 3000; ++i) {
      size_t kind = static_cast<size_t>(uniform(random) * 40);
      const std::string verdict = verdicts[kind < 11 ? kind : 0];
      const int64_t time = kNow_ms - static_cast<int64_t>((3000 - i) * 28'000);
      RETURN_IF_ERROR(tx.query(
          "INSERT INTO measurements (candidate, kernel_hash, verdict, detail, samples_us, inner, "
          "time_us, ci_low_us, ci_high_us, verified, max_rel_error, wall_s, build_s, seed, source, "
          "environment, unix_ms) VALUES (?,1,?,'',?,1,1.0,1.0,1.0,1,0.0,0.1,0.1,1,'evolve','{}',?)",
          1 + i % 180, verdict, Blob{""}, time).run());
    }
    return absl::OkStatus();
  }).ok());
}

inline void ServiceData::fill(bool extra) {
  const std::string x86 = target("x86_avx512"), arm = target("aarch64_neon");
  agent("lab-a", kNow_ms - 2'000);
  agent("lab-b", kNow_ms - 4'000);
  agent("attic", kNow_ms - 2 * 3'600'000);
  device("board-1", "lab-a", x86, "open", "ok", "", kNow_ms - 2'000, 812, 3);
  device("board-2", "lab-a", x86, "open", "throttled", "", kNow_ms - 2'000, 640, 21);
  device("board-3", "lab-b", x86, "quarantined", "unhealthy",
         "the reference kernel drifted by 11 % from its baseline", kNow_ms - 4'000, 57, 9);
  device("board-4", "attic", x86, "open", "ok", "", kNow_ms - 2 * 3'600'000, 120, 0);
  device("qemu-1", "lab-b", arm, "draining", "ok", "kernel update", kNow_ms - 4'000, 44, 1);
  const int64_t minute = 60'000;
  study("STUDY1", "ci", "succeeded", x86, kNow_ms - 400 * minute, kNow_ms - 380 * minute, 200, 200,
        {{"matmul M=1024 N=1024 K=1024", 21300, 11700, true, ""}});
  study("STUDY2", "anna", "cancelled", x86, kNow_ms - 300 * minute, kNow_ms - 296 * minute, 60, 400,
        {{"softmax M=4096 N=1024", 810, 655, false, ""}, {"layer_norm", 420, 401, false, ""}});
  study("STUDY3", "ci", "failed", x86, kNow_ms - 200 * minute, kNow_ms - 199 * minute, 16, 200,
        {{"conv3d_bad", 0, 0, false, "nothing valid"}},
        "no candidate passed its check on any device");
  study("STUDY4", "ci", "succeeded", x86, kNow_ms - 120 * minute, kNow_ms - 100 * minute, 600, 600,
        {{"dense_gelu M=512 N=512 K=512", 2510, 1681, true, ""},
         {"batch_matmul B=12 M=128 N=128 K=64", 940, 611, true, "stopped early: no gain expected"},
         {"matmul M=4096 N=64 K=64", 291, 189, true, ""}});
  study("STUDY6", "anna", "running", arm, kNow_ms - 11 * minute, 0, 41, 200,
        {{"matmul M=256 N=256 K=256", 1904, 1210, false, ""}});
  study("STUDY7", "ci", "running", x86, kNow_ms - 25 * minute, 0, 734, 1200,
        {{"conv2d 56x56x64 3x3", 8120, 3105, false, ""},
         {"conv2d 28x28x128 3x3", 7644, 2890, false, ""},
         {"conv2d 14x14x256 3x3", 7301, 3377, false, ""},
         {"matmul M=512 N=512 K=512", 2204, 1543, true, "stopped early: no gain expected"},
         {"depthwise 56x56x64 3x3", 611, 240, false, ""},
         {"softmax M=512 N=1000", 402, 371, true, ""}});
  study("STUDY8", "batch", "queued", arm, kNow_ms - 3 * minute, 0, 0, 800,
        {{"matmul M=64 N=64 K=64", 0, 0, false, ""}, {"row_sum", 0, 0, false, ""}});
  fill_jobs(x86, arm);
  fill_schedules(x86);
  if (!extra) return;
  study("STUDY9", kHostileName, "running", x86, kNow_ms - minute, 0, 3, 100,
        {{kHostileName, 100, 50, false, kHostileName}}, kHostileName);
  device(kHostileName, "lab-a", x86, "quarantined", "ok", kHostileName, kNow_ms, 0, 0);
}

}  // namespace lw
