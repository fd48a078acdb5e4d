#include "tuner_db/tables/columns.h"

#include <bit>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace lw {

static_assert(std::endian::native == std::endian::little,
              "samples are stored as they lie in memory");

std::string column_name(FieldId field) {
  return field.name == std::string_view("inner") ? "\"inner\"" : field.name;
}

std::string placeholders(size_t count) {
  std::string marks;
  for (size_t i = 0; i < count; ++i) marks += i == 0 ? "?" : ",?";
  return marks;
}

bool read_column(const Query& query, int column, std::vector<double>* value) {
  const std::string_view bytes = query.bytes(column);
  if (bytes.size() % sizeof(double) != 0) return false;
  value->resize(bytes.size() / sizeof(double));
  if (!bytes.empty()) std::memcpy(value->data(), bytes.data(), bytes.size());
  return true;
}

bool read_column(const Query& query, int column, std::vector<int64_t>* value) {
  value->clear();
  const std::string text = query.text(column);
  for (absl::string_view number : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(number, &value->emplace_back())) return false;
  }
  return true;
}

bool read_column(const Query& query, int column, Verdict* value) {
  return parse_verdict(query.text(column), value);
}

}  // namespace lw
