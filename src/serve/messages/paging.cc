#include "src/serve/messages/paging.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "src/base/hash.h"
#include "src/serve/messages/errors.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr size_t kLongestFilter = 2000, kMostConditions = 20;
constexpr size_t kSeal = 16;

std::string seal(std::string_view list, std::string_view key) {
  return sha256(concat("page\n", list, "\n", key)).substr(0, kSeal);
}

absl::Status wrong(std::string_view text, size_t at, std::string_view what) {
  return bad_field("filter", concat(what, " at character ", at + 1, " of '", text, "'"),
                   v1::ERROR_REASON_INVALID_FILTER);
}

// A recursive descent without recursion: CONDITION (AND CONDITION)*.
class FilterParser {
 public:
  FilterParser(std::string_view text, const std::vector<FilterField>& fields)
      : text_(text), fields_(fields) {}

  absl::StatusOr<Filter> parse() {
    skip_space();
    while (at_ < text_.size()) {
      if (conditions_ == kMostConditions) return wrong(text_, at_, "too many conditions");
      if (conditions_++ > 0) {
        if (word() != "AND") return wrong(text_, at_, "AND is missing");
        filter_.sql += " AND ";
      }
      RETURN_IF_ERROR(condition());
      skip_space();
    }
    if (conditions_ == 0) filter_.sql = "1 = 1";
    return std::move(filter_);
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  static bool is_word(char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ||
           c == '/' || c == ':';
  }
  std::string word() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  absl::Status condition() {
    skip_space();
    const size_t begin = at_;
    const std::string name = word();
    const auto field = std::find_if(fields_.begin(), fields_.end(),
                                    [&](const FilterField& f) { return f.name == name; });
    if (field == fields_.end()) {
      std::string known;
      for (const FilterField& f : fields_) known += concat(known.empty() ? "" : ", ", f.name);
      return wrong(text_, begin, concat("'", name, "' is no field (", known, ")"));
    }
    skip_space();
    std::string_view op;
    for (std::string_view candidate : {"!=", "<=", ">=", "=", "<", ">"}) {
      if (op.empty() && text_.substr(at_, candidate.size()) == candidate) op = candidate;
    }
    if (op.empty()) return wrong(text_, at_, "an operator (= != < <= > >=) is missing");
    at_ += op.size();
    filter_.sql += concat(field->column, " ", op == "!=" ? "<>" : op, " ?");
    return value(*field);
  }

  absl::Status value(const FilterField& field) {
    skip_space();
    const size_t begin = at_;
    std::string value;
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        value += text_[at_++];
      }
      if (at_++ >= text_.size()) return wrong(text_, begin, "a quote is never closed");
    } else {
      value = word();
      if (value.empty()) return wrong(text_, begin, "a value is missing");
    }
    if (field.kind == FieldKind::kText || field.kind == FieldKind::kState) {
      if (field.kind == FieldKind::kState) {
        absl::AsciiStrToLower(&value);
        if (std::count(field.words.begin(), field.words.end(), value) == 0) {
          return wrong(text_, begin, concat("one of ", absl::StrJoin(field.words, ", "),
                                            " is wanted"));
        }
      }
      filter_.texts.push_back(std::move(value));
      filter_.is_text.push_back(true);
      return absl::OkStatus();
    }
    int64_t number = 0;
    if (field.kind == FieldKind::kTime) {
      absl::Time time;
      std::string error;
      if (!absl::ParseTime(absl::RFC3339_full, value, &time, &error)) {
        return wrong(text_, begin, "a time like \"2026-11-01T00:00:00Z\" is wanted");
      }
      number = absl::ToUnixMillis(time);
    } else {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc() || end != value.data() + value.size()) {
        return wrong(text_, begin, "a number is wanted");
      }
    }
    filter_.integers.push_back(number);
    filter_.is_text.push_back(false);
    return absl::OkStatus();
  }

  std::string_view text_;
  const std::vector<FilterField>& fields_;
  size_t at_ = 0, conditions_ = 0;
  Filter filter_;
};

}  // namespace

std::string page_token(std::string_view list, std::string_view key) {
  return absl::WebSafeBase64Escape(seal(list, key) + std::string(key));
}

absl::StatusOr<std::string> parse_page_token(std::string_view list, std::string_view token) {
  if (token.empty()) return std::string();
  std::string bytes;
  const bool decoded = token.size() < 4096 &&
                       absl::WebSafeBase64Unescape({token.data(), token.size()}, &bytes);
  if (!decoded || bytes.size() < kSeal ||
      bytes.substr(0, kSeal) != seal(list, bytes.substr(kSeal))) {
    return bad_field("page_token", "not one of this list with this filter; begin again without",
                     v1::ERROR_REASON_INVALID_PAGE_TOKEN);
  }
  return bytes.substr(kSeal);
}

int64_t Page::after_number(int64_t none) const {
  return after.empty() ? none : std::strtoll(after.c_str(), nullptr, 10);
}

bool Page::is_over(int rows, size_t bytes) const {
  constexpr std::chrono::seconds kLong{1};
  if (rows == 0) return false;
  return rows >= size || bytes >= kPageBytes || std::chrono::steady_clock::now() - begun > kLong;
}

absl::StatusOr<Page> page_of(std::string list, int size, std::string_view token, int usual,
                             int most) {
  if (size < 0) return bad_field("page_size", "must not be negative");
  Page page;
  page.begun = std::chrono::steady_clock::now();
  page.size = size == 0 ? usual : std::min(size, most);
  ASSIGN_OR_RETURN(page.after, parse_page_token(list, token));
  page.list = std::move(list);
  return page;
}

std::vector<Value> Filter::values() const {
  std::vector<Value> all;
  size_t text = 0, integer = 0;
  for (bool of_text : is_text) {
    if (of_text) {
      all.push_back(std::string_view(texts[text++]));
    } else {
      all.push_back(integers[integer++]);
    }
  }
  return all;
}

absl::StatusOr<Filter> parse_filter(std::string_view text, const std::vector<FilterField>& fields) {
  if (text.size() > kLongestFilter) {
    return bad_field("filter", concat("longer than ", kLongestFilter, " bytes"),
                     v1::ERROR_REASON_INVALID_FILTER);
  }
  return FilterParser(text, fields).parse();
}

}  // namespace lw
