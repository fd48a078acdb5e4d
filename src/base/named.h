// Enums whose values have names that are stored or sent: a table for each, and the ways there and
// back. Pure functions.
#pragma once

#include <cstddef>
#include <string_view>

#include "src/base/check.h"

namespace lw {

template <class Enum>
struct Named {
  Enum value;
  std::string_view name;
};

// REQUIRES: the table has the value.
template <class Enum, size_t N>
std::string_view name_in(const Named<Enum> (&table)[N], Enum value) {
  for (const Named<Enum>& row : table) {
    if (row.value == value) return row.name;
  }
  CHECK(false);
  return "";
}

// False, and `value` as it was: no value has this name.
template <class Enum, size_t N>
bool parse_in(const Named<Enum> (&table)[N], std::string_view name, Enum* value) {
  for (const Named<Enum>& row : table) {
    if (row.name != name) continue;
    *value = row.value;
    return true;
  }
  return false;
}

}  // namespace lw
