// Running kernels of another architecture here: `lw_runner` (src/runner) under an emulator found on
// PATH. Slow, and its times mean nothing; what it computes is what the processor would compute.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "src/build/build.h"
#include "src/runner/protocol.h"

namespace lw {

struct Program;
struct Target;

struct Emulator {
  std::string command;  // "/usr/bin/qemu-aarch64"
  std::string runner;   // the runner's program, of the emulated architecture
  std::string name;     // "qemu-aarch64"
};

// The emulator for targets of this architecture: qemu's user mode on PATH, and
// `lw_runner_ARCHITECTURE` beside this program, else on PATH. kNotFound says what is missing.
// Starts nothing.
absl::StatusOr<Emulator> find_emulator(const Target& target);

// A frame and its payload, as the runner answered.
struct RunnerAnswer {
  runner::Frame type = runner::Frame::kRefusal;
  std::string payload;
};
// Starts the emulated runner, sends it one frame and takes one answer; then it is gone. It dies
// with the calling thread. kDeadlineExceeded: no answer within `timeout_s` (negative: waits for
// ever); kAborted: it died without one, with its end in words; kUnavailable: it cannot be started.
absl::StatusOr<RunnerAnswer> ask_runner(const Emulator& emulator, runner::Frame type,
                                        std::string_view payload, double timeout_s,
                                        int64_t memory_limit_bytes);

// The code of an artifact, linked, for a context of so many workers. The views point into `image`,
// which the caller keeps.
runner::Job::Code make_code(const Artifact& artifact, const FlatImage& image, int workers);

// Where images are linked to: nothing of an emulated process or of a board lies there.
constexpr uint64_t kImageBase = uint64_t{1} << 36;

// Prepack and run of an artifact on the arguments of a program (inputs, then outputs, in order).
// kInternal: it crashed or wrote beside its outputs; else as ask_runner.
absl::Status run_emulated(const Emulator& emulator, const Program& program,
                          const Artifact& artifact, int workers, void* const* arguments,
                          double timeout_s = 600);

}  // namespace lw
