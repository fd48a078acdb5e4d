// Words, numbers and punctuation of PTX text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw::ptx_interpreter {

struct Token {
  enum class Kind : uint8_t { kWord, kInteger, kFloat, kString, kPunctuation, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // into the source; a word has its dots and :: in it
  bool wide = false;      // kFloat: bits are a double's
  uint64_t bits = 0;
  int line = 1;
  size_t begin = 0;  // in the source
};

// Ends with one of kEnd. Comments are left out.
absl::StatusOr<std::vector<Token>> lex_ptx(std::string_view source);

}  // namespace lw::ptx_interpreter
