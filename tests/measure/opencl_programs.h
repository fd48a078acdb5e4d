// OpenCL programs that compute the product of measurer_fixture.h, and that go wrong, by name; and the
// backend that "builds" them: a kernel's name says which.
#pragma once

#include <string>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/program.h"
#include "tests/measure/measurer_fixture.h"

namespace lw {

inline constexpr char kOpenClGood[] = R"(
__kernel __attribute__((reqd_work_group_size(24, 1, 1)))
void mm(__global const float* restrict A, __global const float* restrict B, __global float* D,
        __global float* W) {
  int i = get_group_id(0), j = get_local_id(0);
  float sum = 0.0f;
  for (int k = 0; k < 16; ++k) sum = fma(A[16 * i + k], B[24 * k + j], sum);
  W[0] = 0.0f;
  D[24 * i + j] = sum;
}
)";

inline SimtProgram opencl_program(const std::string& name) {
  using Parameter = SimtProgram::Parameter;
  using Kind = Parameter::Kind;
  SimtProgram p;
  p.source = kOpenClGood;
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = p.source.find(from);
    CHECK(at != std::string::npos);
    p.source.replace(at, from.size(), to);
  };
  p.options = "-cl-std=CL1.2";
  p.arguments = {{1280, false}, {1536, false}, {1920, true}};
  p.workspace_bytes = 64;
  p.launches = {{"mm", 20, 24, {{Kind::kArgument, 0}, {Kind::kArgument, 1}, {Kind::kArgument, 2},
                                {Kind::kWorkspace, 0}}}};
  if (name == "packed") {
    p.packed_bytes = 1536;
    p.source += R"(
__kernel void pack(__global const float* B, __global float* P) {
  P[get_global_id(0)] = B[get_global_id(0)];
})";
    p.prepack = {{"pack", 16, 24, {{Kind::kArgument, 1}, {Kind::kPacked, 0}}}};
    p.launches[0].parameters[1] = {Kind::kPacked, 0};
  }
  if (name == "wrong") replace("k < 16", "k < 15");
  if (name == "partial") replace("D[24 * i", "if (i > 0) D[24 * i");
  if (name == "beside") replace("W[0] = 0.0f", "D[480] = 0.0f");
  if (name == "aside") replace("W[0]", "W[16]");
  if (name == "input") replace("W[0] = 0.0f", "((__global float*)B)[32] = 0.0f");
  if (name == "endless") {
    replace("float sum = 0.0f", "float sum = 0.0f; volatile __global float* w = W; "
                                "while (w[0] != 42.0f) w[1] += 1.0f");
  }
  if (name == "hog") p.workspace_bytes = int64_t{1} << 46;
  if (name == "buffer") p.workspace_bytes = (int64_t{1} << 32) - 64;
  if (name == "crowd") p.launches[0].items = 1 << 20;
  if (name == "local") p.local_bytes = int64_t{1} << 40;
  if (name == "nonsense") replace("float sum", "flaot sum");
  if (name == "nameless") p.launches[0].kernel = "nn";
  if (name == "roomy") p.workspace_bytes = 1 << 20;
  // What tests/support/drivers/fake_opencl.cc does of itself.
  if (name.starts_with("fake_")) p.source += concat("// fake:", name.substr(5), "\n");
  if (name == "other") p.arguments[1].bytes = 1535;
  return p;
}

class SimtPrograms : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target&) const override {
    Artifact artifact;
    artifact.architecture = kOpenClArchitecture;
    artifact.bytes = to_text(opencl_program(kernel.name));
    if (kernel.name == "corrupt") artifact.bytes.resize(artifact.bytes.size() / 2);
    return artifact;
  }
  absl::StatusOr<std::string> text(const Kernel&, const Target&, std::string_view) const override {
    return absl::UnimplementedError("no text");
  }
  std::string version() const override { return "programs 1"; }
};

// The text of a kernel that says no more than that.
inline std::string opencl_kernel(const std::string& name) {
  return "kernel " + name + R"( arguments=3 variables=0 workspace=0 private=0 packed=0
buffer A f32 320 argument 0
buffer B f32 384 argument 1
buffer D f32 480 argument 2 written
body {
}
)";
}

inline absl::StatusOr<std::unique_ptr<Measurer>> make_opencl_measurer(LocalOptions options) {
  static const SimtPrograms backend;
  options.backend = &backend;
  options.reference = nullptr;
  return make_local_measurer(program(), find_target("opencl_cpu").value(), options);
}

}  // namespace lw
