// PTX programs that ask for what there is not, and a driver of CUDA that goes wrong
// (tests/support/drivers/fake_cuda.cc): each fault has its verdict, costs one candidate or the
// device that it is of, and the next candidate is measured well.
#include <gmock/gmock.h>

#include <fstream>

#include "src/measure/cuda/cuda_devices.h"
#include "src/measure/cuda/cuda_target.h"
#include "tests/measure/cuda_fixture.h"

namespace lw {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaFaultsTest : public FakeCudaTest {
 protected:
  struct CudaFault {
    std::string program;
    Verdict verdict;
    std::string detail;                    // a part of it
  };

  void expect_cuda_faults(const std::vector<CudaFault>& faults) {
    keep_log();
    const absl::StatusOr<std::unique_ptr<Measurer>> measurer = make_cuda_measurer(quick());
    ASSERT_TRUE(measurer.ok()) << measurer.status();
    for (const CudaFault& fault : faults) {
      SCOPED_TRACE(fault.program);
      const Outcome outcome = measured(**measurer, fault.program);
      EXPECT_EQ(outcome.verdict, fault.verdict) << outcome.detail;
      EXPECT_THAT(outcome.detail, HasSubstr(fault.detail));
      expect_fine(measured(**measurer, "good"));
    }
    EXPECT_THAT(logged("MISUSE"), IsEmpty());
  }

  static void expect_list(const std::string& words, absl::StatusCode code, const std::string& text,
                          double limit_s = 20) {
    SCOPED_TRACE(words);
    behave(words);
    const absl::Status status = list_cuda_devices(limit_s).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  void expect_unusable(const std::string& words, const std::string& text) {
    SCOPED_TRACE(words);
    begin_anew(words);
    const absl::Status status = cuda_target("0").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be used: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
};

TEST_F(CudaFaultsTest, WhatADeviceHasNotIsRefused) {
  expect_cuda_faults(
      {{"aside", Verdict::kWrongResult, "wrote beside the workspace"},
       {"before", Verdict::kWrongResult, "wrote beside output D"},
       {"buffer", Verdict::kDeviceLimit, "the device's limit for a buffer is 2147"},
       {"crowd", Verdict::kDeviceLimit,
        "kernel mm: blocks of 1048576 threads, the device's limit is 1024"},
       {"grid", Verdict::kDeviceLimit,
        "a grid of 2147483648 blocks, the device's limit is 2147483647"},
       {"local", Verdict::kDeviceLimit,
        "232449 bytes of shared memory of a block, the device's limit is 232448"},
       {"fake_crowded", Verdict::kDeviceLimit,
        "kernel mm: blocks of 24 threads, for which its registers leave 8"},
       {"nonsense", Verdict::kBuildError,
        "cuModuleLoadData: CUDA_ERROR_INVALID_PTX (218): ptxas fatal: line 1"},
       {"later", Verdict::kBuildError,
        "kernels for 'sm_100a' do not run on compute capability 9.0 (NVIDIA Fake)"},
       {"nameless", Verdict::kBuildError,
        "kernel nn: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500)"},
       {"other", Verdict::kBuildError, "1535 bytes for input B, which has 1536"},
       {"corrupt", Verdict::kBuildError, "program of launches"}});
}

TEST_F(CudaFaultsTest, EachFaultHasItsVerdict) {
  expect_cuda_faults(
      {{"fake_launch_700", Verdict::kCrash, ": CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
       {"fake_launch_715", Verdict::kCrash, "CUDA_ERROR_ILLEGAL_INSTRUCTION (715)"},
       {"fake_launch_716", Verdict::kCrash, "CUDA_ERROR_MISALIGNED_ADDRESS (716)"},
       {"fake_launch_719", Verdict::kCrash, "CUDA_ERROR_LAUNCH_FAILED (719)"},
       {"fake_launch_701", Verdict::kBuildError,
        "kernel mm: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"},
       {"fake_launch_dies", Verdict::kCrash, "SIGSEGV"},
       {"fake_hang", Verdict::kTimeout, "running took longer than"},
       {"fake_lost", Verdict::kDeviceUnhealthy, "CUDA_ERROR_UNKNOWN (999)"}});
}

TEST_F(CudaFaultsTest, FinalistsSurviveEachOfThem) {
  for (const char* wild : {"fake_launch_700", "fake_launch_dies", "fake_hang"}) {
    SCOPED_TRACE(wild);
    const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
    const std::vector<Outcome> outcomes =
        measurer->interleave({candidate(1, cuda_kernel("good")), candidate(2, cuda_kernel(wild)),
                              candidate(3, cuda_kernel("good"))}, 3);
    ASSERT_EQ(outcomes.size(), 3u);
    expect_fine(outcomes[0]);
    EXPECT_NE(outcomes[1].verdict, Verdict::kOk);
    expect_fine(outcomes[2]);
  }
}

TEST_F(CudaFaultsTest, MemoryThatItDoesNotGiveCostsOneCandidate) {
  behave("oom=2000000");
  expect_cuda_faults({{"roomy", Verdict::kDeviceLimit,
                       "the workspace: 4194304 bytes: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"}});
}

TEST_F(CudaFaultsTest, WhatNeitherOfItsFormsIsTakenOfSaysWhyOfBoth) {
  behave("refuse_cubin,refuse_ptx");
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  const Outcome outcome = measured(*measurer, "cubin");
  EXPECT_EQ(outcome.verdict, Verdict::kBuildError);
  EXPECT_THAT(outcome.detail, HasSubstr("CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)"));
  EXPECT_THAT(outcome.detail, HasSubstr("'sm_90 ptxas 13.0.88': cuModuleLoadData: "
                                        "CUDA_ERROR_NO_BINARY_FOR_GPU (209)"));
}

TEST_F(CudaFaultsTest, ADeviceThatFallsOffTheBusComesBack) {
  behave(concat("gone=", path_, ".gone"));
  const std::unique_ptr<Measurer> measurer = make_cuda_measurer(quick()).value();
  expect_fine(measured(*measurer, "good"));
  std::ofstream(path_ + ".gone");
  EXPECT_EQ(measured(*measurer, "fake_launch_dies").verdict, Verdict::kCrash);
  const Outcome outcome = measured(*measurer, "good");
  EXPECT_EQ(outcome.verdict, Verdict::kDeviceUnhealthy);
  EXPECT_THAT(outcome.detail, HasSubstr("NVIDIA's driver knows no device of this machine"));
  unlink((path_ + ".gone").c_str());
  expect_fine(measured(*measurer, "good"));
}

TEST_F(CudaFaultsTest, DriversThatDoNotAnswerAreNamed) {
  using absl::StatusCode;
  expect_list("list_hangs", StatusCode::kUnavailable,
              "NVIDIA's driver does not say within 0 s which devices there are; does `nvidia-smi`",
              0.5);
  expect_list("list_dies", StatusCode::kUnavailable, "ends its process when asked");
  expect_list("no_device", StatusCode::kNotFound, "knows no device of this machine");
  expect_list("init_803", StatusCode::kUnavailable,
              "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
  setenv("LOOPWRIGHT_CUDA", (path_ + ".none").c_str(), 1);
  expect_list("", StatusCode::kNotFound, "no CUDA here (");
  expect_list("", StatusCode::kNotFound, "install NVIDIA's driver, whose libcuda.so.1 this is");
  std::ofstream(path_ + ".none") << "no library";
  expect_list("", StatusCode::kNotFound, "no CUDA here (");
  setenv("LOOPWRIGHT_CUDA", LW_BINARY_DIR "/libfake_opencl.so", 1);
  expect_list("", StatusCode::kNotFound, "is no driver of CUDA 11.4 or later: it has no cuInit");
}

TEST_F(CudaFaultsTest, WhatCannotBeUsedSaysWhyAndWhatIsNeeded) {
  expect_unusable("too_old",
                  "its driver has CUDA 11.2, kernels for compute capability 9.0 need 12.0: "
                  "install release 525.60 of NVIDIA's driver or a later one");
  expect_unusable("too_old,capability=86", "kernels for compute capability 8.6 need 11.5");
  expect_unusable("capability=75", "its compute capability is 7.5, kernels are made for 8.0");
  expect_unusable("prohibited", "its compute mode is prohibited");
  expect_unusable("units=0", "it says it has 0 multiprocessors");
  expect_unusable("threads=0", "blocks of up to 0 threads");
  expect_unusable("memory=0", "memory of 0 bytes");
  EXPECT_THAT(std::string(named_cuda_device("").status().message()),
              HasSubstr("which cannot be used: "));
}

}  // namespace
}  // namespace lw
