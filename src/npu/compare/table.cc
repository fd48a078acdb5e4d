#include "src/npu/compare/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw::npu {
namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos
             ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

absl::Status refuse(const std::string& source, int64_t line, const std::string& why) {
  return absl::InvalidArgumentError(concat(source, ":", line, ": ", why));
}

// Takes a record, its line's end with it, off the front of `text`; counts the lines that it has.
absl::StatusOr<std::vector<std::string>> take_record(std::string_view* text,
                                                     const std::string& source, int64_t* line) {
  std::vector<std::string> fields(1);
  const int64_t begin = *line;
  bool quoted = false;
  while (!text->empty()) {
    const char c = text->front();
    text->remove_prefix(1);
    *line += c == '\n';
    if (c == '"') {
      const bool doubled = quoted && text->starts_with('"');
      if (doubled) {
        fields.back() += '"';
        text->remove_prefix(1);
      } else {
        quoted = !quoted;
      }
    } else if (quoted) {
      fields.back() += c;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  if (quoted) return refuse(source, begin, "a field begins with a '\"' that nothing ends");
  for (std::string& field : fields) field = trimmed(field);
  return fields;
}

absl::Status refuse_field(const Table& table, const Table::Row& row, size_t column,
                          const std::string& allowed) {
  return refuse(table.source, row.line,
                concat(table.names[column], " = '", row.fields[column].substr(0, 60), "': ",
                       allowed));
}

template <class T>
bool parse_all(const std::string& text, T* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

}  // namespace

absl::StatusOr<Table> parse_table(std::string_view text, const std::string& source) {
  Table table;
  table.source = source;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);   // as some programs mark UTF-8
  int64_t line = 1;
  while (!text.empty()) {
    const int64_t begin = line;
    ASSIGN_OR_RETURN(std::vector<std::string> fields, take_record(&text, source, &line));
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (table.names.empty()) {
      for (const std::string& field : fields) {
        const std::string name = lowered(field);
        const bool twice =
            std::find(table.names.begin(), table.names.end(), name) != table.names.end();
        if (twice && !name.empty()) {
          return refuse(source, begin, concat("two columns are called '", name, "'"));
        }
        table.names.push_back(name);
      }
    } else if (fields.size() != table.names.size()) {
      return refuse(source, begin, concat(fields.size(), " fields, but the header has ",
                                          table.names.size(), " columns"));
    } else {
      table.rows.push_back({begin, std::move(fields)});
    }
  }
  if (table.names.empty()) return refuse(source, 1, "no header: columns' names, with commas");
  if (table.rows.empty()) return refuse(source, line, "no rows below the header");
  return table;
}

absl::StatusOr<size_t> find_column(const Table& table, std::string_view name) {
  const auto found = std::find(table.names.begin(), table.names.end(), lowered(name));
  if (found != table.names.end()) return found - table.names.begin();
  const std::string near = nearest_name(lowered(name), table.names);
  std::string all;
  for (const std::string& one : table.names) all += concat(all.empty() ? "" : ", ", one);
  return absl::InvalidArgumentError(
      concat(table.source, ": no column '", name, "'",
             near.empty() ? "" : concat("; did you mean '", near, "'?"), " (there are ",
             all.size() > 200 ? all.substr(0, 200) + "..." : all, ")"));
}

absl::StatusOr<int64_t> read_whole(const Table& table, const Table::Row& row, size_t column,
                                   int64_t least, int64_t most) {
  int64_t value = 0;
  if (parse_all(row.fields[column], &value) && value >= least && value <= most) return value;
  return refuse_field(table, row, column, concat("a whole number from ", least, " to ", most));
}

absl::StatusOr<double> read_number(const Table& table, const Table::Row& row, size_t column,
                                   double least) {
  double value = 0;
  if (parse_all(row.fields[column], &value) && value >= least && std::isfinite(value)) return value;
  return refuse_field(table, row, column, absl::StrFormat("a number, %g at least", least));
}

absl::StatusOr<bool> read_bool(const Table& table, const Table::Row& row, size_t column) {
  const std::string text = lowered(row.fields[column]);
  if (text == "1" || text == "true" || text == "yes") return true;
  if (text == "0" || text == "false" || text == "no") return false;
  return refuse_field(table, row, column, "1 (TRUE, yes) or 0 (FALSE, no)");
}

}  // namespace lw::npu
