// Tests on the fake of NVIDIA's driver, which each has under a name of its own, by which its
// devices are remembered.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/measure/cuda_programs.h"

namespace lw {

class FakeCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int count = 0;
    path_ = concat(testing::TempDir(), "fake_cuda_", getpid(), "_", ++count);
    setenv("LOOPWRIGHT_CUDA", another_library().c_str(), 1);
    setenv("LOOPWRIGHT_NVML", "/nonexistent", 1);
    behave("");
  }
  void TearDown() override {
    for (const char* name : {"LOOPWRIGHT_CUDA", "LOOPWRIGHT_NVML", "FAKE_CUDA_FAULT",
                             "FAKE_CUDA_LOG", "CUDA_VISIBLE_DEVICES"}) {
      unsetenv(name);
    }
    for (const std::string& library : libraries_) unlink(library.c_str());
    for (const char* ending : {".gone", ".log", ".none"}) unlink((path_ + ending).c_str());
  }

  static void behave(const std::string& words) { setenv("FAKE_CUDA_FAULT", words.c_str(), 1); }
  // From now on it is asked anew, and does what the words say.
  void begin_anew(const std::string& words) {
    setenv("LOOPWRIGHT_CUDA", another_library().c_str(), 1);
    behave(words);
  }
  std::string another_library() {
    libraries_.push_back(concat(path_, "_", libraries_.size(), ".so"));
    std::filesystem::create_symlink(kFakeCuda, libraries_.back());
    return libraries_.back();
  }

  void keep_log() { setenv("FAKE_CUDA_LOG", (path_ + ".log").c_str(), 1); }
  // (The driver has it open.)
  void forget_log() const { std::ofstream(path_ + ".log", std::ios::trunc); }
  // Lines that begin so.
  std::vector<std::string> logged(const std::string& beginning) const {
    std::vector<std::string> lines;
    std::ifstream log(path_ + ".log");
    for (std::string line; std::getline(log, line);) {
      if (line.starts_with(beginning)) lines.push_back(line);
    }
    return lines;
  }

  static Outcome measured(Measurer& measurer, const std::string& name) {
    measurer.submit({candidate(7, cuda_kernel(name))});
    return collect(measurer, 1)[7];
  }
  static void expect_fine(const Outcome& outcome) {
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << outcome.detail;
    EXPECT_TRUE(outcome.verified);
    EXPECT_GT(outcome.time_us, 0);
  }

  std::string path_;
  std::vector<std::string> libraries_;
};

}  // namespace lw
