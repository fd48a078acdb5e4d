// NVIDIA GPUs as their driver describes them, and kernels on them, on a driver that is a fake
// (tests/support/drivers/fake_cuda.cc), which notices how it is called.
#include <gmock/gmock.h>

#include <algorithm>

#include "schedules/targets/named_machine.h"
#include "schedules/targets/simt/simt_target.h"
#include "src/build/simt/ptx/ptx_program.h"
#include "src/kernel/kernel.h"
#include "src/measure/cuda/cuda_api.h"
#include "src/measure/cuda/cuda_call.h"
#include "src/measure/cuda/cuda_devices.h"
#include "src/measure/cuda/cuda_target.h"
#include "src/measure/cuda/nvml.h"
#include "tests/measure/cuda_fixture.h"

namespace lw {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class CudaDeviceTest : public FakeCudaTest {};

TEST(CudaErrorsTest, EachHasItsMeaning) {
  using absl::StatusCode;
  for (const int error : {700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    EXPECT_EQ(cu::error_status(error, "f").code(), StatusCode::kAborted) << error;
  }
  for (const int error : {1, 200, 209, 218, 222, 701, 912, 12345}) {
    EXPECT_EQ(cu::error_status(error, "f").code(), StatusCode::kInvalidArgument) << error;
  }
  for (const int error : {46, 100, 101, 999}) {
    EXPECT_EQ(cu::error_status(error, "f").code(), StatusCode::kUnavailable) << error;
  }
  EXPECT_EQ(cu::error_status(2, "f").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(cu::error_status(0, "f"), absl::OkStatus());
  EXPECT_EQ(cu::error_status(700, "cuLaunchKernel").message(),
            "cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  EXPECT_EQ(cu::error_name(12345), "CUDA error (12345)");
  EXPECT_EQ(cu::version_text(12040), "12.4");
}

TEST(CudaProcessorsTest, WhatRunsWhere) {
  CudaDevice h100, a100, ada, later;
  h100.major = 9;
  a100.major = ada.major = 8;
  ada.minor = 9;
  later.major = 12;
  EXPECT_TRUE(h100.runs_binary("sm_90a"));
  EXPECT_TRUE(h100.runs_binary("sm_90"));
  EXPECT_FALSE(h100.runs_binary("sm_80"));
  EXPECT_TRUE(a100.runs_binary("sm_80"));
  EXPECT_FALSE(a100.runs_binary("sm_86"));
  EXPECT_TRUE(ada.runs_binary("sm_80"));
  EXPECT_TRUE(ada.runs_binary("sm_86"));
  EXPECT_FALSE(later.runs_binary("sm_90a"));
  EXPECT_FALSE(later.runs_binary("sm_100a"));
  EXPECT_TRUE(later.runs_binary("sm_120"));
  for (const CudaDevice& d : {h100, a100, ada, later}) EXPECT_TRUE(d.runs_ptx("sm_80"));
  EXPECT_TRUE(h100.runs_ptx("sm_90a"));
  EXPECT_FALSE(later.runs_ptx("sm_90a"));
  EXPECT_FALSE(a100.runs_ptx("sm_86"));
  for (const char* nonsense : {"", "sm_", "sm_a", "sm_9", "sm_90x1", "gfx90a", "-cl-std=CL1.2"}) {
    EXPECT_FALSE(h100.runs_ptx(nonsense)) << nonsense;
    EXPECT_FALSE(h100.runs_binary(nonsense)) << nonsense;
  }
}

TEST_F(CudaDeviceTest, ItIsAsItsDriverSays) {
  setenv("LOOPWRIGHT_NVML", kFakeCuda, 1);
  const absl::StatusOr<std::vector<CudaDevice>> devices = list_cuda_devices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 1u);
  const CudaDevice& d = devices->front();
  EXPECT_EQ(d.name, "NVIDIA Fake");
  EXPECT_EQ(d.uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_EQ(d.bus_id, "0000:65:00.0");
  EXPECT_EQ(d.driver_text(), "CUDA 12.4, 550.54.15");
  EXPECT_EQ(d.capability(), "9.0");
  EXPECT_EQ(d.units, 132u);
  EXPECT_EQ(d.mhz, 1980u);
  EXPECT_EQ(d.l2_bytes, 50u << 20);
  EXPECT_EQ(d.memory_bytes, uint64_t{80} << 30);
  EXPECT_EQ(d.bus_bits, 5120u);
  EXPECT_EQ(d.memory_mhz, 2619u);
  EXPECT_EQ(d.shared_bytes, 232'448u);
  EXPECT_EQ(d.unit_shared_bytes, 233'472u);
  EXPECT_EQ(d.group_items, 1024u);
  EXPECT_EQ(d.unit_items, 2048u);
  EXPECT_EQ(d.unit_registers, 65536u);
  EXPECT_EQ(d.power_limit_w, 700u);
  EXPECT_TRUE(d.ecc);
  EXPECT_FALSE(d.slice);
  EXPECT_EQ(d.nonsense, "");
  EXPECT_EQ(cuda_facts(d),
            R"({"capability":"9.0","cuda":true,"device":"NVIDIA Fake",)"
            R"("driver":"CUDA 12.4, 550.54.15","ecc":true,"mig":false,"number":0,)"
            R"("power_limit_w":700,)"
            R"("uuid":"GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"})");
}

TEST_F(CudaDeviceTest, ASliceIsSaid) {
  begin_anew("mig");
  const CudaDevice d = find_cuda_device("0").value();
  EXPECT_TRUE(d.slice);
  EXPECT_THAT(d.uuid, HasSubstr("MIG-0001"));
  EXPECT_THAT(cuda_facts(d), HasSubstr("\"mig\":true"));
}

TEST_F(CudaDeviceTest, ItIsFoundByNumberNameAndUuid) {
  begin_anew("devices=2");
  EXPECT_EQ(find_cuda_device("").value().index, 0);
  EXPECT_EQ(find_cuda_device("1").value().name, "NVIDIA Fake #2");
  EXPECT_EQ(find_cuda_device("fake #2").value().index, 1);
  EXPECT_EQ(find_cuda_device("GPU-1011").value().index, 1);
  EXPECT_EQ(named_cuda_device("NVIDIA Fake").value().index, 0);
  EXPECT_THAT(std::string(find_cuda_device("fak").status().message()),
              HasSubstr("several CUDA devices are named like 'fak': cuda:0 (NVIDIA Fake), cuda:1"));
  const absl::Status none = find_cuda_device("h200").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("no CUDA device 'h200'; there are cuda:0 (NVIDIA Fake)"));
}

TEST_F(CudaDeviceTest, ItIsATargetWithWhatItsDriverSays) {
  const absl::StatusOr<Target> target = cuda_target("fake");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->name, "cuda:nvidia-fake");
  EXPECT_EQ(target->architecture, "nvidia");
  EXPECT_NEAR(target->ghz, 1.98, 1e-9);
  EXPECT_EQ(simt(*target).device, "NVIDIA Fake");
  EXPECT_EQ(simt(*target).units, 132);
  EXPECT_EQ(simt(*target).group_items, 1024);
  EXPECT_EQ(simt(*target).unit_items, 2048);
  EXPECT_EQ(simt(*target).local_bytes, 232'448);
  EXPECT_EQ(simt(*target).unit_local_bytes, 233'472);
  EXPECT_EQ(simt(*target).unit_register_bytes, 4 * 65536);
  const Target code = find_target("nvidia_sm90a").value();
  EXPECT_EQ(simt(*target).buffer_bytes, simt(code).buffer_bytes);
  EXPECT_EQ(missing_feature(code, *target), "");
  const auto l2 = std::find_if(target->caches.begin(), target->caches.end(),
                               [](const CacheLevel& level) { return level.name == "L2"; });
  ASSERT_NE(l2, target->caches.end());
  EXPECT_EQ(l2->bytes, 50 << 20);
  // 5120 bits at 2 * 2.619 GHz are 3352 GB/s.
  EXPECT_NEAR(target->caches.back().read_bytes_per_cycle * target->ghz, 0.9 * 3352.3, 1);
  const std::vector<DrivenMachine> machines = driven_machines().value();
  ASSERT_FALSE(machines.empty());
  EXPECT_EQ(machines[0].name, "cuda:0");
  EXPECT_EQ(machines[0].device, "NVIDIA Fake");
  EXPECT_EQ(named_machine("cuda:0").value().name, "cuda:nvidia-fake");
  // Of what is not 9.0 the code is that of 8.0.
  for (const char* capability : {"86", "100", "120"}) {
    begin_anew(concat("capability=", capability, ",memory=1000000000"));
    const Target other = cuda_target("0").value();
    EXPECT_EQ(missing_feature(find_target("nvidia_sm80").value(), other), "");
    EXPECT_EQ(missing_feature(code, other), "sm_90a");
    EXPECT_EQ(simt(other).buffer_bytes, 1'000'000'000);
    EXPECT_EQ(check_driven(find_target("nvidia_sm80").value()), absl::OkStatus());
    EXPECT_THAT(std::string(check_driven(code).message()),
                HasSubstr("no CUDA device here has sm_90a, which kernels for nvidia_sm90a need"));
  }
}

TEST_F(CudaDeviceTest, ReasonsForLowClocksAreWords) {
  EXPECT_EQ(Nvml::held_by(0), "");
  EXPECT_EQ(Nvml::held_by(1), "");         // it is idle
  EXPECT_EQ(Nvml::held_by(4), "its power limit");
  EXPECT_EQ(Nvml::held_by(0x4 | 0x60), "its power limit, its heat");
  EXPECT_EQ(Nvml::held_by(0x102), "clocks that were set");
}

TEST_F(CudaDeviceTest, KernelsAreMeasuredAndItsClocksNoted) {
  setenv("LOOPWRIGHT_NVML", kFakeCuda, 1);
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  const Outcome outcome = measured(*measurer, "good");
  expect_fine(outcome);
  EXPECT_NEAR(outcome.time_us, 5, 0.01);   // as the fake's device has it
  EXPECT_THAT(outcome.environment, HasSubstr("\"board\":\"NVIDIA Fake\""));
  EXPECT_THAT(outcome.environment, HasSubstr("\"sm_mhz\":1755"));
  EXPECT_THAT(outcome.environment, HasSubstr("\"power_w\":312"));
  EXPECT_THAT(outcome.environment, HasSubstr("\"throttle_reasons\":4"));
  expect_fine(measured(*measurer, "packed"));
}

TEST_F(CudaDeviceTest, ShortCallsAreTimedByGraphs) {
  keep_log();
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  expect_fine(measured(*measurer, "good"));
  const std::vector<std::string> launches = logged("cuGraphLaunch");
  EXPECT_THAT(launches, Not(IsEmpty()));
  // (Times are floats of milliseconds.)
  for (const std::string& line : launches) {
    EXPECT_THAT(line, AnyOf("cuGraphLaunch nodes=60", "cuGraphLaunch nodes=61"));
  }
  EXPECT_THAT(logged("cuGraphInstantiate"), SizeIs(1));
  forget_log();
  const Outcome slow = measured(*measurer, "fake_slow");
  expect_fine(slow);
  EXPECT_NEAR(slow.time_us, 200, 0.1);
  EXPECT_THAT(logged("cuGraphLaunch"), IsEmpty());
}

TEST_F(CudaDeviceTest, ColdCallsFindTheCacheFlushed) {
  keep_log();
  LocalOptions options = quick();
  options.cache = Cache::kCold;
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(options).value();
  expect_fine(measured(*measurer, "good"));
  const std::string flush = concat("cuMemsetD8Async byte=255 bytes=", (100 << 20) + (128 << 10));
  EXPECT_GE(logged(flush).size(), 3u);
  EXPECT_THAT(logged("cuGraphLaunch"), IsEmpty());
}

TEST_F(CudaDeviceTest, EventsThatSayNothingAreNotBelieved) {
  behave("events_zero");
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  const Outcome outcome = measured(*measurer, "good");
  expect_fine(outcome);
  EXPECT_GE(outcome.time_us, 5);
}

TEST_F(CudaDeviceTest, TheBinaryIsLoadedWhereItFits) {
  keep_log();
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  const auto images = [&](const std::string& name) {
    forget_log();
    expect_fine(measured(*measurer, name));
    std::vector<std::string> found;
    for (const std::string& line : logged("cuModuleLoadDataEx image=")) {
      found.push_back(line.substr(25, line.find(' ', 25) - 25));
    }
    return found;
  };
  EXPECT_THAT(images("good"), ElementsAre("ptx"));
  EXPECT_THAT(images("cubin"), ElementsAre("cubin"));
  EXPECT_THAT(images("foreign"), ElementsAre("ptx"));
  // What the driver does not take is compiled.
  EXPECT_THAT(images("rubbish"), ElementsAre("ptx", "ptx"));
}

TEST_F(CudaDeviceTest, ARefusedBinaryIsCompiledFromItsText) {
  behave("refuse_cubin");
  keep_log();
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  expect_fine(measured(*measurer, "cubin"));
  EXPECT_THAT(logged("cuModuleLoadDataEx image=cubin"), SizeIs(1));
  EXPECT_THAT(logged("cuModuleLoadDataEx image=ptx"), SizeIs(1));
}

TEST_F(CudaDeviceTest, MuchSharedMemoryIsAskedFor) {
  keep_log();
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  expect_fine(measured(*measurer, "shared"));
  EXPECT_THAT(logged("cuFuncSetAttribute"),
              Contains("cuFuncSetAttribute attribute=8 value=100000"));
  EXPECT_THAT(logged("cuLaunchKernel"),
              Contains("cuLaunchKernel name=mm grid=20,1,1 block=24,1,1 shared=100000"));
}

TEST_F(CudaDeviceTest, FinalistsAreTimedInTurns) {
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  const std::vector<Outcome> outcomes = measurer->interleave(
      {candidate(1, cuda_kernel("good")), candidate(2, cuda_kernel("fake_slow"))}, 3);
  ASSERT_EQ(outcomes.size(), 2u);
  for (const Outcome& outcome : outcomes) {
    expect_fine(outcome);
    EXPECT_EQ(outcome.samples_us.size(), 3u);
  }
  EXPECT_LT(outcomes[0].time_us, outcomes[1].time_us);
}

// In a process of its own: who has the driver may fork nobody who uses it.
TEST_F(CudaDeviceTest, AKernelIsCalledWithArgumentsOfOurs) {
  keep_log();
  const Target target = cuda_target("0").value();
  const auto call = [&](const char* name, bool prepacked) {
    Artifact artifact;
    artifact.architecture = kNvidiaArchitecture;
    artifact.bytes = to_text(cuda_program(name));
    const absl::StatusOr<std::unique_ptr<DrivenKernel>> kernel = open_driven(target, artifact);
    if (!kernel.ok()) return false;
    std::vector<float> a(320, 1), b(384, 2), d(480);
    void* const arguments[] = {a.data(), b.data(), d.data()};
    if (prepacked && !(*kernel)->prepack(arguments).ok()) return false;
    for (int i = 0; i < 3; ++i) {
      if (!(*kernel)->run(arguments).ok() || (*kernel)->last_us() < 4.9) return false;
    }
    return std::count(d.begin(), d.end(), 32.f) == 480;
  };
  EXPECT_EXIT(exit(call("good", false) && call("packed", true) ? 0 : 1),
              ::testing::ExitedWithCode(0), "");
  // All that was taken is given back.
  EXPECT_EQ(logged("cuMemAlloc_v2").size(), logged("cuMemFree_v2").size());
  for (const char* what : {"Stream", "Event"}) {
    EXPECT_EQ(logged(concat("cu", what, "Create")).size(),
              logged(concat("cu", what, "Destroy")).size()) << what;
  }
  EXPECT_EQ(logged("cuModuleUnload").size(), 2u);
  EXPECT_EQ(logged("cuDevicePrimaryCtxRelease").size(), 2u);
  EXPECT_THAT(logged("MISUSE"), IsEmpty());
}

// The right half of X, which two groups copy for each other, twice.
constexpr const char* kHalves =
    R"(kernel halves arguments=2 variables=3 workspace=0 private=0 packed=0 managed=8192
buffer X f32 4096 argument 0
buffer Y f32 4096 argument 1 written
buffer t f32 2048 managed 0 0 swizzled
registers f32x4 1
body {
  for v0 < 2 parallel items 128 cluster 2 {
    int v1 = item
    boxcopy t[0] (32, 1) = X[32] (64, 1) over 64, 32 clip 0 0 of 64 clip 1 32 of 64 pad 0
    commit
    landed 0
    for v2 < 4 {
      r0 = load t[4*v1 + 512*v2] stride 1
      store Y[2048*v0 + 4*v1 + 512*v2] = r0 stride 1
    }
  }
}
)";

TEST_F(CudaDeviceTest, TensorMapsAreMadeOfBuffers) {
  keep_log();
  const Target target = cuda_target("0").value();
  const Kernel kernel = parse_kernel(kHalves).value();
  ASSERT_TRUE(verify(kernel).ok()) << verify(kernel);
  const absl::StatusOr<SimtProgram> program = ptx_program(kernel, target);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->source, HasSubstr(".multicast::cluster"));
  const auto call = [&] {
    Artifact artifact;
    artifact.architecture = kNvidiaArchitecture;
    artifact.bytes = to_text(*program);
    const absl::StatusOr<std::unique_ptr<DrivenKernel>> opened = open_driven(target, artifact);
    if (!opened.ok()) return false;
    std::vector<float> x(4096), y(4096);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    void* const arguments[] = {x.data(), y.data()};
    if (!(*opened)->run(arguments).ok()) return false;
    for (size_t i = 0; i < y.size(); ++i) {
      if (y[i] != x[i % 2048 / 32 * 64 + 32 + i % 32]) return false;
    }
    return true;
  };
  EXPECT_EXIT(exit(call() ? 0 : 1), ::testing::ExitedWithCode(0), "");
  EXPECT_THAT(logged("cuTensorMapEncodeTiled"),
              ElementsAre("cuTensorMapEncodeTiled type=2 rank=2 swizzle=3"));
  EXPECT_THAT(logged("MISUSE"), IsEmpty());
}

}  // namespace
}  // namespace lw
