#include "src/build/simt/ptx/interpreter/interpret_lex.h"

#include <bit>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/message.h"

namespace lw::ptx_interpreter {
namespace {

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

bool digits_in(std::string_view text, bool (*is)(char)) {
  for (const char c : text) {
    if (!is(c)) return false;
  }
  return !text.empty();
}

bool hex_digit(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool decimal_digit(char c) { return c >= '0' && c <= '9'; }

bool lex_number(std::string_view text, Token* token) {
  const std::string copy(text);
  token->kind = Token::Kind::kInteger;
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(std::tolower(static_cast<unsigned char>(text[1])));
    const std::string_view rest = text.substr(2);
    if (mark == 'f' || mark == 'd') {
      token->kind = Token::Kind::kFloat;
      token->wide = mark == 'd';
      token->bits = std::strtoull(copy.c_str() + 2, nullptr, 16);
      return rest.size() == (mark == 'f' ? 8 : 16) && digits_in(rest, hex_digit);
    }
    if (mark == 'x') {
      std::string_view digits = rest;
      if (digits.back() == 'U') digits.remove_suffix(1);
      token->bits = std::strtoull(copy.c_str() + 2, nullptr, 16);
      return digits.size() <= 16 && digits_in(digits, hex_digit);
    }
  }
  if (text.find('.') != std::string_view::npos) {
    char* end = nullptr;
    token->kind = Token::Kind::kFloat;
    token->wide = true;
    token->bits = std::bit_cast<uint64_t>(std::strtod(copy.c_str(), &end));
    return end == copy.c_str() + copy.size();
  }
  std::string_view digits = text;
  if (digits.back() == 'U') digits.remove_suffix(1);
  if (digits.size() > 1 && digits[0] == '0') return false;  // octal: we print none
  token->bits = std::strtoull(copy.c_str(), nullptr, 10);
  return digits.size() <= 20 && digits_in(digits, decimal_digit);
}

}  // namespace

absl::StatusOr<std::vector<Token>> lex_ptx(std::string_view source) {
  std::vector<Token> tokens;
  int line = 1;
  size_t at = 0;
  while (at < source.size()) {
    const char c = source[at];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c))) {
      ++at;
      continue;
    }
    if (source.substr(at, 2) == "//") {
      while (at < source.size() && source[at] != '\n') ++at;
      continue;
    }
    if (source.substr(at, 2) == "/*") {
      const size_t end = source.find("*/", at + 2);
      if (end == std::string_view::npos) {
        return absl::InvalidArgumentError(concat("line ", line, ": a comment has no end"));
      }
      for (; at < end + 2; ++at) line += source[at] == '\n';
      continue;
    }
    Token token;
    token.line = line;
    token.begin = at;
    size_t end = at + 1;
    if (in_word(c)) {
      const bool number = decimal_digit(c);
      while (end < source.size()) {
        // .L2::128B is one word; a label's single colon ends it.
        const bool join = !number && source.substr(end, 2) == "::" && end + 2 < source.size() &&
                          in_word(source[end + 2]);
        if (!join && !in_word(source[end])) break;
        end += join ? 2 : 1;
      }
      token.text = source.substr(at, end - at);
      token.kind = Token::Kind::kWord;
      if (number && !lex_number(token.text, &token)) {
        return absl::InvalidArgumentError(
            concat("line ", line, ": '", token.text, "' is no number"));
      }
    } else if (c == '"') {
      end = source.find('"', at + 1);
      if (end == std::string_view::npos || source.substr(at, end - at).find('\n') != source.npos) {
        return absl::InvalidArgumentError(concat("line ", line, ": a string has no end"));
      }
      token.kind = Token::Kind::kString;
      token.text = source.substr(at + 1, end++ - at - 1);
    } else if (std::string_view(",;[]{}|!@+-:()<>=").find(c) != std::string_view::npos) {
      token.kind = Token::Kind::kPunctuation;
      token.text = source.substr(at, 1);
    } else {
      return absl::InvalidArgumentError(
          concat("line ", line, ": the character '", source.substr(at, 1), "' stands nowhere"));
    }
    at = end;
    tokens.push_back(token);
  }
  Token last;
  last.line = line;
  last.begin = source.size();
  tokens.push_back(last);
  return tokens;
}

}  // namespace lw::ptx_interpreter
