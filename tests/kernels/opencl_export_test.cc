// Exported kernels of OpenCL: what the files say, and that the launcher is C99 (and its header C++)
// that builds, packs, launches in order in any queue, and says what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_replace.h"
#include "schedules/targets/target.h"
#include "src/build/build.h"
#include "src/build/simt/program.h"
#include "tests/support/build_helpers.h"
#include "tests/support/drivers/exported_folder.h"

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

// A library of OpenCL that computes nothing: the FAIL-th call that may fail does, with FAILURE, and
// what was made and not released is counted.
constexpr const char* kFailingCl = R"(#include <stdio.h>
#include <stdlib.h>
#include "twice.h"
enum { FAILURE = -4321 };
static int calls, fail_at, objects, launched, waited;
static cl_int next_call(void) { return ++calls == fail_at ? FAILURE : CL_SUCCESS; }
static void* object(cl_int error, cl_int* out) {
  if (out != NULL) *out = error;
  if (error != CL_SUCCESS) return NULL;
  ++objects;
  return &objects;
}
cl_int clGetDeviceInfo(cl_device_id d, cl_device_info i, size_t n, void* value, size_t* size) {
  (void)d; (void)i; (void)n; (void)size;
  *(cl_ulong*)value = 1 << 20;
  return next_call();
}
cl_program clCreateProgramWithSource(cl_context c, cl_uint n, const char** s, const size_t* l,
                                     cl_int* error) {
  (void)c; (void)n; (void)s; (void)l;
  return (cl_program)object(next_call(), error);
}
cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id* d, const char* o,
                      void(CL_CALLBACK* f)(cl_program, void*), void* u) {
  (void)p; (void)n; (void)d; (void)o; (void)f; (void)u;
  return next_call();
}
cl_int clGetProgramBuildInfo(cl_program p, cl_device_id d, cl_program_build_info i, size_t n,
                             void* value, size_t* size) {
  (void)p; (void)d; (void)i; (void)n; (void)value; (void)size;
  return FAILURE - 1;
}
cl_kernel clCreateKernel(cl_program p, const char* name, cl_int* error) {
  (void)p; (void)name;
  return (cl_kernel)object(next_call(), error);
}
cl_int clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id d, cl_kernel_work_group_info i, size_t n,
                                void* value, size_t* size) {
  (void)k; (void)d; (void)i; (void)n; (void)size;
  *(size_t*)value = 4096;
  return next_call();
}
cl_mem clCreateBuffer(cl_context c, cl_mem_flags f, size_t n, void* host, cl_int* error) {
  (void)c; (void)f; (void)n; (void)host;
  return (cl_mem)object(next_call(), error);
}
cl_int clSetKernelArg(cl_kernel k, cl_uint i, size_t n, const void* value) {
  (void)k; (void)i; (void)n; (void)value;
  return next_call();
}
cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event* list,
                                   cl_event* event) {
  const cl_int error = next_call();
  (void)q; (void)n; (void)list;
  *event = (cl_event)object(error, NULL);
  return error;
}
cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint n, const size_t* o,
                              const size_t* all, const size_t* items, cl_uint events,
                              const cl_event* list, cl_event* event) {
  const cl_int error = next_call();
  (void)q; (void)k; (void)n; (void)o; (void)all; (void)items;
  if ((events == 0) != (list == NULL)) exit(9);
  if (error == CL_SUCCESS) *event = (cl_event)object(error, NULL);
  launched += error == CL_SUCCESS;
  waited += error == CL_SUCCESS ? (int)events : 0;
  return error;
}
cl_int clGetEventInfo(cl_event e, cl_event_info i, size_t n, void* value, size_t* size) {
  (void)e; (void)i; (void)n; (void)size;
  *(cl_int*)value = CL_RUNNING;
  return next_call();
}
cl_int clRetainEvent(cl_event e) {
  cl_int error = next_call();
  (void)e;
  objects += error == CL_SUCCESS;
  return error;
}
cl_int clReleaseEvent(cl_event e) { return (void)e, --objects, CL_SUCCESS; }
cl_int clReleaseMemObject(cl_mem m) { return (void)m, --objects, CL_SUCCESS; }
cl_int clReleaseKernel(cl_kernel k) { return (void)k, --objects, CL_SUCCESS; }
cl_int clReleaseProgram(cl_program p) { return (void)p, --objects, CL_SUCCESS; }

static cl_int all_of_it(void) {
  twice_kernel* kernel = NULL;
  cl_mem buffers[TWICE_BUFFERS] = {NULL, NULL, NULL};
  cl_event outside = NULL, done = NULL;
  char log[64];
  cl_int error = twice_create(NULL, NULL, &kernel, log, sizeof log);
  if ((error == CL_SUCCESS) != (kernel != NULL) || (error == CL_SUCCESS) != (log[0] == 0)) exit(8);
  if (kernel == NULL) return error;
  error = twice_prepack(kernel, NULL, buffers, 1, &outside);
  if (error == CL_SUCCESS) error = twice_enqueue(kernel, NULL, buffers, 1, &outside, &done);
  if ((error == CL_SUCCESS) != (done != NULL)) exit(7);
  if (done != NULL) clReleaseEvent(done);
  if (error == CL_SUCCESS) error = twice_enqueue(kernel, NULL, buffers, 0, NULL, NULL);
  twice_release(kernel);
  return error;
}
int main(void) {
  int most;
  if (all_of_it() != CL_SUCCESS || objects != 0) return 1;
  /* Every launch but the first waits for the one before, two for what is outside too. */
  if (launched != 5 || waited != 6) return 2;
  most = calls;
  for (fail_at = 1; fail_at <= most; ++fail_at) {
    calls = 0;
    if (all_of_it() != FAILURE || objects != 0) {
      printf("call %d of %d: %d objects\n", fail_at, most, objects);
      return 3;
    }
  }
  return most < 20 ? 4 : 0;
}
)";

constexpr const char* kNoHeader = "no <CL/cl.h> is here (opencl-c-headers)";

// False: nothing can be compiled, for there is no <CL/cl.h>.
bool put_launcher(std::map<std::string, std::string>& files, ExportedFolder* folder) {
  folder->put("twice.c", files[".c"]);
  folder->put("twice.h", files[".h"]);
  folder->put("probe.c", "#include <CL/cl.h>\n");
  return folder->run("cc -DCL_TARGET_OPENCL_VERSION=120 -c probe.c") == 0;
}

TEST(OpenClExport, SaysWhatIsLaunched) {
  auto files = exported_twice();
  ASSERT_EQ(files.size(), 4u);
  EXPECT_THAT(files[".cl"], testing::StartsWith(kAboutTwice));
  EXPECT_THAT(files[".cl"], HasSubstr("twice_prepack_1, "));
  EXPECT_THAT(files[".cl"], HasSubstr(": [0], packed\n"));
  EXPECT_THAT(files[".h"], HasSubstr("#define TWICE_BUFFERS 3\n"));
  EXPECT_THAT(files[".h"],
              HasSubstr("#define TWICE_BUFFER_2_BYTES ((size_t)4096)  /* written */\n"));
  EXPECT_THAT(files[".h"], HasSubstr("#define TWICE_PACKED_BYTES ((size_t)4096)\n"));
  for (const char* ending : {".h", ".c"}) EXPECT_THAT(files[ending], Not(HasSubstr("$")));
  // The JSON is the program's, but for the source.
  nlohmann::json json = nlohmann::json::parse(files[".json"]);
  EXPECT_EQ(json["source_file"], "twice.cl");
  EXPECT_FALSE(json.contains("source"));
  json["source"] = "";
  const absl::StatusOr<SimtProgram> program = parse_simt_program(json.dump());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->prepack.size(), 1u);
  EXPECT_EQ(program->launches.size(), 2u);
  EXPECT_EQ(program->workspace_bytes, 4096);
}

TEST(OpenClExport, RunsFromC) {
  auto files = exported_twice();
  ASSERT_EQ(files.size(), 4u);
  ExportedFolder folder;
  if (!put_launcher(files, &folder)) GTEST_SKIP() << kNoHeader;
  folder.put("main.c", kTwiceMain);
  folder.put("header.cc", "#include \"twice.h\"\nint main() { twice_release(nullptr); }\n");
  folder.put("broken.c", absl::StrReplaceAll(files[".c"], {{"\"__kernel", "\"__colonel"}}));
  EXPECT_EQ(folder.run(std::string(kStrictC) + "-c twice.c"), 0) << folder.log();
  EXPECT_EQ(folder.run("c++ -std=c++11 -Wall -Wextra -Werror -pedantic -c header.cc"), 0)
      << folder.log();
  ASSERT_EQ(folder.run(std::string(kStrictC) + "main.c twice.c -o right -lOpenCL"), 0)
      << folder.log();
  ASSERT_EQ(folder.run(std::string(kStrictC) + "main.c broken.c -o broken -lOpenCL"), 0)
      << folder.log();
  const int right = folder.run("./right");
  if (right == 77) GTEST_SKIP() << "no OpenCL device is here";
  EXPECT_EQ(right, 0) << folder.log();
  EXPECT_EQ(folder.run("./broken x"), 0) << folder.log();
}

// Whatever call fails, its error is returned, and nothing is left.
TEST(OpenClExport, ReturnsErrorsAndKeepsNothing) {
  auto files = exported_twice();
  ASSERT_EQ(files.size(), 4u);
  ExportedFolder folder;
  if (!put_launcher(files, &folder)) GTEST_SKIP() << kNoHeader;
  folder.put("failing.c", kFailingCl);
  ASSERT_EQ(folder.run(std::string(kStrictC) + "-fsanitize=address failing.c twice.c -o failing"), 0)
      << folder.log();
  EXPECT_EQ(folder.run("ASAN_OPTIONS=detect_leaks=0 ./failing"), 0) << folder.log();
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
