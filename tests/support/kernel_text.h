// That the text of a kernel says all that the kernel means.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/kernel/kernel.h"

namespace lw {

// Leaves of a constant's two numbers the one that its register's type reads, as texts do.
inline void keep_what_is_read(const std::vector<Register>& registers, std::vector<Stmt>* list) {
  for (Stmt& s : *list) {
    if (s.kind == Stmt::Kind::kOp && s.op == Op::kImmediate) {
      if (is_float(registers[s.dst].type)) s.integer = 0;
      else s.number = 0;
    }
    keep_what_is_read(registers, &s.body);
    keep_what_is_read(registers, &s.otherwise);
  }
}

inline void expect_text_says_all(Kernel kernel, const std::string& what) {
  const std::string text = print(kernel);
  const absl::StatusOr<Kernel> again = parse_kernel(text);
  ASSERT_TRUE(again.ok()) << what << ": " << again.status();
  EXPECT_EQ(print(*again), text) << what;
  keep_what_is_read(kernel.registers, &kernel.body);
  keep_what_is_read(kernel.registers, &kernel.prepack);
  EXPECT_EQ(hash(*again), hash(kernel)) << what;
}

}  // namespace lw
