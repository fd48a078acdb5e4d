// A user's table: comma-separated, its columns' names in the first line (case and spaces around
// them do not matter), fields in double quotes where they have commas, as spreadsheets write it.
// Columns that nobody asks for are passed over. Values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lw::npu {

struct Table {
  struct Row {
    int64_t line;                          // of the file, from 1 on
    std::vector<std::string> fields;
  };
  std::string source;                      // names it in messages
  std::vector<std::string> names;          // in lower case
  std::vector<Row> rows;
};

// kInvalidArgument: no header, two columns of one name, a row with another number of fields than
// the header, a quote that nothing ends, no rows; says on which line.
absl::StatusOr<Table> parse_table(std::string_view text, const std::string& source);

// The place of a column; kInvalidArgument names it, and the nearest that there is.
absl::StatusOr<size_t> find_column(const Table& table, std::string_view name);

// A field as a number. kInvalidArgument: "FILE:LINE: NAME = 'x': what is allowed".
absl::StatusOr<int64_t> read_whole(const Table& table, const Table::Row& row, size_t column,
                                   int64_t least, int64_t most);
absl::StatusOr<double> read_number(const Table& table, const Table::Row& row, size_t column,
                                   double least);
// 1, TRUE or yes; 0, FALSE or no.
absl::StatusOr<bool> read_bool(const Table& table, const Table::Row& row, size_t column);

}  // namespace lw::npu
