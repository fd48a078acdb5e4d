#include "src/agent/describe.h"

#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_join.h"
#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/files.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/build/build.h"
#include "src/measure/machine/doctor.h"
#include "src/measure/machine/hygiene.h"
#include "src/measure/process/isolation.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;
namespace fs = std::filesystem;

// Part of the name of remembered descriptions: what stands in them, or means.
constexpr int kDescriptionVersion = 2;

std::string first_match(const char* path, std::string_view start) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(start, 0) == 0) return line;
  }
  return "";
}

std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool keep(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  return replace_file(path.string(), text).ok();
}

// Whether it is of this program's code generator, and no earlier one's.
bool is_of_this(const v1::Device& device) {
  const absl::StatusOr<Target> target = from_proto(device.target());
  if (!target.ok()) return false;
  const absl::StatusOr<const Backend*> backend = find_backend(target->architecture);
  return backend.ok() && (*backend)->version() == device.backend();
}

bool recall(const fs::path& path, const std::string& fingerprint, v1::Device* device) {
  const std::string text = slurp(path);
  google::protobuf::util::JsonParseOptions lenient;
  lenient.ignore_unknown_fields = true;
  return !text.empty() && google::protobuf::util::JsonStringToMessage(text, device, lenient).ok() &&
         device->fingerprint() == fingerprint && is_of_this(*device);
}

void remember(const fs::path& path, const v1::Device& device) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string text;
  if (google::protobuf::util::MessageToJsonString(device, &text, options).ok()) {
    keep(path, text);
  }
}

// Another control group may give less by now: never remembered.
void set_memory(const DeviceSpec& spec, v1::Device* device) {
  device->set_memory_bytes(static_cast<int64_t>(spec.kind->memory(spec)));
}

}  // namespace

absl::Status describe_target(const Target& target, v1::Device* device) {
  ASSIGN_OR_RETURN(const Backend* backend, find_backend(target.architecture));
  *device->mutable_target() = to_proto(target);
  device->set_target_id(sha256(to_text(target)));
  device->set_backend(backend->version());
  return absl::OkStatus();
}

absl::Status describe_cpu(const DeviceSpec& spec, v1::Device* device) {
  if (const Isolation had = detect_isolation(); had.level() < spec.isolation.value_or(IsolationLevel::kNone)) {
    return absl::FailedPreconditionError(
        concat("isolation '", isolation_name(*spec.isolation), "' is required, '",
               isolation_name(had.level()), "' can be had: ", absl::StrJoin(had.missing(), "; ")));
  }
  ASSIGN_OR_RETURN(const Target target, find_target("host"));
  RETURN_IF_ERROR(describe_target(target, device));
  ASSIGN_OR_RETURN(const DoctorReport report, doctor(target, /*quick=*/true));
  device->set_facts(to_json(report));
  return absl::OkStatus();
}

// What changes this machine's times for good: the machine itself, how its kernel was started, the
// processors given, the code generator.
std::string cpu_identity(const DeviceSpec& spec) {
  absl::StatusOr<Target> target = find_target("host");
  std::string backend, text;
  if (target.ok()) {
    // The agent asks too, and it is not confined to the device's processors as its host is: so the
    // cores are set here.
    if (!spec.cpus.empty()) target->cores = static_cast<int>(spec.cpus.size());
    text = to_text(*target);
    const absl::StatusOr<const Backend*> found = find_backend(target->architecture);
    if (found.ok()) backend = (*found)->version();
  }
  return absl::StrJoin({device_fingerprint(read_device_facts()), slurp("/proc/cmdline"),
                        absl::StrJoin(spec.cpus, "+"), backend, text},
                       "\n");
}

std::string fingerprint(const DeviceSpec& spec) { return sha256(spec.kind->identity(spec)); }

absl::StatusOr<v1::Device> describe_device(const DeviceSpec& spec, const std::string& state,
                                           bool refresh) {
  const std::string fingerprint = lw::fingerprint(spec);
  const fs::path path =
      fs::path(state) / concat("device-", spec.name, "-", fingerprint.substr(0, 16), "-",
                               kDescriptionVersion, ".json");
  const bool is_exact = is_computed(spec.kind->time_kind);
  const bool remembers = !state.empty() && !is_exact;
  v1::Device device;
  if (remembers && !refresh && recall(path, fingerprint, &device)) {
    set_memory(spec, &device);
    return device;
  }
  device.Clear();
  device.set_name(concat("devices/", spec.name));
  device.set_kind(spec.kind->name);
  device.set_exact(is_exact);
  device.set_time_kind(to_proto(spec.kind->time_kind));
  device.set_fingerprint(fingerprint);
  RETURN_IF_ERROR(spec.kind->describe(spec, &device));
  if (remembers) remember(path, device);
  set_memory(spec, &device);
  return device;
}

absl::StatusOr<std::string> agent_id(const std::string& state) {
  const std::string machine = first_match("/etc/machine-id", "");
  if (machine.size() >= 32) {
    return sha256(concat("loopwright agent\n", machine, "\n", state)).substr(0, 12);
  }
  if (state.empty()) return absl::InvalidArgumentError("this machine has no id: give --name");
  const fs::path path = fs::path(state) / "agent-id";
  std::string id = first_match(path.c_str(), "");
  if (is_resource_id(id)) return id;
  id = sha256(concat(entropy(), " ", entropy())).substr(0, 12);
  if (!keep(path, id + "\n")) {
    return absl::UnavailableError(concat("cannot write ", path.string(), "; --name avoids it"));
  }
  return id;
}

}  // namespace lw
