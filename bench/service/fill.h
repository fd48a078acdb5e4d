// Databases of the benches, filled without waiting for anything that is not timed.
#pragma once

#include <string>
#include <vector>

#include "bench/service/rows.h"
#include "loopwright/task.h"
#include "src/base/rng.h"
#include "tuner_db/best.h"
#include "tuner_db/ladder/ladder.h"

namespace lw {

constexpr char kBenchTarget[] = "x86_avx512";

// Program `number` of the large database: the first `shapes` are matrix products, which are one
// structure; the rest are of a hundred structures (a product and an epilogue with a factor).
Task bench_task(int number, int shapes);
// A matrix product that is not stored.
Task unknown_task(Rng& rng);

// Different schedules of the task, each of which can be lowered.
std::vector<std::string> bench_traces(const Task& task, int count);

// As a device would send it, its trace as long as a real one; its kernel's hash is `number`.
Measurement bench_measurement(int number, Rng& rng);

// The database of options.measurements measurements: made once, then found in the folder.
std::string large_database(const ServiceBenchOptions& options, ServiceReport& report);

struct QueueShape {
  int jobs = 0, candidates = 1, studies = 16, clients = 4;
};
// Studies whose jobs are all there, queued for devices of kBenchTarget: what a search would have
// written, but more of it than one search thinks of in the time.
void fill_queue(const std::string& file, const QueueShape& shape);

}  // namespace lw
