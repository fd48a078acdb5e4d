#include "src/client/c_reply.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_split.h"
#include "loopwright/client.h"
#include "src/base/message.h"
#include "src/expr/language/text.h"

namespace lw {
namespace {

int32_t code_of(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return LOOPWRIGHT_OK;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented: return LOOPWRIGHT_BAD_REQUEST;
    case absl::StatusCode::kNotFound: return LOOPWRIGHT_NOT_FOUND;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kPermissionDenied: return LOOPWRIGHT_ENVIRONMENT;
    default: return LOOPWRIGHT_BUG;
  }
}

}  // namespace

int32_t report(const absl::Status& status, char* error, size_t size) {
  if (!status.ok() && error != nullptr && size > 0) {
    const std::string text(status.message());
    const size_t length = std::min(text.size(), size - 1);
    std::memcpy(error, text.data(), length);
    error[length] = 0;
  }
  return code_of(status);
}

int32_t lacks(const char* what, char* error, size_t size) {
  return report(absl::InvalidArgumentError(concat(what, " is null")), error, size);
}

absl::StatusOr<Task> task_asked(const loopwright_task* task) {
  if (task == nullptr) return absl::InvalidArgumentError("task is null");
  loopwright_task known{};
  std::memcpy(&known, task, std::min(task->size, sizeof known));
  if (known.workload == nullptr) return absl::InvalidArgumentError("a workload is null");
  TaskOptions options;
  if (known.target != nullptr) options.target = known.target;
  options.threads = known.threads;
  std::vector<std::string> const_names;
  if (known.const_names != nullptr) {
    const_names = const_names_of(known.const_names);
    options.const_names = &const_names;
  }
  const std::vector<std::string> allowed =
      absl::StrSplit(text_or_none(known.allow), ',', absl::SkipEmpty());
  if (const std::string what = unknown_allowance(allowed); !what.empty()) {
    return absl::InvalidArgumentError(
        concat("allow: '", what, "'; winograd and bf16 are what a task may allow"));
  }
  const auto allows = [&](std::string_view what) {
    return std::find(allowed.begin(), allowed.end(), what) != allowed.end();
  };
  options.winograd = allows(kWinograd);
  options.bf16 = allows(kBf16);
  return make_client_task(known.workload, options);
}

}  // namespace lw
