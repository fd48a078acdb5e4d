// A chosen schedule as machine code: run in this process, or exported as files for a C program.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Executable> kernel, Executable::create(task, choice));
//   ASSIGN_OR_RETURN(ArgumentMemory arguments, ArgumentMemory::create(*task.program()));
//   kernel->prepack(arguments.pointers());  // once, after the const inputs are there
//   kernel->run(arguments.pointers());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

class DrivenKernel;
class GuardedMap;
class ParallelPool;
class Runner;
class Task;
struct Choice;
struct LookupAnswer;
struct Program;

// A kernel in this process or, for another architecture, in an emulated one or on a driver's device.
// Thread-compatible.
// `arguments`: one pointer per argument of the program, inputs first, to contiguous row-major
// memory that is aligned to its element; inputs and outputs do not overlap.
class Executable {
 public:
  static absl::StatusOr<std::unique_ptr<Executable>> create(const Task& task, const Choice& choice);
  ~Executable();
  absl::Status prepack(void* const* arguments);
  absl::Status run(void* const* arguments);
  bool emulated() const { return emulated_ != nullptr; }
  // Of a call where wall time means nothing: the analytic model's where it is emulated, the exact
  // one where the machine is simulated. Absent: measure it.
  std::optional<double> own_us() const { return own_us_; }
  // A driver's device runs it, and each run says what that took (last_us()), without the copies of
  // arguments there and back that are part of run().
  bool driven() const { return driven_ != nullptr; }
  double last_us() const;                  // REQUIRES: driven()

 private:
  struct Emulated;
  Executable();
  std::unique_ptr<Emulated> emulated_;     // else driven_; null both: runner_ runs it here
  std::unique_ptr<DrivenKernel> driven_;
  std::unique_ptr<ParallelPool> pool_;
  std::unique_ptr<Runner> runner_;
  std::optional<double> own_us_;
};

// Memory for all arguments of a program, 64-byte aligned. Copies are the same memory.
class ArgumentMemory {
 public:
  static absl::StatusOr<ArgumentMemory> create(const Program& program);
  void* const* pointers() const { return pointers_.data(); }
  std::byte* data(int argument) const { return static_cast<std::byte*>(pointers_[argument]); }
  // Fills the inputs with random values in the range that their use implies.
  void fill_inputs(const Program& program, uint64_t seed);
  std::vector<const std::byte*> inputs(const Program& program) const;
  std::vector<const std::byte*> outputs(const Program& program) const;

 private:
  std::shared_ptr<const std::vector<GuardedMap>> maps_;
  std::vector<void*> pointers_;
};

// Whether the schedule was verified when it was measured: of exactly its task, with its code
// generator. What a lower rung of the ladder gives was adapted to this task, or derived for it, and
// has never run.
bool is_verified(const Choice& choice);
// The ladder's answer if it is verified; else it is built and run in a worker process first, where
// it may crash, hang, write outside or be wrong without harm, and judged by the oracles that judge
// candidates: tenths of a second. Where it does not pass, the zero-trial schedule if that does.
// `notes` says what was passed over, and why. kAborted: neither passed; kNotFound: nothing here can
// run it; kUnavailable: the machine was disturbed. The calling thread must not be one of many.
absl::StatusOr<Choice> checked(const Task& task, const LookupAnswer& answer,
                               std::vector<std::string>* notes);

struct ExportOptions {
  // NAME: the symbol and the files' name, an identifier of C; "": the op's. Kernels of different
  // names link into one program, whatever their shapes, targets and ops.
  std::string entry;
  // NAME.so too, linked by the system's linker: for dlopen(), with the symbol `loopwright_kernel`,
  // an lw_kernel (context.h).
  bool shared = false;
  // With `shared`: also a function of tvm-ffi, by the system's compiler of C ($CC, or cc).
  bool tvm_ffi = false;
};
// Writes NAME.json and what C needs to call the kernel, NAME.o and NAME.h (for a simulated NPU
// NAME.npu, NAME.c, NAME.h and NAME.s; for OpenCL NAME.cl, NAME.c and NAME.h), into `folder` (made
// if needed) and returns their paths. They depend on the task and the trace alone, but for NAME.json's
// time; no file names a path of this machine. kInvalidArgument: the name; kUnavailable: what the file
// system or the linker says; kAlreadyExists: the folder has another workload's kernel of that name.
absl::StatusOr<std::vector<std::string>> export_kernel(const Task& task, const Choice& choice,
                                                       const std::string& folder,
                                                       const ExportOptions& options = {});

}  // namespace lw
