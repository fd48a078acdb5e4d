// What the fuzz targets of the simulated NPU do with a program that they have read.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/check.h"
#include "src/npu/function/function.h"
#include "src/npu/isa/check.h"
#include "src/npu/isa/encode.h"
#include "src/npu/isa/text.h"

namespace lw::npu {

inline constexpr int64_t kMostSteps = 1 << 16;   // of a program that is run: it may ask for 2^40

// Bytes and words that it touches, which its events and its products are counted by.
inline int64_t count_steps(const Program& program) {
  int64_t steps = 0;
  for (const Instruction& one : program) {
    steps += 1 + macs(one) / 256;
    for (const Access& access : accesses_of(one)) {
      steps += access.length * access.count[0] * access.count[1] * access.count[2];
    }
    if (steps > kMostSteps) break;
  }
  return steps;
}

// It is written as text and as bytes and read again; where the machine takes it, and it is short,
// it is timed, executed and looked at for races, and ends in one of the ways there are.
inline void exercise(const Config& config, const Program& program) {
  const std::string text = print_program(program);
  const absl::StatusOr<Program> parsed = parse_program(text, "printed");
  CHECK(parsed.ok() && print_program(*parsed) == text);
  const absl::StatusOr<std::string> image = make_image(program);
  CHECK(image.ok() && print_program(*read_image(*image)) == text);
  if (!check_program(config, program).ok() || count_steps(program) > kMostSteps) return;
  std::vector<Span> timeline;
  TimingOptions options;
  options.timeline = &timeline;
  const absl::StatusOr<Timing> timing = simulate(config, program, options);
  CHECK(timing.ok());
  const bool done = timing->ending == Ending::kDone;
  CHECK(done == timing->blocked.empty());
  if (done) CHECK(timing->bounds.largest() <= static_cast<double>(timing->cycles));
  std::vector<uint8_t> dram(1 << 16);
  absl::StatusOr<Memory> memory = make_memory(config, {{0, dram, true}});
  CHECK(memory.ok());
  const absl::StatusOr<FunctionReport> report =
      execute(config, program, *timing, timeline, &*memory);
  CHECK(report.ok());
  const FunctionStatus status = report->status;
  CHECK((status == FunctionStatus::kOk) == report->errors.empty());
  if (!done) CHECK(status != FunctionStatus::kOk && status != FunctionStatus::kRace);
}

}  // namespace lw::npu
