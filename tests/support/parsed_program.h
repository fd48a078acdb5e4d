// Programs as tests write them: the lines of one op.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "loopwright/program.h"
#include "src/expr/language/text.h"

namespace lw {

inline Program parsed(const std::string& text) {
  const absl::StatusOr<Program> program = parse_program("op p() {\n" + text + "\n}\n", "test.te");
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

}  // namespace lw
