// Described values (fields.h) as bytes: those of their protobuf messages, so that whoever has the
// .proto reads them. What is zero or empty is not written. Reading accepts any bytes; it never
// reads past their end and never allocates more than they can hold.
//
// A field that the description lacks was written by a later version. Who reads decides: what is
// kept for others to see is skipped, what would be used only half understood is refused.
#pragma once

#include <bit>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/base/fields/fields.h"
#include "src/base/fields/utf8.h"

namespace lw {

// kUnimplemented: of another version; what and which.
absl::Status unknown_here(std::string_view what);
bool is_unknown_here(const absl::Status& status);

class WireWriter {
 public:
  template <class T>
  void operator()(FieldId field, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) valid_text(field.number, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      number(field.number, value != field.opposite);
    } else if constexpr (std::is_same_v<T, double>) {
      fixed(field.number, std::bit_cast<uint64_t>(value));
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      fixed(field.number, value);
    } else if constexpr (std::is_integral_v<T>) {
      number(field.number, static_cast<uint64_t>(int64_t{value}));
    } else if constexpr (HasFieldNumber<T>) {
      number(field.number, static_cast<uint64_t>(field_number(value)));
    } else if constexpr (HasFieldWord<T>) {
      text(field.number, field_word(value));
    } else if constexpr (Described<T>) {
      nested(field.number, value);
    } else {
      list(field.number, value);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void nested(int number, const T& value) {
    const size_t begin = begin_text(number);
    T::fields(value, *this);
    end_text(begin);
  }
  void list(int number, const std::vector<int64_t>& values);
  void list(int number, const std::vector<double>& values);
  void list(int number, const std::vector<std::string>& values) {
    for (const std::string& value : values) valid_text(number, value);
  }
  template <class T>
  void list(int number, const std::vector<T>& values) {
    for (const T& value : values) nested(number, value);
  }
  void number(int number, uint64_t value);
  void fixed(int number, uint64_t value);
  void text(int number, std::string_view value);
  void valid_text(int number, const std::string& value) {
    is_ascii(value) ? text(number, value) : text(number, as_utf8(value));
  }
  // Between them what is written is a text, whose length goes before it.
  size_t begin_text(int number);
  void end_text(size_t begin);
  void varint(uint64_t value);
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  // REQUIRES: fields come in the order of their numbers, as they were written.
  template <class T>
  void operator()(FieldId field, T& value) {
    value = T{};
    if constexpr (std::is_same_v<T, bool>) value = field.opposite;
    bool found = false;
    while (find(field.number)) {
      read(field, value);
      found = true;
    }
    if constexpr (HasFieldNumber<T>) {
      if (!found && !parse_field_number(0, &value)) missing(field);
    } else if constexpr (HasFieldWord<T>) {
      if (!found && !parse_field_word("", &value)) missing(field);
    }
  }

  // After all fields. kInvalidArgument: these bytes are no such value; kUnimplemented: they hold
  // what a later version knows, by name, or by number where only its writer has the name. Without
  // `refuse` fields that are not known are passed over.
  absl::Status finish(bool refuse);

 private:
  enum Kind : uint8_t { kVarint = 0, kFixed64 = 1, kText = 2, kFixed32 = 5 };

  template <class T>
  void read(FieldId field, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (is(kText)) value.assign(text_);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (is(kVarint)) value = (word_ != 0) != field.opposite;
    } else if constexpr (std::is_same_v<T, double>) {
      if (is(kFixed64)) value = std::bit_cast<double>(word_);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      if (is(kFixed64)) value = word_;
    } else if constexpr (std::is_integral_v<T>) {
      if (!is(kVarint)) return;
      value = static_cast<T>(word_);
      if (int64_t{value} != static_cast<int64_t>(word_)) fail();
    } else if constexpr (HasFieldNumber<T>) {
      if (is(kVarint)) set(field, static_cast<int64_t>(word_), value);
    } else if constexpr (HasFieldWord<T>) {
      if (is(kText)) set_word(field, text_, value);
    } else if constexpr (Described<T>) {
      if (is(kText)) nested(value);
    } else {
      element(value);
    }
  }
  template <class T>
  void set(FieldId field, int64_t number, T& value) {
    if (!parse_field_number(number, &value)) unknown(field, std::to_string(number));
  }
  template <class T>
  void set_word(FieldId field, std::string_view word, T& value) {
    if (!parse_field_word(word, &value)) unknown(field, std::string(word));
  }
  template <class T>
  void nested(T& value) {
    WireReader inner(text_);
    T::fields(value, inner);
    absorb(inner);
  }
  void element(std::vector<std::string>& values) {
    if (is(kText)) values.emplace_back(text_);
  }
  void element(std::vector<int64_t>& values);
  void element(std::vector<double>& values);
  template <class T>
  void element(std::vector<T>& values) {
    if (is(kText)) nested(values.emplace_back());
  }

  // Whether the next field has this number; those before it are passed over.
  bool find(int number);
  bool next();               // reads a field
  bool is(Kind kind);        // what was read; used up
  bool varint(uint64_t* value);
  bool fixed(int bytes, uint64_t* value);
  void fail() { fail("its bytes are damaged"); }
  void fail(std::string_view why);
  void missing(FieldId field);
  void unknown(FieldId field, std::string_view value);
  void absorb(WireReader& inner);

  std::string_view bytes_;
  std::string defect_;       // the first, as a phrase
  std::string unknown_;      // the first that this version does not know, as a phrase
  std::string passed_over_;  // the same of fields
  bool is_pending_ = false;  // a field was read and is not used up:
  int number_ = 0;
  Kind kind_ = kVarint;
  uint64_t word_ = 0;
  std::string_view text_;
};

template <Described T>
std::string to_wire(const T& value) {
  WireWriter out;
  T::fields(value, out);
  return out.take();
}

template <Described T>
absl::Status from_wire(std::string_view bytes, bool refuse, T* value) {
  WireReader in(bytes);
  T::fields(*value, in);
  return in.finish(refuse);
}

}  // namespace lw
