// libFuzzer target for the readers of lock files, of lines of requests and of exported kernels' JSON:
// any bytes are read or refused, and what is a lock is written as one that is read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/api/dispatch.h"
#include "src/base/check.h"
#include "src/client/lock.h"
#include "src/client/requests.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<lw::Lock> lock = lw::parse_lock(text);
  if (lock.ok()) {
    bool whole = true;
    for (const lw::LockEntry& entry : lock->entries) whole = whole && entry.is_whole();
    if (whole) CHECK(lw::parse_lock(lw::to_text(*lock)).ok());
  } else {
    CHECK(lock.status().code() == absl::StatusCode::kInvalidArgument);
  }
  const auto requests = lw::parse_requests(text, "fuzz");
  CHECK(requests.ok() || requests.status().code() == absl::StatusCode::kInvalidArgument);
  const auto made = lw::dispatch_source("f", {{{{"M", 1}}, text}}, size % 2 == 0);
  CHECK(made.ok() || made.status().code() == absl::StatusCode::kInvalidArgument);
  return 0;
}
