// Pages by key: a token says after which row the next page begins, and holds for the list and the
// filter that it was made for. Filters: conditions joined by AND, turned into SQL with values apart.
// Pure functions; both parsers take any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tuner_db/database.h"

namespace lw {

// `list` names the list and its filter.
std::string page_token(std::string_view list, std::string_view key);
// "" for the first page. INVALID_ARGUMENT (INVALID_PAGE_TOKEN).
absl::StatusOr<std::string> parse_page_token(std::string_view list, std::string_view token);
// 0 gives `usual`; larger ones give `most`. INVALID_ARGUMENT: negative.
absl::StatusOr<int> page_size(int asked, int usual, int most);

enum class FieldKind { kText, kInteger, kTime, kState };
struct FilterField {
  std::string_view name;                   // "client"
  std::string_view column;                 // "client"
  FieldKind kind;                          // kState: an enum's name in either case; kTime: RFC 3339
};
struct Filter {
  std::string sql;                         // "client = ? AND created_ms > ?"; "1 = 1" for no filter
  std::vector<std::string> texts;          // what the values point into
  std::vector<int64_t> integers;
  std::vector<bool> is_text;               // of each `?`, in order
  std::vector<Value> values() const;
};
// Conditions `FIELD OP VALUE` with OP one of = != < <= > >= and VALUE a word, a number or "quoted".
// At most 2,000 bytes and 20 conditions. INVALID_ARGUMENT (INVALID_FILTER) says where.
absl::StatusOr<Filter> parse_filter(std::string_view text, const std::vector<FilterField>& fields);

}  // namespace lw
