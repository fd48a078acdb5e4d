// What a program that uses the installed library looks like: tune a small workload into memory, run
// the winner, compare one element.
#include <cmath>
#include <cstdio>

#include "src/api/api.h"

int main() {
  const absl::StatusOr<lw::Task> task =
      lw::make_task({"matmul", "M=24", "N=40", "K=16"}, {.target = "host", .threads = 1});
  if (!task.ok()) return 1;
  const std::unique_ptr<lw::Store> store = lw::make_memory_store();
  lw::SearchOptions options;
  options.trials = 4;
  options.seconds = 20;
  const absl::StatusOr<lw::TuneResult> tuned = lw::tune_task(*task, *store, options);
  if (!tuned.ok()) {
    std::puts(tuned.status().ToString().c_str());
    return 2;
  }
  const absl::StatusOr<lw::Choice> choice = lw::choose(*task, store.get());
  if (!choice.ok() || choice->outcome != "exact") return 3;
  const auto kernel = lw::Executable::create(*task, *choice);
  absl::StatusOr<lw::ArgumentMemory> memory = lw::ArgumentMemory::create(*task->program);
  if (!kernel.ok() || !memory.ok()) return 4;
  memory->fill_inputs(*task->program, 1);
  if (!(*kernel)->prepack(memory->pointers()).ok() || !(*kernel)->run(memory->pointers()).ok())
    return 5;
  const float* a = reinterpret_cast<const float*>(memory->data(0));
  const float* b = reinterpret_cast<const float*>(memory->data(1));
  const float* c = reinterpret_cast<const float*>(memory->data(2));
  double sum = 0;
  for (int k = 0; k < 16; ++k) sum += a[3 * 16 + k] * b[k * 40 + 7];
  if (std::abs(sum - c[3 * 40 + 7]) > 1e-5) return 6;
  std::printf("%.2f us\n", choice->measurement->time_us);
  return 0;
}
