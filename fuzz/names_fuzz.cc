// libFuzzer target for what callers write in words (cmake/fuzz.cmake): filters, page tokens, names,
// the file of `serve --config`. Any bytes are taken or refused with a reason; a filter has a value
// for each of its question marks and nothing of its text in the SQL.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"
#include "src/serve/access/limits.h"
#include "src/serve/messages/errors.h"
#include "src/serve/messages/names.h"
#include "src/serve/messages/paging.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lw;
  static const std::vector<FilterField> fields = {{"state", "state", FieldKind::kState},
                                                  {"client", "client", FieldKind::kText},
                                                  {"create_time", "created_ms", FieldKind::kTime},
                                                  {"priority", "priority", FieldKind::kInteger}};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<Filter> filter = parse_filter(text, fields);
  if (filter.ok()) {
    const auto marks = std::count(filter->sql.begin(), filter->sql.end(), '?');
    CHECK(static_cast<size_t>(marks) == filter->values().size());
    CHECK(filter->sql.find_first_not_of("abcdefghijklmnopqrstuvwxyz_AND<>=? 1") == std::string::npos);
  } else {
    CHECK(reason_of(filter.status()) == loopwright::v1::ERROR_REASON_INVALID_FILTER);
  }
  const absl::StatusOr<std::string> after = parse_page_token("list", text);
  if (after.ok() && !text.empty()) CHECK(parse_page_token("list", page_token("list", *after)).ok());
  const std::string token = page_token("list", text);
  if (token.size() < 4096) CHECK(*parse_page_token("list", token) == text);
  CHECK(text.empty() || !parse_page_token("other", token).ok());
  const absl::StatusOr<std::string> id = parse_name("studies", text, "name");
  if (id.ok()) CHECK(study_name(*id) == text);
  const absl::StatusOr<int64_t> job = parse_job_name(text, "name");
  if (job.ok()) CHECK(*parse_job_name(job_name(*job), "name") == *job);
  const absl::StatusOr<ServeConfig> config = parse_serve_config(text, "fuzz");
  if (config.ok()) {
    for (const Rate& rate : config->rates) CHECK(rate.rate > 0 && rate.burst > 0);
    for (const auto& [name, weight] : config->weights) CHECK(weight > 0);
    CHECK(config->default_weight > 0 && config->quotas.message_bytes > 0);
  }
  return 0;
}
