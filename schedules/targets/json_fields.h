// Targets and what they hold as JSON: described values (src/base/fields/fields.h) whose numbers are
// amounts. A field "later" is the object, as text, of the fields that only a later version knows:
// they stand with the others.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "src/base/fields/fields.h"

namespace lw {

using OrderedJson = nlohmann::ordered_json;

// Discarded: it is none, or nested deeper than any target. What is kept unread comes from anybody,
// and printing takes a stack's frame for each level.
inline OrderedJson parse_shallow(std::string_view text) {
  constexpr int kDeepest = 16;
  bool is_deep = false;
  const auto keep = [&](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    is_deep = is_deep || depth > kDeepest;
    return depth <= kDeepest;
  };
  const OrderedJson json = OrderedJson::parse(text, keep, /*allow_exceptions=*/false);
  return is_deep ? OrderedJson(OrderedJson::value_t::discarded) : json;
}

template <Described T>
OrderedJson to_json_object(const T& value);

// What is wrong with a word that is none of the type's.
template <class T>
std::string no_such_word(const T&) {
  return "is no type";
}

// What fields that were added are where they are not printed.
template <Described T>
T defaults_of(const T&) {
  return {};
}

class JsonFieldWriter {
 public:
  template <class T>
  void operator()(FieldId field, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (field.name == std::string_view("later")) {
        if (!value.empty()) later_ = parse_shallow(value);
        return;
      }
    }
    if (field.added) added_.push_back(field.name);
    OrderedJson& json = json_[field.name];
    if constexpr (HasFieldWord<T>) {
      json = std::string(field_word(value));
    } else if constexpr (kIsList<T>) {
      json = OrderedJson::array();
      for (const auto& item : value) json.push_back(element(item));
    } else {
      json = value;
    }
  }
  bool has_added() const { return !added_.empty(); }
  void leave_out_added(const JsonFieldWriter& defaults) {
    for (const char* name : added_) {
      if (json_[name] == defaults.json_[name]) json_.erase(name);
    }
  }
  OrderedJson finish() {
    if (!later_.is_object()) return std::move(json_);
    for (const auto& [name, value] : later_.items()) {
      if (!json_.contains(name)) json_[name] = value;
    }
    return std::move(json_);
  }

 private:
  template <class T>
  static OrderedJson element(const T& item) {
    if constexpr (Described<T>) return to_json_object(item);
    else return item;
  }
  OrderedJson json_ = OrderedJson::object(), later_;
  std::vector<const char*> added_;
};

template <Described T>
OrderedJson to_json_object(const T& value) {
  JsonFieldWriter writer;
  T::fields(value, writer);
  if (writer.has_added()) {
    const T plain = defaults_of(value);
    JsonFieldWriter defaults;
    T::fields(plain, defaults);
    writer.leave_out_added(defaults);
  }
  return writer.finish();
}

// Keeps the first mistake, with the path of its field. `stored`: what is absent is the default and
// what is not known is kept; else both are mistakes.
class JsonFieldReader {
 public:
  JsonFieldReader(const OrderedJson& json, std::string path, bool stored, std::string* error)
      : json_(json), path_(std::move(path)), stored_(stored), error_(error) {
    if (!json.is_object()) fail("", "must be an object");
  }

  template <class T>
  void operator()(FieldId field, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (field.name == std::string_view("later")) return take_rest(value);
    }
    const OrderedJson* found = find(field);
    if (found != nullptr) read(field.name, *found, value);
  }

 private:
  // After all fields: what was not asked for.
  void take_rest(std::string& later) {
    if (!json_.is_object()) return;
    OrderedJson rest = OrderedJson::object();
    for (const auto& [name, value] : json_.items()) {
      if (std::find(seen_.begin(), seen_.end(), name) != seen_.end()) continue;
      if (stored_) rest[name] = value;
      else fail(name, "is no field");
    }
    later = rest.empty() ? "" : rest.dump();
  }
  void fail(const std::string& name, const std::string& what) {
    if (error_->empty()) *error_ = path_ + name + " " + what;
  }
  const OrderedJson* find(FieldId field) {
    seen_.push_back(field.name);
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(field.name);
    if (found != json_.end()) return &*found;
    if (!stored_ && !field.added) fail(field.name, "is missing");
    return nullptr;
  }

  template <class T>
  void read(const char* name, const OrderedJson& json, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) return fail(name, "must be a string");
      value = json.get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return fail(name, "must be true or false");
      value = json.get<bool>();
    } else if constexpr (std::is_same_v<T, double>) {
      if (!json.is_number()) return fail(name, "must be a number");
      value = json.get<double>();
      if (!(value >= 0 && value < 1e15)) fail(name, "is out of range");
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_integer()) return fail(name, "must be an integer");
      const int64_t wide = json.get<int64_t>();
      if (wide < 0) return fail(name, "is negative");
      if (std::is_same_v<T, int> && (wide < 1 || wide > (1 << 30))) fail(name, "is out of range");
      value = static_cast<T>(wide);
    } else if constexpr (HasFieldWord<T>) {
      std::string word;
      read(name, json, word);
      if (!parse_field_word(word, &value)) fail(name, no_such_word(value) + ": '" + word + "'");
    } else {
      read_list(name, json, value);
    }
  }
  void read_list(const char* name, const OrderedJson& json, std::vector<std::string>& values) {
    const bool strings =
        json.is_array() && std::all_of(json.begin(), json.end(),
                                       [](const OrderedJson& j) { return j.is_string(); });
    if (!strings) return fail(name, "must be a list of strings");
    values = json.get<std::vector<std::string>>();
  }
  template <Described T>
  void read_list(const char* name, const OrderedJson& json, std::vector<T>& items) {
    if (!json.is_array()) return fail(name, "must be a list");
    items.clear();
    for (size_t i = 0; i < json.size(); ++i) {
      const std::string path = path_ + name + "[" + std::to_string(i) + "].";
      JsonFieldReader inner(json[i], path, stored_, error_);
      T::fields(items.emplace_back(), inner);
    }
  }

  const OrderedJson& json_;
  std::string path_;
  bool stored_;
  std::string* error_;
  std::vector<std::string> seen_;
};

}  // namespace lw
