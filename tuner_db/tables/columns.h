// Described values (src/base/fields/fields.h) as rows: their columns' names, what is bound to them,
// and the way back.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/fields/fields.h"
#include "tuner_db/sql/database.h"

namespace lw {

std::string column_name(FieldId field);      // "inner", a word of SQL, is quoted

// "workload, target, ...", in the order of the description, each after the prefix ("k.").
template <Described T>
std::string column_names(std::string_view prefix = "") {
  std::string names;
  T value;
  T::fields(value, [&](FieldId field, auto&) {
    if (!names.empty()) names += ", ";
    names.append(prefix).append(column_name(field));
  });
  return names;
}

// "workload = ? AND target = ? AND ...".
template <Described T>
std::string column_conditions(std::string_view prefix = "") {
  std::string conditions;
  T value;
  T::fields(value, [&](FieldId field, auto&) {
    if (!conditions.empty()) conditions += " AND ";
    conditions.append(prefix).append(column_name(field)).append(" = ?");
  });
  return conditions;
}

std::string placeholders(size_t count);    // "?,?,?"

// One column. False: no statement of ours can have stored it.
bool read_column(const Query& query, int column, std::vector<double>* value);    // as_value()
bool read_column(const Query& query, int column, std::vector<int64_t>* value);   // "1,2,3"
bool read_column(const Query& query, int column, Verdict* value);                // its name
template <class T>
bool read_column(const Query& query, int column, T* value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value->assign(query.bytes(column));
  } else if constexpr (std::is_same_v<T, bool>) {
    *value = query.integer(column) != 0;
  } else if constexpr (std::is_same_v<T, double>) {
    *value = query.real(column);
  } else if constexpr (HasFieldNumber<T>) {
    return parse_field_number(query.integer(column), value);
  } else {
    *value = static_cast<T>(query.integer(column));
  }
  return true;
}

// A described value's columns, from `*column` on, which moves behind them. False: as above.
template <Described T>
bool read_columns(const Query& query, int* column, T* value) {
  bool good = true;
  T::fields(*value, [&](FieldId, auto& field) {
    good = read_column(query, (*column)++, &field) && good;
  });
  return good;
}

inline Key read_key_columns(const Query& query, int column = 0) {
  Key key;
  read_columns(query, &column, &key);
  return key;
}

}  // namespace lw
