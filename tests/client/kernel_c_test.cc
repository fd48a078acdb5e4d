// Kernels through the C interface: generated here, exported and loaded, by many threads, a million
// times; and everything that is wrong with a call, by name.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loopwright/loopwright.h"
#include "nlohmann/json.hpp"

namespace lw {
namespace {

using ::testing::HasSubstr;
using nlohmann::json;

constexpr int kM = 6, kN = 16, kK = 8;
constexpr char kMatmulWords[] = "matmul M=6 N=16 K=8";

// 64-byte aligned.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : data_(std::aligned_alloc(64, (std::max<size_t>(bytes, 1) + 63) / 64 * 64)) {}
  ~Memory() { std::free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  float* floats() const { return static_cast<float*>(data_); }
  void* get() const { return data_; }

 private:
  void* data_;
};

struct Product {
  Memory a{kM * kK * 4}, b{kK * kN * 4}, c{kM * kN * 4}, packed{1 << 16};
  void* buffers[3] = {a.get(), b.get(), c.get()};

  Product() {
    for (int i = 0; i < kM * kK; ++i) a.floats()[i] = static_cast<float>(i % 7 - 3);
    for (int i = 0; i < kK * kN; ++i) b.floats()[i] = static_cast<float>(i % 5 - 2);
  }
  bool is_right() const {
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        float sum = 0;
        for (int k = 0; k < kK; ++k) sum += a.floats()[i * kK + k] * b.floats()[k * kN + j];
        if (c.floats()[i * kN + j] != sum) return false;
      }
    }
    return true;
  }
};

class KernelCTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "kernel_c_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // REQUIRES: the test goes on only if it is not null.
  loopwright_kernel* open(const loopwright_task& task) {
    loopwright_kernel* kernel = nullptr;
    code_ = loopwright_kernel_open(nullptr, &task, &kernel, error_, sizeof error_);
    EXPECT_EQ(code_ == LOOPWRIGHT_OK, kernel != nullptr) << error_;
    return kernel;
  }
  loopwright_task task(const char* workload = kMatmulWords) {
    return {sizeof(loopwright_task), workload, nullptr, 1, nullptr, nullptr};
  }
  std::string path(const std::string& name) { return folder_ + "/" + name; }
  int32_t run(const loopwright_kernel* kernel, void* const* buffers, void* packed = nullptr) {
    loopwright_call call{};
    call.size = sizeof call;
    call.buffers = buffers;
    call.packed = packed;
    return loopwright_kernel_run(kernel, &call, error_, sizeof error_);
  }

  std::string folder_;
  int32_t code_ = 0;
  char error_[512] = "";
};

TEST_F(KernelCTest, GeneratesAndRuns) {
  loopwright_kernel* kernel = open(task());
  ASSERT_NE(kernel, nullptr);
  const lw_kernel* table = loopwright_kernel_table(kernel);
  EXPECT_STREQ(table->name, "matmul");
  ASSERT_EQ(table->arguments, 3);
  EXPECT_STREQ(table->argument[1].name, "B");
  EXPECT_EQ(table->argument[2].flags, LW_OUTPUT);
  EXPECT_EQ(table->argument[0].bytes, kM * kK * 4);
  const json info = json::parse(loopwright_kernel_info(kernel));
  EXPECT_EQ(info["abi"], LOOPWRIGHT_ABI);
  EXPECT_EQ(info["outcome"], "default");
  EXPECT_EQ(info["digest"], table->digest);
  EXPECT_EQ(loopwright_kernel_workspace_bytes(kernel, 2) % 64, 0);
  Product product;
  ASSERT_EQ(run(kernel, product.buffers), LOOPWRIGHT_OK) << error_;
  EXPECT_TRUE(product.is_right());
  loopwright_kernel_close(kernel);
}

TEST_F(KernelCTest, PackedOperandsAreTheCallers) {
  loopwright_task asked = task("matmul M=6 N=16 K=512");
  asked.const_names = "B";
  loopwright_kernel* kernel = open(asked);
  ASSERT_NE(kernel, nullptr);
  const lw_kernel* table = loopwright_kernel_table(kernel);
  EXPECT_EQ(table->argument[1].flags & LW_CONST, LW_CONST);
  ASSERT_GT(table->packed_bytes, 0) << "B of a product is packed";
  ASSERT_EQ(table->argument[1].flags & LW_READ_BY_RUN, 0);
  Memory a(6 * 512 * 4), b(512 * 16 * 4), c(6 * 16 * 4);
  Memory one(static_cast<size_t>(table->packed_bytes)), two(static_cast<size_t>(table->packed_bytes));
  std::fill(a.floats(), a.floats() + 6 * 512, 1.0f);
  void* buffers[] = {a.get(), b.get(), c.get()};
  std::fill(b.floats(), b.floats() + 512 * 16, 1.0f);
  ASSERT_EQ(loopwright_kernel_prepack(kernel, buffers, one.get(), error_, sizeof error_), 0);
  std::fill(b.floats(), b.floats() + 512 * 16, 2.0f);
  ASSERT_EQ(loopwright_kernel_prepack(kernel, buffers, two.get(), error_, sizeof error_), 0);
  buffers[1] = nullptr;                    // nobody reads it any more
  ASSERT_EQ(run(kernel, buffers, one.get()), LOOPWRIGHT_OK) << error_;
  EXPECT_EQ(c.floats()[95], 512);
  ASSERT_EQ(run(kernel, buffers, two.get()), LOOPWRIGHT_OK) << error_;
  EXPECT_EQ(c.floats()[95], 1024);
  EXPECT_EQ(run(kernel, buffers), LOOPWRIGHT_BAD_REQUEST);
  EXPECT_THAT(error_, HasSubstr("packed is null"));
  loopwright_kernel_close(kernel);
}

TEST_F(KernelCTest, ExportsAndLoads) {
  const loopwright_task asked = task();
  ASSERT_EQ(loopwright_export(nullptr, &asked, folder_.c_str(), "mm_6", 1, error_,
                              sizeof error_), LOOPWRIGHT_OK) << error_;
  for (const char* name : {"mm_6.so", "mm_6.json"}) {
    loopwright_kernel* kernel = nullptr;
    ASSERT_EQ(loopwright_kernel_load(path(name).c_str(), &kernel, error_, sizeof error_),
              LOOPWRIGHT_OK) << error_;
    EXPECT_STREQ(loopwright_kernel_table(kernel)->name, "mm_6");
    Product product;
    ASSERT_EQ(run(kernel, product.buffers), LOOPWRIGHT_OK) << error_;
    EXPECT_TRUE(product.is_right());
    loopwright_kernel_close(kernel);
  }
  // Another shape under the same name does not take its place.
  const loopwright_task other = task("matmul M=7 N=16 K=8");
  EXPECT_EQ(loopwright_export(nullptr, &other, folder_.c_str(), "mm_6", 0, error_,
                              sizeof error_), LOOPWRIGHT_BAD_REQUEST);
  EXPECT_THAT(error_, HasSubstr("a name of its own"));
  // A library that is not the one that its JSON speaks of.
  std::ofstream(path("mm_6.so"), std::ios::app) << "x";
  loopwright_kernel* kernel = nullptr;
  EXPECT_EQ(loopwright_kernel_load(path("mm_6.json").c_str(), &kernel, error_, sizeof error_),
            LOOPWRIGHT_ENVIRONMENT);
  EXPECT_THAT(error_, HasSubstr("is not the file that"));
  EXPECT_EQ(kernel, nullptr);
}

// As one that is linked into the program: a table that outlives its instance.
TEST_F(KernelCTest, WrapsATable) {
  loopwright_kernel* owner = open(task());
  ASSERT_NE(owner, nullptr);
  loopwright_kernel* kernel = nullptr;
  ASSERT_EQ(loopwright_kernel_of(loopwright_kernel_table(owner), &kernel, error_, sizeof error_),
            LOOPWRIGHT_OK) << error_;
  Product product;
  ASSERT_EQ(run(kernel, product.buffers), LOOPWRIGHT_OK) << error_;
  EXPECT_TRUE(product.is_right());
  loopwright_kernel_close(kernel);
  loopwright_kernel_close(owner);
  EXPECT_EQ(loopwright_kernel_of(nullptr, &kernel, error_, sizeof error_), LOOPWRIGHT_BAD_REQUEST);
}

TEST_F(KernelCTest, ProgramsWithoutAFile) {
  loopwright_kernel* kernel = open(
      task("op twice(M = 10) {\n  in A: f32[M]\n  out B[i: M] = A[i] + A[i]\n}\n"));
  ASSERT_NE(kernel, nullptr);
  Memory a(40), b(40);
  for (int i = 0; i < 10; ++i) a.floats()[i] = static_cast<float>(i);
  void* buffers[] = {a.get(), b.get()};
  ASSERT_EQ(run(kernel, buffers), LOOPWRIGHT_OK) << error_;
  EXPECT_EQ(b.floats()[9], 18);
  loopwright_kernel_close(kernel);
}

TEST_F(KernelCTest, TwoShapesOfAnOpInOneProcessOnManyThreads) {
  loopwright_task asked = task();
  asked.threads = 2;
  loopwright_kernel* parallel = open(asked);
  loopwright_kernel* serial = open(task());
  ASSERT_NE(parallel, nullptr);
  ASSERT_NE(serial, nullptr);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Product product;
      char error[256];
      loopwright_call call{};
      call.size = sizeof call;
      call.buffers = product.buffers;
      for (int n = 0; n < 500; ++n) {
        std::fill(product.c.floats(), product.c.floats() + kM * kN, NAN);
        ASSERT_EQ(loopwright_kernel_run(t % 2 == 0 ? parallel : serial, &call, error,
                                        sizeof error), LOOPWRIGHT_OK) << error;
        ASSERT_TRUE(product.is_right());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  loopwright_kernel_close(parallel);
  loopwright_kernel_close(serial);
}

int64_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident;
}

TEST_F(KernelCTest, AMillionCallsKeepNothing) {
  loopwright_kernel* kernel = open(task("softmax M=2 N=8"));
  ASSERT_NE(kernel, nullptr);
  const lw_kernel* table = loopwright_kernel_table(kernel);
  ASSERT_EQ(table->arguments, 2);
  Memory in(static_cast<size_t>(table->argument[0].bytes));
  Memory out(static_cast<size_t>(table->argument[1].bytes));
  std::fill(in.floats(), in.floats() + 16, 0.5f);
  void* buffers[] = {in.get(), out.get()};
  const auto call = [&](int times) {
    for (int n = 0; n < times; ++n) ASSERT_EQ(run(kernel, buffers), LOOPWRIGHT_OK) << error_;
  };
  call(1000);
  const int64_t before = resident_pages();
  call(1'000'000);
  EXPECT_LT(resident_pages() - before, 256) << "a MB";
  loopwright_kernel_close(kernel);
}

TEST_F(KernelCTest, WhatIsWrongIsSaid) {
  const auto said = [&](const loopwright_task& asked) -> std::string {
    loopwright_kernel* kernel = open(asked);
    EXPECT_EQ(kernel, nullptr);
    EXPECT_EQ(code_, LOOPWRIGHT_BAD_REQUEST) << error_;
    return error_;
  };
  EXPECT_THAT(said(task("no_such_op")), HasSubstr("no_such_op"));
  EXPECT_EQ(said(task(nullptr)), "a workload is null");
  loopwright_task asked = task();
  asked.const_names = "Z";
  EXPECT_THAT(said(asked), HasSubstr("Z"));
  asked = task();
  asked.allow = "speed";
  EXPECT_EQ(said(asked), "allow: 'speed'; winograd and bf16 are what a task may allow");
  asked = task();
  asked.target = "opencl_gpu";
  EXPECT_THAT(said(asked), HasSubstr("loopwright_export writes what launches them"));
  loopwright_kernel* kernel = open(task());
  ASSERT_NE(kernel, nullptr);
  Product product;
  void* buffers[3] = {product.a.get(), nullptr, product.c.get()};
  EXPECT_EQ(run(kernel, buffers), LOOPWRIGHT_BAD_REQUEST);
  EXPECT_STREQ(error_, "matmul: B is null");
  buffers[1] = product.a.get();            // inputs may be one
  buffers[2] = product.a.get();
  EXPECT_EQ(run(kernel, buffers), LOOPWRIGHT_BAD_REQUEST);
  EXPECT_STREQ(error_, "matmul: C overlaps A: the output must have memory of its own");
  EXPECT_EQ(loopwright_kernel_run(nullptr, nullptr, error_, sizeof error_), LOOPWRIGHT_BAD_REQUEST);
  EXPECT_EQ(loopwright_kernel_run(kernel, nullptr, error_, sizeof error_), LOOPWRIGHT_BAD_REQUEST);
  loopwright_kernel_close(kernel);
  loopwright_kernel_close(nullptr);
  EXPECT_EQ(loopwright_kernel_load(nullptr, &kernel, error_, sizeof error_), LOOPWRIGHT_BAD_REQUEST);
  EXPECT_EQ(loopwright_kernel_load("/no/such.so", &kernel, error_, sizeof error_),
            LOOPWRIGHT_ENVIRONMENT);
  EXPECT_EQ(loopwright_kernel_load("/no/such.json", &kernel, error_, sizeof error_),
            LOOPWRIGHT_ENVIRONMENT);
  std::ofstream(path("empty.json")) << "{}";
  EXPECT_EQ(loopwright_kernel_load(path("empty.json").c_str(), &kernel, error_, sizeof error_),
            LOOPWRIGHT_BAD_REQUEST);
  std::ofstream(path("none.so")) << "no library";
  EXPECT_EQ(loopwright_kernel_load(path("none.so").c_str(), &kernel, error_, sizeof error_),
            LOOPWRIGHT_ENVIRONMENT);
  EXPECT_EQ(kernel, nullptr);
}

// A frozen client answers nothing that is not stored.
TEST_F(KernelCTest, AFrozenMissIsNoKernel) {
  loopwright_options options{};
  options.size = sizeof options;
  options.frozen = 1;
  loopwright_client* client = nullptr;
  ASSERT_EQ(loopwright_open(&options, &client, error_, sizeof error_), LOOPWRIGHT_OK) << error_;
  loopwright_kernel* kernel = nullptr;
  const loopwright_task asked = task();
  EXPECT_EQ(loopwright_kernel_open(client, &asked, &kernel, error_, sizeof error_),
            LOOPWRIGHT_NOT_FOUND);
  EXPECT_EQ(kernel, nullptr);
  loopwright_close(client);
}

}  // namespace
}  // namespace lw
