// NVIDIA's assembler, ptxas, which makes cubins of PTX, and nvdisasm, which lists them: programs of
// others that ./setup fetches and nothing of ours contains (their licence lets nobody pass them
// on), run as child processes. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

// Seconds, far more than any kernel of ours takes (a large one 0.5).
constexpr double kAssembleLimit = 60;

// The path of ptxas: what $LOOPWRIGHT_PTXAS names and nothing else, where it is set; else that of
// ./setup (deps/nvidia/bin beside this program, then in the folder that it was built with), of
// $CUDA_HOME/bin, of the PATH. kUnavailable: there is none, and what to do.
absl::StatusOr<std::string> find_ptxas();
// The same of nvdisasm, by $LOOPWRIGHT_NVDISASM.
absl::StatusOr<std::string> find_nvdisasm();

// "13.0.88"; "" where there is none, or one that does not run. A path is asked once in a process.
std::string ptxas_version();

struct Assembled {
  // What ptxas says of a kernel.
  struct Facts {
    std::string entry;
    int64_t registers = 0;                 // of a thread
    int64_t spill_store_bytes = 0, spill_load_bytes = 0, stack_bytes = 0;  // of a thread
    int64_t barriers = 0;
    int64_t shared_bytes = 0;              // of a block, declared, aligned; not what a launch adds
    bool serialized = false;               // too few registers to run wgmma asynchronously
    bool short_of_registers = false;       // an instruction wanted more than there were
  };

  std::string cubin;                       // depends on `ptx`, `sm` and `version` alone
  std::vector<Facts> facts;                // of each entry, in the order of the text
  std::string version;                     // "13.0.88"
};

// `ptx`, assembled for the processor `sm` ("sm_90a").
// kUnavailable: there is no ptxas, or it cannot run; what to do. kDeadlineExceeded: the time is
// over, and the child is dead. kInvalidArgument: an instruction wants more registers than there
// are. kInternal, bugs of who printed the text: ptxas refuses it, or says that it will be slow for
// want of what the text should hold (waits, fences, numbers of threads); its first messages, with
// the lines of the text that they name.
absl::StatusOr<Assembled> assemble(std::string_view ptx, std::string_view sm,
                                   double limit_s = kAssembleLimit);

// The listing of a cubin's code by nvdisasm. kUnavailable: there is none; kInvalidArgument: it does
// not take the bytes.
absl::StatusOr<std::string> disassemble(std::string_view cubin, double limit_s = kAssembleLimit);

}  // namespace lw
