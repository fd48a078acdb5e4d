// Exported kernels for NVIDIA's GPUs: what the files say, and that the launcher is C99 (and its
// header C++) that calls the driver as it must, in order, and says what is wrong. The driver is one
// that records calls (tests/support/drivers/recording_cuda.c).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/build/build.h"
#include "src/build/simt/ptx/assembler/assemble.h"
#include "src/build/simt/ptx/export/export.h"
#include "src/build/simt/program.h"
#include "tests/support/drivers/exported_folder.h"
#include "tests/support/files.h"

namespace lw {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kAboutScaled = "/* scaled, in a test.\n";

// packed = 2 W, once; work = packed * X, by way of shared memory; Y = work. (The names end with how
// many parameters there are, for the recording driver.)
constexpr const char* kScaledPtx = R"(.version 7.5
.target sm_80
.address_size 64
.extern .shared .align 1024 .b8 shared[];
.visible .entry pack_2(.param .u64 p0, .param .u64 p1)
.maxntid 128, 1, 1
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  .reg .f32 %f1;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 128, %r1;
  mul.wide.u32 %rd3, %r3, 4;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  add.u64 %rd1, %rd1, %rd3;
  add.u64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1];
  add.f32 %f1, %f1, %f1;
  st.global.f32 [%rd2], %f1;
  ret;
}
.visible .entry scale_3(.param .u64 p0, .param .u64 p1, .param .u64 p2)
.maxntid 256, 1, 1
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<5>;
  .reg .f32 %f<3>;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 4;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  ld.param.u64 %rd3, [p2];
  add.u64 %rd1, %rd1, %rd4;
  add.u64 %rd2, %rd2, %rd4;
  add.u64 %rd3, %rd3, %rd4;
  ld.global.f32 %f1, [%rd1];
  ld.global.f32 %f2, [%rd2];
  mul.f32 %f1, %f1, %f2;
  mov.u32 %r2, shared;
  st.shared.f32 [%r2], %f1;
  st.global.f32 [%rd3], %f1;
  ret;
}
.visible .entry copy_2(.param .u64 p0, .param .u64 p1)
{
  ret;
}
)";

SimtProgram scaled_program(const std::string& made_for) {
  using Kind = SimtProgram::Parameter::Kind;
  SimtProgram program;
  program.source = kScaledPtx;
  program.options = "sm_90a";
  program.arguments = {{4096, false}, {4096, false}, {2048, true}};
  program.prepack = {{"pack_2", 8, 128, {{Kind::kArgument, 0}, {Kind::kPacked}}, 0}};
  program.launches = {{"scale_3", 4, 256,
                       {{Kind::kPacked}, {Kind::kArgument, 1}, {Kind::kWorkspace}}, 60 * 1024},
                      {"copy_2", 16, 32, {{Kind::kWorkspace}, {Kind::kArgument, 2}}, 0}};
  program.workspace_bytes = 8192;
  program.packed_bytes = 4096;
  program.local_bytes = 60 * 1024;
  // Bytes that C's own texts would not take as they are.
  if (!made_for.empty()) program.binary = {made_for, std::string("\177ELF\0\"?\?/\\\377*/", 13)};
  return program;
}

Artifact scaled_artifact(const SimtProgram& program) {
  Artifact artifact;
  artifact.architecture = std::string(kNvidiaArchitecture);
  artifact.bytes = to_text(program);
  artifact.entry = "scaled";
  artifact.workspace_bytes = program.workspace_bytes;
  artifact.packed_bytes = program.packed_bytes;
  return artifact;
}

using Files = std::map<std::string, std::string>;

Files exported_files(const SimtProgram& program) {
  const auto files = export_nvidia(scaled_artifact(program), kAboutScaled);
  EXPECT_TRUE(files.ok()) << files.status();
  Files by_ending;
  if (files.ok()) {
    for (const ExportedFile& file : *files) by_ending[file.ending] = file.bytes;
  }
  return by_ending;
}

constexpr const char* kMadeFor = "sm_90a ptxas 12.8.93";

// Does what its words say, and prints what comes of each.
constexpr const char* kScaledMain = R"(#include <stdio.h>
#include <string.h>
#include "scaled.h"
int main(int count, char** words) {
  uint64_t buffers[SCALED_BUFFERS] = {0x10000, 0x20010, 0x30020};
  void* stream = (void*)0x55;
  scaled_kernel* kernel = NULL;
  char log[512];
  int i, error;
  for (i = 1; i < count; ++i) {
    const char* word = words[i];
    if (strcmp(word, "create") == 0) {
      memset(log, 1, sizeof log);
      error = scaled_create(&kernel, log, sizeof log);
      if ((error == 0) != (kernel != NULL) || (error == 0) != (log[0] == '\0')) return 3;
      if (strlen(log) >= sizeof log) return 4;
      printf("create: %d %s\n", error, log);
      if (error != 0) return 0;
      continue;
    }
    if (strcmp(word, "short") == 0) {
      char little[8];
      memset(little, 1, sizeof little);
      error = scaled_create(&kernel, little, sizeof little);
      printf("short: %d %d\n", error, (int)strlen(little));
      error = scaled_create(&kernel, NULL, 0);
      printf("none: %d\n", error);
      return 0;
    }
    if (strcmp(word, "null") == 0) {
      buffers[2] = 0;
    } else if (strcmp(word, "odd") == 0) {
      buffers[1] += 8;
    } else if (strcmp(word, "right") == 0) {
      buffers[0] = 0;                              /* nobody reads it any more */
      buffers[1] = 0x20010;
      buffers[2] = 0x30020;
    } else if (strcmp(word, "prepack") == 0 || strcmp(word, "enqueue") == 0) {
      error = word[0] == 'p' ? scaled_prepack(kernel, stream, buffers)
                             : scaled_enqueue(kernel, stream, buffers);
      printf("%s: %d %s\n", word, error, error == 0 ? "" : scaled_error(kernel));
    } else if (strcmp(word, "nobuffers") == 0) {
      printf("%s: %d\n", word, scaled_enqueue(kernel, stream, NULL));
    } else if (strcmp(word, "release") == 0) {
      scaled_release(kernel);
      kernel = NULL;
    } else {
      return 2;
    }
  }
  error = scaled_enqueue(NULL, stream, buffers);
  if (kernel == NULL) printf("gone: %d %s\n", error, scaled_error(NULL));
  return 0;
}
)";

// Compiled once for each kind of files.
class Launcher {
 public:
  explicit Launcher(const std::string& made_for = kMadeFor, const std::string& flags = "")
      : Launcher(scaled_program(made_for), flags) {}
  Launcher(const SimtProgram& program, const std::string& flags) {
    Files files = exported_files(program);
    for (const char* ending : {".c", ".h"}) {
      folder_.put(std::string("scaled") + ending, files[ending]);
    }
    folder_.put("main.c", kScaledMain);
    folder_.put("cuda.c", slurp(LW_SOURCE_DIR "/tests/support/drivers/recording_cuda.c"));
    folder_.put("header.cc", "#include \"scaled.h\"\nint main() { scaled_release(nullptr); }\n");
    // Also where the driver has functions that ours do not know.
    must_run("mkdir driver && cc -shared -fPIC " + flags + " cuda.c -o driver/libcuda.so.1");
    must_run(std::string(kStrictC) + "-fsanitize=address,undefined -fno-sanitize-recover=all "
             "scaled.c main.c -o main -ldl");
  }
  void must_run(const std::string& command) {
    EXPECT_EQ(folder_.run(command), 0) << command << "\n" << folder_.log();
  }
  // What the words print, with these variables; the driver's calls are then in calls().
  std::string run(const std::string& words, const std::string& variables = "",
                  const std::string& path = "driver") {
    must_run("rm -f calls && env ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=" + path + " " +
             variables + " ./main " + words);
    return folder_.log();
  }
  std::string calls() const { return folder_.get("calls"); }
  ExportedFolder& folder() { return folder_; }

 private:
  ExportedFolder folder_;
};

TEST(NvidiaExport, SaysWhatIsLaunched) {
  Files files = exported_files(scaled_program(kMadeFor));
  ASSERT_EQ(files.size(), 5u);
  EXPECT_THAT(files[".ptx"], testing::StartsWith(kAboutScaled));
  EXPECT_THAT(files[".ptx"], testing::EndsWith(std::string(" */\n") + kScaledPtx));
  EXPECT_THAT(files[".ptx"], HasSubstr(" *   pack_2, 8 x 128: [0], packed\n"));
  EXPECT_EQ(files[".cubin"].size(), 13u);
  for (const char* line :
       {"#define SCALED_BUFFERS 3\n", "#define SCALED_BUFFER_0_BYTES ((size_t)4096)\n",
        "#define SCALED_BUFFER_2_BYTES ((size_t)2048)  /* written */\n",
        "#define SCALED_WORKSPACE_BYTES ((size_t)8192)\n",
        "#define SCALED_PACKED_BYTES ((size_t)4096)\n",
        "#define SCALED_LOCAL_BYTES ((size_t)61440)\n"}) {
    EXPECT_THAT(files[".h"], HasSubstr(line));
  }
  for (const char* ending : {".h", ".c"}) EXPECT_THAT(files[ending], Not(HasSubstr("$")));
  // The JSON is the program's, but for what is in files.
  nlohmann::json json = nlohmann::json::parse(files[".json"]);
  EXPECT_EQ(json["source_file"], "scaled.ptx");
  EXPECT_EQ(json["binary_file"], "scaled.cubin");
  EXPECT_EQ(json["binary_made_for"], kMadeFor);
  EXPECT_FALSE(json.contains("source") || json.contains("binary"));
  json["source"] = "";
  const absl::StatusOr<SimtProgram> program = parse_simt_program(json.dump());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->launches.at(0).local_bytes, 61440);
  // Without ptxas there is no cubin.
  files = exported_files(scaled_program(""));
  EXPECT_EQ(files.size(), 4u);
  EXPECT_FALSE(nlohmann::json::parse(files[".json"]).contains("binary_file"));
}

TEST(NvidiaExport, TheTextAssembles) {
  if (!find_ptxas().ok()) GTEST_SKIP() << "no ptxas is here";
  for (const char* sm : {"sm_80", "sm_90a"}) {
    const auto assembled = assemble(exported_files(scaled_program(""))[".ptx"], sm);
    EXPECT_TRUE(assembled.ok()) << assembled.status();
  }
}

TEST(NvidiaExport, CallsTheDriverInOrder) {
  Launcher launcher;
  launcher.must_run("c++ -std=c++11 -Wall -Wextra -Werror -pedantic -c header.cc");
  launcher.must_run(std::string(kStrictC) + "-O2 -c scaled.c");
  EXPECT_EQ(launcher.run("create enqueue prepack enqueue right enqueue release"),
            "create: 0 \n"
            "enqueue: 401 scaled_prepack() is yet to be called\n"
            "prepack: 0 \nenqueue: 0 \nenqueue: 0 \n"
            "gone: 1 there is no kernel\n");
  const std::string call =
      "cuCtxPushCurrent ours\n"
      "cuLaunchKernel scale_3 (4 1 1) (256 1 1) 61440 stream 55: 7000100000 20010 7000000000\n"
      "cuLaunchKernel copy_2 (16 1 1) (32 1 1) 0 stream 55: 7000000000 30020\n"
      "cuCtxPopCurrent\n";
  EXPECT_EQ(launcher.calls(),
            "cuCtxGetCurrent\n"
            "cuCtxGetDevice\n"
            "cuDeviceGetAttribute 97 of 3\n"
            "cuDriverGetVersion\n"
            "cuDeviceGetAttribute 75 of 3\n"
            "cuDeviceGetAttribute 76 of 3\n"
            "cuModuleLoadDataEx elf\n"
            "cuModuleGetFunction pack_2\n"
            "cuFuncGetAttribute 0 of pack_2\n"
            "cuFuncGetAttribute 1 of pack_2\n"
            "cuModuleGetFunction scale_3\n"
            "cuFuncGetAttribute 0 of scale_3\n"
            "cuFuncGetAttribute 1 of scale_3\n"
            "cuFuncSetAttribute 8 of scale_3 = 61440\n"
            "cuModuleGetFunction copy_2\n"
            "cuFuncGetAttribute 0 of copy_2\n"
            "cuFuncGetAttribute 1 of copy_2\n"
            "cuMemAlloc 8192 = 7000000000\n"
            "cuMemAlloc 4096 = 7000100000\n"
            "cuCtxPushCurrent ours\n"
            "cuLaunchKernel pack_2 (8 1 1) (128 1 1) 0 stream 55: 10000 7000100000\n"
            "cuCtxPopCurrent\n" +
                call + call +
                "cuCtxPushCurrent ours\n"
                "cuMemFree 7000100000\n"
                "cuMemFree 7000000000\n"
                "cuModuleUnload\n"
                "cuCtxPopCurrent\n"
                "left: 0 modules, 0 buffers, 0 contexts\n");
}

TEST(NvidiaExport, MakesTensorMaps) {
  SimtProgram program = scaled_program(kMadeFor);
  std::vector<SimtProgram::Parameter>& parameters = program.launches[0].parameters;
  parameters[0].map = {2, 64, {64, 8, 2}, {128, 1024}, {64, 4, 1}, true};
  parameters[1].map = {8, 0, {16}, {}, {2}, false};
  Launcher launcher(program, "");
  EXPECT_THAT(launcher.folder().get("scaled.h"),
              HasSubstr("scale_3, 4 x 256: a tensor map of packed, a tensor map of [1], workspace"));
  EXPECT_EQ(launcher.run("create prepack enqueue right enqueue release"),
            "create: 0 \nprepack: 0 \nenqueue: 0 \nenqueue: 0 \ngone: 1 there is no kernel\n");
  // A map's first bytes are here the tensor's address.
  EXPECT_THAT(
      launcher.calls(),
      HasSubstr("cuCtxPushCurrent ours\n"
                "cuTensorMapEncodeTiled type 1 of 7000100040 (64: 64 step 1) (8: 4 step 1) "
                "(2: 1 step 1) 128 1024 0 3 2 0\n"
                "cuTensorMapEncodeTiled type 4 of 20010 (16: 2 step 1) 0 0 2 0\n"
                "cuLaunchKernel scale_3 (4 1 1) (256 1 1) 61440 stream 55: 7000100040 20010 "
                "7000000000\n"));
  EXPECT_EQ(launcher.run("create prepack enqueue", "FAKE_FAILS=cuTensorMapEncodeTiled"),
            "create: 0 \nprepack: 0 \n"
            "enqueue: 999 cuTensorMapEncodeTiled: CUDA_ERROR_UNKNOWN (999)\n");
  EXPECT_THAT(launcher.calls(), HasSubstr("left: 1 modules"));  // (nobody has released it)
}

// What is read of a map is of the size that drivers take.
TEST(NvidiaExport, TensorMapsThatAreNone) {
  SimtProgram program = scaled_program("");
  program.launches[0].parameters[0].map = {2, 64, {64, 8, 2}, {128, 1024}, {64, 4, 1}, true};
  const std::string text = to_text(program);
  ASSERT_TRUE(parse_simt_program(text).ok()) << parse_simt_program(text).status();
  const auto replaced = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(text);
    json["launches"][0]["parameters"][0]["tensor_map"][key] = value;
    return std::string(parse_simt_program(json.dump()).status().message());
  };
  EXPECT_EQ(replaced("offset", 64), "");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, nlohmann::json>>{
           {"element_bytes", 3}, {"element_bytes", 16}, {"offset", -1}, {"sizes", {64, 8}},
           {"sizes", {64, 0, 2}}, {"sizes", "all"}, {"strides", {128}}, {"strides", {128, "x"}},
           {"box", {1, 1, 1, 1, 1, 1}}, {"swizzled", 1}}) {
    EXPECT_THAT(replaced(key, value), HasSubstr("program of launches: ")) << key << value;
  }
}

TEST(NvidiaExport, ChoosesBetweenTheCubinAndTheText) {
  const std::string size = std::to_string(std::string(kScaledPtx).size());
  const std::string text = "cuModuleLoadDataEx text of " + size + " option 5 option 6\n";
  Launcher launcher;
  // Another GPU, a driver that is older than the assembler, a cubin that it does not take.
  for (const char* variables :
       {"FAKE_CAPABILITY=86", "FAKE_CAPABILITY=100", "FAKE_VERSION=11080"}) {
    EXPECT_EQ(launcher.run("create", variables), "create: 0 \n") << variables;
    EXPECT_THAT(launcher.calls(), HasSubstr(text)) << variables;
    EXPECT_THAT(launcher.calls(), Not(HasSubstr("elf"))) << variables;
  }
  EXPECT_EQ(launcher.run("create", "FAKE_REFUSES=elf"), "create: 0 \n");
  EXPECT_THAT(launcher.calls(), HasSubstr("cuModuleLoadDataEx elf -> 200\n" + text));
  // Neither.
  EXPECT_EQ(launcher.run("create", "FAKE_VERSION=11040"),
            "create: 222 the driver is too old: it has CUDA 11.4, and 11.5 is needed\n");
  EXPECT_EQ(launcher.run("create", "FAKE_CAPABILITY=75"),
            "create: 209 the GPU is of compute capability 7.5, but the kernels are for 8.0 or "
            "later\n");
  const std::string refused = launcher.run("create", "FAKE_REFUSES=text FAKE_CAPABILITY=80");
  EXPECT_EQ(refused, "create: 218 cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): line 7: wrong\n"
                     "\n");
  // What is 'sm_80' runs on later GPUs of the generation.
  Launcher ampere("sm_80 ptxas 13.0.88");
  EXPECT_EQ(ampere.run("create", "FAKE_CAPABILITY=86 FAKE_VERSION=13000"), "create: 0 \n");
  EXPECT_THAT(ampere.calls(), HasSubstr("cuModuleLoadDataEx elf\n"));
  EXPECT_EQ(ampere.run("create", "FAKE_CAPABILITY=86 FAKE_VERSION=12090"), "create: 0 \n");
  EXPECT_THAT(ampere.calls(), HasSubstr(text));
  EXPECT_EQ(ampere.run("create", "FAKE_CAPABILITY=90 FAKE_VERSION=13000"), "create: 0 \n");
  EXPECT_THAT(ampere.calls(), HasSubstr(text));
  Launcher none("");
  EXPECT_EQ(none.run("create prepack enqueue release"),
            "create: 0 \nprepack: 0 \nenqueue: 0 \ngone: 1 there is no kernel\n");
  EXPECT_THAT(none.calls(), HasSubstr(text));
}

TEST(NvidiaExport, SaysWhatIsWrong) {
  Launcher launcher;
  EXPECT_EQ(launcher.run("create prepack null enqueue right odd enqueue nobuffers right enqueue "
                         "release"),
            "create: 0 \nprepack: 0 \n"
            "enqueue: 1 buffer 2 is null\n"
            "enqueue: 1 buffer 1 does not stand at a multiple of 16 bytes\n"
            "nobuffers: 1\nenqueue: 0 \ngone: 1 there is no kernel\n");
  // What is wrong is seen before anything of the call is launched.
  const std::string calls = launcher.calls();
  EXPECT_EQ(calls.find("scale_3 ("), calls.rfind("scale_3 ("));
  EXPECT_EQ(launcher.run("create", "FAKE_NO_CONTEXT=1"),
            "create: 201 no CUcontext is current in this thread\n");
  EXPECT_EQ(launcher.run("create", "FAKE_SHARED=49152"),
            "create: 701 scale_3: a block needs 61440 bytes of shared memory, but the GPU has "
            "49152\n");
  EXPECT_EQ(launcher.run("create", "FAKE_SHARED=61439 FAKE_DECLARED=0 FAKE_THREADS=128"),
            "create: 701 scale_3: a block has 128 threads at most, but 256 are needed\n");
  EXPECT_EQ(launcher.run("create", "FAKE_FAILS=cuMemAlloc"),
            "create: 999 cuMemAlloc: CUDA_ERROR_UNKNOWN (999)\n");
  EXPECT_EQ(launcher.run("short", "FAKE_FAILS=cuMemAlloc"), "short: 999 7\nnone: 999\n");
  EXPECT_THAT(launcher.calls(), HasSubstr("left: 0 modules, 0 buffers, 0 contexts\n"));
  // What a kernel declares counts too.
  EXPECT_THAT(launcher.run("create", "FAKE_SHARED=61440 FAKE_DECLARED=16"), HasSubstr(" 61456 "));
  // No driver at all; one of before.
  launcher.must_run("mkdir none old && printf text > none/libcuda.so.1 && "
                    "cc -shared -fPIC -DFAKE_HAS_NO_LAUNCH cuda.c -o old/libcuda.so.1");
  EXPECT_THAT(launcher.run("create", "", "none"),
              HasSubstr("create: 303 no driver of NVIDIA's is here: "));
  EXPECT_EQ(launcher.run("create", "", "old"),
            "create: 302 the driver is too old: it has no cuLaunchKernel\n");
}

// Whatever call fails, its error is returned, and nothing is left.
TEST(NvidiaExport, ReturnsErrorsAndKeepsNothing) {
  Launcher launcher("");
  const std::string words = "create prepack enqueue release";
  launcher.run(words);
  const std::string all = launcher.calls();
  const int64_t made = std::count(all.begin(), all.end(), '\n') - 1;
  ASSERT_GT(made, 20);
  const int64_t releasing = 5;             // whose failure nobody can help
  for (int64_t n = 1; n <= made - releasing; ++n) {
    const std::string said = launcher.run(words, "FAKE_FAIL_AT=" + std::to_string(n));
    const std::string calls = launcher.calls();
    EXPECT_THAT(calls, HasSubstr("left: 0 modules, 0 buffers, 0 contexts\n")) << n;
    if (calls.find("cuCtxPopCurrent -> 999") != calls.npos) continue;
    EXPECT_THAT(said, HasSubstr(": 999 cu")) << n << calls;
  }
}

TEST(NvidiaExport, RefusesWhatIsNoProgram) {
  const auto code_of = [](const SimtProgram& program) {
    return export_nvidia(scaled_artifact(program), "").status().code();
  };
  const SimtProgram right = scaled_program(kMadeFor);
  EXPECT_EQ(code_of(right), absl::StatusCode::kOk);
  std::vector<SimtProgram> wrong(6, right);
  wrong[0].launches.clear();
  wrong[1].source = "kernel void k() {}\n";
  wrong[2].binary.made_for = "some GPU";
  wrong[3].launches[0].items = 2048;
  wrong[4].prepack[0].groups = int64_t{1} << 31;
  wrong[5].binary.made_for = "sm_90a";
  for (const SimtProgram& one : wrong) {
    EXPECT_EQ(code_of(one), absl::StatusCode::kInvalidArgument);
  }
  Artifact artifact;
  artifact.bytes = "{}";
  EXPECT_EQ(export_nvidia(artifact, "").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lw
