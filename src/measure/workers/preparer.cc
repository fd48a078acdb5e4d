// The preparer's process: fills the inputs and asks the reference, beside the first builds.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "loopwright/program.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/expr/reference/interpret.h"
#include "src/expr/work/work.h"
#include "src/measure/process/sandbox.h"
#include "src/measure/workers/workbench.h"
#include "src/measure/workers/worker_loop.h"

namespace lw {
namespace {

// With subnormals in a tenth of the slices most vectors have one, over which processors with microcode for
// them take some 150 cycles: no more than some 50 ms of a search's seconds for each kernel that leads.
constexpr double kSubnormalOperations = 1 << 24;

// What lies beside an input is poison too: a kernel that reads it shows NaN.
void fill(const Workbench& bench, int set) {
  const bool subnormals =
      set == kEdges && count_flops(*bench.program).counted <= kSubnormalOperations;
  for (size_t i = 0; i < bench.arguments.size(); ++i) {
    const Argument& a = bench.arguments[i];
    if (a.output) continue;
    std::byte* memory = a.memory[set].data();
    const int64_t offset = argument_offset(bench, set, static_cast<int>(i));
    const int64_t end = offset + a.bytes;
    std::memset(memory, kPoison, static_cast<size_t>(offset));
    std::memset(memory + end, kPoison, static_cast<size_t>(a.memory[set].bytes() - end));
    const uint64_t seed = bench.options.seed + i;
    if (set == kEdges) {
      fill_edge_input(*bench.program, a.tensor, seed, subnormals, memory + offset);
    } else {
      fill_random_input(*bench.program, a.tensor, seed, set == kIntegers, memory + offset);
    }
  }
}

absl::StatusOr<std::string> interpret_whole(const Workbench& bench, int set) {
  std::vector<Data> in;
  const std::vector<const std::byte*> data = input_data(bench, set);
  const std::vector<int> tensors = inputs(*bench.program);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t size = bytes(bench.program->tensors[tensors[i]]);
    in.push_back({std::vector<std::byte>(data[i], data[i] + size)});
  }
  ASSIGN_OR_RETURN(std::vector<Data> out, interpret(*bench.program, in));
  Writer writer;
  for (const Data& d : out) {
    writer.put_string({reinterpret_cast<const char*>(d.bytes.data()), d.bytes.size()});
  }
  return writer.bytes();
}

absl::StatusOr<std::string> prepared_answer(const Workbench& bench, const Message& request) {
  Reader reader(request.payload);
  const int set = reader.get<int32_t>();
  if (request.type == kFill) {
    fill(bench, set);
    return "";
  }
  if (request.type == kInterpret) return interpret_whole(bench, set);
  const int64_t begin = reader.get<int64_t>(), end = reader.get<int64_t>();
  evaluate_points(*bench.program, input_data(bench, set), bench.points[set], begin, end,
                  now() + reader.get<double>(), bench.value_table(set));
  return "";
}

}  // namespace

void preparer_main(const Workbench& bench, int socket, const Isolation& isolation) {
  Confinement confinement;
  confinement.socket = socket;
  confinement.memory_bytes = bench.options.memory_limit_bytes;
  confinement.keep_stderr = true;
  if (!confine(isolation, confinement)) _exit(kNotIsolated);
  serve_requests(socket, [&](const Message& request) { return prepared_answer(bench, request); });
}

}  // namespace lw
