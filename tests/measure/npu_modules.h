// Modules of the simulated NPU that compute a product of bytes, and that go wrong, by name; and the
// backend that "builds" them: a kernel's name says which.
#pragma once

#include <map>
#include <string>

#include "src/base/check.h"
#include "src/measure/npu/npu_device.h"
#include "src/npu/isa/text.h"
#include "src/npu/module.h"
#include "tests/measure/measurer_fixture.h"

namespace lw {

inline constexpr char kByteMatmul[] = R"(
op mm(M = 20, N = 32, K = 16) {
  in A: i8[M, K]
  in B: i8[K, N] const
  out D[i: M, j: N] = sum[k: K](cast(i32, A[i, k]) * cast(i32, B[k, j]))
}
)";

// Two folds of 16 columns. In DRAM: A at 0, B at 0x1000, a workspace at 0x2000, D at 0x3000.
inline constexpr char kNpuGood[] = R"(
ld dram=0x0 loc=0x0 n0=320 signal=0
ld dram=0x1000 loc=0x400 n0=512 signal=1
mx.ldw w=0x400 k=16 n=16 wstr=32 wait=1
mx.mm a=0x0 m=20 astr1=16 acc=0x0 accstr=32 k=16 n=16 swap=1 wait=0
mx.ldw w=0x410 k=16 n=16 wstr=32
mx.mm a=0x0 m=20 astr1=16 acc=0x10 accstr=32 k=16 n=16 swap=1 signal=2
st dram=0x3000 loc=0x0 space=acc n0=2560 wait=2
halt
)";

inline std::string repeated(const std::string& line, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line + "\n";
  return text;
}

// The good program with `from` as `to`.
inline std::string npu_replaced(const std::string& from, const std::string& to) {
  std::string text = kNpuGood;
  const size_t at = text.find(from);
  CHECK(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// By the names of kernels.
inline const std::map<std::string, std::string>& npu_programs() {
  static const std::map<std::string, std::string> table = {
      {"good", kNpuGood},
      {"hog", kNpuGood},
      {"corrupt", kNpuGood},
      {"slow", repeated("ld n0=16 loc=0x8000", 64) + kNpuGood},
      {"other", kNpuGood},
      {"twice", npu_replaced("w=0x410", "w=0x400")},                // the same weights
      {"short", npu_replaced("n0=2560", "n0=2432")},                // the last row is not stored
      {"beside", npu_replaced("n0=2560", "n0=2564")},
      {"input", npu_replaced("st dram=0x3000 loc=0x0 space=acc n0=2560",
                             "st dram=0x1000 loc=0x0 space=acc n0=512")},
      {"race", npu_replaced("wstr=32 wait=1", "wstr=32")},          // whose weights may be under way
      {"deadlock", npu_replaced("wait=2", "wait=2,3")},
      {"overflow", repeated("ld n0=16 loc=0x8000 signal=9", 256) + kNpuGood},
      {"endless", repeated("mx.mm m=65535 k=16 n=16 acc=0x800", 4000) + kNpuGood},
      {"empty", "halt\n"},                                          // and takes no time
      {"idle", "halt\n"},
      {"unaligned", npu_replaced("loc=0x400", "loc=0x401")}};
  return table;
}

inline npu::Module npu_module(const std::string& name) {
  npu::Module module;
  module.config = npu::find_config("edge16").value();
  module.dram_bytes = 1 << 14;
  module.workspace = {0x2000, 0x100};
  module.arguments = {{{0, 320}, false}, {{0x1000, 512}, false}, {{0x3000, 2560}, true}};
  module.program = npu::parse_program(npu_programs().at(name), name).value();
  if (name == "hog") {
    module.dram_bytes = uint64_t{1} << 40;
    module.workspace = {0x4000, uint64_t{1} << 39};
  }
  if (name == "empty") module.config.queues.dispatch = 0;
  if (name == "other") module.arguments[1].range.bytes = 511;
  return module;
}

class NpuModules : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target&) const override {
    Artifact artifact;
    artifact.architecture = kNpuArchitecture;
    ASSIGN_OR_RETURN(artifact.bytes, npu::make_module(npu_module(kernel.name)));
    if (kernel.name == "corrupt") artifact.bytes.resize(artifact.bytes.size() / 2);
    return artifact;
  }
  absl::StatusOr<std::string> text(const Kernel&, const Target&, std::string_view) const override {
    return absl::UnimplementedError("no text");
  }
  std::string version() const override { return "modules 1"; }
};

// The text of a kernel that says no more than that.
inline std::string npu_kernel(const std::string& name) {
  return "kernel " + name + R"( arguments=3 variables=0 workspace=0 private=0 packed=0
buffer A i8 320 argument 0
buffer B i8 512 argument 1
buffer D i32 640 argument 2 written
body {
}
)";
}

inline absl::StatusOr<std::unique_ptr<Measurer>> make_npu_measurer(LocalOptions options) {
  static const NpuModules backend;
  options.backend = &backend;
  options.reference = nullptr;
  return make_local_measurer(program(kByteMatmul), target(kNpuArchitecture), options);
}

}  // namespace lw
