// A product of matrices, a kernel that computes it, and how it goes wrong: for tests of whoever
// measures. Times are never asserted.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/expr/expr.h"
#include "src/expr/language/text.h"
#include "src/measure/local.h"

namespace lw {

inline constexpr char kMatmul[] = R"(
op mm(M = 20, N = 24, K = 16) {
  in A: f32[M, K]
  in B: f32[K, N] const
  out D[i: M, j: N] = sum[k: K](A[i, k] * B[k, j])
}
)";

// Rows one by one, columns as a whole vector of 16 and a masked one of 8.
inline constexpr char kGood[] = R"(kernel mm arguments=3 variables=2 workspace=64 private=0 packed=0
buffer A f32 320 argument 0
buffer B f32 384 argument 1
buffer D f32 480 argument 2 written
buffer W f32 16 workspace 0
registers f32x16 3
registers boolx16 1
body {
  r3 = lanemask 7 stride -1
  for v0 < 20 {
    r0 = const 0
    for v1 < 16 {
      r1 = load A[16*v0 + v1] stride 0
      r2 = load B[24*v1] stride 1
      r0 = fma r1, r2, r0
    }
    store D[24*v0] = r0 stride 1
    r0 = const 0
    for v1 < 16 {
      r1 = load A[16*v0 + v1] stride 0
      r2 = load B[24*v1 + 16] stride 1 mask r3
      r0 = fma r1, r2, r0
    }
    store D[24*v0 + 16] = r0 stride 1 mask r3
  }
}
)";

inline std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  CHECK(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// `statements` before all others.
inline std::string first(const std::string& statements) {
  return replaced("body {\n", "body {\n" + statements);
}

inline std::shared_ptr<const Kernel> kernel(const std::string& text) {
  absl::StatusOr<Kernel> parsed = parse_kernel(text);
  CHECK(parsed.ok());
  return std::make_shared<const Kernel>(*std::move(parsed));
}

inline Program program(const std::string& text = kMatmul) {
  absl::StatusOr<Module> module = parse_module(text, "test.te");
  CHECK(module.ok());
  absl::StatusOr<Program> p = instantiate(module->ops[0], {});
  CHECK(p.ok());
  return *p;
}

// This machine, for another backend than its own.
inline Target target(const std::string& architecture) {
  Target t = find_target("host").value();
  if (architecture != "llvm") t.architecture = architecture;
  return t;
}

inline LocalOptions quick() {
  LocalOptions options;
  options.run_timeout_s = 0.5;
  options.reference = kernel(kGood);
  return options;
}

inline std::map<int64_t, Outcome> collect(Measurer& measurer, size_t count) {
  std::map<int64_t, Outcome> outcomes;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (outcomes.size() < count && std::chrono::steady_clock::now() < give_up) {
    for (Outcome& outcome : measurer.poll(1)) {
      EXPECT_EQ(outcomes.count(outcome.ticket), 0u) << "reported twice";
      outcomes[outcome.ticket] = std::move(outcome);
    }
  }
  EXPECT_EQ(outcomes.size(), count);
  return outcomes;
}

inline Candidate candidate(int64_t ticket, const std::string& text) {
  Candidate c;
  c.ticket = ticket;
  c.kernel = kernel(text);
  c.verify = true;
  c.draft_us = 7.5;                        // for those who take no times
  return c;
}

inline std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  for (pid_t child; file >> child;) children.push_back(child);
  return children;
}

}  // namespace lw
