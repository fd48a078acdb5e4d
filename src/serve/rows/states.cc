#include <cctype>

#include "loopwright/v1/schedule.pb.h"
#include "src/serve/rows/rows.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

// "JOB_STATE_" of JobState: every enum's zero is its prefix and "UNSPECIFIED".
template <class Enum>
std::string prefix() {
  const std::string zero = google::protobuf::GetEnumDescriptor<Enum>()->value(0)->name();
  return zero.substr(0, zero.size() - std::string_view("UNSPECIFIED").size());
}

}  // namespace

template <class Enum>
std::string state_name(Enum value) {
  const auto* descriptor =
      google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(static_cast<int>(value));
  if (descriptor == nullptr) return "";
  std::string name = descriptor->name().substr(prefix<Enum>().size());
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

template <class Enum>
Enum parse_state(std::string_view name) {
  std::string full = prefix<Enum>();
  for (char c : name) full += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto* descriptor = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByName(full);
  return static_cast<Enum>(descriptor == nullptr ? 0 : descriptor->number());
}

template <class Enum>
std::vector<std::string> state_names() {
  const auto* descriptor = google::protobuf::GetEnumDescriptor<Enum>();
  std::vector<std::string> names;
  for (int i = 1; i < descriptor->value_count(); ++i) {
    names.push_back(state_name(static_cast<Enum>(descriptor->value(i)->number())));
  }
  return names;
}

template std::vector<std::string> state_names<v1::StudyState>();
template std::vector<std::string> state_names<v1::JobState>();
template std::string state_name(v1::StudyState);
template std::string state_name(v1::JobState);
template std::string state_name(v1::DeviceAdmission);
template std::string state_name(v1::DeviceHealth);
template std::string state_name(v1::LookupOutcome);
template v1::StudyState parse_state(std::string_view);
template v1::JobState parse_state(std::string_view);
template v1::DeviceAdmission parse_state(std::string_view);
template v1::DeviceHealth parse_state(std::string_view);

bool has_ended(v1::StudyState state) {
  return state == v1::STUDY_STATE_SUCCEEDED || state == v1::STUDY_STATE_FAILED ||
         state == v1::STUDY_STATE_CANCELLED;
}

}  // namespace lw
