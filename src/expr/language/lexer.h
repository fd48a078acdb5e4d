// Tokens of `.te` text.
#pragma once

#include <string_view>
#include <vector>

#include "src/expr/language/syntax.h"

namespace lw {

enum class TokenKind : uint8_t { kName, kNumber, kPunctuation, kBad, kNewline, kEnd };

struct Token {
  TokenKind kind;
  std::string_view text;                   // into the source's text
  int position;
};

// Ends with a kEnd. A kNewline ends a statement: line ends inside ( ) and [ ], and after `=`, a
// comma or an operator, make no token. What begins no token is reported and becomes a kBad.
std::vector<Token> tokenize(std::string_view text, Diagnostics* diagnostics);

}  // namespace lw
