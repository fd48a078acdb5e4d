// Pages by key: a token says after which row the next page begins, and holds for the list and the
// filter that it was made for. Filters: conditions joined by AND, turned into SQL with values
// apart. Pure functions; both parsers take any bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "tuner_db/sql/database.h"

namespace lw {

// `list` names the list and its filter.
std::string page_token(std::string_view list, std::string_view key);
// "" for the first page. INVALID_ARGUMENT (INVALID_PAGE_TOKEN).
absl::StatusOr<std::string> parse_page_token(std::string_view list, std::string_view token);

// Of a page, about: whatever a row holds, a page is no burden to anybody.
constexpr size_t kPageBytes = size_t{4} << 20;

// What a call asks of a list.
struct Page {
  int size = 0;
  std::string list;                        // names the list and its filter
  std::string after;                       // the key of the last row of the page before, or ""
  std::chrono::steady_clock::time_point begun;
  int64_t after_number(int64_t none) const;
  // Whether it ends after so many rows of so many bytes, though others follow: it has what was asked
  // for, or kPageBytes, or took a second. Never before its first row.
  bool is_over(int rows, size_t bytes) const;
};
// A size of 0 gives `usual`; larger ones give `most`. INVALID_ARGUMENT: negative, or the token is
// not of this list.
absl::StatusOr<Page> page_of(std::string list, int size, std::string_view token, int usual = 100,
                             int most = 1000);

// Shows the rows, with ids for keys, of a page: `rows` has one more where another page follows.
template <class Row, class Response, class Show>
absl::Status show_page(const Page& page, const std::vector<Row>& rows, Response* response,
                       Show show) {
  const size_t shown = std::min(rows.size(), static_cast<size_t>(page.size));
  for (size_t i = 0; i < shown; ++i) RETURN_IF_ERROR(show(rows[i]));
  if (shown < rows.size()) {
    response->set_next_page_token(page_token(page.list, concat(rows[shown - 1].id)));
  }
  return absl::OkStatus();
}

enum class FieldKind { kText, kInteger, kTime, kState };
struct FilterField {
  std::string_view name;                   // "client"
  std::string_view column;                 // "client"
  FieldKind kind;                          // kState: one of `words` in either case; kTime: RFC 3339
  std::vector<std::string> words = {};
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
