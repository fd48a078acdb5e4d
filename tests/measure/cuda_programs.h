// PTX programs that compute the product of measurer_fixture.h, and that go wrong, by name; the
// backend that "builds" them, a kernel's name says which; and who measures them on the fake
// driver's device.
#pragma once

#include <stdlib.h>

#include <string>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/build/simt/program.h"
#include "src/measure/cuda/cuda_target.h"
#include "tests/measure/measurer_fixture.h"

namespace lw {

// (What stands behind "fake:" the fake driver does without reading the rest.)
inline constexpr char kPtxGood[] = R"(.version 7.5
.target sm_80
.address_size 64
// fake:product

.visible .entry mm(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)
.maxntid 24, 1, 1
.minnctapersm 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  ld.param.u64 %rd3, [p2];
  ld.param.u64 %rd4, [p3];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  cvta.to.global.u64 %rd3, %rd3;
  cvta.to.global.u64 %rd4, %rd4;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mov.f32 %f4, 0f00000000;
  mul.wide.u32 %rd5, %r1, 64;
  add.u64 %rd5, %rd1, %rd5;
  mul.wide.u32 %rd6, %r2, 4;
  add.u64 %rd6, %rd2, %rd6;
  mov.f32 %f1, 0f00000000;
  mov.u32 %r3, 0;
L1:
  ld.global.f32 %f2, [%rd5];
  ld.global.f32 %f3, [%rd6];
  fma.rn.f32 %f1, %f2, %f3, %f1;
  add.u64 %rd5, %rd5, 4;
  add.u64 %rd6, %rd6, 96;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, 16;
  @%p1 bra L1;
  st.global.f32 [%rd4], %f4;
  mad.lo.u32 %r4, %r1, 24, %r2;
  mul.wide.u32 %rd7, %r4, 4;
  add.u64 %rd7, %rd3, %rd7;
  setp.ge.u32 %p2, %r1, 0;
  @%p2 st.global.f32 [%rd7], %f1;
  ret;
}
)";

inline SimtProgram cuda_program(const std::string& name) {
  using Parameter = SimtProgram::Parameter;
  using Kind = Parameter::Kind;
  SimtProgram p;
  p.source = kPtxGood;
  // What the text does otherwise, and the word for it.
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = p.source.find(from);
    CHECK(at != std::string::npos);
    p.source.replace(at, from.size(), to);
    p.source += concat("// fake:", name, "\n");
  };
  p.options = "sm_80";
  p.arguments = {{1280, false}, {1536, false}, {1920, true}};
  p.workspace_bytes = 64;
  p.launches = {{"mm", 20, 24, {{Kind::kArgument, 0}, {Kind::kArgument, 1}, {Kind::kArgument, 2},
                                {Kind::kWorkspace, 0}}}};
  if (name == "packed") {
    p.packed_bytes = 1536;
    p.source += R"(
.visible .entry pack(.param .u64 p0, .param .u64 p1)
.maxntid 24, 1, 1
{
  .reg .b32 %r<4>;
  .reg .f32 %f<2>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 24, %r2;
  mul.wide.u32 %rd3, %r3, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  st.global.f32 [%rd5], %f1;
  ret;
}
)";
    p.prepack = {{"pack", 16, 24, {{Kind::kArgument, 1}, {Kind::kPacked, 0}}}};
    p.launches[0].parameters[1] = {Kind::kPacked, 0};
  }
  if (name == "wrong") replace("%r3, 16;", "%r3, 15;");
  if (name == "partial") replace("setp.ge.u32 %p2, %r1, 0", "setp.gt.u32 %p2, %r1, 0");
  if (name == "beside") replace("[%rd4], %f4", "[%rd3+1920], %f4");
  if (name == "before") replace("[%rd4], %f4", "[%rd3+-4], %f4");
  if (name == "aside") replace("[%rd4], %f4", "[%rd4+64], %f4");
  if (name == "input") replace("[%rd4], %f4", "[%rd2+128], %f4");
  if (name == "endless") replace("  ret;", "L2:\n  bra L2;");
  if (name == "hog") p.workspace_bytes = int64_t{1} << 46;
  if (name == "buffer") p.workspace_bytes = (int64_t{1} << 32) - 64;
  if (name == "crowd") p.launches[0].items = 1 << 20;
  if (name == "grid") p.launches[0].groups = int64_t{1} << 31;
  if (name == "local") p.launches[0].local_bytes = p.local_bytes = 232'449;
  if (name == "shared") p.launches[0].local_bytes = p.local_bytes = 100'000;
  if (name == "nonsense") replace("ld.param.u64", "flaot.u64");
  if (name == "nameless") p.launches[0].kernel = "nn";
  if (name == "roomy") p.workspace_bytes = 4 << 20;
  if (name == "other") p.arguments[1].bytes = 1535;
  if (name == "later") p.options = "sm_100a";
  if (name.starts_with("cubin") || name == "foreign") {
    p.binary = {name == "foreign" ? "sm_86 ptxas 13.0.88" : "sm_90 ptxas 13.0.88",
                concat("FAKECUBIN\n", p.source)};
  }
  if (name == "rubbish") p.binary = {"sm_90a ptxas 13.0.88", "\x7f" "ELF"};
  // What tests/support/drivers/fake_cuda.cc does of itself.
  if (name.starts_with("fake_")) p.source += concat("// fake:", name.substr(5), "\n");
  return p;
}

class PtxPrograms : public Backend {
 public:
  absl::StatusOr<Artifact> build(const Kernel& kernel, const Target&) const override {
    Artifact artifact;
    artifact.architecture = kNvidiaArchitecture;
    artifact.bytes = to_text(cuda_program(kernel.name));
    if (kernel.name == "corrupt") artifact.bytes.resize(artifact.bytes.size() / 2);
    return artifact;
  }
  absl::StatusOr<std::string> text(const Kernel&, const Target&, std::string_view) const override {
    return absl::UnimplementedError("no text");
  }
  std::string version() const override { return "programs 1"; }
};

// The text of a kernel that says no more than that.
inline std::string cuda_kernel(const std::string& name) {
  return "kernel " + name + R"( arguments=3 variables=0 workspace=0 private=0 packed=0
buffer A f32 320 argument 0
buffer B f32 384 argument 1
buffer D f32 480 argument 2 written
body {
}
)";
}

inline constexpr char kFakeCuda[] = LW_BINARY_DIR "/libfake_cuda.so";

// Of the fake driver, unless LOOPWRIGHT_CUDA names another.
inline absl::StatusOr<std::unique_ptr<Measurer>> make_cuda_measurer(LocalOptions options) {
  static const PtxPrograms backend;
  setenv("LOOPWRIGHT_CUDA", kFakeCuda, /*overwrite=*/0);
  options.backend = &backend;
  options.reference = nullptr;
  ASSIGN_OR_RETURN(const Target target, cuda_target("0"));
  return make_local_measurer(program(), target, options);
}

}  // namespace lw
