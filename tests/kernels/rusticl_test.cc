// Kernels on the stack that drivers of GPUs are made of, Mesa's: SPIR-V, NIR, Gallium, here with
// llvmpipe, which runs them on processors; a device of 32 KiB of local memory, of groups of 1,024
// items, without f64 and f16. It is in a process of its own, where the tests of opencl_test.cc are
// run on fewer and smaller kernels: llvmpipe makes each item a coroutine, for which LLVM takes
// minutes where a kernel is large. LW_DRAWS, LW_SEED and so on as there.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "gtest/gtest.h"
#include "src/base/message.h"
#include "tests/support/files.h"
#include "tests/support/program.h"

namespace lw {
namespace {

constexpr char kLoaderFile[] = "/etc/OpenCL/vendors/rusticl.icd";

TEST(Rusticl, KernelsAreRight) {
  if (!std::filesystem::exists(kLoaderFile)) {
    GTEST_SKIP() << "no rusticl is here (Debian's package mesa-opencl-icd)";
  }
  const std::string command = concat(
      "RUSTICL_ENABLE=llvmpipe OCL_ICD_VENDORS=", kLoaderFile, " LOOPWRIGHT_OPENCL= LW_DEVICE=0",
      " LW_STATEMENTS=", setting("LW_STATEMENTS", 40), " LW_OPERATORS=",
      setting("LW_OPERATORS", 10), " LW_PROGRAMS=", setting("LW_PROGRAMS", 16),
      " LOOPWRIGHT_SKIPS= '", own_program(), "' opencl_test > ", testing::TempDir(),
      "rusticl_test.out 2>&1");
  const int code = std::system(command.c_str());
  std::string output = slurp(testing::TempDir() + "rusticl_test.out");
  if (output.size() > 20000) output.resize(20000);
  EXPECT_EQ(code, 0) << output;
  EXPECT_EQ(output.find("SKIPPED"), output.npos) << output;
  std::printf("%s", output.c_str());
}

}  // namespace
}  // namespace lw
