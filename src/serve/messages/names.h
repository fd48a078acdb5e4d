// Names of things in the API: "studies/ID", "devices/ID", "jobs/17". Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lw {

// "studies/X" -> "X"; the collection is "studies", "operations", "devices" or "agents". An id has 1
// to 100 characters of letters, digits and "._-", and does not begin with a dot.
// kInvalidArgument naming `field`.
absl::StatusOr<std::string> parse_name(std::string_view collection, std::string_view name,
                                       std::string_view field);
absl::StatusOr<int64_t> parse_job_name(std::string_view name, std::string_view field);

// "devices/X" -> "X", and "X" is itself; nothing is checked.
std::string id_of(std::string_view name);

std::string study_name(std::string_view id);
std::string operation_name(std::string_view id);
std::string device_name(std::string_view id);
std::string agent_name(std::string_view id);
std::string job_name(int64_t id);

}  // namespace lw
