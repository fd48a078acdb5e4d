// What a program that uses the installed library looks like, door by door: writes a program, tunes
// it into memory, asks for its bound, runs the winner, compares one element, looks the program up
// for another machine and exports it.
#include <cmath>
#include <cstdio>

#include "loopwright/bounds.h"
#include "loopwright/builder.h"
#include "loopwright/client.h"
#include "loopwright/kernel.h"
#include "loopwright/task.h"
#include "loopwright/tuning.h"

namespace {

absl::StatusOr<lw::Program> product(int64_t m, int64_t n, int64_t depth) {
  lw::OpBuilder b("product");
  const lw::TensorRef A = b.input("A", lw::Type::kF32, {m, depth});
  const lw::TensorRef B = b.constant("B", lw::Type::kF32, {depth, n});
  b.output("C", {{"i", m}, {"j", n}}, [&](const lw::Values& x) {
    const lw::ReduceAxis k = b.reduce_axis("k", depth);
    return b.sum({k}, A(x[0], k) * B(k, x[1]));
  });
  return b.build();
}

int fail(int code, const absl::Status& status) {
  std::puts(status.ToString().c_str());
  return code;
}

}  // namespace

int main() {
  const absl::StatusOr<lw::Program> program = product(24, 40, 16);
  if (!program.ok()) return fail(1, program.status());
  const absl::StatusOr<lw::Task> task = lw::make_task(*program, "product", {.threads = 1});
  const absl::StatusOr<std::shared_ptr<lw::Store>> store = lw::open_measurements("");
  if (!task.ok() || !store.ok()) return fail(2, task.ok() ? store.status() : task.status());

  int trials = 0;
  const absl::StatusOr<lw::Choice> choice =
      lw::tune(*task, **store, {.trials = 1000}, [&](const lw::TuneProgress& progress) {
        trials = progress.trials;
        return trials < 4;                 // that is enough
      });
  if (!choice.ok()) return fail(3, choice.status());
  if (choice->outcome != "exact" || !lw::is_verified(*choice)) return 4;
  if (trials < 4 || trials >= 1000) return 15;
  const absl::StatusOr<lw::Choice> stored = lw::choose(*task, store->get());
  if (!stored.ok() || stored->trace != choice->trace) return 5;
  const absl::StatusOr<lw::Bound> bound =
      lw::measure_bound_beside(*task, *choice, choice->time_us());
  if (!bound.ok() || bound->set_by().us <= 0) return 6;

  const auto kernel = lw::Executable::create(*task, *choice);
  absl::StatusOr<lw::ArgumentMemory> memory = lw::ArgumentMemory::create(*task->program());
  if (!kernel.ok() || !memory.ok()) return 7;
  memory->fill_inputs(*task->program(), 1);
  if (!(*kernel)->prepack(memory->pointers()).ok() || !(*kernel)->run(memory->pointers()).ok())
    return 8;
  const float* a = reinterpret_cast<const float*>(memory->data(0));
  const float* b = reinterpret_cast<const float*>(memory->data(1));
  const float* c = reinterpret_cast<const float*>(memory->data(2));
  double sum = 0;
  for (int k = 0; k < 16; ++k) sum += a[3 * 16 + k] * b[k * 40 + 7];
  if (std::abs(sum - c[3 * 40 + 7]) > 1e-5) return 9;

  const auto target = lw::load_target("x86_avx2");
  const auto client = lw::ScheduleClient::open({});
  if (!target.ok() || !client.ok()) return 10;
  const absl::StatusOr<lw::Task> elsewhere = lw::make_task(*program, "product", *target, 2);
  if (!elsewhere.ok()) return fail(11, elsewhere.status());
  const absl::StatusOr<lw::ClientAnswer> found = (*client)->lookup(*elsewhere);
  if (!found.ok()) return fail(12, found.status());
  if (found->answer.outcome != lw::Rung::kDefault || found->answer.time_us() != 0) return 13;
  const absl::StatusOr<std::vector<std::string>> files =
      lw::export_kernel(*elsewhere, lw::as_choice(found->answer), "exported");
  if (!files.ok() || files->size() != 3) return fail(14, files.status());

  std::printf("%.2f us, bound %.2f us\n", choice->time_us(), bound->bound_us);
  return 0;
}
