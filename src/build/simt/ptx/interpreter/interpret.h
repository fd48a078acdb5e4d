// Runs the text of a PTX program on the host, thread by thread, as the PTX ISA's document says: the
// oracle of what prints PTX, and what tests have for a device. An instruction, a modifier or an
// operand that it does not know is an error, and so is whatever a device would leave undefined
// (docs of the checks: interpret_ptx). Values; a module may be shared between threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lw {

namespace ptx_interpreter {
struct Program;
}

// What of an entry its caller has to know.
struct PtxEntry {
  struct Parameter {
    std::string name;
    int64_t bytes = 0, alignment = 1, offset = 0;  // offset: into the block of all parameters
  };
  std::string name;
  std::vector<Parameter> parameters;
  std::array<int64_t, 3> max_items = {0, 0, 0};  // .maxntid or .reqntid; 0: not given
  bool exact_items = false;                      // .reqntid
  std::array<int64_t, 3> cluster = {0, 0, 0};    // .reqnctapercluster; 0: not given
  int64_t parameter_bytes = 0, static_shared_bytes = 0, local_bytes = 0;
};

// A parsed and decoded text. Immutable.
class PtxModule {
 public:
  explicit PtxModule(std::shared_ptr<const ptx_interpreter::Program> program);
  const std::vector<PtxEntry>& entries() const;  // in the order of the text
  const PtxEntry* find(std::string_view name) const;
  const std::string& target() const;  // "sm_80"
  const ptx_interpreter::Program& program() const { return *program_; }

 private:
  std::shared_ptr<const ptx_interpreter::Program> program_;
};

// kInvalidArgument names the line and its text: what is no PTX that we know, an undeclared name, an
// operand of a type that the instruction does not take.
absl::StatusOr<PtxModule> parse_ptx(std::string_view text);

// Device memory that a launch may touch. Device addresses are host pointers.
struct PtxMemory {
  uint64_t address = 0;
  int64_t bytes = 0;
  bool writable = true;
};

struct PtxLaunch {
  std::string entry;
  std::array<int64_t, 3> groups = {1, 1, 1}, items = {1, 1, 1}, cluster = {1, 1, 1};
  int64_t shared_bytes = 0;             // dynamic shared memory of a block
  std::vector<std::string> parameters;  // each one's bytes
};
std::string ptx_pointer(const void* address);  // as a parameter's bytes

// What a tensor map's 128 bytes hold, for the interpreter: what cuTensorMapEncodeTiled is asked
// for. Numbers of `type` and `swizzle` are the driver's (CUtensorMapDataType, CUtensorMapSwizzle).
struct PtxTensorMap {
  static constexpr uint32_t kMagic = 0x6d617054;
  uint32_t magic = kMagic;
  uint8_t type = 0, rank = 1, swizzle = 0, nan_fill = 0;
  uint64_t address = 0;
  std::array<uint64_t, 5> dims = {1, 1, 1, 1, 1};  // of elements, the innermost first
  std::array<uint64_t, 4> strides = {0, 0, 0, 0};  // bytes, of dims 1 ...
  std::array<uint16_t, 5> box = {1, 1, 1, 1, 1};
  std::array<uint16_t, 5> element_strides = {1, 1, 1, 1, 1};
};
int64_t ptx_tensor_element_bytes(const PtxTensorMap& map);  // 0: the type is none
// The bytes; kInvalidArgument where the driver would refuse, or the interpreter has no such map.
absl::StatusOr<std::string> encode_tensor_map(const PtxTensorMap& map);

struct PtxOptions {
  uint64_t seed = 0;                      // of the order of blocks and warps, and of where a warp
                                          // lets others go first; 0: ascending, until it blocks
  int64_t step_limit = int64_t{1} << 33;  // instructions of threads, in the whole launch
  bool deliver_early = false;             // asynchronous copies land at issue, not at the wait
};

struct PtxStatistics {
  int64_t steps = 0;  // instructions of threads
};

// Runs the launch to its end. Blocks (clusters) run one after the other; within one, a warp runs
// until it blocks, or as far as is drawn. kInternal names line, text, block and thread of: an access out of bounds or not
// aligned, a register that was never written, an aligned instruction that part of a warp reaches, a
// lane that a .sync instruction names and that does not come, a barrier at which others never
// arrive, an arrival too many, a trap. kResourceExhausted: the step limit. kInvalidArgument: the
// launch does not fit the entry. Shared and local memory begin as bytes of 0x7f. The latest legal
// delivery is taken of asynchronous copies: until a wait covers them their destination is poison.
absl::Status interpret_ptx(const PtxModule& module, const PtxLaunch& launch,
                           const std::vector<PtxMemory>& memory, const PtxOptions& options = {},
                           PtxStatistics* statistics = nullptr);

}  // namespace lw
