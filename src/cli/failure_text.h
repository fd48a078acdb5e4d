// Classes of failures as every command prints them.
#pragma once

#include <string>

#include "src/cli/common.h"
#include "src/serve/messages/failure_messages.h"

namespace lw {

// A line each; `in_full`, for where nothing else came out, with the schedule and what to do. "" for
// none.
std::string failure_lines(const FailureMessages& failures, bool in_full);

}  // namespace lw
