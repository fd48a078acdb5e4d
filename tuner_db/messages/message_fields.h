// Described values (src/base/fields/fields.h) into their messages and back, by protobuf's
// reflection.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/base/fields/fields.h"
#include "src/base/fields/utf8.h"

namespace lw {

class MessageWriter {
 public:
  explicit MessageWriter(google::protobuf::Message* message)
      : message_(message),
        type_(*message->GetDescriptor()),
        reflection_(*message->GetReflection()) {}

  template <class T>
  void operator()(FieldId id, const T& value) {
    const google::protobuf::FieldDescriptor* field = type_.FindFieldByNumber(id.number);
    if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) reflection_.SetString(message_, field, as_utf8(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      reflection_.SetBool(message_, field, value != id.opposite);
    } else if constexpr (std::is_same_v<T, double>) {
      reflection_.SetDouble(message_, field, value);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      reflection_.SetUInt64(message_, field, value);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      reflection_.SetInt64(message_, field, value);
    } else if constexpr (std::is_same_v<T, int>) {
      reflection_.SetInt32(message_, field, value);
    } else if constexpr (HasFieldNumber<T>) {
      reflection_.SetEnumValue(message_, field, static_cast<int>(field_number(value)));
    } else if constexpr (HasFieldWord<T>) {
      reflection_.SetString(message_, field, std::string(field_word(value)));
    } else if constexpr (Described<T>) {
      nested(value, reflection_.MutableMessage(message_, field));
    } else {
      for (const auto& one : value) add(field, one);
    }
  }

 private:
  using Field = google::protobuf::FieldDescriptor;
  template <class T>
  static void nested(const T& value, google::protobuf::Message* message) {
    MessageWriter writer(message);
    T::fields(value, writer);
  }
  void add(const Field* field, int64_t one) { reflection_.AddInt64(message_, field, one); }
  void add(const Field* field, double one) { reflection_.AddDouble(message_, field, one); }
  void add(const Field* field, const std::string& one) {
    reflection_.AddString(message_, field, as_utf8(one));
  }
  template <Described T>
  void add(const Field* field, const T& one) {
    nested(one, reflection_.AddMessage(message_, field));
  }

  google::protobuf::Message* message_;
  const google::protobuf::Descriptor& type_;   // asked for once: it takes as long as a field
  const google::protobuf::Reflection& reflection_;
};

template <class Message, Described T>
Message as_message(const T& value) {
  Message message;
  MessageWriter writer(&message);
  T::fields(value, writer);
  return message;
}

// Fields that only a later version has are passed over: without one a message means what it meant
// before there was the field (target.proto). Imports name them (record_lines.h).
class MessageReader {
 public:
  explicit MessageReader(const google::protobuf::Message& message)
      : message_(message),
        type_(*message.GetDescriptor()),
        reflection_(*message.GetReflection()) {}

  template <class T>
  void operator()(FieldId id, T& value) {
    const google::protobuf::FieldDescriptor* field = type_.FindFieldByNumber(id.number);
    if constexpr (std::is_same_v<T, std::string>) {
      value = text(field);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = reflection_.GetBool(message_, field) != id.opposite;
    } else if constexpr (std::is_same_v<T, double>) {
      value = reflection_.GetDouble(message_, field);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      value = reflection_.GetUInt64(message_, field);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      value = reflection_.GetInt64(message_, field);
    } else if constexpr (std::is_same_v<T, int>) {
      value = reflection_.GetInt32(message_, field);
    } else if constexpr (HasFieldNumber<T>) {
      const int number = reflection_.GetEnumValue(message_, field);
      if (!parse_field_number(number, &value)) refuse(id, number == 0, std::to_string(number));
    } else if constexpr (HasFieldWord<T>) {
      const std::string& word = text(field);
      if (!parse_field_word(word, &value)) refuse(id, word.empty(), word);
    } else if constexpr (Described<T>) {
      nested(reflection_.GetMessage(message_, field), value);
    } else {
      value.resize(static_cast<size_t>(reflection_.FieldSize(message_, field)));
      for (size_t i = 0; i < value.size(); ++i) get(field, static_cast<int>(i), value[i]);
    }
  }

  // kInvalidArgument: it lacks what it must have; kUnimplemented: it says what only a later version
  // knows, which is named.
  absl::Status finish() const;

 private:
  using Field = google::protobuf::FieldDescriptor;
  const std::string& text(const Field* field) {
    return reflection_.GetStringReference(message_, field, &scratch_);
  }
  template <class T>
  void nested(const google::protobuf::Message& message, T& value) {
    MessageReader reader(message);
    T::fields(value, reader);
    if (defect_.empty()) defect_ = reader.defect_;
    if (unknown_.empty()) unknown_ = reader.unknown_;
  }
  void get(const Field* field, int i, int64_t& one) {
    one = reflection_.GetRepeatedInt64(message_, field, i);
  }
  void get(const Field* field, int i, double& one) {
    one = reflection_.GetRepeatedDouble(message_, field, i);
  }
  void get(const Field* field, int i, std::string& one) {
    one = reflection_.GetRepeatedString(message_, field, i);
  }
  template <Described T>
  void get(const Field* field, int i, T& one) {
    nested(reflection_.GetRepeatedMessage(message_, field, i), one);
  }
  void refuse(FieldId id, bool is_absent, const std::string& value);

  const google::protobuf::Message& message_;
  const google::protobuf::Descriptor& type_;
  const google::protobuf::Reflection& reflection_;
  std::string scratch_;
  std::string defect_, unknown_;           // the first of each, as a phrase
};

template <Described T>
absl::Status from_message(const google::protobuf::Message& message, T* value) {
  MessageReader reader(message);
  T::fields(*value, reader);
  return reader.finish();
}

}  // namespace lw
