// The tables are read off an SQLite database in memory that went through all steps, and
// PostgreSQL's dialect is made token by token: neither needs a parser of SQL of ours.
#include "tuner_db/schema/schema.h"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/check.h"
#include "src/base/message.h"

namespace lw {

// Generated from tuner_db/schema/*.sql: (file name, text).
const std::vector<std::pair<const char*, const char*>>& schema_texts();

const char kSqliteSchemaQuery[] =
    "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
    "ORDER BY name";

namespace {

// The database in memory that went through all steps.
class Model {
 public:
  Model() {
    CHECK(sqlite3_open(":memory:", &handle_) == SQLITE_OK);
    for (const std::string& step : schema_steps()) {
      CHECK(sqlite3_exec(handle_, step.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    }
  }
  ~Model() { sqlite3_close(handle_); }

  std::vector<std::vector<std::string>> rows(const std::string& sql) const {
    std::vector<std::vector<std::string>> rows;
    auto append = [](void* rows, int count, char** columns, char**) {
      auto& row = static_cast<std::vector<std::vector<std::string>>*>(rows)->emplace_back();
      for (int i = 0; i < count; ++i) row.push_back(columns[i] == nullptr ? "" : columns[i]);
      return 0;
    };
    CHECK(sqlite3_exec(handle_, sql.c_str(), append, &rows, nullptr) == SQLITE_OK);
    return rows;
  }

 private:
  sqlite3* handle_ = nullptr;
};

ColumnType type_of(const std::string& name) {
  if (name == "INTEGER") return ColumnType::kInteger;
  if (name == "REAL") return ColumnType::kReal;
  if (name == "BLOB") return ColumnType::kBlob;
  CHECK(name == "TEXT");
  return ColumnType::kText;
}

std::vector<TableSchema> read_tables() {
  const Model model;
  std::vector<TableSchema> tables;
  for (const auto& row : model.rows("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND "
                                    "name NOT LIKE 'sqlite_%' ORDER BY rowid")) {
    TableSchema& table = tables.emplace_back();
    table.name = row[0];
    table.counts = absl::StrContains(row[1], "AUTOINCREMENT");
    table.identity = absl::StrContains(row[1], "INTEGER PRIMARY KEY");
    for (const auto& column : model.rows(concat("PRAGMA table_info(", sql_name(row[0]), ")"))) {
      table.columns.push_back({column[1], type_of(column[2])});
    }
    for (const auto& key : model.rows(concat("PRAGMA foreign_key_list(", sql_name(row[0]), ")"))) {
      table.references.push_back({key[3], key[2], key[4]});
    }
  }
  return tables;
}

// Words of our columns' kind that PostgreSQL reserves.
bool is_reserved(const std::string& word) {
  static const std::set<std::string>& words = *new std::set<std::string>{
      "inner", "outer", "left", "right", "user", "order", "group", "limit", "offset", "end", "all",
      "any", "array", "both", "check", "column", "default", "desc", "do", "from", "full", "grant",
      "like", "natural", "only", "primary", "select", "session_user", "some", "table", "to",
      "union", "using", "verbose", "when", "where", "window", "with", "analyse", "analyze"};
  return words.contains(word);
}

// Words, strings, quoted names and single characters; comments and blanks go.
std::vector<std::string> tokens(std::string_view sql) {
  std::vector<std::string> tokens;
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t i = 0; i < sql.size();) {
    size_t end = i + 1;
    if (sql.substr(i, 2) == "--") {
      i = std::min(sql.find('\n', i), sql.size());
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(sql[i]))) {
      ++i;
      continue;
    }
    if (sql[i] == '\'' || sql[i] == '"') {
      end = std::min(sql.find(sql[i], i + 1), sql.size() - 1) + 1;
    } else if (is_word(sql[i])) {
      while (end < sql.size() && (is_word(sql[end]) || sql[end] == '.')) ++end;
    } else if (sql.substr(i, 2) == "<>" || sql.substr(i, 2) == "<=" || sql.substr(i, 2) == ">=" ||
               sql.substr(i, 2) == "||") {
      end = i + 2;
    }
    tokens.emplace_back(sql.substr(i, end - i));
    i = end;
  }
  return tokens;
}

}  // namespace

const std::vector<std::string>& schema_steps() {
  static const std::vector<std::string>& steps = *[] {
    auto* texts = new std::vector<std::string>;
    for (size_t step = 1;; ++step) {
      const std::string wanted =
          step == 1 ? "schema.sql" : absl::StrCat("schema_", step, ".sql");
      const auto found = std::find_if(schema_texts().begin(), schema_texts().end(),
                                      [&](const auto& text) { return text.first == wanted; });
      if (found == schema_texts().end()) break;
      texts->push_back(found->second);
    }
    CHECK(!texts->empty() && texts->size() == schema_texts().size());  // no gap in the numbers
    return texts;
  }();
  return steps;
}

const std::vector<TableSchema>& schema_tables() {
  static const std::vector<TableSchema>& tables = *new std::vector<TableSchema>(read_tables());
  return tables;
}

std::string sqlite_schema_text() {
  std::string text;
  for (const auto& row : Model().rows(kSqliteSchemaQuery)) absl::StrAppend(&text, row[0], "\n");
  return text;
}

std::string to_postgres(std::string_view sql) {
  const std::vector<std::string> in = tokens(sql);
  std::string out;
  auto word = [&](size_t i) { return i < in.size() ? std::string_view(in[i]) : ""; };
  for (size_t i = 0; i < in.size(); ++i) {
    std::string text = in[i];
    if (word(i) == "INTEGER" && word(i + 1) == "PRIMARY" && word(i + 2) == "KEY") {
      text = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY";
      i += word(i + 3) == "AUTOINCREMENT" ? 3 : 2;
    } else if (word(i) == "INTEGER") {
      text = "BIGINT";
    } else if (word(i) == "REAL") {
      text = "DOUBLE PRECISION";
    } else if (word(i) == "TEXT") {
      text = "TEXT COLLATE \"C\"";
    } else if (word(i) == "BLOB") {
      text = "BYTEA";
    } else if (word(i) == "STRICT") {
      continue;
    } else if (word(i) == "WHERE" && word(i + 2) == ";") {
      text = absl::StrCat("WHERE ", in[++i], " <> 0");
    } else if (is_reserved(in[i])) {
      text = sql_name(in[i]);
    }
    absl::StrAppend(&out, text, text == ";" ? "\n" : " ");
  }
  return out;
}

std::string sql_name(std::string_view name) { return concat("\"", name, "\""); }

}  // namespace lw
