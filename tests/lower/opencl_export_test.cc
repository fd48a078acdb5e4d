// Exported kernels of OpenCL: what the files say, and that the launcher is C99 (and its header C++)
// that builds, packs, launches in order in any queue, and says what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_replace.h"
#include "schedules/targets/target.h"
#include "src/build/build.h"
#include "src/build/simt/program.h"
#include "tests/support/build_helpers.h"
#include "tests/support/files.h"

namespace lw {
namespace {

using testing::HasSubstr;
using testing::Not;

// Blocks of four: panel[255 - b] = 2 W[b], once; sums[255 - b] = panel[b] + X[b]; Y[b] = sums[b]^2.
constexpr const char* kPackedTwice = R"(
kernel twice arguments=3 variables=3 workspace=4096 private=0 packed=4096
buffer W f32 1024 argument 0
buffer X f32 1024 argument 1
buffer Y f32 1024 argument 2 written
buffer sums f32 1024 workspace 0
buffer panel f32 1024 packed 0
registers f32x4 3
prepack {
  for v0 < 256 parallel {
    r0 = load W[4*v0] stride 1
    r1 = add r0, r0
    store panel[-4*v0 + 1020] = r1 stride 1
  }
}
body {
  for v1 < 256 parallel {
    r0 = load panel[4*v1] stride 1
    r1 = load X[4*v1] stride 1
    r2 = add r0, r1
    store sums[-4*v1 + 1020] = r2 stride 1
  }
  for v2 < 256 parallel {
    r0 = load sums[4*v2] stride 1
    r1 = mul r0, r0
    store Y[4*v2] = r1 stride 1
  }
}
)";
constexpr const char* kAboutTwice = "/* twice, in a test.\n";

std::map<std::string, std::string> exported_twice() {
  const Backend& backend = **find_backend("opencl");
  const absl::StatusOr<Artifact> artifact =
      backend.build(kernel_of(kPackedTwice), *find_target("opencl_cpu"));
  EXPECT_TRUE(artifact.ok()) << artifact.status();
  if (!artifact.ok()) return {};
  const auto files = backend.exported(*artifact, kAboutTwice);
  EXPECT_TRUE(files.ok()) << files.status();
  std::map<std::string, std::string> by_ending;
  if (files.ok()) {
    for (const ExportedFile& file : *files) by_ending[file.ending] = file.bytes;
  }
  return by_ending;
}

// Returns 77 without a device, or the number of what is wrong. With an argument: the source is no
// OpenCL C.
constexpr const char* kTwiceMain = R"(#include <stdio.h>
#include <string.h>
#include "twice.h"
enum { COUNT = 1024, CALLS = 3 };
static float w[COUNT], x[CALLS][COUNT], y[CALLS][COUNT];
static cl_int fill(cl_mem m, cl_command_queue q, const float* from, const cl_event* after,
                   cl_event* event) {
  return clEnqueueWriteBuffer(q, m, CL_FALSE, 0, sizeof w, from, after != NULL, after, event);
}
static int calls(cl_context context, cl_device_id device, cl_command_queue queue) {
  twice_kernel* kernel = NULL;
  cl_mem buffers[TWICE_BUFFERS];
  cl_event event, done = NULL;
  int i, n;
  if (twice_create(context, device, &kernel, NULL, 0) != CL_SUCCESS) return 10;
  for (i = 0; i < TWICE_BUFFERS; ++i)
    buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof w, NULL, NULL);
  if (twice_enqueue(kernel, queue, buffers, 0, NULL, &done) != CL_INVALID_OPERATION || done != NULL)
    return 11;
  if (fill(buffers[0], queue, w, NULL, &event) != CL_SUCCESS) return 12;
  if (twice_prepack(kernel, queue, buffers, 1, &event) != CL_SUCCESS) return 13;
  clReleaseEvent(event);
  for (n = 0; n < CALLS; ++n) {
    if (fill(buffers[1], queue, x[n], done ? &done : NULL, &event) != CL_SUCCESS) return 14;
    if (done != NULL) clReleaseEvent(done);
    if (twice_enqueue(kernel, queue, buffers, 1, &event, &done) != CL_SUCCESS) return 15;
    clReleaseEvent(event);
    if (clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, sizeof w, y[n], 1, &done, NULL) !=
        CL_SUCCESS)
      return 16;
  }
  if (twice_enqueue(kernel, queue, buffers, 0, NULL, NULL) != CL_SUCCESS) return 17;
  clReleaseEvent(done);
  clFinish(queue);
  twice_release(kernel);
  for (i = 0; i < TWICE_BUFFERS; ++i) clReleaseMemObject(buffers[i]);
  for (n = 0; n < CALLS; ++n) {
    for (i = 0; i < COUNT; ++i) {
      const float sum = 2 * w[i] + x[n][4 * (255 - i / 4) + i % 4];
      if (y[n][i] != sum * sum) return 20 + n;
    }
  }
  return 0;
}
int main(int argc, char** argv) {
  const cl_command_queue_properties orders[2] = {0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};
  cl_platform_id platforms[16];
  cl_device_id device = NULL;
  cl_context context;
  cl_uint count = 0, p;
  cl_int error;
  int i, wrong = 0;
  (void)argv;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) return 77;
  for (p = 0; p < count && p < 16; ++p) {
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS) break;
    device = NULL;
  }
  if (device == NULL) return 77;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  if (error != CL_SUCCESS) return 2;
  if (argc > 1) {
    char log[16];
    twice_kernel* kernel = NULL;
    memset(log, 1, sizeof log);
    error = twice_create(context, device, &kernel, log, sizeof log);
    if (error != CL_BUILD_PROGRAM_FAILURE || kernel != NULL) return 3;
    if (strlen(log) == 0 || strlen(log) >= sizeof log) return 4;
  }
  for (i = 0; i < COUNT; ++i) {
    w[i] = (float)(i % 37);
    x[0][i] = (float)(i % 101);
    x[1][i] = (float)(i % 17);
    x[2][i] = (float)(i % 53);
  }
  for (i = 0; i < 2 && argc == 1 && wrong == 0; ++i) {
    cl_command_queue queue = clCreateCommandQueue(context, device, orders[i], &error);
    if (i == 1 && error != CL_SUCCESS) break;            /* not all devices have it */
    if (error != CL_SUCCESS) return 5;
    wrong = calls(context, device, queue);
    if (wrong != 0) fprintf(stderr, "order %d: %d\n", i, wrong);
    clReleaseCommandQueue(queue);
  }
  clReleaseContext(context);
  twice_release(NULL);
  return wrong;
}
)";

// A folder with the exported files, in which commands run.
class ExportedFolder {
 public:
  ExportedFolder() {
    std::string name = testing::TempDir() + "/lw_opencl_export_XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ExportedFolder() { std::filesystem::remove_all(path_); }
  void put(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }
  int run(const std::string& command) {
    const int status = std::system(("cd '" + path_ + "' && { " + command + "; } > log 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string log() const { return slurp(path_ + "/log"); }

 private:
  std::string path_;
};

constexpr const char* kStrict = "cc -std=c99 -Wall -Wextra -Werror -pedantic ";

TEST(OpenClExport, SaysWhatIsLaunched) {
  auto files = exported_twice();
  ASSERT_EQ(files.size(), 4u);
  EXPECT_THAT(files[".cl"], testing::StartsWith(kAboutTwice));
  EXPECT_THAT(files[".cl"], HasSubstr("twice_prepack_1, "));
  EXPECT_THAT(files[".cl"], HasSubstr(": [0], packed\n"));
  EXPECT_THAT(files[".h"], HasSubstr("#define TWICE_BUFFERS 3\n"));
  EXPECT_THAT(files[".h"], HasSubstr("#define TWICE_BUFFER_2_BYTES ((size_t)4096)  /* written */\n"));
  EXPECT_THAT(files[".h"], HasSubstr("#define TWICE_PACKED_BYTES ((size_t)4096)\n"));
  for (const char* ending : {".h", ".c"}) EXPECT_THAT(files[ending], Not(HasSubstr("$")));
  // The JSON is the program's, but for the source.
  nlohmann::json json = nlohmann::json::parse(files[".json"]);
  EXPECT_EQ(json["source_file"], "twice.cl");
  EXPECT_FALSE(json.contains("source"));
  json["source"] = "";
  const absl::StatusOr<OpenClProgram> program = parse_opencl_program(json.dump());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->prepack.size(), 1u);
  EXPECT_EQ(program->launches.size(), 2u);
  EXPECT_EQ(program->workspace_bytes, 4096);
}

TEST(OpenClExport, RunsFromC) {
  auto files = exported_twice();
  ASSERT_EQ(files.size(), 4u);
  ExportedFolder folder;
  folder.put("probe.c", "#include <CL/cl.h>\n");
  if (folder.run("cc -DCL_TARGET_OPENCL_VERSION=120 -c probe.c") != 0) {
    GTEST_SKIP() << "no <CL/cl.h> is here (opencl-c-headers)";
  }
  folder.put("twice.c", files[".c"]);
  folder.put("twice.h", files[".h"]);
  folder.put("main.c", kTwiceMain);
  folder.put("header.cc", "#include \"twice.h\"\nint main() { twice_release(nullptr); }\n");
  folder.put("broken.c", absl::StrReplaceAll(files[".c"], {{"\"__kernel", "\"__colonel"}}));
  EXPECT_EQ(folder.run(std::string(kStrict) + "-c twice.c"), 0) << folder.log();
  EXPECT_EQ(folder.run("c++ -std=c++11 -Wall -Wextra -Werror -pedantic -c header.cc"), 0)
      << folder.log();
  ASSERT_EQ(folder.run(std::string(kStrict) + "main.c twice.c -o right -lOpenCL"), 0) << folder.log();
  ASSERT_EQ(folder.run(std::string(kStrict) + "main.c broken.c -o broken -lOpenCL"), 0)
      << folder.log();
  const int right = folder.run("./right");
  if (right == 77) GTEST_SKIP() << "no OpenCL device is here";
  EXPECT_EQ(right, 0) << folder.log();
  EXPECT_EQ(folder.run("./broken x"), 0) << folder.log();
}

TEST(OpenClExport, RefusesWhatIsNoProgram) {
  Artifact artifact;
  artifact.architecture = "opencl";
  artifact.bytes = "{}";
  artifact.entry = "none";
  EXPECT_EQ((*find_backend("opencl"))->exported(artifact, "").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lw
