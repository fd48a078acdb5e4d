// The rows `lookup` and `snapshot`: a database of a million measurements, asked over gRPC as the
// client library asks a daemon (identity and target in every query), and in this process.
#include <time.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "bench/service/fill.h"
#include "bench/service/process.h"
#include "src/api/lookup.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/client/grpc/grpc_source.h"
#include "tuner_db/ladder/index.h"
#include "tuner_db/ladder/snapshot.h"

namespace lw {
namespace {

constexpr int kQuestions = 2000, kBatch = 500, kBatches = 40;
constexpr int kMissEvery = 10;             // one of so many is not stored
constexpr int kPatienceMs = 10'000;

struct Questions {
  std::vector<LookupRequest> hits, misses, mixed;
};

Questions make_questions(const ServiceBenchOptions& options) {
  Questions questions;
  Rng rng(2);
  for (int i = 0; i < kQuestions; ++i) {
    const int number = static_cast<int>(rng.below(options.keys));
    questions.hits.push_back(request_of(bench_task(number, options.shapes)));
    questions.misses.push_back(request_of(unknown_task(rng)));
    questions.mixed.push_back(i % kMissEvery == 0 ? questions.misses.back()
                                                  : questions.hits.back());
  }
  return questions;
}

// Of the calling thread: what others run on the machine does not count.
double cpu_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::vector<double> time_us(size_t count, const std::function<void(size_t)>& run) {
  std::vector<double> us;
  for (size_t i = 0; i < count; ++i) {
    const double begin = now();
    run(i);
    us.push_back((now() - begin) * 1e6);
  }
  return us;
}

// REQUIRES: the daemon answers.
std::vector<std::vector<Match>> ask(ScheduleSource& source,
                                    absl::Span<const LookupRequest> queries) {
  auto found = source.batch_lookup(queries, kPatienceMs);
  if (!found.ok()) std::fprintf(stderr, "BatchLookup: %s\n", found.status().ToString().c_str());
  CHECK(found.ok());
  return *std::move(found);
}

std::string percent_text() { return concat(100 / kMissEvery, " % of them nearest shapes"); }

void ask_daemon(const std::string& address, const Questions& questions, ServiceReport& report) {
  const std::shared_ptr<ScheduleSource> source =
      (*make_grpc_source(ServerAddress{address, {}, false}));
  const auto one = [&](const std::vector<LookupRequest>& queries) {
    return time_us(queries.size(), [&](size_t i) {
      CHECK(!ask(*source, {&queries[i], 1})[0].empty());
    });
  };
  const auto batches = [&](const std::vector<LookupRequest>& queries) {
    return time_us(kBatches, [&](size_t i) {
      const absl::Span<const LookupRequest> all = queries;
      const auto found = ask(*source, all.subspan(i * kBatch % kQuestions, kBatch));
      for (const std::vector<Match>& matches : found) CHECK(!matches.empty());
    });
  };
  for (const auto& [what, queries] : {std::pair("stored", &questions.hits),
                                      std::pair("not stored", &questions.misses)}) {
    std::vector<double> us = one(*queries);
    report.tell("lookup", concat("gRPC, one key, ", what, ", p50"), percentile(us, 0.5) / 1e3,
                "ms");
    report.tell("lookup", concat("gRPC, one key, ", what, ", p99"), percentile(us, 0.99) / 1e3,
                "ms");
    std::vector<double> all = batches(*queries);
    report.tell("lookup", concat("gRPC, batch of ", kBatch, ", all ", what, ", p50"),
                percentile(all, 0.5) / 1e3, "ms");
  }
  std::vector<double> us = one(questions.mixed), all = batches(questions.mixed);
  report.add("lookup", concat("gRPC, one key, ", percent_text(), ", p99"),
             percentile(us, 0.99) / 1e3, 2, "ms");
  report.tell("lookup", concat("gRPC, batch of ", kBatch, ", ", percent_text(), ", p50"),
              percentile(all, 0.5) / 1e3, "ms");
  report.add("lookup", concat("gRPC, batch of ", kBatch, ", ", percent_text(), ", worst of ",
                              kBatches), percentile(all, 0.999) / 1e3, 30, "ms");
}

// climb() over a source in this process; adapting the found record is the compiler's own time.
void ask_source(const std::string& row, const RecordSource& source, const Questions& questions,
                double exact_bar_us, ServiceReport& report) {
  const auto look = [&](const LookupRequest& query) {
    const absl::StatusOr<std::vector<Match>> found = climb(query, source, {});
    CHECK(found.ok() && !found->empty());
    return (*found)[0].rung;
  };
  look(questions.misses[0]);               // a snapshot decodes a structure at its first use
  std::vector<double> exact = time_us(kQuestions, [&](size_t i) {
    CHECK(look(questions.hits[i]) == Rung::kExact);
  });
  std::vector<double> near = time_us(kQuestions, [&](size_t i) {
    CHECK(look(questions.misses[i]) == Rung::kNearestShape);
  });
  report.tell(row, "in process, stored, p50", percentile(exact, 0.5), "us");
  report.add(row, "in process, stored, p99", percentile(exact, 0.99), exact_bar_us, "us");
  report.tell(row, "in process, nearest shape, p50", percentile(near, 0.5), "us");
  report.tell(row, "in process, nearest shape, p99", percentile(near, 0.99), "us");
  const double begin = cpu_now();
  std::vector<double> all = time_us(kBatches, [&](size_t i) {
    for (size_t j = 0; j < kBatch; ++j) look(questions.mixed[(i * kBatch + j) % kQuestions]);
  });
  const double cpu_ms = (cpu_now() - begin) * 1e3 / kBatches;
  report.add(row, concat("in process, batch of ", kBatch, ", ", percent_text(), ", worst of ",
                         kBatches), percentile(all, 0.999) / 1e3, exact_bar_us > 0 ? 0 : 30, "ms");
  report.tell(row, "the same, processor time of one", cpu_ms, "ms");
}

}  // namespace

void bench_lookup(const ServiceBenchOptions& options, ServiceReport& report) {
  const std::string file = large_database(options, report);
  const Questions questions = make_questions(options);
  {
    const double begin = now();
    BenchDaemon daemon = start_daemon(options.loopwright, file);
    // The index is read behind: the first unknown shape that has a neighbour says that it is there,
    // an idle daemon that it is complete.
    const std::shared_ptr<ScheduleSource> source =
        (*make_grpc_source(ServerAddress{daemon.address, {}, false}));
    for (bool ready = false; !ready;) {
      const double cpu = daemon.process->cpu_s();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const auto found = ask(*source, {&questions.misses[0], 1});
      ready = !found[0].empty() && daemon.process->cpu_s() - cpu < 0.1;
    }
    report.tell("lookup", "the daemon's index complete after", now() - begin, "s");
    const double cpu = daemon.process->cpu_s();
    ask_daemon(daemon.address, questions, report);
    report.tell("lookup", "the daemon's processor time for all of that",
                daemon.process->cpu_s() - cpu, "s");
  }
  DatabaseOptions read_only;
  read_only.read_only = true;
  const std::unique_ptr<Store> store = *open_sqlite_store(file, read_only);
  LadderIndex index(*store);
  const double begin = cpu_now();
  CHECK(index.refresh().ok());
  report.tell("lookup", "reading the index, processor time", cpu_now() - begin, "s");
  report.tell("lookup", "records resident in the index",
              static_cast<double>(index.stats().resident_bytes) / 1e6, "MB");
  ask_source("lookup", index, questions, 0, report);
}

void bench_snapshot(const ServiceBenchOptions& options, ServiceReport& report) {
  const std::string file = large_database(options, report);
  const std::string shot = options.folder + "/bench.lws";
  DatabaseOptions read_only;
  read_only.read_only = true;
  const std::unique_ptr<Store> store = *open_sqlite_store(file, read_only);
  double begin = now();
  CHECK(write_snapshot(*store, shot, 3, 1).ok());
  report.tell("snapshot", "writing it", now() - begin, "s");
  report.tell("snapshot", "its file", static_cast<double>(std::filesystem::file_size(shot)) / 1e6,
              "MB");
  begin = now();
  const std::unique_ptr<Snapshot> snapshot = *Snapshot::open(shot);
  report.tell("snapshot", "opening it", (now() - begin) * 1e6, "us");
  ask_source("snapshot", *snapshot, make_questions(options), 20, report);
  std::filesystem::remove(shot);
}

}  // namespace lw
