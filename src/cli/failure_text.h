// Classes of failures as every command shows them.
#pragma once

#include <string>
#include <vector>

#include "loopwright/v1/study.pb.h"
#include "src/cli/common.h"
#include "tuner_db/failures.h"

namespace lw {

using FailureMessages = std::vector<loopwright::v1::FailureClass>;

FailureMessages failure_messages(const std::vector<FailureClass>& failures);

// {class, count, detail, trace, advice} of each.
Json failures_json(const FailureMessages& failures);

// A line each; `in_full`, for where nothing else came out, with the schedule and what to do. "" for
// none.
std::string failure_lines(const FailureMessages& failures, bool in_full);

}  // namespace lw
