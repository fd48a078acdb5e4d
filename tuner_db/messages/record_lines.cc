#include "tuner_db/messages/record_lines.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/fields/utf8.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace pb = google::protobuf;
namespace v1 = loopwright::v1;
using Json = nlohmann::json;

constexpr size_t kMostKinds = 20, kLongestReason = 300, kLongestExample = 300;
constexpr int kDeepest = 10;               // messages in messages; a record has three

const pb::FieldDescriptor* find_field(const pb::Descriptor& type, const std::string& name) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->json_name() == name || type.field(i)->name() == name) return type.field(i);
  }
  return nullptr;
}

// The first name in the object that `type` does not have, with its path; "": it has all.
std::string unknown_in(const Json& object, const pb::Descriptor& type, const std::string& path,
                       int depth = 0) {
  if (!object.is_object() || depth > kDeepest) return "";
  for (const auto& [name, value] : object.items()) {
    const std::string here = path.empty() ? name : absl::StrCat(path, ".", name);
    const pb::FieldDescriptor* field = find_field(type, name);
    if (field == nullptr) return absl::StrCat("the field ", here);
    const auto look = [&, field = field, depth](const Json& item) -> std::string {
      if (field->message_type() != nullptr) {
        return unknown_in(item, *field->message_type(), here, depth + 1);
      }
      const bool is_word = field->enum_type() != nullptr && item.is_string();
      if (!is_word || field->enum_type()->FindValueByName(item.get<std::string>()) != nullptr) {
        return "";
      }
      return absl::StrCat("the ", here, " ", item.get<std::string>());
    };
    std::string found;
    if (!field->is_repeated() || !value.is_array()) found = look(value);
    for (size_t i = 0; found.empty() && value.is_array() && i < value.size(); ++i) {
      found = look(value[i]);
    }
    if (!found.empty()) return found;
  }
  return "";
}

bool has_unknown(const pb::Message& message) {
  const pb::Reflection* reflection = message.GetReflection();
  if (!reflection->GetUnknownFields(message).empty()) return true;
  std::vector<const pb::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) {
      if (has_unknown(reflection->GetMessage(message, field))) return true;
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (has_unknown(reflection->GetRepeatedMessage(message, field, i))) return true;
    }
  }
  return false;
}

void leave_out_measurement(v1::Record* record) {
  record->clear_key();
  record->clear_measurement();
  record->clear_withdrawal();
}

}  // namespace

absl::Status unknown_here(std::string_view what) {
  return absl::UnimplementedError(absl::StrCat("of another version: ", std::string(what)));
}

bool is_unknown_here(const absl::Status& status) { return absl::IsUnimplemented(status); }

void Skipped::add(std::string_view reason, std::string_view example) {
  const auto shown = [](std::string_view text, size_t most) {
    return beginning(as_utf8(std::string(text.substr(0, 2 * most))), most);
  };
  Skipped one;
  one.records = 1;
  one.kinds.push_back({shown(reason, kLongestReason), 1, shown(example, kLongestExample)});
  add(one);
}

void Skipped::add(const Skipped& others) {
  records += others.records;
  for (const Kind& other : others.kinds) {
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Kind& one) { return one.reason == other.reason; });
    if (kind == kinds.end() && kinds.size() == kMostKinds) kind = std::prev(kinds.end());
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {other.reason, 0, other.example});
    kind->count += other.count;
  }
}

absl::Status parse_record_line(std::string_view line, v1::Record* record, std::string* unknown) {
  record->Clear();
  unknown->clear();
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  std::string text(line);
  if (json.is_object()) {
    const pb::Descriptor& type = *v1::Record::descriptor();
    for (const char* part : {"workload", "target", "key", "measurement", "withdrawal"}) {
      if (!json.contains(part)) continue;
      std::string found = unknown_in(json[part], *find_field(type, part)->message_type(), part);
      if (found.empty()) continue;
      *unknown = std::move(found);
      json.erase(part);
      if (part == std::string_view("workload") || part == std::string_view("target")) continue;
      for (const char* other : {"key", "measurement", "withdrawal"}) json.erase(other);
    }
    if (std::string found = unknown_in(json, type, ""); !found.empty()) {
      *unknown = std::move(found);
      Json rest = Json::object();          // what another field may say of these is not known
      for (const char* part : {"workload", "target"}) {
        if (json.contains(part)) rest[part] = json[part];
      }
      json = std::move(rest);
    }
    // Without escapes that are no text the line could not be read; so it is what is there.
    if (!unknown->empty()) text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const auto parsed = pb::util::JsonStringToMessage(text, record);
  if (!parsed.ok()) return absl::InvalidArgumentError(std::string(parsed.message()));
  return absl::OkStatus();
}

std::string leave_out_unknown(v1::Record* record) {
  const pb::Reflection* reflection = record->GetReflection();
  const bool whole = !reflection->GetUnknownFields(*record).empty();
  reflection->MutableUnknownFields(record)->Clear();
  std::string unknown = whole ? "a field of the record" : "";
  if (record->has_workload() && has_unknown(record->workload())) {
    record->clear_workload();
    unknown = "a field of the workload";
  }
  if (record->has_target() && has_unknown(record->target())) {
    record->clear_target();
    unknown = "a field of the target";
  }
  const bool of_measurement = has_unknown(record->key()) || has_unknown(record->measurement()) ||
                              has_unknown(record->withdrawal());
  if (of_measurement) unknown = "a field of the measurement";
  if (whole || of_measurement) leave_out_measurement(record);
  return unknown;
}

absl::Status explain(const v1::Record& record, std::string_view unknown, absl::Status added) {
  const bool is_lost = added.ok() ? !record.has_key()
                                  : is_unknown_here(added) || absl::IsNotFound(added);
  return unknown.empty() || !is_lost ? added : unknown_here(unknown);
}

std::string record_line(const v1::Record& record) {
  std::string line;
  return pb::util::MessageToJsonString(record, &line).ok() ? line : "";
}

}  // namespace lw
