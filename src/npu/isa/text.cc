#include "src/npu/isa/text.h"

#include <charconv>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "src/base/message.h"
#include "src/npu/isa/check.h"

namespace lw::npu {
namespace {

constexpr int kMostErrors = 20;

struct Token {                             // of a line, without white space
  std::string_view text;
  size_t column = 0;                       // from 1
};

std::vector<Token> tokens_of(std::string_view line) {
  std::vector<Token> tokens;
  line = line.substr(0, line.find('#'));
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  for (size_t i = 0; i < line.size();) {
    if (is_space(line[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < line.size() && !is_space(line[end])) ++end;
    tokens.push_back({line.substr(i, end - i), i + 1});
    i = end;
  }
  return tokens;
}

// False: no number. Sets `negative`, as a magnitude does not say it.
bool parse_number(std::string_view text, bool* negative, uint64_t* value) {
  *negative = !text.empty() && text[0] == '-';
  if (*negative) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text.remove_prefix(2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

template <class Enum>
std::string words_of() {
  std::string words;
  for (int i = 0; i < kCount<Enum>; ++i) {
    words += concat(i > 0 ? ", " : "", name_of(static_cast<Enum>(i)));
  }
  return words;
}

// "" or what is wrong.
template <class T>
std::string parse_value(std::string_view text, int bits, T* value) {
  if constexpr (std::is_enum_v<T>) {
    return parse_name(text, value) ? "" : concat("write one of ", words_of<T>());
  } else {
    constexpr bool is_signed = std::is_signed_v<T> && !std::is_same_v<T, bool>;
    const uint64_t most = (uint64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    bool negative = false;
    uint64_t number = 0;
    if (!parse_number(text, &negative, &number) || (negative && !is_signed) ||
        number > most + (negative ? 1 : 0)) {
      return concat("write a whole number from ", is_signed ? concat("-", most + 1) : "0", " to ",
                    most);
    }
    *value = static_cast<T>(negative ? -static_cast<int64_t>(number)
                                     : static_cast<int64_t>(number));
    return "";
  }
}

class Parser {
 public:
  Parser(const std::string& source, const Config* config) : source_(source), config_(config) {}

  absl::StatusOr<Program> parse(std::string_view text) {
    size_t line = 1;
    for (size_t at = 0; at <= text.size() && count_ < kMostErrors; ++line) {
      const size_t end = std::min(text.find('\n', at), text.size());
      parse_line(text.substr(at, end - at), line);
      at = end + 1;
    }
    if (!errors_.empty()) return absl::InvalidArgumentError(errors_);
    if (config_ != nullptr) {
      if (absl::Status status = check_program(*config_, program_); !status.ok()) {
        return absl::InvalidArgumentError(concat(source_, ": ", std::string(status.message())));
      }
    }
    return std::move(program_);
  }

 private:
  void error(size_t line, size_t column, const std::string& what) {
    if (count_++ < kMostErrors) {
      errors_ += concat(errors_.empty() ? "" : "\n", source_, ":", line, ":", column, ": ", what);
    }
  }

  void parse_line(std::string_view text, size_t line) {
    const std::vector<Token> tokens = tokens_of(text);
    if (tokens.empty()) return;
    Instruction one;
    const auto is = [&](const OpRow& op) { return op.name == tokens[0].text; };
    if (!make_body(is, &one.body)) {
      std::vector<std::string> names;
      for (const OpRow& op : kOps) names.emplace_back(op.name);
      const std::string near = nearest_name(tokens[0].text, names);
      error(line, tokens[0].column,
            concat("no instruction '", tokens[0].text.substr(0, 40), "'; ",
                   near.empty() ? "a line begins with one, such as ld, mx.mm, halt"
                                : concat("did you mean '", near, "'?")));
      return;
    }
    const int before = count_;
    std::vector<std::string_view> seen;
    for (size_t i = 1; i < tokens.size(); ++i) {
      const size_t equals = tokens[i].text.find('=');
      if (equals == std::string_view::npos) {
        error(line, tokens[i].column,
              concat("'", tokens[i].text.substr(0, 40), "' has no value; write FIELD=VALUE"));
        continue;
      }
      const std::string_view name = tokens[i].text.substr(0, equals);
      const Token value = {tokens[i].text.substr(equals + 1), tokens[i].column + equals + 1};
      for (const std::string_view other : seen) {
        if (other == name) {
          error(line, tokens[i].column, concat("'", name, "' stands here twice; leave one"));
        }
      }
      seen.push_back(name);
      set(name, tokens[i].column, value, line, &one);
    }
    if (config_ != nullptr && count_ == before) {
      if (absl::Status status = check_instruction(*config_, one); !status.ok()) {
        error(line, tokens[0].column,
              concat(one.op().name, ": ", std::string(status.message())));
      }
    }
    program_.push_back(one);
  }

  void set(std::string_view name, size_t column, const Token& value, size_t line,
           Instruction* one) {
    if (name == "wait") return set_tokens(value, line, &one->wait);
    if (name == "signal") return set_tokens(value, line, &one->signal);
    if (name == "dtype") {
      if (!parse_name(value.text, &one->dtype)) {
        error(line, value.column, "write one of i8, bf16, i32, f32");
      }
      return;
    }
    bool found = false;
    std::vector<std::string> names = {"wait", "signal", "dtype"};
    std::visit([&](auto& body) {
      std::remove_cvref_t<decltype(body)>::fields(body, [&](BitField bits, auto& field) {
        names.emplace_back(bits.name);
        if (name != bits.name) return;
        found = true;
        const std::string why = parse_value(value.text, bits.bits, &field);
        if (!why.empty()) error(line, value.column, concat(name, ": ", why));
      });
    }, one->body);
    if (found) return;
    const std::string near = nearest_name(name, names);
    std::string all;
    for (size_t i = 3; i < names.size(); ++i) all += concat(i > 3 ? ", " : "", names[i]);
    error(line, column,
          concat(one->op().name, " has no field '", name.substr(0, 40), "'; ",
                 near.empty() ? concat("it has ", all.empty() ? "none" : all)
                              : concat("did you mean '", near, "'?")));
  }

  void set_tokens(const Token& value, size_t line, std::array<uint8_t, 2>* ids) {
    size_t at = 0, count = 0;
    for (; at <= value.text.size() && count < 2; ++count) {
      const size_t end = std::min(value.text.find(',', at), value.text.size());
      uint8_t id = 0;
      const std::string why = parse_value(value.text.substr(at, end - at), 6, &id);
      if (!why.empty()) return error(line, value.column + at, concat("semaphore: ", why));
      (*ids)[count] = id;
      at = end + 1;
    }
    if (at <= value.text.size()) {
      error(line, value.column + at, "two semaphores at most; use another instruction");
    }
  }

  const std::string& source_;
  const Config* const config_;
  Program program_;
  std::string errors_;
  int count_ = 0;
};

template <class T>
std::string value_text(const BitField& bits, T value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(name_of(value));
  } else if (bits.address) {
    return absl::StrFormat("0x%x", static_cast<uint64_t>(value));
  } else {
    return std::to_string(static_cast<int64_t>(value));
  }
}

std::string tokens_text(const char* name, const std::array<uint8_t, 2>& ids) {
  std::string text;
  for (const uint8_t id : ids) {
    if (id != kNoToken) text += concat(text.empty() ? concat(" ", name, "=") : ",", int{id});
  }
  return text;
}

}  // namespace

absl::StatusOr<Program> parse_program(std::string_view text, const std::string& source,
                                      const Config* config) {
  return Parser(source, config).parse(text);
}

std::string print_instruction(const Instruction& one) {
  std::string line(one.op().name);
  std::visit([&](const auto& body) {
    using T = std::remove_cvref_t<decltype(body)>;
    // Beside an instruction of defaults, field by field.
    const T usual_body;
    std::vector<std::string> usual;
    T::fields(usual_body, [&](BitField bits, const auto& field) {
      usual.push_back(value_text(bits, field));
    });
    size_t i = 0;
    T::fields(body, [&](BitField bits, const auto& field) {
      const std::string value = value_text(bits, field);
      if (value != usual[i++]) line += concat(" ", bits.name, "=", value);
    });
  }, one.body);
  if (one.dtype != Dtype::kI8) line += concat(" dtype=", name_of(one.dtype));
  return line + tokens_text("wait", one.wait) + tokens_text("signal", one.signal);
}

std::string print_program(const Program& program) {
  std::string text;
  for (const Instruction& one : program) text += print_instruction(one) + "\n";
  return text;
}

}  // namespace lw::npu
