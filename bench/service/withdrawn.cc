// The row `withdrawn`: what a list of ten thousand withdrawals costs a compiler whose cache has all
// that it asks for, beside an empty one.
#include <filesystem>

#include "bench/service/fill.h"
#include "loopwright/client.h"
#include "src/api/lookup.h"
#include "src/api/task.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/base/rng.h"
#include "src/client/cache.h"
#include "src/client/withdrawn_cache.h"

namespace lw {
namespace {

constexpr int kWithdrawals = 10'000, kEntries = 300, kQuestions = 3000;

// Microseconds of one cached answer, by key alone, and of the first that a process asks for.
struct Costs {
  double first_us = 0;
  std::vector<double> others_us;
};
Costs ask(const std::string& folder, const std::vector<LookupRequest>& entries) {
  ClientOptions options;
  options.cache_folder = folder;
  options.frozen = true;
  const std::unique_ptr<ScheduleClient> client = *ScheduleClient::open(options);
  Costs costs;
  Rng rng(3);
  for (int i = 0; i < kQuestions; ++i) {
    const auto entry = static_cast<size_t>(rng.below(kEntries));
    const double begin = now();
    CHECK(!client->candidates({entries[entry]})[0].empty());
    const double us = (now() - begin) * 1e6;
    if (i == 0) costs.first_us = us;
    else costs.others_us.push_back(us);
  }
  return costs;
}

}  // namespace

void bench_withdrawn(const ServiceBenchOptions& options, ServiceReport& report) {
  const std::string folder = options.folder + "/withdrawn";
  std::filesystem::remove_all(folder);
  const ScheduleCache cache(folder);
  std::vector<LookupRequest> entries;
  Rng rng(1);
  for (int i = 0; i < kEntries; ++i) {
    const Task task = bench_task(i, kEntries);
    Measurement m = bench_measurement(i + 1, rng);
    m.verified = true;
    auto record =
        std::make_shared<ScheduleRecord>(make_record(task.workload(), {task.key(), m, {}}));
    for (int other = 0; other < kRecordTraces - 1; ++other) {
      record->others.push_back({bench_measurement(i + other, rng).trace, 1.0});
    }
    CHECK(cache.write(task.key(), {{Rung::kExact, 0, false, record}}, 1).ok());
    entries.push_back(request_of(task));
  }
  for (const int withdrawals : {0, kWithdrawals}) {
    std::set<std::string> digests;         // of a record and a kernel each
    for (int i = 0; i < 2 * withdrawals; ++i) digests.insert(sha256(concat(i)));
    WithdrawnCache(folder).put(WithdrawnSaid{WithdrawnList(digests), "etag"}, 1);
    Costs costs = ask(folder, entries);
    const std::string with = concat(", ", withdrawals, " withdrawn");
    report.tell("withdrawn", "a cached answer" + with + ", p50", percentile(costs.others_us, 0.5),
                "us");
    report.tell("withdrawn", "a cached answer" + with + ", p99", percentile(costs.others_us, 0.99),
                "us");
    report.tell("withdrawn", "a process's first" + with, costs.first_us, "us");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace lw
