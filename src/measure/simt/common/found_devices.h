// Finding devices of a driver: how it is asked, and which of them a name means. A Device here is a
// value with `index`, `name` and `nonsense`: OpenClDevice says what they are.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/measure/simt/common/driver_process.h"

namespace lw {

// What messages say of a driver and its devices.
struct DriverWords {
  const char* kind;                        // "OpenCL"
  const char* prefix;                      // "opencl:", before a device in the names of targets
  const char* driver;                      // "an OpenCL driver"
  const char* way_out;                     // how to do without one that does not answer
};

// What a driver says may have no end and hold anything.
inline std::string printable(std::string_view bytes) {
  std::string text(bytes.substr(0, bytes.find('\0')));
  for (char& c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return std::string(absl::StripAsciiWhitespace(text));
}

// "NAME #2" for the second of a name, so that each can be told.
template <class Device>
void number_alike(std::vector<Device>* devices) {
  for (size_t i = 0; i < devices->size(); ++i) {
    Device& d = (*devices)[i];
    d.index = static_cast<int>(i);
    const std::string name = d.name;
    int same = 1;
    for (size_t k = 0; k < i; ++k) {
      const std::string& other = (*devices)[k].name;
      same += other == name || absl::StartsWith(other, concat(name, " #"));
    }
    if (same > 1) d.name = concat(name, " #", same);
  }
}

// Those that `work` says in a process of its own, since drivers may crash, hang or eat memory; what
// it has said by then holds. Errors are those of `work`; kUnavailable: the driver did not survive
// it, or took longer than `limit_s`.
template <class Device>
absl::StatusOr<std::vector<Device>> ask_devices(
    double limit_s, const std::function<absl::Status(const Say&)>& work,
    Device (*from_bytes)(std::string_view), const DriverWords& words) {
  std::vector<Device> devices;
  const absl::Status status = in_driver_process(
      limit_s, work, [&](std::string_view said) { devices.push_back(from_bytes(said)); });
  number_alike(&devices);
  if (status.ok() || !devices.empty()) return devices;
  if (absl::IsDeadlineExceeded(status)) {
    return absl::UnavailableError(concat(words.driver, " does not say within ",
                                         static_cast<int>(limit_s),
                                         " s which devices there are; ", words.way_out));
  }
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(concat(words.driver, " ends its process when asked for devices (",
                                         std::string(status.message()), "); ", words.way_out));
  }
  return status;
}

// Asks once for each `key`, the surroundings that decide what there is; failures are not kept.
// Thread-safe.
template <class Device, class Ask>
absl::StatusOr<std::vector<Device>> ask_once(const std::string& key, const Ask& ask) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<Device>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  std::vector<Device>& found = known[key];
  if (found.empty()) {
    ASSIGN_OR_RETURN(found, ask());
  }
  return found;
}

template <class Device>
std::string list_of(const std::vector<Device>& devices, const DriverWords& words) {
  return absl::StrJoin(devices, ", ", [&](std::string* out, const Device& d) {
    *out += concat(words.prefix, d.index, " (", d.name,
                   d.nonsense.empty() ? "" : ", which cannot be used: ", d.nonsense, ")");
  });
}

// kUnavailable: it is not to be used.
template <class Device>
absl::StatusOr<Device> usable(const Device& device, const DriverWords& words) {
  if (device.nonsense.empty()) return device;
  return absl::UnavailableError(concat(words.prefix, device.index, " (", device.name,
                                       ") cannot be used: ", device.nonsense));
}

// "0": by its index; else by a part of its name in whatever case. kNotFound and kInvalidArgument
// (several) list those there are; kUnavailable: it is not to be used. "": the first that is.
template <class Device>
absl::StatusOr<Device> choose_device(const std::vector<Device>& devices, std::string_view which,
                                     const DriverWords& words) {
  std::vector<Device> fit;
  const bool number = !which.empty() && std::all_of(which.begin(), which.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  for (const Device& d : devices) {
    const bool fits = which.empty() ? fit.empty() && d.nonsense.empty()
                      : number      ? concat(d.index) == which
                                    : absl::StrContains(absl::AsciiStrToLower(d.name),
                                                        absl::AsciiStrToLower(std::string(which)));
    if (d.name == which) return usable(d, words);
    if (fits) fit.push_back(d);
  }
  if (fit.size() == 1) return usable(fit[0], words);
  if (fit.empty()) {
    return absl::NotFoundError(concat("no ", words.kind, " device '", which, "'; there are ",
                                      list_of(devices, words)));
  }
  return absl::InvalidArgumentError(concat("several ", words.kind, " devices are named like '",
                                           which, "': ", list_of(fit, words)));
}

// As a target has it: the whole name; "": any. Errors as choose_device.
template <class Device>
absl::StatusOr<Device> device_named(const std::vector<Device>& devices, std::string_view name,
                                    const DriverWords& words) {
  if (name.empty()) return choose_device(devices, "", words);
  for (const Device& d : devices) {
    if (d.name == name) return usable(d, words);
  }
  return absl::NotFoundError(concat("no ", words.kind, " device '", name, "'; there are ",
                                    list_of(devices, words)));
}

}  // namespace lw
