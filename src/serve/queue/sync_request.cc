// What a Synchronize call may hold: every text and list of it has its limit, since most of it is kept.
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/queue/synchronize.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr int kMostResults = 256, kMostHeld = 64, kMostWanted = 16;
constexpr int kMostLabels = 64, kMostWords = 1000;
constexpr size_t kLongestText = 200, kLongestFacts = 64 << 10, kLongestDescription = 160 << 10;
constexpr size_t kLongestWord = 100;

absl::Status check_text(const std::string& text, const std::string& field,
                        size_t longest = kLongestText) {
  if (text.size() <= longest) return absl::OkStatus();
  return bad_field(field, concat(text.size(), " bytes; at most ", longest));
}

absl::Status check_labels(const google::protobuf::Map<std::string, std::string>& labels,
                          const std::string& field) {
  if (labels.size() > kMostLabels) return bad_field(field, concat("more than ", kMostLabels));
  for (const auto& [name, value] : labels) {
    RETURN_IF_ERROR(check_text(name, field));
    RETURN_IF_ERROR(check_text(value, field));
  }
  return absl::OkStatus();
}

// All of it is kept, also what only a newer agent knows.
absl::Status check_description(const v1::Device& description, const std::string& field) {
  if (description.backend().empty()) return bad_field(field + ".backend", "must be given");
  RETURN_IF_ERROR(check_text(description.backend(), field + ".backend"));
  RETURN_IF_ERROR(check_text(description.kind(), field + ".kind"));
  RETURN_IF_ERROR(check_text(description.fingerprint(), field + ".fingerprint"));
  RETURN_IF_ERROR(check_text(description.facts(), field + ".facts", kLongestFacts));
  RETURN_IF_ERROR(check_labels(description.labels(), field + ".labels"));
  if (description.words_size() > kMostWords) return bad_field(field + ".words", "too many");
  for (const std::string& word : description.words()) {
    RETURN_IF_ERROR(check_text(word, field + ".words", kLongestWord));
  }
  if (description.ByteSizeLong() > kLongestDescription) {
    return bad_field(field, concat(description.ByteSizeLong(), " bytes; at most ",
                                   kLongestDescription));
  }
  const absl::StatusOr<Target> target = from_proto(description.target());
  if (!target.ok()) return bad_field(field + ".target", target.status().message().data());
  if (sha256(to_text(*target)) != description.target_id()) {
    return bad_field(field + ".target_id", "is not the sha256 of the target's text");
  }
  return absl::OkStatus();
}

absl::Status check_device(const v1::DeviceState& device, const std::string& field) {
  RETURN_IF_ERROR(parse_name("devices", device.name(), field + ".name").status());
  if (device.held_size() > kMostHeld) return bad_field(field + ".held", "too many");
  for (const v1::HeldJob& held : device.held()) {
    RETURN_IF_ERROR(parse_job_name(held.job(), field + ".held.job").status());
  }
  if (device.wanted() < 0 || device.wanted() > kMostWanted) {
    return bad_field(field + ".wanted", concat("must be 0 to ", kMostWanted));
  }
  RETURN_IF_ERROR(check_text(device.health_detail(), field + ".health_detail", kLongestFacts));
  if (!device.has_description()) return absl::OkStatus();
  return check_description(device.description(), field + ".description");
}

}  // namespace

absl::Status check_request(const v1::SynchronizeRequest& request) {
  RETURN_IF_ERROR(parse_name("agents", request.agent(), "agent").status());
  if (request.session().empty() || request.session().size() > kLongestText ||
      request.session().find(',') != std::string::npos) {
    return bad_field("session", "must be given: a UUID of this run of the agent");
  }
  RETURN_IF_ERROR(check_text(request.version(), "version"));
  RETURN_IF_ERROR(check_labels(request.labels(), "labels"));
  if (request.devices_size() > kMostDevices) return bad_field("devices", "too many");
  if (request.results_size() > kMostResults) return bad_field("results", "too many");
  for (int i = 0; i < request.devices_size(); ++i) {
    RETURN_IF_ERROR(check_device(request.devices(i), absl::StrCat("devices[", i, "]")));
  }
  for (int i = 0; i < request.results_size(); ++i) {
    const std::string field = absl::StrCat("results[", i, "]");
    RETURN_IF_ERROR(parse_job_name(request.results(i).job(), field + ".job").status());
    RETURN_IF_ERROR(check_text(request.results(i).digest(), field + ".digest"));
  }
  return absl::OkStatus();
}

}  // namespace lw
