// Values that are stored or sent are described once: a list of their fields, each with a number and
// a name, which every form of the value visits. In the struct:
//
//   template <class Self, class Visit>
//   static void fields(Self& self, Visit&& visit) {
//     visit({1, "workload"}, self.workload);
//     ...
//   }
//
// The number is that of the field in the value's message (proto/): it never changes, and none is
// used twice. The name is that of the message's field, of
// the database's column (tuner_db/tables/columns.h), of the field in JSON. Fields stand in the
// order of their numbers.
//
// A field's type decides what it looks like in each form: std::string, bool, int, int64_t (which
// may vary in length), uint64_t (a hash: eight bytes), double, lists of these, other described
// values and lists of them, and types that say one of
//   int64_t field_number(E); bool parse_field_number(int64_t, E*);      // an enumeration
//   std::string_view field_word(E); bool parse_field_word(std::string_view, E*);   // a word of ours
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lw {

struct FieldId {
  int number;
  const char* name;
  bool opposite = false;     // a message says the opposite (its fields are false where absent)
  bool added = false;        // after the first version: texts do not print its default
  bool provenance = false;   // where the value comes from: no part of what makes two of them one
};

template <class T>
concept Described = requires(T& value) { T::fields(value, [](FieldId, auto&) {}); };

template <class T>
concept HasFieldNumber = requires(T value) { field_number(value); };
template <class T>
concept HasFieldWord = requires(T value) { field_word(value); };

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

}  // namespace lw
