// What an artifact for machines of many threads holds: the source of a program, in OpenCL C or PTX,
// and how its kernels are launched. As text it is JSON, which build pipelines read too
// (docs/opencl.md, docs/gpu.md). Values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw {

inline constexpr std::string_view kOpenClArchitecture = "opencl";
inline constexpr std::string_view kNvidiaArchitecture = "nvidia";

struct SimtProgram {
  // What a driver makes a tensor map of (cuTensorMapEncodeTiled): a tensor in a buffer, and the boxes
  // that are copied of it. Dimensions are the innermost first.
  struct TensorMap {
    int element_bytes = 1;
    int64_t offset = 0;                    // bytes into the buffer
    std::vector<int64_t> sizes;            // elements
    std::vector<int64_t> strides;          // bytes, of all dimensions but the first
    std::vector<int64_t> box;              // elements
    bool swizzled = false;                 // in rows of 128 bytes, which it has
    bool operator==(const TensorMap&) const = default;
  };
  // A kernel's parameter: a buffer, from its first byte, or a map of a tensor in it.
  struct Parameter {
    enum class Kind : uint8_t { kArgument, kWorkspace, kPacked } kind = Kind::kArgument;
    int slot = 0;                          // kArgument: its position among the program's
    std::optional<TensorMap> map = std::nullopt;
    bool operator==(const Parameter&) const = default;
  };
  // One after the other, on a queue in order: each sees what those before it wrote.
  struct Launch {
    std::string kernel;                    // its name in the source
    int64_t groups = 1, items = 1;         // in one dimension: groups * items items in all
    std::vector<Parameter> parameters;
    int64_t local_bytes = 0;               // PTX: of a group, which the launch asks for
  };
  struct Argument {
    int64_t bytes = 0;
    bool written = false;
  };

  std::string source;                      // OpenCL C, PTX
  std::string options;                     // of clBuildProgram; PTX: the processor, "sm_90a"
  std::vector<Argument> arguments;         // inputs, then outputs
  std::vector<Launch> prepack;             // once, before the first call; they fill `packed`
  std::vector<Launch> launches;            // a call
  int64_t workspace_bytes = 0, packed_bytes = 0;
  int64_t local_bytes = 0;                 // of a group, the most that a launch needs

  // What a driver has compiled the source to, which the same release alone takes for the same device:
  // `made_for` says which. Of PTX it is ptxas' cubin: "sm_90a ptxas 13.0.88". Both empty: none has.
  struct Binary {
    std::string made_for, bytes;
  } binary;
};

std::string to_text(const SimtProgram& program);
// kInvalidArgument says which field is missing, of another type or out of range.
absl::StatusOr<SimtProgram> parse_simt_program(std::string_view text);

}  // namespace lw
