#include "src/serve/messages/names.h"

#include <charconv>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/errors.h"

namespace lw {
namespace {

constexpr size_t kLongest = 100;

bool is_id(std::string_view id) {
  if (id.empty() || id.size() > kLongest || id[0] == '.') return false;
  for (char c : id) {
    const bool good = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                      c == '.' || c == '_' || c == '-';
    if (!good) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> parse_name(std::string_view collection, std::string_view name,
                                       std::string_view field) {
  const std::string prefix = concat(collection, "/");
  if (name.substr(0, prefix.size()) != prefix || !is_id(name.substr(prefix.size()))) {
    return bad_field(field, concat("'", name.substr(0, 2 * kLongest), "' is not of the form ",
                                   prefix, "ID"));
  }
  return std::string(name.substr(prefix.size()));
}

absl::StatusOr<int64_t> parse_job_name(std::string_view name, std::string_view field) {
  ASSIGN_OR_RETURN(const std::string id, parse_name("jobs", name, field));
  int64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (error != std::errc() || end != id.data() + id.size() || number <= 0) {
    return bad_field(field, concat("'", name, "' is not of the form jobs/NUMBER"));
  }
  return number;
}

std::string id_of(std::string_view name) { return std::string(name.substr(name.find('/') + 1)); }

std::string study_name(std::string_view id) { return concat("studies/", id); }
std::string operation_name(std::string_view id) { return concat("operations/", id); }
std::string device_name(std::string_view id) { return concat("devices/", id); }
std::string agent_name(std::string_view id) { return concat("agents/", id); }
std::string job_name(int64_t id) { return concat("jobs/", id); }

}  // namespace lw
