// How the C interface's functions answer: a code, and a message in the caller's memory. Internal to
// src/client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loopwright/loopwright.h"
#include "loopwright/task.h"

namespace lw {

// Writes the message, cut to `size` bytes, and returns the code; of OK nothing is written.
int32_t report(const absl::Status& status, char* error, size_t size);
int32_t lacks(const char* what, char* error, size_t size);  // "WHAT is null"
inline std::string text_or_none(const char* text) { return text == nullptr ? "" : text; }

// What a caller asks for; a caller built with an older header knows fewer fields.
absl::StatusOr<Task> task_asked(const loopwright_task* task);

}  // namespace lw
