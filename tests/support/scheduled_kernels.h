// What the tests of schedules share: random schedules of a program as kernels, and running one with
// every buffer between guard pages.
#pragma once

#include <optional>

#include "schedules/steps.h"
#include "src/expr/language/text.h"
#include "src/lower/lower.h"
#include "tests/support/build_helpers.h"

namespace lw {

struct Scheduled {
  std::string schedule;                    // the trace
  Kernel kernel;
};

// Lowers and verifies; a nest that is infeasible gives nullopt, any other failure is our bug.
inline std::optional<Scheduled> schedule_kernel(const Nest& nest, const Trace& trace,
                                                const LowerOptions& options = {}) {
  absl::StatusOr<Kernel> kernel = lower(nest, options);
  if (!kernel.ok()) {
    EXPECT_EQ(kernel.status().code(), absl::StatusCode::kFailedPrecondition)
        << kernel.status() << "\n" << to_text(trace) << print(nest);
    return std::nullopt;
  }
  const absl::Status status = verify(*kernel);
  EXPECT_TRUE(status.ok()) << status << "\n" << to_text(trace) << print(nest);
  if (!status.ok()) return std::nullopt;
  return Scheduled{to_text(trace), *std::move(kernel)};
}

// Draws from random sketches until a schedule is feasible; nullopt when none of `attempts` is.
inline std::optional<Scheduled> draw_kernel(const Nest& start, const std::vector<Sketch>& space,
                                            Rng& rng, int attempts,
                                            const LowerOptions& options = {}) {
  for (int n = 0; n < attempts; ++n) {
    const Sketch& sketch = space[rng.below(static_cast<int64_t>(space.size()))];
    const absl::StatusOr<Sample> drawn = sample(start, sketch, rng);
    if (!drawn.ok()) {
      EXPECT_EQ(drawn.status().code(), absl::StatusCode::kFailedPrecondition) << drawn.status();
      continue;
    }
    std::optional<Scheduled> scheduled = schedule_kernel(drawn->nest, drawn->trace, options);
    if (scheduled) return scheduled;
  }
  return std::nullopt;
}

// The sketches with a step of that kind.
inline std::vector<Sketch> sketches_with(const std::vector<Sketch>& space, std::string_view kind) {
  std::vector<Sketch> some;
  for (const Sketch& sketch : space) {
    const auto is = [&](const Step& step) { return step.kind->name == kind; };
    if (std::any_of(sketch.steps.begin(), sketch.steps.end(), is)) some.push_back(sketch);
  }
  return some;
}

// The outputs of one run. All that the kernel has to write first holds a poison (NaN in every float
// type), and every buffer ends (or starts) at a page that nobody may touch.
inline std::vector<Data> run_guarded(const Loaded& code, const Kernel& kernel,
                                     const Program& program, const std::vector<Data>& in,
                                     lw_context context, bool at_end) {
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  const auto add = [&](int64_t size) {
    memory.push_back(std::make_unique<GuardedMemory>(size, at_end));
    std::memset(memory.back()->data(), 0xff, size);
    return memory.back()->data();
  };
  std::vector<char*> table;
  for (int tensor : arguments(program)) table.push_back(add(bytes(program.tensors[tensor])));
  for (size_t n = 0; n < in.size(); ++n)
    std::memcpy(table[n], in[n].bytes.data(), in[n].bytes.size());
  const auto rounded = [](int64_t size) { return (size + 63) / 64 * 64; };
  context.workers = std::max<int64_t>(1, context.workers);
  context.workspace =
      add(rounded(kernel.workspace_bytes) + context.workers * rounded(kernel.private_bytes));
  context.packed = kernel.packed_bytes > 0 ? add(rounded(kernel.packed_bytes)) : nullptr;
  void* const* buffers = reinterpret_cast<void* const*>(table.data());
  if (kernel.packed_bytes > 0) {
    EXPECT_EQ(code.prepack(&context, buffers), 0);
  }
  EXPECT_EQ(code.run(&context, buffers), 0);
  for (size_t n = 0; n < in.size(); ++n) {
    EXPECT_EQ(std::memcmp(table[n], in[n].bytes.data(), in[n].bytes.size()), 0)
        << "an input changed";
  }
  std::vector<Data> out;
  for (size_t n = in.size(); n < table.size(); ++n) {
    const std::byte* data = reinterpret_cast<const std::byte*>(table[n]);
    out.push_back({{data, data + memory[n]->bytes()}});
  }
  return out;
}

inline std::vector<Data> random_inputs(const Program& program, Rng& rng, bool integers) {
  std::vector<Data> in;
  for (int tensor : inputs(program))
    in.push_back(random_input(program, tensor, rng.next(), integers));
  return in;
}

}  // namespace lw
