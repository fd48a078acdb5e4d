// What a compiler does: asks for the schedule of a workload, from a daemon or a snapshot file, gets
// the best there is within 50 ms and how good that is, builds the kernel and runs it.
//
//   lookup SERVER_OR_SNAPSHOT WORKLOAD...      lookup 127.0.0.1:7070 matmul M=128 N=768 K=768
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "loopwright/client.h"
#include "loopwright/kernel.h"

namespace {

int fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

double milliseconds(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "lookup SERVER_OR_SNAPSHOT WORKLOAD...\n");
    return 1;
  }
  const std::string from = argv[1];
  lw::ClientOptions options;
  (from.find(':') != std::string::npos ? options.server : options.snapshot) = from;
  const auto client = lw::ScheduleClient::open(options);
  if (!client.ok()) return fail(client.status());
  const auto task = lw::make_task({argv + 2, argv + argc}, {});
  if (!task.ok()) return fail(task.status());

  const auto begun = std::chrono::steady_clock::now();
  const auto found = (*client)->lookup(*task);
  if (!found.ok()) return fail(found.status());
  const lw::LookupAnswer& answer = found->answer;
  std::printf("%s, from %s, in %.1f ms\n", std::string(lw::rung_name(answer.outcome)).c_str(),
              found->origin.empty() ? "the analytic model" : found->origin.c_str(),
              milliseconds(begun));
  if (answer.record != nullptr) {
    std::printf("measured %.2f us for %s, distance %.2f\n", answer.time_us(),
                answer.source_words().c_str(), answer.distance);
  }
  std::printf("%s", answer.trace.c_str());

  const auto kernel = lw::Executable::create(*task, lw::as_choice(answer));
  auto memory = lw::ArgumentMemory::create(*task->program());
  if (!kernel.ok() || !memory.ok()) return fail(kernel.ok() ? memory.status() : kernel.status());
  memory->fill_inputs(*task->program(), 1);
  if (const auto packed = (*kernel)->prepack(memory->pointers()); !packed.ok()) return fail(packed);
  for (int warm = 0; warm < 3; ++warm) (*kernel)->run(memory->pointers()).IgnoreError();
  const auto start = std::chrono::steady_clock::now();
  if (const auto ran = (*kernel)->run(memory->pointers()); !ran.ok()) return fail(ran);
  std::printf("\none run here: %.1f us\n", 1e3 * milliseconds(start));
  return 0;
}
