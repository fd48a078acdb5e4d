// The lexer: bytes to tokens, deciding where statements end.
#include "src/expr/language/lexer.h"

#include <cstring>

#include "src/base/message.h"

namespace lw {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view text, Diagnostics* diagnostics) : text_(text), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    if (!tokens_.empty()) end_statement();
    emit(TokenKind::kEnd, 0);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void emit(TokenKind kind, size_t length) {
    tokens_.push_back({kind, text_.substr(at_, length), static_cast<int>(at_)});
    at_ += length;
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      end_line();
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (is_letter(c)) {
      word();
    } else if (is_digit(c)) {
      number();
    } else {
      punctuation();
    }
  }

  void end_line() {
    if (depth_ > 0 || tokens_.empty()) return;
    const Token& last = tokens_.back();
    if (last.kind == TokenKind::kNewline) return;
    const bool goes_on = last.kind == TokenKind::kPunctuation &&
                         std::string_view("()[]{}:").find(last.text) == std::string_view::npos;
    if (!goes_on) end_statement();
  }

  // Right behind the last token: where something is missing if the statement is incomplete.
  void end_statement() {
    const size_t end = static_cast<size_t>(tokens_.back().position) + tokens_.back().text.size();
    tokens_.push_back({TokenKind::kNewline, text_.substr(end, 0), static_cast<int>(end)});
  }

  // A reserved word cannot stand inside brackets: the bracket was never closed. Ending the
  // statement here keeps one missing ')' from hiding every later error.
  void close_forgotten_brackets() {
    if (depth_ == 0) return;
    depth_ = 0;
    end_statement();
  }

  void word() {
    size_t length = 1;
    while (is_letter(peek(length)) || is_digit(peek(length))) ++length;
    const std::string_view name = text_.substr(at_, length);
    if (name == "in" || name == "out" || name == "let" || name == "op") close_forgotten_brackets();
    emit(TokenKind::kName, length);
  }

  void number() {
    size_t length = 1;
    auto digits = [&] { while (is_digit(peek(length))) ++length; };
    digits();
    if (peek(length) == '.' && is_digit(peek(length + 1))) {
      ++length;
      digits();
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      const size_t sign = peek(length + 1) == '+' || peek(length + 1) == '-';
      if (is_digit(peek(length + 1 + sign))) {
        length += 1 + sign;
        digits();
      }
    }
    if (is_letter(peek(length)) || peek(length) == '.') {
      diagnostics_->error(static_cast<int>(at_ + length),
                          "a letter or point ends this number badly");
      while (is_letter(peek(length)) || is_digit(peek(length)) || peek(length) == '.') ++length;
      return emit(TokenKind::kBad, length);
    }
    emit(TokenKind::kNumber, length);
  }

  void punctuation() {
    for (const char* two : {"<=", ">=", "==", "!=", "&&", "||"}) {
      if (text_.substr(at_, 2) == two) return emit(TokenKind::kPunctuation, 2);
    }
    const char c = peek();
    if (c == '\0' || !std::strchr("()[]{},:=+-*/%<>!", c)) return unknown();
    if (c == '(' || c == '[') ++depth_;
    if ((c == ')' || c == ']') && depth_ > 0) --depth_;
    if (c == '}' || c == '{') close_forgotten_brackets();
    emit(TokenKind::kPunctuation, 1);
  }

  void unknown() {
    const char c = peek();
    const bool printable = c > ' ' && c < 127;
    const char* hint = c == '&'   ? "'and' is written &&"
                       : c == '|' ? "'or' is written ||"
                       : c == ';' ? "every definition ends with its line"
                                  : "";
    diagnostics_->error(static_cast<int>(at_),
                        printable ? concat("'", c, "' means nothing here")
                                  : std::string("a byte that belongs to no token"),
                        hint);
    // The rest of one run of such bytes (a UTF-8 character, binary data) is the same error.
    size_t length = 1;
    while (peek(length) & 0x80) ++length;
    emit(TokenKind::kBad, length);
  }

  std::string_view text_;
  Diagnostics* diagnostics_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text, Diagnostics* diagnostics) {
  return Lexer(text, diagnostics).run();
}

}  // namespace lw
